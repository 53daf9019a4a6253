"""Start configurations and figures of robots that do not ship with the package."""

import dataclasses

import numpy as np
import pytest

from branch_mpc.bench.start import HOLDABLE, reference_from, start_configuration
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import RobotError
from branch_mpc.robot import load_robot, ready_configuration


def renamed(**changes: object) -> HostDynamics:
    """The iiwa14 as somebody's own arm."""
    return HostDynamics(dataclasses.replace(load_robot("iiwa14"), name="mine", **changes))


def test_a_shipped_robot_starts_where_it_always_does() -> None:
    """The Indy7 starts at GATO's ready configuration."""
    np.testing.assert_array_equal(start_configuration("indy7", HostDynamics(load_robot("indy7"))), ready_configuration("indy7"))


def test_another_robot_gets_a_start_from_which_it_can_move() -> None:
    """The start is inside the limits, can be held, moves the tool in every direction, and is the same every time."""
    dynamics = renamed()
    arm, q = dynamics.articulation, start_configuration("mine", dynamics)
    assert (q > arm.position_lower).all()
    assert (q < arm.position_upper).all()
    assert (np.abs(dynamics.gravity(q)) <= HOLDABLE * arm.effort_limit).all()
    assert np.linalg.svd(dynamics.jacobian(q)[:3], compute_uv=False)[-1] > 0.1
    np.testing.assert_array_equal(q, start_configuration("mine", renamed()))


def test_its_figure_begins_where_its_tool_is() -> None:
    """The loop of an unknown robot is about its start, so the approach does not move."""
    dynamics = renamed()
    q = start_configuration("mine", dynamics)
    reference = reference_from("mine", q, dynamics, 6.0, 2.0)
    np.testing.assert_allclose(reference.position(np.array([0.0, 1.0, 2.0])), np.tile(dynamics.tool(q)[0], (3, 1)), atol=1e-12)


def test_a_robot_too_weak_to_hold_itself_is_refused() -> None:
    """With a thousandth of its torques no start can be held: an error and not an arm that falls."""
    weak = renamed(effort_limit=1e-3 * load_robot("iiwa14").effort_limit)
    with pytest.raises(RobotError, match="no start"):
        start_configuration("mine", weak)
