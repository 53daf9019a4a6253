"""Quadratic terms on the blocks of a tree, taken by reference: on twists, tangents, single unknowns, frames and neighbouring frames."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from branch_mpc.branch.arrays import Strided, strided
from branch_mpc.branch.blocks import Tangents, View, as_view
from branch_mpc.branch.pieces import BAND, FULL, GRADIENT, LOWER, SCALED, Pieces, offsets
from branch_mpc.errors import ProblemError


@dataclass(frozen=True, eq=False)
class BlockQuadratic:
    """sum over the blocks of a view of 1/2 z' H z + g' z.

    Attributes:
        view: The blocks.
        whole_frame: True where a block is all tangents of a frame.
        H: (instances, frames, blocks, width, width), (instances, frames, width, width) for whole frames, or diagonals of dofs.
        g: Likewise, or None.
    """

    view: View
    whole_frame: bool
    H: Strided | None
    g: Strided | None

    @property
    def views(self) -> tuple[View, ...]:
        """Views the term is on."""
        return (self.view,)

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"quadratic term on {self.view.label}"

    def pieces(self, pieces: Pieces, term: int) -> None:
        """Add the records of this term."""
        first, width = self.view.ranges()
        frames, blocks = np.arange(len(self.view.frames)), np.arange(len(self.view.members))
        if self.whole_frame:
            first, width, blocks = first[:, :1], width.sum(axis=1, keepdims=True), blocks[:1]
        dofs = self.view.kind == "dof"
        for part, data in (("H", self.H), ("g", self.g)):
            if data is None:
                continue
            strides = (*data.strides, 0)[:3]
            source = pieces.source(f"{part} of the {self.label}", data, _lead(data, self.view), term)
            kind = GRADIENT if part == "g" else BAND if dofs else LOWER
            pieces.add(source, kind, first, width, offsets(strides, frames, blocks), stride=width if kind == LOWER else 1)


@dataclass(frozen=True, eq=False)
class FrameCoupling:
    """sum over t of z_{t+1}' C_t z_t; made by `coupling`."""

    tangents: Tangents
    C: Strided

    @property
    def views(self) -> tuple[View, ...]:
        """Views the term is on."""
        return (self.tangents.all,)

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"coupling term on '{self.tangents.name}'"

    def pieces(self, pieces: Pieces, term: int) -> None:
        """Add the records of this term."""
        n, frames = self.tangents.width, np.arange(self.tangents.frames - 1)
        source = pieces.source(f"C of the {self.label}", self.C, (self.C.strides[0], 0), term)
        pieces.add(source, FULL, (frames + 1) * n, n, frames * self.C.strides[1], stride=n, col=frames * n, cols=n)


@dataclass(frozen=True, eq=False)
class TreeDamping:
    """1/2 weight sum over the tangents of the view of scale z^2."""

    view: View
    weight: Strided
    scale: np.ndarray | None

    @property
    def views(self) -> tuple[View, ...]:
        """Views the term is on."""
        return (self.view,)

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"damping on {self.view.label}"

    def pieces(self, pieces: Pieces, term: int) -> None:
        """Add the records of this term."""
        first, width = self.view.ranges()
        n = self.view.owner.topology.width
        weight = pieces.source(f"weight of the {self.label}", self.weight, (self.weight.strides[0], 0), term)
        if self.scale is None:
            pieces.add(weight, BAND, first, width, np.zeros_like(first), stride=0)
            return
        scale = pieces.source(f"scale of the {self.label}", Strided(self.scale, None, (0,), n), (0, 0), term)
        pieces.add(weight, SCALED, first, width, np.zeros_like(first), stride=0, col=first % n, cols=scale)


def block_quadratic(blocks: object, H: wp.array, g: wp.array | None) -> BlockQuadratic:
    """A quadratic term on a block set of a tree; see `quadratic`.

    Raises:
        ProblemError: Arrays that do not fit the view.
    """
    view = as_view(blocks)
    whole_frame = isinstance(blocks, Tangents)
    lead, width = (view.tangents.instances, len(view.frames), len(view.members)), 1
    if whole_frame:
        lead, width = lead[:2], view.owner.topology.width
    elif view.kind != "dof":
        widths = {6} if view.kind == "twist" else {view.owner.topology.dofs[b] for b in view.members}
        if len(widths) != 1:
            raise ProblemError(f"blocks of {view.label} have widths {sorted(widths)}", "give blocks of one width, or the whole set")
        width = widths.pop()
    name = f"term on {view.label}"
    matrix = () if view.kind == "dof" else (width, width)
    checked = strided(f"H of the {name}", H, lead, matrix)
    vector = None if g is None else strided(f"g of the {name}", g, lead, () if view.kind == "dof" else (width,))
    return BlockQuadratic(view, whole_frame, checked, vector)


def coupling(u: Tangents, *, C: wp.array) -> FrameCoupling:
    """A term between neighbouring frames, sum over t of z_{t+1}' C_t z_t.

    Args:
        u: Free unknowns z, at least two frames.
        C: Blocks (instances, frames - 1, width, width), rows of frame t + 1, columns of frame t, by reference.

    Raises:
        ProblemError: One frame only, or another shape.
    """
    if not isinstance(u, Tangents) or u.frames < 2:
        raise ProblemError("a coupling needs tangents with at least two frames", "give br.tangents(..., frames=T)")
    return FrameCoupling(u, strided(f"C of the coupling on '{u.name}'", C, (u.instances, u.frames - 1), (u.width, u.width)))


def tree_damping(blocks: object, weight: object, scale: np.ndarray | None) -> TreeDamping:
    """A diagonal term on tangents; see `damping`.

    Raises:
        ProblemError: Twists, or numbers that do not fit.
    """
    view = as_view(blocks)
    if view.kind == "twist":
        raise ProblemError(f"damping on {view.label}, which are twists", "damp the tangents, or add a quadratic term")
    n = view.owner.topology.width
    if scale is not None:
        scale = np.array(scale, dtype=np.float64)
        if scale.shape != (n,) or not (np.isfinite(scale).all() and (scale >= 0.0).all()):
            found = f"damping scale on {view.label} is {scale.tolist()}"
            raise ProblemError(found, f"give {n} finite numbers that are not negative")
    lead = (view.tangents.instances, 1)
    weights = strided(f"damping weight on {view.label}", weight, lead, ())
    return TreeDamping(view, weights, scale)


def _lead(data: Strided, view: View) -> tuple[int, int]:
    """Strides of (instances, frames) as far as frames of the array are frames of the problem."""
    return data.strides[0], data.strides[1] if len(view.frames) == view.tangents.frames else 0
