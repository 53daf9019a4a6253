"""The closed loop in lockstep: the plant waits for every command, so two runs give identical commands."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from branch_mpc.bench.record import Motion, Recording, Solves
from branch_mpc.errors import TargetError
from branch_mpc.mpc.plan import JointSample, Plan
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.reference import Reference, window
from branch_mpc.robot.articulation import Articulation


class Planner(Protocol):
    """The part of `branch_mpc.mpc.controller.Controller` that a loop uses."""

    settings: MpcSettings

    def reset(self, sample: JointSample) -> None:
        """Forget everything and hold the pose of `sample`."""

    def step(self, sample: JointSample, start: float, targets: np.ndarray) -> Plan:
        """Solve a tick whose command takes effect at `start` [s]; targets [m], shape (N, 3)."""

    def sent(self, time: float, torque: np.ndarray) -> None:
        """Take note of the torque [Nm | N], shape (n,), that takes effect at `time` [s]."""


class Gate(Protocol):
    """The part of `branch_mpc.guard.Guard` that a loop uses."""

    cold: bool

    def activate(self, now: float) -> None:
        """Take charge."""

    def observe(self, sample: JointSample, now: float) -> object:
        """Take a measurement."""

    def plan(self, plan: Plan, now: float) -> object:
        """Take a plan."""

    def command(self, now: float) -> Any:
        """Return what may leave: `.publish`, `.torque` [Nm | N], shape (n,), and `.mode`."""


class Plant(Protocol):
    """The part of `branch_mpc.plant.SimulatedArm` that a loop uses."""

    wrench: np.ndarray
    """World wrench on the tool (force, moment) [N, Nm], shape (6,)."""

    @property
    def position(self) -> np.ndarray:
        """Joint positions [rad | m], shape (n,)."""

    @property
    def velocity(self) -> np.ndarray:
        """Joint velocities [rad/s | m/s], shape (n,)."""

    def apply(self, torque: np.ndarray) -> None:
        """Hold a torque [Nm | N], shape (n,), from now on."""

    def advance(self, duration: float) -> None:
        """Move on by `duration` [s]."""

    def tool(self) -> np.ndarray:
        """Return the tool position [m], shape (3,)."""


@dataclass(frozen=True)
class Push:
    """A constant world force at the tool from `start` on, unknown to the controller."""

    force: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Force, base axes [N]."""
    start: float = 0.0
    """When it begins [s]."""

    def wrench(self, time: float) -> np.ndarray:
        """Return the world wrench at `time`, shape (6,) [N, Nm]."""
        return np.array([*self.force, 0.0, 0.0, 0.0]) if time >= self.start else np.zeros(6)


@dataclass
class Lockstep:
    """One arm, one controller, one guard, and a clock that only moves between commands."""

    articulation: Articulation
    plant: Plant
    planner: Planner
    guard: Gate
    reference: Reference
    push: Push = field(default_factory=Push)
    period: float = 0.01
    """Control period [s]."""
    prestream: float = 0.0
    """How long the guard watches the arm on its brakes before time 0 [s]."""
    _torque: np.ndarray = field(init=False, repr=False)
    _rows: list[tuple[Any, ...]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self._torque = np.zeros(self.articulation.dof)

    def run(self, duration: float, approach: float, tell: Callable[[float, float], None] | None = None) -> Recording:
        """Run for `duration` seconds.

        Args:
            duration: Length of the run, approach included [s].
            approach: Length of the approach, left out of the tracking error [s].
            tell: Called after every tick with the time [s] and the tracking error [m].

        Raises:
            TargetError: A target that is not finite; nothing was sent for it.
        """
        self._prestream()
        for tick in range(math.ceil(duration / self.period - 1e-9)):
            self._tick(tick * self.period)
            if tell is not None:
                tell(tick * self.period, float(np.linalg.norm(self._rows[-1][4] - self._rows[-1][5])))
        return self._recording(approach)

    def _prestream(self) -> None:
        """Show the guard an arm at rest on its brakes, before time 0, until it is ready to hold it."""
        ticks = math.ceil(self.prestream / self.period) + 2
        self.guard.activate(-ticks * self.period)
        for tick in range(ticks, 0, -1):
            self.guard.observe(self._sample(-tick * self.period), -tick * self.period)
            self.guard.command(-tick * self.period)

    def _sample(self, time: float) -> JointSample:
        return JointSample(time, self.plant.position.copy(), self.plant.velocity.copy())

    def _tick(self, time: float) -> None:
        settings, sample = self.planner.settings, self._sample(time)
        targets = window(self.reference, time, settings.knots, settings.step)
        if not np.isfinite(targets).all():
            raise TargetError(f"target at {time:.3f} s is not finite", "give a reference of finite positions [m]")
        self.guard.observe(sample, time)
        if self.guard.cold:
            self.planner.reset(sample)
        plan = self.planner.step(sample, time, targets)
        self.guard.plan(plan, time)
        command = self.guard.command(time)
        if command.publish:
            self._torque = np.array(command.torque, dtype=float)
        torque = self._torque
        tool = self.plant.tool().copy()
        self._rows.append((time, sample.position, sample.velocity, torque, tool, targets[0], plan, mode_name(command)))
        self.planner.sent(time, torque)
        self.plant.wrench = self.push.wrench(time)
        self.plant.apply(torque)
        self.plant.advance(self.period)

    def _recording(self, approach: float) -> Recording:
        n = self.articulation.dof
        time, position, velocity, torque, tool, target, plans, modes = zip(*self._rows, strict=True) if self._rows else ((),) * 8
        motion = Motion(
            time=np.array(time),
            position=np.array(position).reshape(-1, n),
            velocity=np.array(velocity).reshape(-1, n),
            torque=np.array(torque).reshape(-1, n),
            tool=np.array(tool).reshape(-1, 3),
            target=np.array(target).reshape(-1, 3),
        )
        return Recording(self.articulation, motion, solves_of(np.array(time), plans, modes), approach, self.period)


def solves_of(time: np.ndarray, plans: tuple[Plan, ...], modes: tuple[str, ...]) -> Solves:
    """Collect the plans of a run; `time` [s], shape (K,), is when each tick began."""
    return Solves(
        time=time,
        solve_time=np.array([plan.solve_time for plan in plans]),
        merit=np.array([plan.merit for plan in plans]),
        kkt_residual=np.array([plan.kkt_residual for plan in plans]),
        step_size=np.array([plan.step_size for plan in plans]),
        row=np.array([plan.row for plan in plans], dtype=int),
        wrench=np.array([plan.wrench for plan in plans]).reshape(-1, 6),
        status=tuple(plan.status.value for plan in plans),
        mode=modes,
    )


def mode_name(command: Any) -> str:
    """Return the guard's mode as a lower-case word."""
    mode = getattr(command, "mode", None)
    return "" if mode is None else str(getattr(mode, "name", mode)).lower()
