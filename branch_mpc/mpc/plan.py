"""What goes into and comes out of a control tick."""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np


@dataclass(frozen=True)
class JointSample:
    """A measured joint state."""

    time: float
    """When it was measured, controller clock [s]."""
    position: np.ndarray
    """Joint positions in articulation order [rad | m], shape (n,)."""
    velocity: np.ndarray
    """Joint velocities [rad/s | m/s], shape (n,)."""


class SolveStatus(Enum):
    """Outcome of a tick's solve; nothing raises in the loop."""

    SOLVED = "solved"
    """Every SQP iteration of the selected row moved (or was converged)."""
    STALLED = "stalled"
    """No step was accepted: the plan is the shifted warm start."""
    PIVOT_FAILED = "pivot failed"
    """The factorisation failed at every regularisation tried."""
    NOT_FINITE = "not finite"
    """The plan holds NaN or infinity and must not be used."""


@dataclass(frozen=True)
class Plan:
    """The selected trajectory of a tick. Knot k is at `start + k * step`."""

    epoch: int
    """Raised by every reset; a plan of an older epoch is not used."""
    tick: int
    """Number of the tick that made it."""
    start: float
    """When torque[0] takes effect, controller clock [s]."""
    step: float
    """Time between knots [s]."""
    position: np.ndarray
    """Joint positions, shape (N, n) [rad | m]."""
    velocity: np.ndarray
    """Joint velocities, shape (N, n) [rad/s | m/s]."""
    torque: np.ndarray
    """Joint torques, held over each interval, shape (N-1, n) [Nm | N]."""
    tool: np.ndarray
    """Tool positions, base frame, shape (N, 3) [m]."""
    wrench: np.ndarray
    """World wrench (force, moment) at the tool that this plan assumes, shape (6,) [N, Nm]."""
    row: int
    """Selected row of the batch."""
    status: SolveStatus
    """Outcome of the solve."""
    merit: float
    """Objective of the selected row after the tick."""
    kkt_residual: float
    """Largest |dV/da| at the last linearisation of the selected row."""
    step_size: float
    """Last accepted step length, 0 when refused."""
    regularisation: float
    """Damping in force after the tick."""
    solve_time: float
    """Host time of the tick, state in to plan out [s]."""
    iterations: int = 1
    """SQP iterations made."""
    converged: bool = False
    """KKT residual under its tolerance."""
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Scaled one-step prediction error of each row, shape (M,)."""
