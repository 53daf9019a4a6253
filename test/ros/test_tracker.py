"""The order of a control tick, with a planner without kernels and the guard's toy arm."""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_planner import FakePlanner
from toy_arm import READY, ROBOT, ToyArm, gravity, make_guard

from branch_mpc.errors import TargetError
from branch_mpc.guard import Mode
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.ros.latency import Latency
from branch_mpc.ros.references import References
from branch_mpc.ros.settings import ReferenceSettings
from branch_mpc.ros.tracker import Tracker

ARM = SimpleNamespace(**vars(ROBOT), name="toy", translation=np.zeros((3, 3)))


UP = np.array([0.0, 0.0, 1.0])


class Bench:
    """Tracker, fake planner and toy arm on one clock."""

    def __init__(self, kind="figure8", latency=0.0, **settings):
        self.arm, self.guard, self.sent = ToyArm(), make_guard(**settings), []
        self.planner = FakePlanner(ROBOT, MpcSettings(knots=8), gravity=gravity)
        self.references = References(ARM, ReferenceSettings(kind=kind))
        self.latency = Latency(latency, 0.0)
        parts = (self.planner, self.guard, self.references, lambda q: np.array([0.5, q[0], 0.4]), self.latency)
        self.tracker = Tracker(*parts, lambda: self.arm.time, self.sent.append)
        self.tracker.ask(self.guard.activate)

    def run(self, ticks=1, states=True):
        """Run ticks; return the last one."""
        for _ in range(ticks):
            tick = self.tracker.tick(self.arm.sample() if states else None)
            self.arm.advance(self.sent[-1].torque if self.sent else gravity(self.arm.q))
        return tick


def test_waiting_hold_and_tracking():
    """The arm waits for the prestream, is held, then plans are made and followed; the planner hears what was sent."""
    bench = Bench(prestream=0.015)
    modes = [bench.run().command.mode for _ in range(6)]
    assert modes == [Mode.WAITING, Mode.WAITING, Mode.HOLD, Mode.TRACKING, Mode.TRACKING, Mode.TRACKING]
    assert len(bench.sent) == 4 and len(bench.planner.sent_commands) == 4 and bench.planner.epoch == 1
    np.testing.assert_array_equal(bench.planner.sent_commands[-1][1], bench.sent[-1].torque)


def test_targets_begin_when_the_command_takes_effect():
    """The plan starts at the expected time of effect, and its first target is the reference's at that time."""
    bench = Bench(latency=0.004)
    bench.run(10)
    sample, start, targets = bench.planner.calls[-1]
    assert start == pytest.approx(sample.time + 0.004)
    np.testing.assert_allclose(targets[0], bench.references.at(start), atol=1e-12)
    np.testing.assert_allclose(targets[3], bench.references.at(start + 0.03), atol=1e-12)


def test_the_reference_begins_where_the_tool_is():
    """The approach starts at the measured tool, at the time of the first tracked command."""
    bench = Bench()
    bench.run(3)
    np.testing.assert_allclose(bench.references.at(bench.references.start), [0.5, READY[0], 0.4], atol=1e-3)
    assert bench.tracker.tracked == pytest.approx(bench.arm.time - bench.references.start)


def test_no_solve_on_old_states():
    """Without fresh states the planner is not called: a plan from an old state would look fresh."""
    bench = Bench()
    bench.run(5)
    calls = len(bench.planner.calls)
    bench.run(30, states=False)
    # The state may be 50 ms old: up to 6 more solves on it, with the roll-forward over what was sent.
    assert len(bench.planner.calls) <= calls + 6
    assert bench.guard.mode in (Mode.STOPPING, Mode.WAITING)


