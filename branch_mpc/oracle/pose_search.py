"""Float64 twin of the Levenberg-Marquardt search over configurations, with residuals and Jacobians written out.

The linear systems go to SciPy's sparse LU, which knows nothing of trees, frames or elimination plans.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.oracle.spatial import skew
from branch_mpc.robot.tree_model import TreeModel

if TYPE_CHECKING:
    import scipy.sparse as sparse


@dataclass(frozen=True)
class PoseTargets:
    """What the frames of a trajectory should reach; the weights are those of the squared residuals."""

    position: np.ndarray
    """Effector positions [m], shape (T, effectors, 3)."""
    rotation: np.ndarray
    """Effector rotations, shape (T, effectors, 3, 3)."""
    position_weight: float
    rotation_weight: float
    limit_weight: float
    smooth_weight: float = 0.0
    posture_weight: float = 0.0
    rate: float = 1.0
    """Frames a second [Hz]."""


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Return the rotation vector of a rotation of less than half a turn [rad], shape (3,)."""
    axial = 0.5 * np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    sine, cosine = np.linalg.norm(axial), 0.5 * (np.trace(rotation) - 1.0)
    return axial * (np.arctan2(sine, cosine) / sine) if sine > 0.0 else axial


def inverse_left_jacobian(turn: np.ndarray) -> np.ndarray:
    """Return the derivative of log(exp(w) exp(turn)) with respect to w at zero, shape (3, 3) (Barfoot, State Estimation, eq. 7.77)."""
    angle, cross = np.linalg.norm(turn), skew(turn)
    factor = 1.0 / 12.0 if angle < 1e-4 else 1.0 / angle**2 - (1.0 + np.cos(angle)) / (2.0 * angle * np.sin(angle))
    return np.eye(3) - 0.5 * cross + factor * cross @ cross


def least_squares(tree: TreeModel, q: np.ndarray, targets: PoseTargets) -> "tuple[np.ndarray, sparse.csr_array]":
    """Return weighted residuals r, shape (rows,), and their Jacobian, sparse (rows, T dof); half |r|^2 is the cost.

    Args:
        tree: The robot.
        q: Configurations [rad | m], shape (T, coordinates).
        targets: What to reach.
    """
    import scipy.sparse as sparse  # here, so that maps without the twin need no SciPy

    frames, n = len(q), tree.dof
    rows: list[np.ndarray] = []
    entries: list[tuple[int, int, np.ndarray]] = []  # first row, first column, block

    def add(weight: float, residual: np.ndarray, parts: dict[int, np.ndarray]) -> None:
        first = sum(map(len, rows))
        rows.append(np.sqrt(weight) * residual)
        entries.extend((first, frame * n, np.sqrt(weight) * part) for frame, part in parts.items())

    numbers = np.array([twin.joint_numbers(tree, configuration) for configuration in q])
    rest = twin.joint_numbers(tree, tree.nominal)
    for frame in range(frames):
        for effector in range(len(tree.effector_names)):
            rotation, position = twin.effector_pose(tree, q[frame], effector)
            jacobian = twin.effector_jacobian(tree, q[frame], effector)
            add(targets.position_weight, targets.position[frame, effector] - position, {frame: -jacobian[:3]})
            error = rotation_vector(rotation @ targets.rotation[frame, effector].T)
            add(targets.rotation_weight, error, {frame: inverse_left_jacobian(error) @ jacobian[3:]})
        over, under = numbers[frame] - tree.upper, tree.lower - numbers[frame]
        sign = (over > 0.0).astype(float) - (under > 0.0)
        add(targets.limit_weight, np.maximum(over, 0.0) + np.maximum(under, 0.0), {frame: np.diag(sign)})
        add(targets.posture_weight, numbers[frame] - rest, {frame: np.eye(n)})
        if frame + 1 < frames:
            speed, step = (numbers[frame + 1] - numbers[frame]) * targets.rate, targets.rate * np.eye(n)
            add(targets.smooth_weight, speed, {frame: -step, frame + 1: step})
    grids = [np.indices(block.shape) for _, _, block in entries]
    row = np.concatenate([(first + grid[0]).ravel() for (first, _, _), grid in zip(entries, grids, strict=True)])
    column = np.concatenate([(first + grid[1]).ravel() for (_, first, _), grid in zip(entries, grids, strict=True)])
    values = np.concatenate([block.ravel() for _, _, block in entries])
    return np.concatenate(rows), sparse.csr_array((values, (row, column)), shape=(sum(map(len, rows)), frames * n))


def search(
    tree: TreeModel,
    start: np.ndarray,
    targets: PoseTargets,
    *,
    iterations: int,
    damping: float = 0.1,
    bounds: tuple[float, float] = (1e-5, 1e6),
    factors: tuple[float, float] = (0.25, 4.0),
) -> tuple[np.ndarray, float]:
    """Return the configurations after a search, shape (T, coordinates), and their cost.

    Args:
        tree: The robot.
        start: Configurations [rad | m], shape (T, coordinates).
        targets: What to reach.
        iterations: Steps tried.
        damping: First damping.
        bounds: Least and most damping.
        factors: Of the damping after an accepted and after a refused step.
    """
    import scipy.sparse as sparse
    import scipy.sparse.linalg

    q = np.array(start, dtype=float)
    residual, jacobian = least_squares(tree, q, targets)
    for _ in range(iterations):
        hessian = sparse.csc_array(jacobian.T @ jacobian + damping * sparse.eye_array(jacobian.shape[1]))
        step = scipy.sparse.linalg.spsolve(hessian, -(jacobian.T @ residual)).reshape(len(q), tree.dof)
        moved = np.array([twin.retract(tree, configuration, part) for configuration, part in zip(q, step, strict=True)])
        candidate, slope = least_squares(tree, moved, targets)
        if candidate @ candidate < residual @ residual:
            q, residual, jacobian, damping = moved, candidate, slope, max(factors[0] * damping, bounds[0])
        else:
            damping = min(factors[1] * damping, bounds[1])
    return q, 0.5 * float(residual @ residual)
