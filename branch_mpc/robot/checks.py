"""Is this a robot that can be controlled? Checks of an `Articulation`, whatever it was made from."""

import numpy as np

from branch_mpc.errors import RobotError
from branch_mpc.robot.articulation import Articulation

MAX_DOF = 12
JOINT_TYPES = ("revolute", "continuous", "prismatic")

# Principal moments of a real body satisfy I1 <= I2 + I3 (no mass distribution does otherwise). Published inertias are
# rounded, identified or guessed, some 25 % past it; only an excess that means a lost decimal or a wrong unit is refused.
TRIANGLE_SLACK = 1.5
# Smallest principal moment over the largest. Below it the mass matrix is singular in float32.
DEFINITE_RATIO = 1e-7
# Largest error of a unit vector or a rotation matrix, far above rounding and far below any effect.
UNIT_TOLERANCE = 1e-9


def inertia_fault(inertia: np.ndarray, definite: bool = True) -> str | None:
    """Say what is wrong with a rotational inertia about the centre of mass.

    Args:
        inertia: Rotational inertia [kg m^2], shape (3, 3).
        definite: Refuse a singular inertia (a point mass or a rod) as well as a negative one.

    Returns:
        A clause with the principal moments, or None when the inertia is that of a body.
    """
    moments = np.linalg.eigvalsh(inertia)
    shown = f"(principal moments {', '.join(f'{moment:.4g}' for moment in moments)} kg m^2)"
    least = DEFINITE_RATIO if definite else -DEFINITE_RATIO
    if moments[0] < least * moments[2] or moments[2] < 0 or (definite and moments[2] <= 0):
        return f"inertia that is not positive definite {shown}"
    if moments[2] > TRIANGLE_SLACK * (moments[0] + moments[1]) and moments[2] > 0:
        return f"inertia that violates the triangle inequality {shown}"
    return None


def checked_articulation(robot: Articulation, source: str) -> Articulation:
    """Return the articulation when every number of it can be used.

    Args:
        robot: The articulation to check.
        source: Where it came from, for the message.

    Raises:
        RobotError: Wrong shapes, parents that do not precede their children, numbers that are not finite, axes that are
            not unit vectors, frames that are not rotations, bodies without mass or inertia, limits that are missing.
    """
    _check_size(robot, source)
    _check_shapes(robot, source)
    _check_frames(robot, source)
    for index, joint in enumerate(robot.joint_names):
        _check_body(robot, index, f"{source}: the body moved by joint '{joint}'")
        _check_limits(robot, index, f"{source}: joint '{joint}'")
    return robot


def check_dof(count: int, source: str) -> None:
    """Raise unless the number of moving joints is supported.

    Raises:
        RobotError: No joint moves, or more than `MAX_DOF` do.
    """
    if count == 0:
        raise RobotError(f"{source}: the robot has no joint that moves", "give a robot with revolute, continuous or prismatic joints")
    if count > MAX_DOF:
        raise RobotError(
            f"{source}: the robot has {count} joints that move, at most {MAX_DOF} are supported",
            'lock those that this controller should not move with overrides={"joint": {"locked": 0.0}}, or set them to type="fixed"',
        )


def _check_size(robot: Articulation, source: str) -> None:
    n = robot.dof
    check_dof(n, source)
    if len(set(robot.joint_names)) != n or len(robot.joint_types) != n or len(robot.parents) != n:
        raise RobotError(f"{source}: joint names, types and parents do not match", "give each of the n joints one name, type and parent")
    for joint, kind, parent, index in zip(robot.joint_names, robot.joint_types, robot.parents, range(n), strict=True):
        if kind not in JOINT_TYPES:
            raise RobotError(f"{source}: joint '{joint}' is of type '{kind}'", f"use one of {', '.join(JOINT_TYPES)}")
        if not isinstance(parent, int) or not -1 <= parent < index:
            raise RobotError(f"{source}: joint '{joint}' has parent {parent}", f"number parents before children (-1 to {index - 1})")
    if not isinstance(robot.tool_link, int) or not 0 <= robot.tool_link < n:
        raise RobotError(f"{source}: tool '{robot.tool_name}' sits on link {robot.tool_link}", f"use a link of 0 to {n - 1}")


def _check_shapes(robot: Articulation, source: str) -> None:
    n = robot.dof
    shapes: dict[str, tuple[int, ...]] = {
        name: (n,) for name in ("mass", "velocity_limit", "effort_limit", "position_lower", "position_upper")
    }
    shapes |= {name: (n, 3) for name in ("translation", "axis", "center_of_mass")}
    shapes |= {"rotation": (n, 3, 3), "inertia": (n, 3, 3), "tool_rotation": (3, 3), "tool_translation": (3,), "gravity": (3,)}
    for name, shape in shapes.items():
        value = np.asarray(getattr(robot, name))
        if value.shape != shape:
            raise RobotError(f"{source}: '{name}' has shape {value.shape}", f"give shape {shape}")
        if np.isnan(value).any() or not (name.startswith("position_") or np.isfinite(value).all()):
            raise RobotError(f"{source}: '{name}' holds a number that is not finite", "give finite numbers")


def _check_frames(robot: Articulation, source: str) -> None:
    frames = [*robot.rotation, robot.tool_rotation]
    for name, frame in zip([*robot.joint_names, robot.tool_name], frames, strict=True):
        if np.abs(frame @ frame.T - np.eye(3)).max() > UNIT_TOLERANCE or np.linalg.det(frame) < 0:
            raise RobotError(f"{source}: the frame of '{name}' is not a rotation", "give an orthonormal right-handed matrix")
    for name, axis in zip(robot.joint_names, robot.axis, strict=True):
        if abs(np.linalg.norm(axis) - 1) > UNIT_TOLERANCE:
            raise RobotError(f"{source}: the axis of joint '{name}' has length {np.linalg.norm(axis):.6g}", "give a unit vector")


def _check_body(robot: Articulation, index: int, where: str) -> None:
    if robot.mass[index] <= 0:
        raise RobotError(f"{where} has mass {robot.mass[index]:g} kg", "give it a positive mass")
    if np.abs(robot.inertia[index] - robot.inertia[index].T).max() > UNIT_TOLERANCE * np.abs(robot.inertia[index]).max():
        raise RobotError(f"{where} has an inertia that is not symmetric", "give a symmetric matrix")
    if fault := inertia_fault(robot.inertia[index]):
        raise RobotError(f"{where} has an {fault}", "give its inertia about its centre of mass, in kg m^2")


def _check_limits(robot: Articulation, index: int, where: str) -> None:
    lower, upper = robot.position_lower[index], robot.position_upper[index]
    if not lower < upper:
        raise RobotError(f"{where} has lower limit {lower:g} and upper limit {upper:g}", "give lower < upper")
    if robot.joint_types[index] != "continuous" and not np.isfinite([lower, upper]).all():
        raise RobotError(f"{where} has position limits that are not finite", "give finite limits, or make it a continuous joint")
    for name in ("velocity_limit", "effort_limit"):
        if getattr(robot, name)[index] <= 0:
            raise RobotError(f"{where} has {name} {getattr(robot, name)[index]:g}", "give a positive limit")
