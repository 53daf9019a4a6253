"""Ticks of a closed loop, recorded so that several solvers can be given exactly the same problems."""

from dataclasses import dataclass

import numpy as np

from branch_mpc.bench.closed_loop import Lockstep, Planner, Plant
from branch_mpc.bench.record import Recording
from branch_mpc.mpc.plan import JointSample, Plan
from branch_mpc.optimal_control.reference import Reference
from branch_mpc.robot.articulation import Articulation


@dataclass(frozen=True)
class Tick:
    """What a solver is given at a tick."""

    x0: np.ndarray
    """State [q; v], shape (2n,) [rad | m, rad/s | m/s]."""
    targets: np.ndarray
    """Tool targets of the knots, base frame, shape (N, 3) [m]."""
    warm: np.ndarray
    """Accelerations of the previous plan shifted by the elapsed time, shape (N-1, n)."""


class TickRecorder:
    """A planner that hands every call on to another one and keeps what a solver would be given.

    The warm start is read from the previous plan's velocities, so any planner will do. State: the ticks and the previous
    plan; `reset` forgets the plan only.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner, self.settings = planner, planner.settings
        self._plan: Plan | None = None
        self.ticks: list[Tick] = []

    def reset(self, sample: JointSample) -> None:
        """Start anew from a state at rest."""
        self._plan = None
        self._planner.reset(sample)

    def step(self, sample: JointSample, start: float, targets: np.ndarray) -> Plan:
        """Record the tick and let the planner solve it; in lockstep the measured state is where the plan starts."""
        warm = self._warm(len(sample.position), start)
        self.ticks.append(Tick(np.r_[sample.position, sample.velocity], np.array(targets, dtype=float), warm))
        self._plan = self._planner.step(sample, start, targets)
        return self._plan

    def sent(self, time: float, torque: np.ndarray) -> None:
        """Hand on what was sent."""
        self._planner.sent(time, torque)

    def _warm(self, n: int, start: float) -> np.ndarray:
        if self._plan is None:
            return np.zeros((self.settings.knots - 1, n))
        accelerations = np.diff(self._plan.velocity, axis=0) / self._plan.step
        last, shift = len(accelerations) - 1, (start - self._plan.start) / self._plan.step
        early = np.minimum(np.arange(last + 1) + int(np.floor(shift + 1e-6)), last)
        part = max(shift - np.floor(shift + 1e-6), 0.0)
        return (1.0 - part) * accelerations[early] + part * accelerations[np.minimum(early + 1, last)]


@dataclass(frozen=True)
class OpenCommand:
    """A torque that leaves as the plan has it."""

    publish: bool
    """There is a finite torque."""
    torque: np.ndarray
    """Shape (n,) [Nm | N]."""
    mode: str = "open"
    """Word for the record."""


class OpenGate:
    """Stands where the guard stands and lets every finite plan through: a comparison of solvers, not of guards."""

    def __init__(self, dof: int) -> None:
        self.cold = True
        self._torque = np.zeros(dof)
        self._finite = False

    def activate(self, now: float) -> None:
        """Take charge."""

    def observe(self, sample: JointSample, now: float) -> None:
        """Take a measurement."""

    def plan(self, plan: Plan, now: float) -> None:
        """Take a plan; the first one ends the cold start."""
        self.cold, self._finite = False, bool(np.isfinite(plan.torque[0]).all())
        if self._finite:
            self._torque = np.array(plan.torque[0], dtype=float)

    def command(self, now: float) -> OpenCommand:
        """Return the first torque of the newest plan."""
        return OpenCommand(self._finite, self._torque)


def closed_loop(
    articulation: Articulation, plant: Plant, planner: Planner, reference: Reference, *, duration: float, approach: float
) -> tuple[Recording, list[Tick]]:
    """Run a planner in lockstep without a guard.

    Args:
        articulation: The arm.
        plant: The arm at its start, at rest.
        planner: What computes the torques.
        reference: Where the tool should be.
        duration: Length of the run [s].
        approach: Length of the approach, which the tracking error leaves out [s].

    Returns:
        The run, and its ticks.
    """
    recorder = TickRecorder(planner)
    recording = Lockstep(articulation, plant, recorder, OpenGate(articulation.dof), reference).run(duration, approach)
    return recording, recorder.ticks


def spread(ticks: list[Tick], count: int) -> list[Tick]:
    """Return `count` of the ticks, evenly spread, the first and the last among them; all when there are fewer."""
    if count >= len(ticks):
        return ticks
    return [ticks[int(i)] for i in np.round(np.linspace(0, len(ticks) - 1, count))]