def test_fault_31_a_planner_that_raises():
    """A lost device (Warp raises) becomes a latched fault in the same tick; the arm is stopped and held without it."""
    bench = Bench()
    bench.run(5)

    def lost(planner):
        raise RuntimeError("CUDA error 719: unspecified launch failure")

    bench.planner.broken = lost
    assert bench.run().command.mode is Mode.STOPPING
    tick = bench.run(60)
    assert tick.command.mode is Mode.FAULT and "719" in tick.command.reason and tick.command.publish
    bench.planner.broken = None
    bench.tracker.ask(bench.guard.reset)
    assert bench.run(5).command.mode is Mode.TRACKING and bench.planner.epoch == 2


def test_fault_25_a_planner_that_returns_nan():
    """NaN plans: the second stops the arm; after a reset the planner starts cold."""
    bench = Bench()
    bench.run(5)

    def poisoned(planner):
        planner.broken = None
        plan = planner.step(*planner.calls[-1])
        planner.broken = poisoned
        plan.torque[0, 0] = np.nan
        return plan

    bench.planner.broken = poisoned
    bench.run(2)
    assert bench.guard.mode is Mode.STOPPING
    assert all(np.isfinite(command.torque).all() for command in bench.sent)


def test_fault_43_weights_change_at_a_tick_boundary():
    """Live weights reach the planner at the beginning of the next tick, not in the middle of one."""
    bench = Bench()
    bench.run(3)
    bench.tracker.set_weights(CostWeights(tool_position=7.0))
    assert bench.planner.weights.tool_position == 200.0
    bench.run()
    assert bench.planner.weights.tool_position == 7.0


def test_fault_12_tracking_resumes_from_where_the_tool_is():
    """After a stop the reference begins anew at the tool: no jump back to where the old reference has got to."""
    bench = Bench(auto_resume=True)
    bench.run(100)
    bench.run(100, states=False)
    bench.run(30)
    assert bench.guard.mode is Mode.TRACKING and bench.planner.epoch == 2
    np.testing.assert_allclose(bench.references.at(bench.references.start), [0.5, bench.arm.q[0], 0.4], atol=0.05)


@pytest.mark.parametrize("bad", [[np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [1.0, 2.0]])
def test_fault_17_bad_targets_leave_the_previous_one(bad):
    """A target that is not three finite numbers is refused and changes nothing."""
    bench = Bench("target")
    bench.run(3)
    bench.references.aim(np.array([0.3, 0.2, 0.5]), bench.arm.time)
    before = bench.references.at(bench.arm.time + 10.0)
    with pytest.raises(TargetError):
        bench.references.aim(np.array(bad), bench.arm.time)
    np.testing.assert_array_equal(bench.references.at(bench.arm.time + 10.0), before)


def test_fault_20_a_target_that_jumps_is_approached():
    """A target a metre away is approached from where the reference is, in the approach time: no step in the targets."""
    bench = Bench("target")
    bench.run(3)
    here = bench.references.at(bench.arm.time)
    bench.references.aim(here + UP, bench.arm.time)
    np.testing.assert_allclose(bench.references.at(bench.arm.time), here, atol=1e-12)
    np.testing.assert_allclose(bench.references.at(bench.arm.time + 2.0), here + UP, atol=1e-12)
    path = bench.references.window(bench.arm.time, 201, 0.01)
    # Minimum jerk: top speed 15/8 of the mean.
    assert np.abs(np.diff(path, axis=0)).max() <= 15.0 / 8.0 * 0.01 / 2.0 + 1e-9


def test_fault_21_a_target_stream_that_stops():
    """When targets stop coming the tool stays at the last one."""
    bench = Bench("target")
    bench.run(3)
    bench.references.aim(np.array([0.4, 0.1, 0.5]), bench.arm.time)
    np.testing.assert_allclose(bench.references.at(bench.arm.time + 1e4), [0.4, 0.1, 0.5], atol=1e-12)


def test_the_hold_reference_stays():
    """reference.kind hold: the targets are where the tool was."""
    bench = Bench("hold")
    bench.run(10)
    assert np.ptp(bench.references.window(bench.arm.time, 50, 0.1), axis=0).max() == 0.0
    assert bench.run().tracking_error < 1e-2
