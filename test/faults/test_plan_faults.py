"""Faults 25 to 30 of the fault table: what the solver can get wrong, as the guard answers it."""

import numpy as np
import pytest
from toy_arm import PERIOD, READY, ROBOT, Loop, gravity, make_guard, make_plan

from branch_mpc.guard import Mode
from branch_mpc.mpc.plan import SolveStatus


def tracking_loop(**settings):
    """Return a loop in TRACKING."""
    loop = Loop(make_guard(**settings))
    loop.run(5)
    assert loop.guard.mode is Mode.TRACKING
    return loop


def plan_of(loop, **changes):
    """Return this tick's plan with changes."""
    return make_plan(**{"start": loop.now, "epoch": loop.epoch, "tick": loop.tick, **changes})


@pytest.mark.parametrize("field", ["torque", "position", "velocity"])
def test_fault_25_non_finite_plan(field):
    """One plan with NaN: the previous one is aged (DEGRADED); the second in a row: STOPPING. 'Solved' does not excuse NaN."""
    loop = tracking_loop()
    good = make_plan(0.0)
    bad = getattr(good, field).copy()
    bad[-1, 2] = np.nan
    loop.plan = lambda loop: plan_of(loop, **({"torque": np.full(3, np.nan)} if field == "torque" else {field: bad}))
    assert loop.run(1).mode is Mode.DEGRADED
    assert loop.run(1).mode is Mode.STOPPING
    assert loop.guard.plans.rejections["not finite"] == 2 and "not finite" in loop.command.reason


def test_fault_25_one_bad_plan_between_good_ones():
    """After a single rejected plan the next good one is tracked again."""
    loop = tracking_loop()
    good = loop.plan
    loop.plan = lambda loop: plan_of(loop, torque=np.full(3, np.inf))
    loop.run(1)
    loop.plan = good
    assert loop.run(1).mode is Mode.TRACKING


@pytest.mark.parametrize("status", [SolveStatus.NOT_FINITE, SolveStatus.PIVOT_FAILED])
def test_fault_26_failed_factorisation(status):
    """A plan whose solve failed is not used, even with finite numbers in it."""
    loop = tracking_loop()
    loop.plan = lambda loop: plan_of(loop, status=status)
    assert loop.run(1).mode is Mode.DEGRADED and status.value in loop.guard.plans.last_rejection
    assert loop.run(1).mode is Mode.STOPPING


def test_fault_27_stalled_solver_is_not_silent():
    """Plans without an accepted step are followed, but k of them in a row are DEGRADED with a reason, and come back."""
    loop = tracking_loop(stall_ticks=4)
    good = loop.plan
    loop.plan = lambda loop: plan_of(loop, status=SolveStatus.STALLED)
    assert [loop.run(1).mode for _ in range(4)] == [Mode.TRACKING] * 3 + [Mode.DEGRADED]
    assert "stalled" in loop.command.reason
    loop.plan = good
    assert loop.run(1).mode is Mode.TRACKING


def test_fault_28_plan_torque_far_beyond_limits():
    """A plan at 10 times the effort limit is rejected by joint; one at 3 times is followed, cut to the limit."""
    loop = tracking_loop(torque_rate=1e4)
    assert not loop.guard.plan(plan_of(loop, tick=6, torque=[0.0, 10.0 * ROBOT.effort_limit[1], 0.0]), loop.now)
    assert "elbow" in loop.guard.plans.last_rejection
    loop.plan = lambda loop: plan_of(loop, tick=7, torque=gravity(READY) + np.array([0.0, 0.0, 30.0]))
    command = loop.run(1)
    assert command.mode is Mode.TRACKING
    assert list(command.limited) == [False, False, True]
    assert command.torque[2] == pytest.approx(0.98 * ROBOT.effort_limit[2])


@pytest.mark.parametrize(
    "changes",
    [
        {"position": np.zeros((12, 2))},
        {"velocity": np.zeros((11, 3))},

        {"step": 0.0},
        {"step": np.nan},
        {"start": np.nan},
        {"start": 10.0},
        {"start": -10.0},
    ],
)
def test_fault_28_malformed_plans(changes):
    """Wrong shapes, steps and start times are rejected."""
    loop = tracking_loop()
    assert not loop.guard.plan(plan_of(loop, tick=6, **changes), loop.now)
    assert loop.guard.plans.rejections["stale"] == 0


def test_fault_29_solver_late_for_three_ticks():
    """While no plan comes the old one is followed by time: each tick sends the knot that is due, DEGRADED from the second."""
    loop = tracking_loop(torque_rate=1e4)
    torque = gravity(READY) + np.linspace(0.0, 1.1, 11)[:, None] * np.array([1.0, 0.5, 0.1])
    plan = plan_of(loop, tick=6)
    object.__setattr__(plan, "torque", torque)
    loop.plan = lambda loop: plan
    commands = [loop.run(1)]
    loop.plan = None
    commands += [loop.run(1) for _ in range(4)]
    for knot, command in enumerate(commands):
        np.testing.assert_allclose(command.torque, torque[knot])
    assert [command.mode for command in commands] == [Mode.TRACKING] * 2 + [Mode.DEGRADED] * 3


def test_fault_29_solver_never_comes_back():
    """Without plans for `plan_timeout` the arm is stopped and held, and stays held until asked (no auto-resume)."""
    loop = tracking_loop()
    good, loop.plan = loop.plan, None
    loop.run(int(0.1 / PERIOD) + 3)
    assert loop.guard.mode in (Mode.STOPPING, Mode.HOLD)
    loop.run(60)
    loop.plan = good
    loop.run(10)
    assert loop.guard.mode is Mode.HOLD and "no plan" in loop.command.reason
    loop.guard.reset(loop.now)
    loop.run(3)
    assert loop.guard.mode is Mode.TRACKING


def test_fault_30_stale_output():
    """A plan of a tick already seen, or of an older epoch, is not used and does not count as fresh."""
    loop = tracking_loop()
    stale = plan_of(loop)
    loop.plan = lambda loop: stale
    modes = [loop.run(1).mode for _ in range(5)]
    assert Mode.DEGRADED in modes
    assert loop.guard.plans.rejections["stale"] >= 4


def test_a_solve_begun_before_a_reset_never_leaves_after_it():
    """T17: the plan of a solve that a reset overtook is rejected, however good."""
    loop = tracking_loop()
    begun = plan_of(loop, torque=gravity(READY) + 1.0)
    loop.guard.reset(loop.now)
    object.__setattr__(begun, "tick", loop.tick + 1)
    assert not loop.guard.plan(begun, loop.now)
    loop.run(5)
    assert loop.guard.mode is Mode.TRACKING and loop.epoch == 2
