"""Float64 twin of contact response: M^-1 J^T by the joint-space mass matrix, impulses by projected Gauss-Seidel."""

import numpy as np

from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_model import TreeModel


def contact_jacobian(tree: TreeModel, q: np.ndarray) -> np.ndarray:
    """Return J, shape (3 effectors, dof): velocity of every effector along the world axes."""
    return np.concatenate([twin.effector_jacobian(tree, q, effector)[:3] for effector in range(len(tree.effector_names))])


def response_columns(tree: TreeModel, q: np.ndarray) -> np.ndarray:
    """Return M^-1 J^T, shape (dof, 3 effectors): velocity of the robot for a unit impulse at an effector."""
    return np.linalg.solve(twin.mass_matrix(tree, q), contact_jacobian(tree, q).T)


def contact_impulses(matrix: np.ndarray, free: np.ndarray, friction: float, sweeps: int) -> np.ndarray:
    """Return impulses [Ns], shape (3 contacts,), after projected Gauss-Seidel sweeps from zero.

    Args:
        matrix: J M^-1 J^T [1/kg], shape (3 contacts, 3 contacts).
        free: Contact velocities without impulses [m/s], shape (3 contacts,).
        friction: Coefficient of friction; the disc is that of the normal impulse at the time.
        sweeps: How often every contact is visited.
    """
    impulse = np.zeros(len(free))
    for _ in range(sweeps):
        for i in range(0, len(free), 3):
            for row in (i + 2, i, i + 1):
                impulse[row] -= (free[row] + matrix[row] @ impulse) / matrix[row, row]
                if row == i + 2:
                    impulse[row] = max(impulse[row], 0.0)
            size, bound = np.linalg.norm(impulse[i : i + 2]), friction * impulse[i + 2]
            if size > bound:
                impulse[i : i + 2] *= bound / size
    return impulse
