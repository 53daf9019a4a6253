"""A residual bound to blocks and data: the pieces that its kernel fills."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from branch_mpc.branch.arrays import Strided, strided
from branch_mpc.branch.blocks import Twists, View, as_view
from branch_mpc.branch.pieces import BAND, FULL, GRADIENT, LOWER, Pieces
from branch_mpc.branch.residual import Body, Residual
from branch_mpc.errors import ProblemError


@dataclass(frozen=True, eq=False)
class ResidualTerm:
    """sum over blocks of 1/2 weight |residual|^2.

    Attributes:
        residual: The function.
        blocks: View of every argument that is a body or an unknown; all broadcast to the same (frames, blocks).
        data: Array of every other argument.
        weight: Weights (instances, frames, blocks).
        instances: Number of problems.
    """

    residual: Residual
    blocks: dict[str, View]
    data: dict[str, Strided]
    weight: Strided
    instances: int

    @property
    def views(self) -> tuple[View, ...]:
        """Views the term is on."""
        return tuple(self.blocks.values())

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"residual '{self.residual.name}'"

    @property
    def shape(self) -> tuple[int, int]:
        """Evaluations per instance (frames, blocks)."""
        return max(len(v.frames) for v in self.views), max(len(v.members) for v in self.views)

    @property
    def width(self) -> int:
        """Unknowns of an evaluation m."""
        return sum(self.residual.blocks.values())

    @property
    def slot(self) -> int:
        """Numbers that an evaluation fills: H (m, m), lower triangle, then g (m,)."""
        return self.width * self.width + self.width

    @property
    def coordinates(self) -> str:
        """What a twist means to the poses."""
        return next((v.owner.coordinates for v in self.views if isinstance(v.owner, Twists)), "world")

    def pieces(self, pieces: Pieces, term: int) -> None:
        """Add the records of this term; neighbouring single unknowns become one record a frame."""
        frames, blocks = self.shape
        lead = (frames * blocks * self.slot, blocks * self.slot if frames == self.views[0].tangents.frames else 0)
        source = pieces.source(self.label, None, lead, term, size=frames * blocks * self.slot)
        at, m = np.arange(frames)[:, None] * blocks * self.slot + np.arange(blocks) * self.slot, self.width
        local, rows = 0, []
        for name, view in self.blocks.items():
            first = np.broadcast_to(view.ranges()[0], self.shape)
            rows.append((local, first, self.residual.blocks[name]))
            local += self.residual.blocks[name]
        joined = m == len(rows) and all((np.diff(first, axis=1) == 1).all() for _, first, _ in rows)
        for i, (above, row, height) in enumerate(rows):
            pick = (slice(None), slice(0, 1)) if joined else (slice(None), slice(None))
            count, step = (blocks, self.slot) if joined else (height, 1)
            pieces.add(source, GRADIENT, row[pick], count, (at + m * m + above)[pick], stride=step)
            for beside, column, width in rows[: i + 1]:
                offset = (at + above * m + beside)[pick]
                if joined:
                    pieces.add(source, BAND, row[pick], count, offset, stride=step, col=column[pick])
                else:
                    pieces.add(source, LOWER if beside == above else FULL, row, height, offset, stride=m, col=column, cols=width)


def bind(residual: Residual, arguments: dict[str, Any]) -> ResidualTerm:
    """Bind a residual to blocks and data.

    Args:
        residual: The function.
        arguments: One entry per argument of the function, and optionally `weight`.

    Raises:
        ProblemError: An argument that is missing, unknown, of the wrong kind or shape.
    """
    weight = arguments.pop("weight", 1.0)
    if set(arguments) != set(residual.arguments):
        missing, unknown = set(residual.arguments) - set(arguments), set(arguments) - set(residual.arguments)
        found = f"residual '{residual.name}' lacks {sorted(missing)} and has no {sorted(unknown)}"
        raise ProblemError(found, f"give {', '.join(residual.arguments)}")
    views = {name: as_view(arguments[name]) for name in residual.blocks}
    first = next(iter(views.values()))
    frames, blocks = max(len(v.frames) for v in views.values()), max(len(v.members) for v in views.values())
    for name, view in views.items():
        _check_view(residual, name, view, (frames, blocks))
        if view.tangents is not first.tangents:
            raise ProblemError(f"residual '{residual.name}' mixes block sets of different tangents", "give slices of one")
    lead = (first.tangents.instances, frames, blocks)
    where = f"of residual '{residual.name}'"
    data = {name: strided(f"'{name}' {where}", arguments[name], lead, shape) for name, shape in residual.data.items()}
    term = ResidualTerm(residual, views, data, strided(f"weight {where}", weight, lead, ()), lead[0])
    _check_distinct(term)
    return term


def _check_view(residual: Residual, name: str, view: View, shape: tuple[int, int]) -> None:
    wanted = "twist" if residual.arguments[name] is Body else "dof"
    label = f"'{name}' of residual '{residual.name}'"
    if view.kind != wanted:
        raise ProblemError(f"{label} is a view of {view.label}, a {view.kind}", "give x[...] for br.Body, u.dofs[...] for br.Dof")
    for have, want, axis in zip((len(view.frames), len(view.members)), shape, ("frames", "blocks"), strict=True):
        if have not in (1, want):
            raise ProblemError(f"{label} has {have} {axis}, another argument {want}", "slice them to the same number")
    if wanted == "twist" and isinstance(view.owner, Twists) and view.owner.pose is None:
        raise ProblemError(f"{label} needs the poses of {view.label}", "pass pose= to br.twists")
    if wanted == "dof" and view.tangents.q is None:
        raise ProblemError(f"{label} needs the values of {view.label}", "pass q= to br.tangents")


def _check_distinct(term: ResidualTerm) -> None:
    ranges = [np.broadcast_to(view.ranges()[0], term.shape) for view in term.views]
    names = list(term.blocks)
    for i, first in enumerate(ranges):
        for j in range(i):
            if (first == ranges[j]).any():
                raise ProblemError(f"{term.label} takes one block as '{names[j]}' and as '{names[i]}'", "give two different ones")
