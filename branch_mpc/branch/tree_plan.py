"""Plans on trees and trajectories: the fronts of an order, and what they cost; symbolic only."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from branch_mpc.branch import symbolic
from branch_mpc.branch.arrays import itemsize
from branch_mpc.branch.blocks import TWIST, Tangents, View
from branch_mpc.branch.order import TreeOrder
from branch_mpc.branch.pieces import BAND, COL, COLS, FULL, GRADIENT, KIND, LOWER, OFFSET, ROW, ROWS, SCALED, STRIDE, Pieces
from branch_mpc.branch.problem import Problem
from branch_mpc.branch.symbolic import Blocks, Front
from branch_mpc.errors import PlanError, ProblemError


@dataclass(frozen=True, eq=False)
class TreePlan:
    """Fronts in elimination order; made by `plan`.

    Attributes:
        problem: The problem.
        kind: Order it came from.
        fronts: Fronts, children before parents.
        memory_budget: Largest device memory [bytes] the solver may take.
        blocks: Numbering of the blocks.
        pieces: Terms as arrays and records.
        records: Records of the fronts, in variables of the blocks.
        condensed: Records on twists where these are condensed out of every frame before the fronts, else None.
        split: Problems an instance falls into: its frames where nothing couples them, else 1.
    """

    problem: Problem
    kind: str
    fronts: tuple[Front, ...]
    memory_budget: int
    blocks: Blocks
    pieces: Pieces
    records: np.ndarray
    condensed: np.ndarray | None
    split: int

    @cached_property
    def classes(self) -> dict[tuple[int, int, int], int]:
        """Number of fronts per class (substituted, eliminated, coupled); the fronts of a class share one body of code."""
        return dict(Counter(front.widths for front in self.fronts))

    @cached_property
    def levels(self) -> list[list[int]]:
        """Fronts per level; the fronts of a level are independent of each other."""
        found: list[list[int]] = [[] for _ in range(self.depth)]
        for i, front in enumerate(self.fronts):
            found[front.level].append(i)
        return found

    @cached_property
    def paths(self) -> list[list[list[int]]]:
        """Chains of fronts with a single child each, per level of chains."""
        level: dict[int, int] = {}
        found: list[list[list[int]]] = []
        chain: dict[int, list[int]] = {}
        for i, front in enumerate(self.fronts):
            if len(front.children) == 1:
                level[i], chain[i] = level[front.children[0]], chain[front.children[0]]
            else:
                level[i], chain[i] = 1 + max((level[c] for c in front.children), default=-1), []
                found += [[] for _ in range(level[i] + 1 - len(found))]
                found[level[i]].append(chain[i])
            chain[i].append(i)
        return found

    @cached_property
    def depth(self) -> int:
        """Longest chain of fronts that depend on one another."""
        return 1 + max(front.level for front in self.fronts)

    @property
    def fill(self) -> int:
        """Factor entries per instance: the triangle of every pivot block and its coupled block."""
        return self.split * sum(p * (p + 1) // 2 + p * q for _, p, q in (front.widths for front in self.fronts))

    @property
    def bytes_per_instance(self) -> int:
        """Bytes of factor, updates, right-hand sides, condensed frames, residual terms and solution."""
        updates = sum(q * q + q + p for _, p, q in (front.widths for front in self.fronts))
        u, twists = self.blocks.tangents, self.problem.tree.twists
        solution = u.frames * (u.width + (0 if twists is None else u.topology.bodies * TWIST))
        made = sum(source.size for source in self.pieces.sources)
        return itemsize(self.problem.dtype) * (self.fill + self.split * updates + solution + made)

    @property
    def flops(self) -> tuple[int, int]:
        """Additions and multiplications per instance of (factor, solve), without the condensation of twists."""
        factor = solve = 0
        for (m, p, q), count in self.classes.items():
            factor += count * ((2 * p**3 + 3 * p**2 + p) // 6 + p * p * (q + 1) + p * q * (q + 3) + (m > 0) * 12 * 12 * 24)
            solve += count * (2 * p * q + p * p + (m > 0) * 12 * 12)
        return self.split * factor, self.split * solve

    def front_name(self, index: int) -> str:
        """The blocks that a front eliminates, for messages."""
        front = self.fronts[index]
        names = [self.blocks.name(b) for b in front.pivots] or ["nothing"]
        return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

    def report(self) -> str:
        """Readable table: front classes, widths, levels, depth, fill, storage, operations."""
        m, (factor, solve), u = self.problem.instances, self.flops, self.blocks.tangents
        dtype = self.problem.dtype.__name__
        lines = [
            f"plan {self.kind}: {m} instances, '{u.name}' {u.frames} x {u.width}, {u.topology.bodies} bodies, {dtype}",
            "  front class   substituted  eliminated  coupled  width  count",
        ]
        for index, ((s, p, q), count) in enumerate(self.classes.items()):
            lines.append(f"  {index:<11d} {s:13d} {p:11d} {q:8d} {s + p + q:6d} {count:6d}")
        lines += [
            f"  fronts {len(self.fronts)}, levels {len(self.levels)}, depth {self.depth}, fill {self.fill} entries",
            f"  {self.bytes_per_instance} bytes per instance, {self.bytes_per_instance * (m or 0)} in all (budget {self.memory_budget})",
            f"  flops per instance: factor {factor}, solve {solve}",
        ]
        if self.split > 1:
            lines.append(f"  note: nothing couples the {self.split} frames, each is a problem of its own")
        if self.condensed is not None and len(self.condensed):
            lines.append("  note: twists are condensed out of every frame before the fronts")
        return "\n".join(lines)


def plan_tree(problem: Problem, order: TreeOrder, memory_budget: int) -> TreePlan:
    """Turn a problem on a tree and an order into fronts.

    Raises:
        ProblemError: The problem has no term.
        PlanError: The order is not on the tangents of the problem or does not hold each block once, or the plan is over the budget.
    """
    tree = problem.tree
    if tree.tangents is None:
        raise ProblemError("the problem has no term", "add one with problem.add(...)")
    if any(step.view.owner is not tree.tangents for step in order.steps):
        raise PlanError("the order is not on the tangents of this problem", f"order '{tree.tangents.name}'")
    pieces = tree.pieces()
    records, u = pieces.table(), tree.tangents
    boundary = u.frames * u.width  # of tangents and twists among the variables
    uniform = u.frames > 1 and _uniform(problem, order)
    condensed = None
    if tree.twists is not None and all(step.kind != "tree" for step in order.steps):
        on_twists = records[:, ROW] >= boundary
        mixed = (records[:, KIND] == FULL) & (on_twists | (records[:, COL] >= boundary))
        if not mixed.any():
            condensed = records[on_twists]
            records = np.concatenate([records[~on_twists], _frames(pieces, u.frames, u.width) if on_twists.any() else records[:0]])
    if uniform:
        records, condensed = _first_frame(records, u), None if condensed is None else _first_frame(condensed, u)
    frames = 1 if uniform else u.frames
    whole = (condensed is not None or tree.twists is None) and all(s.kind != "tree" and s.view.whole for s in order.steps)
    numbering = symbolic.blocks(u, frames, whole, twists=tree.twists is not None and condensed is None)
    records = _split(records, numbering) if not whole else records
    pairs = _pairs(records, numbering)
    items = symbolic.items(order.steps, numbering, joined=_couples_frames(pairs, numbering))
    fronts = symbolic.fronts(items, numbering, pairs)
    made = TreePlan(problem, order.kind, fronts, memory_budget, numbering, pieces, records, condensed, u.frames if uniform else 1)
    total = made.bytes_per_instance * u.instances
    if total > memory_budget:
        found = f"the plan needs {total} bytes, the budget is {memory_budget}"
        raise PlanError(found, "choose another order or fewer instances", made.report())
    return made


def _uniform(problem: Problem, order: TreeOrder) -> bool:
    """True where every frame is the same problem and nothing couples them."""
    u = problem.tree.tangents
    assert u is not None
    every = tuple(range(u.frames))
    views: list[View] = [step.view for step in order.steps] + [view for term in problem.tree.terms for view in term.views]
    if any(view.frames != every for view in views):
        return False
    return all(not hasattr(term, "C") for term in problem.tree.terms)


def _frames(pieces: Pieces, frames: int, n: int) -> np.ndarray:
    """Records of the condensed frames: H (n, n), lower triangle, then g (n,)."""
    size = n * n + n
    source = pieces.source("condensed twists", None, (frames * size, size), -1, size=frames * size)
    made, t = Pieces(), np.arange(frames)
    made.add(source, LOWER, t * n, n, t * size, stride=n)
    made.add(source, GRADIENT, t * n, n, t * size + n * n)
    return made.table()


def _first_frame(records: np.ndarray, u: Tangents) -> np.ndarray:
    """Records of frame 0, whose twists are numbered right after its tangents where it is alone."""
    twists = u.frames * u.width
    kept = records[(records[:, ROW] < u.width) | ((records[:, ROW] >= twists) & (records[:, ROW] < twists + u.topology.bodies * TWIST))]
    kept = kept.copy()
    for column in (ROW, COL):
        kept[:, column] -= np.where((kept[:, column] >= twists) & (kept[:, KIND] != SCALED), twists - u.width, 0)
    return kept


def _couples_frames(pairs: np.ndarray, numbering: Blocks) -> bool:
    per = 1 if numbering.whole else numbering.tangents.topology.bodies
    frame = np.where(pairs < numbering.count, pairs, pairs - numbering.count) // per
    return bool((frame[:, 0] != frame[:, 1]).any())


def _pairs(records: np.ndarray, numbering: Blocks) -> np.ndarray:
    """Pairs of blocks that a record couples, each once."""
    two = records[(records[:, KIND] != GRADIENT) & (records[:, KIND] != SCALED)]
    found = np.stack([numbering.of(two[:, ROW]), numbering.of(two[:, COL])], axis=1)
    return np.unique(found[found[:, 0] != found[:, 1]], axis=0) if len(found) else found.reshape(0, 2)


def _split(records: np.ndarray, numbering: Blocks) -> np.ndarray:
    """Cut records that reach over several blocks."""
    first, last = numbering.of(records[:, ROW]), numbering.of(records[:, ROW] + records[:, ROWS] - 1)
    square = np.isin(records[:, KIND], (LOWER, FULL))
    ends = np.where(records[:, KIND] == FULL, records[:, COL] + records[:, COLS], records[:, COL] + records[:, ROWS]) - 1
    over = (first != last) | (np.isin(records[:, KIND], (FULL, BAND)) & (numbering.of(records[:, COL]) != numbering.of(ends)))
    if not over.any():
        return records
    cut = [piece for record, is_square in zip(records[over], square[over], strict=True) for piece in _cut(record, is_square, numbering)]
    return np.concatenate([records[~over], np.array(cut, dtype=np.int64).reshape(-1, 8)])


def _cut(record: np.ndarray, square: bool, numbering: Blocks) -> list[np.ndarray]:
    rows = _segments(int(record[ROW]), int(record[ROWS]), numbering)
    if record[KIND] == BAND and record[ROW] != record[COL]:  # its rows and columns need not end together
        rows = [(int(record[ROW]) + i, 1) for i in range(record[ROWS])]
    found = []
    for row, height in rows:
        down = row - record[ROW]
        if not square:
            piece = record.copy()
            piece[[ROW, ROWS]] = row, height
            piece[OFFSET] += down * record[STRIDE] if record[KIND] != SCALED else 0
            piece[COL] += down
            found.append(piece)
            continue
        lower = record[KIND] == LOWER
        for col, width in rows if lower else _segments(int(record[COL]), int(record[COLS]), numbering):
            if lower and col > row:
                continue
            piece = record.copy()
            piece[[ROW, COL, ROWS, COLS]] = row, col, height, width
            piece[OFFSET] += down * record[STRIDE] + col - record[COL]
            piece[KIND] = LOWER if lower and col == row else FULL
            found.append(piece)
    return found


def _segments(first: int, count: int, numbering: Blocks) -> list[tuple[int, int]]:
    """Pieces (first variable, number) of a range, cut where a block ends."""
    at, stop, found = first, first + count, []
    while at < stop:
        block = int(numbering.of(np.array([at]))[0])
        end = min(stop, int(numbering.first[block] + numbering.width[block]))
        found.append((at, end - at))
        at = end
    return found
