"""Symbolic elimination: which blocks a front eliminates and couples, who its parent is, on which level it stands.

Blocks are the tangents u_b and twists x_b of every frame, or whole frames where the order never splits one. A front may first
substitute twists by their relation, x_b = X_b x_parent + S_b u_b; the blocks of the relation then join its coupled blocks. Sets of blocks
are Python integers, one bit per position in the order of elimination, so that the union of two takes about a microsecond.
Source: Duff, Erisman, Reid, Direct Methods for Sparse Matrices (2017), chapter 12, for assembly trees.
"""

from dataclasses import dataclass

import numpy as np

from branch_mpc.branch.blocks import TWIST, Tangents
from branch_mpc.branch.order import Step
from branch_mpc.errors import PlanError


@dataclass(frozen=True)
class Front:
    """Unknowns that are eliminated together.

    Attributes:
        substituted: Block of the twist that is replaced by its relation first, or None.
        pivots: Blocks that are eliminated.
        coupled: Blocks they couple to, in the order in which they are eliminated.
        widths: Numbers of (substituted, eliminated, coupled) unknowns.
        children: Fronts whose update enters this one.
        parent: Front that takes this one's update, or None.
        level: Length of the longest chain of fronts below this one.
    """

    substituted: int | None
    pivots: tuple[int, ...]
    coupled: tuple[int, ...]
    widths: tuple[int, int, int]
    children: tuple[int, ...]
    parent: int | None
    level: int

    @property
    def eliminated(self) -> int:
        """Number of eliminated unknowns."""
        return self.widths[1]

    @property
    def coupled_width(self) -> int:
        """Number of coupled unknowns."""
        return self.widths[2]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Numbering of the blocks of an instance.

    Attributes:
        tangents: The block set.
        frames: Frames that are planned (1 where every frame is a problem of its own).
        whole: True where a block is all tangents of a frame.
        twists: True where twists are blocks too.
        first: First variable of each block.
        width: Numbers of each block.
    """

    tangents: Tangents
    frames: int
    whole: bool
    twists: bool
    first: np.ndarray
    width: np.ndarray

    @property
    def count(self) -> int:
        """Blocks of tangents."""
        return self.frames * (1 if self.whole else self.tangents.topology.bodies)

    def name(self, block: int) -> str:
        """Name of a block for messages."""
        topology = self.tangents.topology
        if self.whole:
            return f"frame {block}"
        kind, at = ("u", block) if block < self.count else ("x", block - self.count)
        return f"{kind}['{topology.names[at % topology.bodies]}', {at // topology.bodies}]"

    def of(self, variables: np.ndarray) -> np.ndarray:
        """Block of each variable."""
        filled = np.flatnonzero(self.width > 0)
        return filled[np.searchsorted(self.first[filled], variables, side="right") - 1]


def blocks(tangents: Tangents, frames: int, whole: bool, twists: bool) -> Blocks:
    """Number the blocks: tangents frame by frame, then twists."""
    topology = tangents.topology
    if whole:
        return Blocks(tangents, frames, True, False, np.arange(frames) * topology.width, np.full(frames, topology.width))
    first = (np.arange(frames)[:, None] * topology.width + topology.offsets[:-1]).ravel()
    width = np.tile(topology.dofs, frames)
    if twists:
        more = frames * topology.width + np.arange(frames * topology.bodies) * TWIST
        first, width = np.concatenate([first, more]), np.concatenate([width, np.full(len(more), TWIST)])
    return Blocks(tangents, frames, False, twists, first, width)


Item = tuple[int | None, list[int]]  # (block of a twist that is substituted, tangent blocks that are eliminated)


def items(steps: tuple[Step, ...], numbering: Blocks, joined: bool) -> list[Item]:
    """Fronts to be, in order.

    Args:
        steps: Parts of the order.
        numbering: Blocks.
        joined: True where the dense order puts all frames into one front.

    Raises:
        PlanError: A block eliminated twice or never, or a body before one that hangs on it.
    """
    found: list[Item] = []
    for step in steps:
        view = step.view
        times = [t for t in view.frames if t < numbering.frames]
        if step.kind == "tree":
            found += _tree(view.members, times, numbering)
        elif step.kind in ("dense", "eliminate") and (joined or step.kind == "eliminate"):
            found.append((None, [b for t in times for b in _frame(view.members, t, numbering)]))
        else:
            ordered = _cyclic(times) if step.kind == "cyclic" else times
            found += [(None, _frame(view.members, t, numbering)) for t in ordered]
    found = _substitutions(found, numbering) if numbering.twists else found
    _check_once(found, numbering)
    return found


def _frame(members: tuple[int, ...], t: int, numbering: Blocks) -> list[int]:
    return [t] if numbering.whole else [t * numbering.tangents.topology.bodies + b for b in members]


def _tree(members: tuple[int, ...], times: list[int], numbering: Blocks) -> list[Item]:
    bodies, offset = numbering.tangents.topology.bodies, numbering.count if numbering.twists else None
    at = [t * bodies + b for t in times for b in sorted(members, reverse=True)]
    return [(None if offset is None else offset + block, [block]) for block in at]


def _cyclic(times: list[int]) -> list[int]:
    """Odd frames first, then every other of those that are left."""
    done: list[int] = []
    while len(times) > 1:
        done, times = done + times[1::2], times[0::2]
    return done + times


def _substitutions(found: list[Item], numbering: Blocks) -> list[Item]:
    """Put the twists that no front substitutes before the first front that eliminates tangents of no tree."""
    done = {twist for twist, _ in found if twist is not None}
    missing = [(t, b) for t in range(numbering.frames) for b in range(numbering.tangents.topology.bodies - 1, -1, -1)]
    bodies = numbering.tangents.topology.bodies
    extra: list[Item] = [(numbering.count + t * bodies + b, []) for t, b in missing if numbering.count + t * bodies + b not in done]
    at = next((i for i, (twist, _) in enumerate(found) if twist is None), len(found))
    merged = found[:at] + extra + found[at:]
    place = {twist: i for i, (twist, _) in enumerate(merged)}
    for twist, i in place.items():
        if twist is None:
            continue
        parent = numbering.tangents.topology.parents[(twist - numbering.count) % bodies]
        above = twist if parent < 0 else twist - (twist - numbering.count) % bodies + parent
        if place[above] < i:
            raise PlanError(f"{numbering.name(above)} is eliminated before its child {numbering.name(twist)}", "order whole subtrees")
    return merged


def _check_once(found: list[Item], numbering: Blocks) -> None:
    seen = np.zeros(numbering.count, dtype=int)
    for _, pivots in found:
        for block in pivots:
            seen[block] += 1
    free = numbering.width[: numbering.count] > 0
    for fault, at in (("twice", np.flatnonzero(seen > 1)), ("never", np.flatnonzero((seen == 0) & free))):
        if len(at):
            raise PlanError(f"block {numbering.name(int(at[0]))} is eliminated {fault}", "name every tangent block once in the order")


def fronts(found: list[Item], numbering: Blocks, pairs: np.ndarray) -> tuple[Front, ...]:
    """Eliminate symbolically.

    Args:
        found: Items in order.
        numbering: Blocks.
        pairs: Pairs of blocks (pairs, 2) that a term couples.
    """
    order = [b for twist, pivots in found for b in ([] if twist is None else [twist]) + pivots]
    position = np.full(len(numbering.first), -1)
    position[order] = np.arange(len(order))
    ends = np.cumsum([len(pivots) + (twist is not None) for twist, pivots in found])
    owner = np.repeat(np.arange(len(found)), np.diff(ends, prepend=0)).tolist()
    masks = [0] * len(found)
    spots = np.sort(position[pairs], axis=1)
    for low, high in set(map(tuple, spots[spots[:, 0] != spots[:, 1]].tolist())):
        masks[owner[low]] |= 1 << high
    children: list[list[int]] = [[] for _ in found]
    levels, parents = [0] * len(found), [-1] * len(found)
    coupled: list[list[int]] = []
    place = position.tolist()
    for i, (twist, _) in enumerate(found):
        mask = masks[i]
        if twist is not None:
            for block in _relation(twist, numbering):
                mask |= 1 << place[block]
        end = int(ends[i])
        mask = (mask >> end) << end
        coupled.append([order[p] for p in _bits(mask)])
        if mask:
            parent = owner[(mask & -mask).bit_length() - 1]
            masks[parent] |= mask
            parents[i] = parent
            children[parent].append(i)
            levels[parent] = max(levels[parent], levels[i] + 1)
    width = numbering.width.tolist()
    return tuple(
        Front(
            twist,
            tuple(pivots),
            tuple(coupled[i]),
            (0 if twist is None else TWIST, sum(width[b] for b in pivots), sum(width[b] for b in coupled[i])),
            tuple(children[i]),
            None if parents[i] < 0 else parents[i],
            levels[i],
        )
        for i, (twist, pivots) in enumerate(found)
    )


def _relation(twist: int, numbering: Blocks) -> list[int]:
    """Blocks that a twist is replaced by: its tangents and the twist of its parent."""
    topology, own = numbering.tangents.topology, twist - numbering.count
    body = own % topology.bodies
    found = [own] if topology.dofs[body] else []
    return [*found, twist - body + topology.parents[body]] if topology.parents[body] >= 0 else found


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
