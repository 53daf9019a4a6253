"""Deadlines, overruns and clocks of the control thread, on a clock that the test moves."""

import threading
from types import SimpleNamespace

import pytest

from branch_mpc.mpc.plan import JointSample
from branch_mpc.ros.clocks import MonotonicClock, SimulatedClock
from branch_mpc.ros.control_loop import ControlLoop
from branch_mpc.ros.latency import Latency
from branch_mpc.ros.lockstep import LockstepLoop, StampClock
from branch_mpc.ros.mailbox import Mailbox

PERIOD = 0.01


class StepClock:
    """Time passes only while somebody sleeps or `works`."""

    def __init__(self):
        self.time, self.late = 50.0, 0.0

    def now(self):
        """Return the time."""
        return self.time

    def sleep_until(self, deadline, stop):
        """Jump to the deadline, and `late` beyond it once."""
        self.time = max(self.time, deadline) + self.late
        self.late = 0.0
        return self.time - deadline


def run(work, ticks):
    """Run a loop for `ticks` calls of work(tick, clock); return it and the times at which the ticks began."""
    clock, begun = StepClock(), []

    def tick():
        begun.append(round(clock.time - 50.0, 9))
        work(len(begun), clock)
        if len(begun) == ticks:
            loop.stop()

    loop = ControlLoop(PERIOD, tick, clock, lambda error: True)
    loop.start()
    assert loop.join(5.0)
    return loop, begun


def test_ticks_are_on_the_grid_without_drift():
    """Work of any length below the period leaves every tick on a multiple of the period (no relative sleeps)."""
    loop, begun = run(lambda tick, clock: setattr(clock, "time", clock.time + 0.0007 * (tick % 9)), 200)
    # 1e-9 s: rounding of the sum of 200 periods.
    assert all(abs(time - PERIOD * (index + 1)) < 1e-9 for index, time in enumerate(begun))
    assert loop.overruns == 0 and loop.ticks == 200


def test_fault_29_overruns_are_counted_and_skipped():
    """P10: a tick of 3.5 periods skips three, counts three, and is followed by the next multiple of the period: no burst."""
    loop, begun = run(lambda tick, clock: setattr(clock, "time", clock.time + (0.035 if tick == 5 else 0.001)), 8)
    assert loop.overruns == 3
    assert begun == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05, 0.09, 0.10, 0.11])


def test_fault_50_a_late_wake_up_counts_what_it_missed():
    """Waking 25 ms late (a pause of the collector, a page fault) counts two ticks, and the grid stays."""
    loop, begun = run(lambda tick, clock: setattr(clock, "late", 0.025 if tick == 3 else 0.0), 6)
    assert loop.overruns == 2
    assert begun == pytest.approx([0.01, 0.02, 0.03, 0.065, 0.07, 0.08])


def test_fault_13_a_jump_of_the_clock_is_no_overrun():
    """A clock that jumps forward by a minute, or back, starts a new grid."""
    for jump in (60.0, -20.0):
        loop, begun = run(lambda tick, clock, jump=jump: setattr(clock, "time", clock.time + (jump if tick == 3 else 0.0)), 6)
        assert loop.ticks == 6 and loop.overruns <= 6000
        assert begun[5] - begun[4] == pytest.approx(PERIOD)


def test_a_tick_that_raises_does_not_end_the_loop():
    """Whatever a tick raises, the next one comes, so that the guard can stop the arm."""
    seen = []

    def work(tick, clock):
        if tick == 2:
            raise RuntimeError("device lost")

    clock, ticks = StepClock(), []

    def tick():
        ticks.append(1)
        if len(ticks) == 5:
            loop.stop()
        work(len(ticks), clock)

    loop = ControlLoop(PERIOD, tick, clock, lambda error: seen.append(str(error)) or True)
    loop.start()
    assert loop.join(5.0) and len(ticks) == 5 and seen == ["device lost"]


def test_fault_11_bursts_leave_one_newest_value():
    """Ten states at once: the reader sees the last one, and waiting returns once."""
    box = Mailbox()
    assert box.get() is None and not box.wait(0.0)
    for index in range(10):
        box.put(index)
    assert box.wait(0.0) and box.get() == 9
    assert not box.wait(0.0) and box.get() == 9


def test_lockstep_ticks_once_a_state_on_its_clock():
    """One tick for every state put in, at the time of its stamp."""
    box, clock, times, done = Mailbox(), StampClock(), [], threading.Event()

    def tick():
        times.append(clock.now())
        done.set()

    loop = LockstepLoop(box, clock, tick, lambda error: False)
    loop.start()
    for time in (0.0, 0.01, 0.02):
        done.clear()
        box.put(JointSample(time, None, None))
        assert done.wait(5.0)
    loop.stop()
    assert loop.join(5.0) and times == [0.0, 0.01, 0.02] and loop.ticks == 3


def ros_clock(nanoseconds):
    """Return something with the one method of rclpy's clock that is used."""
    return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=nanoseconds[0]))


def test_fault_16_a_step_of_the_wall_clock_does_not_move_the_loop():
    """Stamps taken and read after a step of an hour are as old as before it: only the difference of the clocks counts."""
    wall = [1_700_000_000_000_000_000]
    clock = MonotonicClock(ros_clock(wall))
    for step in (0, 3600, -7200):
        wall[0] += step * 1_000_000_000
        sec, nanosec = divmod(wall[0] - 2_000_000, 1_000_000_000)
        before = clock.now()
        age = before - clock.from_stamp(SimpleNamespace(sec=sec, nanosec=nanosec))
        # 2 ms old; a second of slack for a machine that pauses between the two lines.
        assert -1.0 < age - 0.002 < 1.0


def test_an_unstamped_state_counts_as_new():
    """A driver that leaves the stamp zero gets the time of arrival."""
    clock = MonotonicClock(ros_clock([1_700_000_000_000_000_000]))
    before = clock.now()
    assert before <= clock.from_stamp(SimpleNamespace(sec=0, nanosec=0)) <= clock.now()


def test_fault_14_simulated_time_that_stands_still_is_left_by_a_stop():
    """While /clock stands still the loop waits, without ticking, and still ends when asked."""
    clock = SimulatedClock(ros_clock([5_000_000_000]))
    ticks = []
    loop = ControlLoop(PERIOD, lambda: ticks.append(1), clock, lambda error: True)
    loop.start()
    assert not loop.join(0.05)
    loop.stop()
    assert loop.join(5.0) and ticks == []


def test_latency_follows_what_is_measured_within_bounds():
    """The estimate converges to tick plus transport; nonsense (a clock that is off by a second) is bounded."""
    latency = Latency(0.0, PERIOD)
    for _ in range(300):
        latency.tick(0.004)
        latency.state(0.0005)
    # Ten time constants of 20 ticks leave 5e-7 of the first guess.
    assert latency.value == pytest.approx(0.0045, abs=1e-6)
    for _ in range(300):
        latency.state(5.0)
        latency.tick(-5.0)
    assert latency.transport <= 0.5 * PERIOD and 0.0 <= latency.value <= PERIOD
    assert Latency(0.007, PERIOD).value == 0.007
    assert Latency(0.0, 0.0).value == 0.0
