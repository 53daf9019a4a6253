"""Rigid-body dynamics from the textbook, in slow float64 NumPy: the twin of what `dynamics/` generates.

Written from R. Featherstone, Rigid Body Dynamics Algorithms (RBDA), Springer 2008, chapters 2, 4 to 7, with the tables and
equations named below, and from nothing else in this package but `Articulation`. The recursions accept complex numbers, so that
derivatives are exact to rounding by complex steps.

Spatial vectors are (angular; linear) as in RBDA, in link coordinates. A wrench at this module's boundary is (force, moment) in
base axes, acting on the tool at the tool origin: tau = M a + b - J^T w.
"""

import numpy as np

from branch_mpc.oracle.spatial import motion_cross, motion_transform, skew
from branch_mpc.robot.articulation import Articulation

# Far below rounding of any O(1) quantity, so the truncation error h^2 vanishes: Squire and Trapp, SIAM Review 40 (1998).
COMPLEX_STEP = 1e-30


def joint_subspace(articulation: Articulation, joint: int) -> np.ndarray:
    """Return the motion subspace S of a joint in its own frame (RBDA section 4.4), shape (6,)."""
    axis, zero = articulation.axis[joint], np.zeros(3)
    return np.concatenate([zero, axis] if articulation.joint_types[joint] == "prismatic" else [axis, zero])


def joint_placement(articulation: Articulation, joint: int, position: complex) -> tuple[np.ndarray, np.ndarray]:
    """Return the frame of link `joint` in its parent link.

    Args:
        articulation: The robot.
        joint: Index of the joint.
        position: Joint position [rad | m]; may be complex.

    Returns:
        Rotation (3, 3) and origin (3,) [m].
    """
    axis, rotation, origin = articulation.axis[joint], articulation.rotation[joint], articulation.translation[joint]
    if articulation.joint_types[joint] == "prismatic":
        return rotation + 0.0 * position, origin + rotation @ axis * position
    turn = np.eye(3) + np.sin(position) * skew(axis) + (1.0 - np.cos(position)) * skew(axis) @ skew(axis)  # Rodrigues
    return rotation @ turn, origin + 0.0 * position


def spatial_inertia(articulation: Articulation, link: int) -> np.ndarray:
    """Return the spatial inertia of a link at its frame (RBDA eq. 2.63), shape (6, 6)."""
    mass, offset = articulation.mass[link], skew(articulation.center_of_mass[link])
    return np.block([[articulation.inertia[link] + mass * offset @ offset.T, mass * offset], [mass * offset.T, mass * np.eye(3)]])


