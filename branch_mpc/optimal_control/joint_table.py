"""Constants of a serial arm as a table with a column per joint, read by the kernels that give every joint a lane."""

import numpy as np

from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation

LANES = 8
ROWS = 36  # numbers of a joint, in rows of four: TABLE_READ in joint_lanes.py names them
UNBOUNDED = 1e30


def is_serial_arm(articulation: Articulation) -> bool:
    """True for an unbranched chain of at most eight joints."""
    return articulation.dof <= LANES and all(parent == i - 1 for i, parent in enumerate(articulation.parents))


def turned_to_z(axis: np.ndarray) -> np.ndarray:
    """Return a rotation whose third column is `axis`, the identity for +z."""
    z = axis / np.linalg.norm(axis)
    if z[2] > 1 - 1e-15:
        return np.eye(3)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def joint_table(articulation: Articulation, weights: CostWeights) -> np.ndarray:
    """Return the table, shape (ROWS / 4, 8, 4), float32: four numbers of each of eight joints a row.

    Link frames are turned so that every joint moves about or along its z axis. Columns past the last joint are massless links
    without limits.
    """
    n = articulation.dof
    table = np.zeros((ROWS, LANES))
    table[[0, 4, 8]] = 1.0
    table[22:24] = [[-UNBOUNDED], [UNBOUNDED]]
    table[25:28] = [[1.0], [UNBOUNDED], [UNBOUNDED]]
    turns = [turned_to_z(axis) for axis in articulation.axis]
    for i in range(n):
        before, turn = (turns[i - 1] if i else np.eye(3)), turns[i]
        inertia = turn.T @ articulation.inertia[i] @ turn
        table[0:9, i] = (before.T @ articulation.rotation[i] @ turn).ravel()
        table[9:12, i] = before.T @ articulation.translation[i]
        table[12, i], table[13:16, i] = articulation.mass[i], turn.T @ articulation.center_of_mass[i]
        table[16:22, i] = inertia[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        table[24, i] = articulation.mass[i:].sum()
        table[25, i] = float(articulation.joint_types[i] != "prismatic")
    bounds = {
        22: articulation.position_lower + weights.position_margin,
        23: articulation.position_upper - weights.position_margin,
        26: articulation.velocity_limit - weights.velocity_margin,
        27: articulation.effort_limit - weights.torque_margin,
    }
    for row, values in bounds.items():
        table[row, :n] = np.clip(values, -UNBOUNDED, UNBOUNDED)
    table[28:31] = (turns[articulation.tool_link].T @ articulation.tool_translation)[:, None]
    table[31] = articulation.tool_link
    table[32:35] = np.asarray(articulation.gravity)[:, None]
    return np.ascontiguousarray(table.reshape(ROWS // 4, 4, LANES).transpose(0, 2, 1), dtype=np.float32)
