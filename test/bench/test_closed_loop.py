"""The lockstep loop, on an arm of three sliders whose controller is a page of algebra."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from branch_mpc.bench.closed_loop import Lockstep, Push
from branch_mpc.bench.record import Recording, metrics, tracking_error
from branch_mpc.errors import TargetError
from branch_mpc.guard import Guard, GuardSettings
from branch_mpc.mpc.plan import JointSample, Plan, SolveStatus
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.reference import Approach, Lissajous, Reference
from branch_mpc.robot.articulation import Articulation

START = np.array([0.05, 0.0, 0.1])
FIGURE = Lissajous(period=1.0, center=(0.1, 0.0, 0.1), first=(0.02, 0.0, 0.0), second=(0.0, 0.0, 0.01))


def sliders() -> Articulation:
    """Three prismatic joints along x, y, z with 1 kg at the end and no gravity: the tool position is q."""
    zeros, eyes = np.zeros((3, 3)), np.tile(np.eye(3), (3, 1, 1))
    return Articulation(
        "sliders", ("x", "y", "z"), ("prismatic",) * 3, (-1, 0, 1), eyes, zeros, np.eye(3), np.array([0.0, 0.0, 1.0]), zeros,
        np.zeros((3, 3, 3)), -np.ones(3), np.ones(3), np.full(3, 5.0), np.full(3, 100.0), "tool", 2, np.eye(3), np.zeros(3),
        gravity=np.zeros(3),
    )  # fmt: skip


class Sliders:
    """The plant: 1 kg at the end of three sliders, integrated exactly under a constant force."""

    def __init__(self) -> None:
        self.time, self.position, self.velocity = 0.0, START.copy(), np.zeros(3)
        self.wrench, self._force = np.zeros(6), np.zeros(3)

    def apply(self, torque: np.ndarray) -> None:
        self._force = np.array(torque)

    def advance(self, duration: float) -> None:
        acceleration = self._force + self.wrench[:3]
        self.position = self.position + duration * self.velocity + 0.5 * duration**2 * acceleration
        self.velocity = self.velocity + duration * acceleration
        self.time += duration

    def tool(self) -> np.ndarray:
        return self.position.copy()


class Follower:
    """The controller: accelerates so that the error decays in about 50 ms, with the target's own acceleration."""

    def __init__(self, spoil: Callable[[int], bool] = lambda tick: False) -> None:
        self.settings = MpcSettings(knots=4)
        self.epoch, self.tick, self.sends, self._spoil = 0, 0, [], spoil

    def reset(self, sample: JointSample) -> None:
        self.epoch += 1

    def step(self, sample: JointSample, start: float, targets: np.ndarray) -> Plan:
        self.tick += 1
        h, knots = self.settings.step, self.settings.knots
        velocity = (targets[1] - targets[0]) / h
        feedforward = (targets[2] - 2.0 * targets[1] + targets[0]) / h**2
        torque = 400.0 * (targets[0] - sample.position) + 40.0 * (velocity - sample.velocity) + feedforward
        if self._spoil(self.tick):
            torque = torque * math.nan
        return Plan(
            epoch=self.epoch, tick=self.tick, start=start, step=h, position=np.tile(sample.position, (knots, 1)),
            velocity=np.tile(sample.velocity, (knots, 1)), torque=np.tile(torque, (knots - 1, 1)), tool=targets, wrench=np.zeros(6), row=0,
            status=SolveStatus.SOLVED, merit=-1.0, kkt_residual=1e-4, step_size=1.0, regularisation=0.0, solve_time=1e-3,
        )  # fmt: skip

    def sent(self, time: float, torque: np.ndarray) -> None:
        self.sends.append((time, torque.copy()))


def loop(planner: Follower, reference: Reference, push: Push | None = None) -> Lockstep:
    """Put the fake arm and controller behind the real guard."""
    arm, settings = sliders(), GuardSettings()
    guard = Guard(arm, settings, gravity=lambda q: np.zeros(3), mass_matrix=lambda q: np.eye(3))
    return Lockstep(arm, Sliders(), planner, guard, reference, push or Push(), prestream=settings.prestream)


def run(push: Push | None = None, spoil: Callable[[int], bool] = lambda tick: False) -> tuple[Recording, Follower]:
    """Half a second of approach and one loop of the figure."""
    planner = Follower(spoil)
    return loop(planner, Approach(START, FIGURE, 0.5), push).run(1.5, approach=0.5), planner


def test_the_tool_follows_the_figure() -> None:
    """The loop closes: a controller that halves its error in 50 ms keeps within 5 mm, without any violation."""
    recording, _ = run()
    numbers = metrics(recording)
    assert numbers["ticks"] == 150
    assert numbers["tracking_max_mm"] < 5.0
    assert (numbers["limit_violations"], numbers["overruns"]) == (0, 0)
    assert set(recording.solves.mode) == {"tracking"}


def test_two_runs_give_identical_commands() -> None:
    """Lockstep has no clock but its own: two runs agree in every bit."""
    (first, _), (second, _) = run(), run()
    np.testing.assert_array_equal(first.motion.torque, second.motion.torque)
    np.testing.assert_array_equal(first.motion.position, second.motion.position)


def test_the_controller_learns_what_was_really_sent() -> None:
    """Every applied torque is reported back, once a tick, with the time it took effect."""
    recording, planner = run()
    np.testing.assert_allclose([time for time, _ in planner.sends], recording.motion.time, atol=1e-12)
    np.testing.assert_array_equal([torque for _, torque in planner.sends], recording.motion.torque)


def test_a_push_acts_from_its_start_on() -> None:
    """The runs with and without a push agree until it begins and differ afterwards."""
    (free, _), (pushed, _) = run(), run(Push((0.0, 0.0, -5.0), start=0.8))
    before = free.motion.time <= 0.8
    np.testing.assert_array_equal(free.motion.position[before], pushed.motion.position[before])
    assert tracking_error(pushed.motion)[-1] > 5.0 * tracking_error(free.motion)[-1]


def test_a_plan_that_is_not_finite_never_reaches_the_arm() -> None:
    """Two spoilt solves in the middle of the run: every torque stays finite and the guard says that it left tracking."""
    recording, _ = run(spoil=lambda tick: tick in (80, 81))
    assert np.isfinite(recording.motion.torque).all()
    assert set(recording.solves.mode) > {"tracking"}
    assert metrics(recording)["limit_violations"] == 0


def test_a_target_that_is_not_finite_stops_the_run() -> None:
    """A reference that turns to NaN is an error that names the time, and nothing is sent for it."""

    class Broken:
        """NaN from 0.3 s on."""

        def position(self, time: np.ndarray) -> np.ndarray:
            return np.where(time[:, None] < 0.3, START, math.nan)

        def velocity(self, time: np.ndarray) -> np.ndarray:
            return np.zeros((len(time), 3))

    planner = Follower()
    with pytest.raises(TargetError, match=r"target at 0\.270 s is not finite"):
        loop(planner, Broken()).run(1.0, approach=0.0)
    assert len(planner.sends) == 27


def test_progress_is_told_every_tick() -> None:
    """The callback gets the time and the tracking error in metres."""
    told: list[tuple[float, float]] = []
    loop(Follower(), Approach(START, FIGURE, 0.5)).run(0.1, approach=0.0, tell=lambda *values: told.append(values))
    assert [time for time, _ in told] == pytest.approx([0.01 * tick for tick in range(10)])
    assert all(0.0 <= error < 0.01 for _, error in told)
