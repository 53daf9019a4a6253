"""The guard holding, stopping and handing over a simulated toy arm."""

import dataclasses
import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from toy_arm import PERIOD, READY, ROBOT, Loop, ToyArm, gravity, make_guard, make_plan

from branch_mpc.errors import RobotError
from branch_mpc.guard import Guard, GuardSettings, Mode


def swing(loop):
    """Return a plan that pushes the arm into motion."""
    return make_plan(loop.now, gravity(loop.arm.q) + np.array([6.0, 3.0, 0.5]), loop.epoch, loop.tick, q=loop.arm.q)


def moving_loop(**settings):
    """Return a loop in TRACKING with every joint moving."""
    loop = Loop(make_guard(**settings), plan=swing)
    loop.run(20)
    assert loop.guard.mode is Mode.TRACKING and (np.abs(loop.arm.v) > 0.1).all()
    return loop


def test_imports_no_kernels_and_no_ros():
    """The guard works when the GPU is gone: importing it brings in neither Warp nor Pinocchio nor rclpy."""
    code = "import sys, branch_mpc.guard; print([m for m in ('warp', 'pinocchio', 'rclpy', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_first_command_is_the_hold_torque():
    """Activation is bumpless (P11): the first command is within one rate step of gravity's torque, and rests the arm."""
    loop = Loop(make_guard(torque_rate=1.0), arm=ToyArm(v=[0.3, -0.2, 0.1]))
    loop.run(5, until=Mode.HOLD)
    step = ROBOT.effort_limit * loop.guard.settings.torque_rate * PERIOD
    assert (step < np.abs(gravity(READY))).any()
    assert (np.abs(loop.command.torque - gravity(READY)) <= step + 1e-9).all()


def test_silent_until_states_have_streamed():
    """Nothing is published before states have arrived for the prestream time (PX4's proof of life)."""
    loop = Loop(make_guard(prestream=0.2))
    published = [loop.run().publish for _ in range(40)]
    assert published.index(True) == 20 and all(published[20:])


def test_hold_stays_and_returns():
    """HOLD keeps the latched posture within a milliradian, and comes back after a push of 5 degrees at once."""
    loop = Loop(plan=None)
    loop.run(100)
    assert loop.guard.mode is Mode.HOLD
    np.testing.assert_allclose(loop.arm.q, READY, atol=1e-3)
    loop.arm.q = loop.arm.q + 0.08
    loop.run(150)
    np.testing.assert_allclose(loop.arm.q, READY, atol=2e-3)


def test_tracking_sends_the_plan_of_the_moment():
    """In TRACKING the command at time t is the torque of the knot that holds at t, the states are interpolated."""
    guard = make_guard(torque_rate=1e4)
    loop = Loop(guard)
    loop.run(3)
    torque = np.linspace(0.0, 5.0, 11)[:, None] * np.ones(3)
    position = READY + np.linspace(0.0, 0.11, 12)[:, None]
    plan = make_plan(loop.now, epoch=loop.epoch, tick=99, position=position)
    assert guard.plan(SimpleNamespace(**{**vars(plan), "torque": torque}), loop.now)
    command = guard.command(loop.now, effect=loop.now + 0.012)
    np.testing.assert_allclose(command.torque, torque[1])
    np.testing.assert_allclose(command.position, READY + 0.012, atol=1e-9)


def test_stop_with_states_ends_at_rest_in_time():
    """A moving arm whose plans end is at rest (1 % of its speed limits) within stop_time, then held there (P4)."""
    loop = moving_loop()
    loop.plan = lambda loop: make_plan(loop.now, np.full(3, np.nan), loop.epoch, loop.tick)
    loop.run(20, until=Mode.STOPPING)
    began = loop.now
    loop.run(200, until=Mode.HOLD)
    assert loop.now - began <= loop.guard.settings.stop_time + PERIOD
    assert (np.abs(loop.arm.v) <= 0.02 * ROBOT.velocity_limit).all()
    assert "stopped" in loop.run(5).reason
    assert loop.guard.mode is Mode.HOLD