def link_frames(articulation: Articulation, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rotation (3, 3) and origin (3,) [m] of every link in the base frame."""
    frames: list[tuple[np.ndarray, np.ndarray]] = []
    for joint, parent in enumerate(articulation.parents):
        rotation, origin = joint_placement(articulation, joint, q[joint])
        if parent >= 0:
            base_rotation, base_origin = frames[parent]
            rotation, origin = base_rotation @ rotation, base_origin + base_rotation @ origin
        frames.append((rotation, origin))
    return frames


def tool_pose(articulation: Articulation, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return position (3,) [m] and rotation (3, 3) of the tool in the base frame.

    Args:
        articulation: The robot.
        q: Joint positions [rad | m], shape (n,).
    """
    rotation, origin = link_frames(articulation, q)[articulation.tool_link]
    return origin + rotation @ articulation.tool_translation, rotation @ articulation.tool_rotation


def tool_jacobian(articulation: Articulation, q: np.ndarray) -> np.ndarray:
    """Return the Jacobian of the tool: rows 0-2 its velocity, rows 3-5 its angular velocity, in base axes.

    Args:
        articulation: The robot.
        q: Joint positions [rad | m], shape (n,).

    Returns:
        Shape (6, n); columns of joints that do not carry the tool are zero. The transpose takes a wrench (force, moment)
        at the tool to joint torques.
    """
    frames = link_frames(articulation, q)
    tool, _ = tool_pose(articulation, q)
    jacobian = np.zeros((6, articulation.dof), dtype=tool.dtype)
    joint = articulation.tool_link
    while joint >= 0:
        rotation, origin = frames[joint]
        axis = rotation @ articulation.axis[joint]
        if articulation.joint_types[joint] == "prismatic":
            jacobian[:3, joint] = axis
        else:
            jacobian[:3, joint], jacobian[3:, joint] = skew(axis) @ (tool - origin), axis
        joint = articulation.parents[joint]
    return jacobian


def inverse_dynamics(
    articulation: Articulation, q: np.ndarray, v: np.ndarray, a: np.ndarray, wrench: np.ndarray | None = None
) -> np.ndarray:
    """Return joint torques by the recursive Newton-Euler algorithm (RBDA Table 5.1, eqs. 5.14-5.20).

    Args:
        articulation: The robot.
        q: Joint positions [rad | m], shape (n,); this and the others may be complex.
        v: Joint velocities [rad/s | m/s], shape (n,).
        a: Joint accelerations [rad/s^2 | m/s^2], shape (n,).
        wrench: Force [N] and moment [Nm] on the tool at the tool origin, base axes, shape (6,).

    Returns:
        tau = M(q) a + b(q, v) - J(q)^T w [Nm | N], shape (n,).
    """
    transforms = _transforms(articulation, q)
    outer = _tool_force(articulation, q, wrench)
    velocities: list[np.ndarray] = []
    accelerations: list[np.ndarray] = []
    forces: list[np.ndarray] = []
    for joint, parent in enumerate(articulation.parents):
        subspace, inertia = joint_subspace(articulation, joint), spatial_inertia(articulation, joint)
        base_velocity, base_acceleration = _base_motion(articulation) if parent < 0 else (velocities[parent], accelerations[parent])
        velocity = transforms[joint] @ base_velocity + subspace * v[joint]
        acceleration = transforms[joint] @ base_acceleration + subspace * a[joint] + motion_cross(velocity) @ subspace * v[joint]
        force = inertia @ acceleration - motion_cross(velocity).T @ inertia @ velocity
        velocities.append(velocity)
        accelerations.append(acceleration)
        forces.append(force - outer if joint == articulation.tool_link else force)
    torque = np.zeros(articulation.dof, dtype=np.result_type(*forces))
    for joint in reversed(range(articulation.dof)):
        torque[joint] = joint_subspace(articulation, joint) @ forces[joint]
        if (parent := articulation.parents[joint]) >= 0:
            forces[parent] = forces[parent] + transforms[joint].T @ forces[joint]
    return torque


def mass_matrix(articulation: Articulation, q: np.ndarray) -> np.ndarray:
    """Return the joint-space inertia M(q) by the composite-rigid-body algorithm (RBDA Table 6.2), shape (n, n).

    Args:
        articulation: The robot.
        q: Joint positions [rad | m], shape (n,).
    """
    n, parents, transforms = articulation.dof, articulation.parents, _transforms(articulation, q)
    composite = [spatial_inertia(articulation, link) for link in range(n)]
    matrix = np.zeros((n, n))
    for i in reversed(range(n)):
        if parents[i] >= 0:
            composite[parents[i]] = composite[parents[i]] + transforms[i].T @ composite[i] @ transforms[i]
        force = composite[i] @ joint_subspace(articulation, i)
        matrix[i, i] = joint_subspace(articulation, i) @ force
        j = i
        while parents[j] >= 0:
            force, j = transforms[j].T @ force, parents[j]
            matrix[i, j] = matrix[j, i] = force @ joint_subspace(articulation, j)
    return matrix


def forward_dynamics(
    articulation: Articulation, q: np.ndarray, v: np.ndarray, torque: np.ndarray, wrench: np.ndarray | None = None
) -> np.ndarray:
    """Return joint accelerations by the articulated-body algorithm (RBDA Table 7.1, eqs. 7.34-7.45).

    Args:
        articulation: The robot.
        q: Joint positions [rad | m], shape (n,).
        v: Joint velocities [rad/s | m/s], shape (n,).
        torque: Joint torques [Nm | N], shape (n,).
        wrench: Force [N] and moment [Nm] on the tool at the tool origin, base axes, shape (6,).

    Returns:
        Accelerations [rad/s^2 | m/s^2], shape (n,).
    """
    n, parents, transforms = articulation.dof, articulation.parents, _transforms(articulation, q)
    subspaces = [joint_subspace(articulation, joint) for joint in range(n)]
    articulated = [spatial_inertia(articulation, link) for link in range(n)]
    base_velocity, base_acceleration = _base_motion(articulation)
    velocities: list[np.ndarray] = []
    for joint, parent in enumerate(parents):
        velocities.append(transforms[joint] @ (base_velocity if parent < 0 else velocities[parent]) + subspaces[joint] * v[joint])
    coriolis = [motion_cross(velocities[joint]) @ subspaces[joint] * v[joint] for joint in range(n)]
    bias = [-motion_cross(velocities[joint]).T @ articulated[joint] @ velocities[joint] for joint in range(n)]
    bias[articulation.tool_link] = bias[articulation.tool_link] - _tool_force(articulation, q, wrench)
    reach, pivot, residual = np.zeros((n, 6)), np.zeros(n), np.zeros(n)
    for i in reversed(range(n)):
        reach[i] = articulated[i] @ subspaces[i]
        pivot[i] = subspaces[i] @ reach[i]
        residual[i] = torque[i] - subspaces[i] @ bias[i]
        if parents[i] >= 0:
            inertia = articulated[i] - np.outer(reach[i], reach[i]) / pivot[i]
            force = bias[i] + inertia @ coriolis[i] + reach[i] * residual[i] / pivot[i]
            articulated[parents[i]] = articulated[parents[i]] + transforms[i].T @ inertia @ transforms[i]
            bias[parents[i]] = bias[parents[i]] + transforms[i].T @ force
    acceleration = np.zeros(n)
    spatial: list[np.ndarray] = []
    for i, parent in enumerate(parents):
        start = transforms[i] @ (base_acceleration if parent < 0 else spatial[parent]) + coriolis[i]
        acceleration[i] = (residual[i] - reach[i] @ start) / pivot[i]
        spatial.append(start + subspaces[i] * acceleration[i])
    return acceleration


def inverse_dynamics_derivatives(
    articulation: Articulation, q: np.ndarray, v: np.ndarray, a: np.ndarray, wrench: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the derivatives of `inverse_dynamics` by complex steps, exact to rounding.

    The wrench is fixed in the base frame, so the derivative with respect to q holds that of -J(q)^T w.

    Args:
        articulation: The robot.
        q: Joint positions [rad | m], shape (n,).
        v: Joint velocities [rad/s | m/s], shape (n,).
        a: Joint accelerations [rad/s^2 | m/s^2], shape (n,).
        wrench: Force [N] and moment [Nm] on the tool at the tool origin, base axes, shape (6,).

    Returns:
        d tau/dq, d tau/dv, d tau/da, each of shape (n, n) with torques in rows.
    """
    n = articulation.dof
    point = [np.array(value, dtype=complex) for value in (q, v, a)]
    derivatives = np.zeros((3, n, n))
    for which in range(3):
        for joint in range(n):
            moved = [value.copy() for value in point]
            moved[which][joint] += 1j * COMPLEX_STEP
            derivatives[which, :, joint] = inverse_dynamics(articulation, moved[0], moved[1], moved[2], wrench).imag / COMPLEX_STEP
    return derivatives[0], derivatives[1], derivatives[2]


def _transforms(articulation: Articulation, q: np.ndarray) -> list[np.ndarray]:
    return [motion_transform(*joint_placement(articulation, joint, q[joint])) for joint in range(articulation.dof)]


def _base_motion(articulation: Articulation) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and acceleration of the base; it accelerates upwards instead of links being pulled down (RBDA section 5.3)."""
    return np.zeros(6), np.concatenate([np.zeros(3), -articulation.gravity])


def _tool_force(articulation: Articulation, q: np.ndarray, wrench: np.ndarray | None) -> np.ndarray:
    """Wrench on the tool as a spatial force on its link, at the link frame, in link axes."""
    if wrench is None:
        return np.zeros(6)
    rotation, _ = link_frames(articulation, q)[articulation.tool_link]
    force, moment = rotation.T @ wrench[:3], rotation.T @ wrench[3:]
    return np.concatenate([moment + skew(articulation.tool_translation) @ force, force])
