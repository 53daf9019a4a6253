"""Where a run begins: the start configuration of a robot and the figure that it can draw from there."""

from collections.abc import Sequence

import numpy as np

from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import RobotError, SettingError
from branch_mpc.optimal_control.reference import Approach, Hold, figure8_for
from branch_mpc.robot import Articulation, ready_configuration, robot_names

CANDIDATES = 400
"""Configurations tried for a robot that has no start of its own."""
HOLDABLE = 0.5
"""Largest part of an effort limit that gravity may take at the start."""


def start_configuration(robot: str, dynamics: HostDynamics, asked: Sequence[float] = ()) -> np.ndarray:
    """Return a configuration to start from [rad | m], shape (n,).

    The shipped robots have one. For any other, the best of a fixed series of configurations: the one that can
    move the tool fastest in its slowest direction, among those that the joints can hold against gravity.

    Args:
        robot: Name of the robot.
        dynamics: Its kinematics and gravity torques.
        asked: The configuration that was asked for; empty for the robot's own.

    Raises:
        SettingError: A configuration was asked for that has the wrong length or is outside the limits.
        RobotError: No configuration was found that the joints can hold and from which the tool can move in every direction.
    """
    if len(asked):
        return _checked(np.array(asked, dtype=float), dynamics.articulation)
    if robot in robot_names():
        return ready_configuration(robot)
    arm = dynamics.articulation
    bounded = np.isfinite(arm.position_upper) & np.isfinite(arm.position_lower)
    lower, upper = np.where(bounded, arm.position_lower, -np.pi), np.where(bounded, arm.position_upper, np.pi)
    middle, half = 0.5 * (lower + upper), np.minimum(0.4 * (upper - lower), 0.5 * np.pi)
    series = middle + half * np.random.default_rng(0).uniform(-1.0, 1.0, (CANDIDATES, arm.dof))
    best = max(series, key=lambda q: _agility(q, dynamics))
    if _agility(best, dynamics) <= 0.0:
        raise RobotError(
            f"robot '{arm.name}' has no start from which its tool can move in every direction under half its torque limits",
            "a position-tracking arm needs three joints or more; check axes, masses and effort limits",
        )
    return best


def reference_from(
    robot: str, q: np.ndarray, dynamics: HostDynamics, period: float, approach: float, target: Sequence[float] | None = None
) -> Approach:
    """Return the reference of a run that starts at q, the same as mpc_node's: the approach, then the figure-8 or one point.

    Args:
        robot: Name of the robot.
        q: Start configuration [rad | m], shape (n,).
        dynamics: Kinematics of the robot.
        period: Time of one figure [s].
        approach: Time from the start pose to the figure [s].
        target: A point to hold instead of the figure [m].

    Raises:
        TargetError: A period, an approach or a target that is not a usable number.
    """
    tool = dynamics.tool(q)[0]
    reach = float(np.linalg.norm(tool - dynamics.articulation.translation[0]))
    goal = figure8_for(robot, tool, period, reach) if target is None else Hold(np.array(target))
    return Approach(tool, goal, approach)


def _checked(q: np.ndarray, arm: Articulation) -> np.ndarray:
    if q.shape != (arm.dof,):
        raise SettingError(f"parameter 'start' has {q.size} numbers", f"give one for each of the {arm.dof} joints")
    outside = ~((q >= arm.position_lower) & (q <= arm.position_upper))
    if outside.any():
        name = arm.joint_names[int(np.argmax(outside))]
        raise SettingError(f"parameter 'start' is outside the limits of joint '{name}'", "give positions within the limits")
    return q


def _agility(q: np.ndarray, dynamics: HostDynamics) -> float:
    """Smallest singular value of the translational Jacobian; -1 where gravity takes too much torque."""
    if (np.abs(dynamics.gravity(q)) > HOLDABLE * dynamics.articulation.effort_limit).any():
        return -1.0
    return float(np.linalg.svd(dynamics.jacobian(q)[:3], compute_uv=False)[-1]) if dynamics.articulation.dof >= 3 else -1.0