def test_stop_without_states_ends_in_silence_with_the_arm_nearly_at_rest():
    """When states stop arriving the arm is braked on the model's prediction, then the node falls silent (P4).

    20 % of the speed at the fault: the prediction starts from the plan's states, which differ from the truth by what
    happened in the state timeout.
    """
    loop = moving_loop(state_timeout=0.02, plan_timeout=0.02)
    speed = np.linalg.norm(loop.arm.v)
    loop.plan = lambda loop: make_plan(loop.now, epoch=loop.epoch, tick=loop.tick, q=loop.arm.q, velocity=np.tile(loop.arm.v, (12, 1)))
    loop.run()
    loop.states = False
    loop.run(100, until=Mode.WAITING)
    settings = loop.guard.settings
    assert loop.guard.mode is Mode.WAITING and not loop.command.publish
    assert (loop.tick - 21) * PERIOD <= settings.state_timeout + settings.plan_timeout + settings.stop_time + 3 * PERIOD
    assert np.linalg.norm(loop.arm.v) <= 0.2 * speed


def test_a_stop_that_never_rests_ends_by_the_clock():
    """An arm that is pushed on, or an encoder that lies, does not keep the guard in STOPPING beyond stop_time (P4)."""
    loop = moving_loop()
    fast = loop.arm.sample
    loop.arm.sample = lambda: dataclasses.replace(fast(), velocity=np.array([0.5, 0.5, 0.5]))
    loop.guard.hold(True, loop.now)
    began = loop.now
    loop.run(100, until=Mode.HOLD)
    assert loop.guard.mode is Mode.HOLD and loop.now - began <= loop.guard.settings.stop_time + 3 * PERIOD


def test_a_clock_that_jitters_backwards_earns_no_rate():
    """Between two equal times the torque moves no further than the time that really passed allows."""
    loop = Loop(plan=lambda loop: make_plan(loop.now, 0.9 * ROBOT.effort_limit, loop.epoch, loop.tick))
    loop.run(4)
    first = loop.command.torque
    times = loop.now + np.array([0.0, -0.005, 0.0, -0.005, 0.0])
    last = [loop.guard.command(time) for time in times][-1]
    assert (np.abs(last.torque - first) <= ROBOT.effort_limit * 10.0 * PERIOD + 1e-9).all()


def test_per_joint_gains_without_a_mass_matrix():
    """Without a mass matrix the hold works on the effort limits alone."""
    guard = Guard(ROBOT, GuardSettings(prestream=0.0), gravity, None, PERIOD)
    loop = Loop(guard, plan=None)
    loop.run(100)
    np.testing.assert_allclose(loop.arm.q, READY, atol=5e-3)


@pytest.mark.parametrize(("field", "value"), [("effort_limit", np.inf), ("effort_limit", 0.0), ("velocity_limit", np.nan)])
def test_unknown_limits_stop_configuration(field, value):
    """A joint without a finite positive limit is refused by name (P12): nothing is guessed."""
    robot = SimpleNamespace(**{**vars(ROBOT), field: np.array([1.0, value, 1.0])})
    with pytest.raises(RobotError, match="'elbow'"):
        Guard(robot, GuardSettings(), gravity)


def test_preview_continues_the_command_within_rate():
    """The trajectory of a JTC sink starts at the command and every point is within a rate step of the one before."""
    loop = moving_loop()
    points = [loop.command, *loop.guard.horizon(loop.command, 3, PERIOD)]
    step = ROBOT.effort_limit * loop.guard.settings.torque_rate * PERIOD
    for before, after in itertools.pairwise(points):
        assert (np.abs(after.torque - before.torque) <= step + 1e-9).all()
        assert after.time > before.time and np.isfinite(after.position).all()


def test_an_operator_hold_stops_tracking_and_its_end_resumes_it():
    """~/hold true stops and holds; ~/hold false tracks again, from a cold controller."""
    loop = moving_loop()
    epoch = loop.epoch
    loop.guard.hold(True, loop.now)
    loop.run(100)
    assert loop.guard.mode is Mode.HOLD and loop.command.reason == "hold requested"
    loop.guard.hold(False, loop.now)
    loop.run(5)
    assert loop.guard.mode is Mode.TRACKING and loop.epoch > epoch
