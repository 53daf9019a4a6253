"""Block sets of unknowns and the quadratic terms on them."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from branch_mpc.branch.tree_terms import BlockQuadratic, TreeDamping, block_quadratic, tree_damping
from branch_mpc.errors import ProblemError


@dataclass(frozen=True, eq=False)
class BlockSet:
    """Unknowns of one kind: one block of `width` numbers per instance and frame.

    Attributes:
        name: Name used in reports and error messages.
        width: Numbers in a block.
        frames: Number of frames.
    """

    name: str
    width: int
    frames: int


@dataclass(frozen=True, eq=False)
class Quadratic:
    """sum_t 1/2 z_t' H_t z_t + g_t' z_t with z_t = [x_t; u_t]; made by `quadratic`."""

    states: BlockSet
    inputs: BlockSet
    H: wp.array
    g: wp.array


@dataclass(frozen=True, eq=False)
class Damping:
    """sum_t 1/2 weight_m z_t' diag(scale) z_t; made by `damping`."""

    states: BlockSet
    inputs: BlockSet
    scale: np.ndarray
    weight: wp.array


def quadratic(blocks: object, inputs: BlockSet | None = None, *, H: wp.array, g: wp.array | None = None) -> Quadratic | BlockQuadratic:
    """A quadratic term from assembled blocks, read by reference at every factorisation; only lower triangles are used.

    Args:
        blocks: Block set x of a chain, followed by `inputs`; or twists, tangents, or a slice of them.
        inputs: Block set u of a chain.
        H: On a chain (instances, frames of x, nx + nu, nx + nu), only the x part in the last frame. On a view (instances, frames,
            blocks, width, width); on all tangents (instances, frames, width, width); on single unknowns (instances, frames, unknowns).
        g: Gradient, of the shape of H without its last axis (with it for single unknowns), or None for zero.

    Raises:
        ProblemError: Arrays that do not fit the view.
    """
    if isinstance(blocks, BlockSet):
        if not isinstance(inputs, BlockSet) or g is None:
            raise ProblemError(f"the quadratic term on '{blocks.name}' lacks its inputs or g", "give br.quadratic(x, u, H=H, g=g)")
        return Quadratic(blocks, inputs, H, g)
    return block_quadratic(blocks, H, g)


def damping(blocks: object, inputs: BlockSet | None = None, *, weight: object, scale: np.ndarray | None = None) -> Damping | TreeDamping:
    """A diagonal term whose weight may change between factorisations.

    Args:
        blocks: Block set x of a chain, followed by `inputs`; or tangents, or a slice of them.
        inputs: Block set u of a chain.
        weight: Array (instances,) by reference; on tangents also a number.
        scale: Diagonal, constants, not negative: (nx + nu,) on a chain, (width,) on tangents, where it is 1 by default.

    Raises:
        ProblemError: Numbers that do not fit the view.
    """
    if isinstance(blocks, BlockSet):
        if not isinstance(inputs, BlockSet) or scale is None:
            raise ProblemError(f"the damping on '{blocks.name}' lacks its inputs or scale", "give br.damping(x, u, scale=s, weight=w)")
        return Damping(blocks, inputs, np.array(scale, dtype=np.float64), weight)
    return tree_damping(blocks, weight, scale)
