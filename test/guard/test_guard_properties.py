"""Whatever comes in, what leaves is finite, within limits and within rate: random inputs and random event sequences."""

import dataclasses

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from toy_arm import PERIOD, READY, ROBOT, ToyArm, Watch, gravity, make_guard, make_plan

from branch_mpc.guard import Guard, GuardSettings, Mode
from branch_mpc.guard.modes import SILENT
from branch_mpc.mpc.plan import JointSample, SolveStatus

NUMBERS = st.one_of(st.floats(-3.0, 3.0), st.sampled_from([np.nan, np.inf, -np.inf, 1e300, 0.0]))
VECTORS = st.lists(NUMBERS, min_size=2, max_size=4).map(np.array)
TORQUES = st.lists(st.one_of(st.floats(-1e3, 1e3), st.sampled_from([np.nan, np.inf])), min_size=3, max_size=3).map(np.array)
STEPS = st.sampled_from([0.0, 0.001, PERIOD, PERIOD, PERIOD, 0.03, 0.2, -0.02, -5.0, 100.0])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(STEPS, VECTORS, VECTORS, TORQUES, st.floats(-0.2, 0.2), st.booleans()), min_size=1, max_size=30))
def test_random_inputs_never_break_a_promise(events):
    """P1, P2: for random states, plans and clocks, NaN and infinity among them, every command passes the watch."""
    guard = make_guard()
    guard.activate(0.0)
    watch, now, tick = Watch(guard), 0.0, 0
    for step, q, v, torque, offset, good in events:
        now, tick = now + step, tick + 1
        guard.observe(JointSample(now + offset, READY if good else q, np.zeros(3) if good else v), now)
        guard.plan(make_plan(now + offset, torque, tick, tick), now)
        watch(guard.command(now))
        watch.last = None if guard.mode in SILENT else watch.last


@settings(max_examples=50, deadline=None, derandomize=True)
@given(TORQUES, st.sampled_from(list(Mode)))
def test_a_model_that_fails_never_reaches_the_arm(bad, mode):
    """A gravity function that returns nonsense from some tick on latches a fault; the arm keeps its last torque."""
    broken = [False]
    guard = Guard(ROBOT, GuardSettings(prestream=0.0), lambda q: bad if broken[0] else gravity(q), None, PERIOD)
    guard.activate(0.0)
    watch = Watch(guard)
    for tick in range(30):
        broken[0] = tick >= 10
        now = tick * PERIOD
        guard.observe(JointSample(now, READY, np.zeros(3)), now)
        watch(guard.command(now))
    assert np.isfinite(bad).all() or guard.mode is Mode.FAULT


class GuardMachine(RuleBasedStateMachine):
    """Random events against the guard: states come, stop, jump; plans are good, bad, late; operators interfere."""

    @initialize(auto=st.booleans())
    def begin(self, auto):
        """Start an active guard on a resting arm."""
        self.guard, self.arm, self.now = make_guard(auto_resume=auto, prestream=0.03), ToyArm(), 0.0
        self.guard.activate(0.0)
        self.watch, self.tick, self.epoch, self.stale, self.leaving, self.faulty = Watch(self.guard), 0, 0, 0.0, False, False
        self.command, self.before, self.stopping = None, self.guard.mode, 0.0

    @rule(
        count=st.integers(1, 12),
        states=st.sampled_from(["good", "good", "good", "none", "nan", "old"]),
        plans=st.sampled_from(["good", "good", "good", "none", "nan", "stalled", "old epoch", "wild"]),
    )
    def run(self, count, states, plans):
        """Run a few ticks."""
        for _ in range(count):
            self.tick += 1
            self.observe(states)
            if plans != "none" and self.guard.wants_plan:
                self.epoch += self.guard.cold and plans != "old epoch"
                self.guard.plan(self.make(plans), self.now)
            self.before = self.guard.mode
            self.command = self.guard.command(self.now)
            self.check_transition()
            if self.command.publish:
                self.arm.advance(self.command.torque)
            self.now += PERIOD
            self.arm.time = self.now

    def observe(self, kind):
        """Offer one state of a kind."""
        sample = self.arm.sample()
        if kind == "nan":
            sample = dataclasses.replace(sample, position=np.full(3, np.nan))
        if kind == "old":
            sample = dataclasses.replace(sample, time=self.now - 10.0)
        if kind != "none":
            self.guard.observe(sample, self.now)

    def make(self, kind):
        """Return one plan of a kind."""
        torque = {"nan": np.full(3, np.nan), "wild": np.array([90.0, -45.0, 9.0])}.get(kind)
        status = SolveStatus.STALLED if kind == "stalled" else SolveStatus.SOLVED
        return make_plan(self.now, torque, self.epoch, self.tick, status=status, q=np.clip(self.arm.q, -3.0, 3.0))

    def check_transition(self):
        """Invariants of one command."""
        self.watch(self.command)
        mode = self.guard.mode
        assert self.command.publish == (mode not in SILENT and not (mode is Mode.FAULT and self.command.age > 0.05)), mode
        if mode is Mode.TRACKING:
            assert self.command.age <= self.guard.settings.state_timeout  # P3
            assert not self.faulty and not self.leaving
        if mode in (Mode.HOLD, Mode.FAULT) and self.command.publish:
            assert self.command.age <= self.guard.settings.state_timeout
        if mode is Mode.STOPPING:
            self.stopping = self.stopping if self.before is Mode.STOPPING else self.now
            assert self.now - self.stopping <= self.guard.settings.stop_time + PERIOD  # P4

    @rule(delta=st.sampled_from([1.0, -1.0, 0.3]))
    def jump(self, delta):
        """Move the arm's encoders at once."""
        self.arm.q = np.clip(self.arm.q + delta, -1.9, 1.9)

    @rule(on=st.booleans())
    def hold(self, on):
        """Ask for a hold, or end it."""
        self.guard.hold(on, self.now)

    @rule()
    def reset(self):
        """Press reset."""
        self.guard.reset(self.now)
        self.faulty = False

    @rule()
    def fail(self):
        """Lose the device."""
        self.guard.fault("device lost")
        self.faulty = True

    @precondition(lambda self: self.guard.mode is not Mode.INACTIVE)
    @rule()
    def leave(self):
        """Deactivate; INACTIVE is reached within the stop time."""
        self.guard.deactivate(self.now)
        self.leaving = True
        for _ in range(int(self.guard.settings.stop_time / PERIOD) + 5):
            self.run(1, "good", "good")
        assert self.guard.mode is Mode.INACTIVE

    @precondition(lambda self: self.guard.mode is Mode.INACTIVE)
    @rule()
    def activate(self):
        """Activate again."""
        self.guard.activate(self.now)
        self.leaving, self.faulty, self.watch.last = False, False, None

    @invariant()
    def reason_given(self):
        """Every mode but undisturbed tracking says why."""
        if self.command is not None and self.command.mode in (Mode.DEGRADED, Mode.STOPPING, Mode.HOLD, Mode.FAULT):
            assert self.command.reason


TestGuardMachine = GuardMachine.TestCase
TestGuardMachine.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
