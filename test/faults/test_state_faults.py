"""Faults 1, 7 to 10, 12, 13 and 16 of the fault table: bad, stale and jumping joint states, as the guard sees them."""

import dataclasses

import numpy as np
import pytest
from toy_arm import PERIOD, READY, Loop, gravity, make_guard, make_plan

from branch_mpc.guard import Mode
from branch_mpc.mpc.plan import JointSample


def tracking_loop(**settings):
    """Return a loop in TRACKING."""
    loop = Loop(make_guard(**settings))
    loop.run(5)
    assert loop.guard.mode is Mode.TRACKING
    return loop


@pytest.mark.parametrize("field", ["position", "velocity"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_fault_01_non_finite_state(field, value):
    """A state with NaN or infinity is rejected, counted and named; when they persist the arm is stopped."""
    loop = tracking_loop()
    good = loop.arm.sample
    loop.arm.sample = lambda: dataclasses.replace(good(), **{field: np.array([0.0, value, 0.0])})
    loop.run(40, until=Mode.STOPPING)
    # The state may age for its timeout, then the last plan is followed for its own; 3 ticks of rounding.
    assert loop.guard.mode is Mode.STOPPING and loop.tick - 5 <= 5 + 10 + 3
    assert loop.guard.states.rejections["not finite"] >= 10
    assert "elbow" in loop.guard.states.last_rejection and "elbow" in loop.command.reason


def test_fault_01_a_single_bad_state_changes_nothing():
    """One NaN between good states leaves the node tracking."""
    loop = tracking_loop()
    loop.guard.observe(JointSample(loop.now - 0.001, np.full(3, np.nan), np.zeros(3)), loop.now)
    loop.run(1)
    assert loop.guard.mode is Mode.TRACKING


@pytest.mark.parametrize("length", [0, 2, 4])
def test_fault_07_wrong_length(length):
    """A state with another number of joints is rejected."""
    loop = tracking_loop()
    assert not loop.guard.observe(JointSample(loop.now, np.zeros(length), np.zeros(length)), loop.now)
    assert loop.guard.states.rejections["malformed"] == 1


def test_fault_08_two_publishers_alternating():
    """Zeros between the true states (a second publisher) are rejected for ever and never relatch the posture."""
    loop = Loop()
    for _ in range(40):
        loop.guard.observe(JointSample(loop.now - 0.005, np.array([-1.9, 1.9, -2.4]), np.zeros(3)), loop.now)
        loop.run(1)
    assert loop.guard.mode is Mode.TRACKING and loop.epoch == 1
    assert loop.guard.states.rejections["position jump"] >= 35


def test_fault_08_a_lasting_jump_restarts():
    """A jump that persists is believed after `jump_samples`: the plan is dropped, epoch + 1, HOLD at the new posture."""
    loop = tracking_loop()
    loop.arm.q = loop.arm.q + np.array([0.0, 0.9, 0.0])
    loop.run(loop.guard.settings.jump_samples)
    assert loop.guard.mode is not Mode.HOLD
    loop.run(60, until=Mode.HOLD)
    assert "position jumped" in loop.command.reason
    posture = loop.arm.q.copy()
    loop.run(30)
    # The stop ends with up to 1 % of the speed limits, which the hold takes out: half a degree.
    np.testing.assert_allclose(loop.arm.q, posture, atol=1e-2)
    assert loop.guard.mode is Mode.HOLD and loop.guard.cold


def test_fault_09_states_stop():
    """After `state_timeout` the last plan is followed (DEGRADED), after `plan_timeout` the arm is stopped, then silence."""
    loop = tracking_loop()
    loop.states = False
    seen = []
    for _ in range(100):
        command = loop.run(1)
        if not seen or seen[-1][0] is not command.mode:
            seen.append((command.mode, loop.now))
    modes = [mode for mode, _ in seen]
    assert modes == [Mode.TRACKING, Mode.DEGRADED, Mode.STOPPING, Mode.WAITING]
    # Timeouts of 50 and 100 ms on a 10 ms grid: a tick of rounding each.
    assert seen[1][1] - seen[0][1] <= 0.05 + 2 * PERIOD
    assert seen[2][1] - seen[0][1] <= 0.05 + 0.1 + 3 * PERIOD
    assert not command.publish and "no joint state" in command.reason


def test_fault_09_old_stamps_count_as_no_states():
    """States that arrive but were measured long ago do not keep the node tracking."""
    loop = tracking_loop()
    good = loop.arm.sample
    loop.arm.sample = lambda: dataclasses.replace(good(), time=loop.now - 0.08)
    loop.run(20)
    assert loop.guard.mode is not Mode.TRACKING


def test_fault_10_stamps_in_the_future():
    """A stamp 20 ms ahead has age 0 and is counted; one 80 ms ahead is rejected."""
    loop = tracking_loop()
    assert loop.guard.observe(dataclasses.replace(loop.arm.sample(), time=loop.now + 0.02), loop.now)
    assert loop.guard.states.age(loop.now) == 0.0 and loop.guard.states.future_stamps == 1
    assert not loop.guard.observe(dataclasses.replace(loop.arm.sample(), time=loop.now + 0.08), loop.now)
    assert loop.guard.states.rejections["out of time"] == 1


def test_states_out_of_order_are_rejected():
    """An older or repeated state never replaces a newer one."""
    loop = tracking_loop()
    last = loop.guard.states.sample
    assert not loop.guard.observe(dataclasses.replace(last, time=last.time - 0.004), loop.now)
    assert not loop.guard.observe(last, loop.now)
    assert loop.guard.states.sample is last


@pytest.mark.parametrize("auto", [False, True])
def test_fault_12_driver_restarts(auto):
    """After a gap of 5 s with another posture and stamps from zero: HOLD there, epoch + 1, no tracking unless configured."""
    loop = tracking_loop(auto_resume=auto)
    loop.states = False
    loop.run(500)
    assert loop.guard.mode is Mode.WAITING
    epoch, before = loop.epoch, loop.now
    loop.arm.q, loop.arm.v, loop.states = -READY, np.zeros(3), True
    loop.run(1, until=Mode.HOLD)
    loop.run(60)
    assert loop.now > before
    if auto:
        assert loop.guard.mode is Mode.TRACKING and loop.epoch == epoch + 1
    else:
        assert loop.guard.mode is Mode.HOLD
        # Half a radian from the old posture; the torque needs a few ticks from one gravity to the other.
        np.testing.assert_allclose(loop.arm.q, -READY, atol=0.2)
        loop.guard.reset(loop.now)
        loop.run(3)
        assert loop.guard.mode is Mode.TRACKING and loop.epoch == epoch + 1


def test_fault_13_clock_jumps_back():
    """A clock that jumps back by 10 s: the plan and the old states are dropped, tracking restarts cold, nothing breaks."""
    loop = Loop(make_guard(auto_resume=True))
    loop.arm.time = loop.now = 100.0
    loop.guard.activate(loop.now)
    loop.run(10)
    epoch = loop.epoch
    loop.now -= 10.0
    loop.arm.time -= 10.0
    assert loop.run(1).mode in (Mode.WAITING, Mode.HOLD)
    loop.run(5)
    assert loop.guard.mode is Mode.TRACKING and loop.epoch == epoch + 1


def test_fault_14_clock_stands_still():
    """With a clock that stands still the command does not change: no time, no change of torque."""
    loop = tracking_loop()
    first = loop.command.torque
    loop.guard.observe(loop.arm.sample(), loop.now)
    commands = [loop.guard.command(loop.now - PERIOD) for _ in range(5)]
    assert all((command.torque == first).all() for command in commands)


def test_fault_08_scattered_glitches_are_never_believed():
    """Implausible states that do not agree with each other are noise, however many in a row."""
    loop = tracking_loop()
    places = [np.array([1.9, -1.9, 2.0]), np.array([-1.9, 1.9, -2.0])]
    for count in range(20):
        loop.guard.observe(JointSample(loop.now + 1e-4 * count, places[count % 2], np.zeros(3)), loop.now)
    assert loop.guard.states.rejections["position jump"] == 20


def test_a_gap_restarts_the_prestream():
    """States that stop for 0.1 s while waiting must stream for the whole prestream again before anything leaves."""
    loop = Loop(make_guard(prestream=0.2))
    loop.run(15)
    loop.states = False
    loop.run(10)
    loop.states = True
    published = [loop.run(1).publish for _ in range(30)]
    assert published.index(True) == 20


def test_states_lost_in_the_middle_of_a_stop():
    """The stop goes on from the last measurement: the arm is slower at its end than when the states were lost."""
    push = np.array([6.0, 3.0, 0.5])
    loop = Loop(plan=lambda loop: make_plan(loop.now, gravity(loop.arm.q) + push, loop.epoch, loop.tick, q=loop.arm.q))
    loop.run(20)
    loop.guard.hold(True, loop.now)
    loop.run(4)
    loop.states = False
    speed, place = np.linalg.norm(loop.arm.v), loop.arm.q.copy()
    loop.run(100, until=Mode.WAITING)
    # Half of the speed: the last measurement is old when it is used. The place is that of the last measurement and not of
    # the beginning of the stop, so gravity is balanced there.
    assert np.linalg.norm(loop.arm.v) < 0.5 * speed
    np.testing.assert_allclose(loop.command.torque, gravity(place), atol=1.0)
