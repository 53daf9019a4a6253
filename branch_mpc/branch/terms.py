"""Block sets of unknowns and the quadratic terms on them."""

from dataclasses import dataclass

import numpy as np
import warp as wp


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


def quadratic(states: BlockSet, inputs: BlockSet, *, H: wp.array, g: wp.array) -> Quadratic:
    """A quadratic term from assembled blocks, read by reference at every factorisation.

    Args:
        states: Block set x.
        inputs: Block set u.
        H: Array (instances, frames of x, nx + nu, nx + nu); only the lower triangle is used, and only the x part in the last frame.
        g: Array (instances, frames of x, nx + nu); only the x part in the last frame.
    """
    return Quadratic(states, inputs, H, g)


def damping(states: BlockSet, inputs: BlockSet, *, scale: np.ndarray, weight: wp.array) -> Damping:
    """A diagonal term whose weight may change between factorisations.

    Args:
        states: Block set x.
        inputs: Block set u.
        scale: Diagonal (nx + nu,), constants folded into the code, not negative.
        weight: Array (instances,).
    """
    return Damping(states, inputs, np.array(scale, dtype=np.float64), weight)
