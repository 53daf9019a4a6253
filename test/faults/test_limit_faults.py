"""Faults 20 and 22 to 24 of the fault table: limits of position, velocity, torque and rate in what leaves."""

import dataclasses

import numpy as np
import pytest
from toy_arm import PERIOD, READY, ROBOT, Loop, ToyArm, gravity, make_plan

from branch_mpc.guard import GuardSettings, Limits, Mode
from branch_mpc.guard.limiter import Limiter

LIMITER = Limiter(Limits.of(ROBOT), GuardSettings(), PERIOD)
NO_GRAVITY = np.zeros(3)


def test_fault_20_a_jump_in_the_plan_leaves_at_the_rate_limit():
    """A plan that jumps from +80 % to -80 % of the limits is followed at exactly the torque rate."""
    sign = [1.0]
    loop = Loop(plan=lambda loop: make_plan(loop.now, 0.8 * sign[0] * ROBOT.effort_limit, loop.epoch, loop.tick))
    loop.arm.advance = lambda torque, duration=PERIOD: setattr(loop.arm, "time", loop.arm.time + duration)
    loop.run(15)
    sign[0] = -1.0
    before = loop.command.torque
    after = loop.run(1).torque
    np.testing.assert_allclose(after - before, -ROBOT.effort_limit * 10.0 * PERIOD)
    assert loop.command.limited.all()


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_fault_22_outside_a_position_limit_only_inward_torque(side):
    """Beyond a position limit the torque in excess of gravity points inwards, whatever is asked for."""
    q = side * np.array([2.1, 2.2, 2.6])
    hold = np.array([5.0, -3.0, 1.0])
    for asked in (-50.0, 0.0, 50.0):
        torque = LIMITER.within_state(np.full(3, asked), q, np.zeros(3), hold)
        assert (side * (torque - hold) <= 0.0).all()


def test_fault_22_starting_outside_a_limit_the_arm_comes_to_rest():
    """Activated outside the limits the arm is held without being pushed further out."""
    loop = Loop(arm=ToyArm(q=[2.05, 0.0, 0.0]), plan=None)
    positions = []
    for _ in range(60):
        loop.run(1)
        positions.append(loop.arm.q[0])
    # A milliradian: the hold's integration error at 100 Hz.
    assert max(positions) <= 2.051 and loop.guard.mode is Mode.HOLD


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("weight", [0.0, 4.0, -4.0])
def test_fault_23_above_the_velocity_limit_only_braking_torque(side, weight):
    """A joint faster than its limit gets torque against its motion only, and never less than gravity asks for."""
    v = side * (ROBOT.velocity_limit + 0.1)
    for asked in (-9.0, 0.0, 9.0):
        torque = LIMITER.within_state(np.full(3, asked), READY, v, np.full(3, weight))
        assert (side * torque <= 0.0).all() and (side * (torque - weight) <= 0.0).all()
    free = LIMITER.within_state(np.full(3, side * 9.0), READY, 0.9 * v, np.full(3, weight))
    np.testing.assert_array_equal(free, side * 9.0)


def test_fault_24_at_a_limit_moving_outwards_the_outward_torque_is_zero():
    """ros2_control's rule: at the upper limit and moving up no positive torque, at the lower and moving down no negative."""
    at_upper = LIMITER.within_state(np.full(3, 5.0), ROBOT.position_upper, np.full(3, 0.1), NO_GRAVITY)
    at_lower = LIMITER.within_state(np.full(3, -5.0), ROBOT.position_lower, np.full(3, -0.1), NO_GRAVITY)
    inwards = LIMITER.within_state(np.full(3, 5.0), ROBOT.position_lower, np.full(3, -0.1), NO_GRAVITY)
    np.testing.assert_array_equal([at_upper, at_lower, inwards], [np.zeros(3), np.zeros(3), np.full(3, 5.0)])


def test_fault_24_position_margin_moves_the_limit_inwards():
    """With a margin the rule begins before the limit."""
    limiter = Limiter(Limits.of(ROBOT), GuardSettings(position_margin=0.1), PERIOD)
    q = ROBOT.position_upper - 0.05
    assert (limiter.within_state(np.full(3, 5.0), q, np.full(3, 0.1), NO_GRAVITY) == 0.0).all()
    assert (LIMITER.within_state(np.full(3, 5.0), q, np.full(3, 0.1), NO_GRAVITY) == 5.0).all()


def test_fault_24_in_the_loop_the_outward_torque_falls_at_the_rate():
    """A plan that drives a joint through its limit: from the limit on the torque falls at the rate until it points back."""
    loop = Loop(arm=ToyArm(q=[1.9, 0.0, 0.0]))
    push = np.array([15.0, 0.0, 0.0])
    loop.plan = lambda loop: make_plan(loop.now, gravity(loop.arm.q) + push, loop.epoch, loop.tick, q=np.clip(loop.arm.q, -2, 2))
    for _ in range(100):
        loop.run(1)
        if loop.arm.q[0] > 2.0:
            break
    assert loop.arm.q[0] > 2.0 and loop.arm.v[0] > 0.0
    loop.run(3)
    # 100 Nm at 10 / s gives 10 Nm a tick: from 33 Nm to none takes four.
    assert loop.run(1).torque[0] <= 1e-9 and loop.command.limited[0]


def test_first_and_last_commands_obey_the_rate_too():
    """P2 in the first command, across a stop, and in the last command before INACTIVE."""
    loop = Loop(plan=lambda loop: make_plan(loop.now, 0.9 * ROBOT.effort_limit, loop.epoch, loop.tick))
    loop.run(12)
    loop.guard.deactivate(loop.now)
    loop.run(80, until=Mode.INACTIVE)  # Loop's watch checks each command
    assert loop.guard.mode is Mode.INACTIVE and not loop.command.publish


def test_a_long_gap_between_commands_earns_no_larger_step():
    """After a pause of a second the step is that of one period: the actuator held the old torque all along."""
    loop = Loop()
    loop.run(5)
    before = loop.command.torque
    later = loop.now + 1.0
    loop.guard.observe(dataclasses.replace(loop.arm.sample(), time=later), later)
    after = loop.guard.command(later).torque
    assert (np.abs(after - before) <= ROBOT.effort_limit * 10.0 * PERIOD + 1e-9).all()
