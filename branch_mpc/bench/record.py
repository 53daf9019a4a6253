"""A recorded closed-loop run, and the numbers that are made from it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from branch_mpc.robot.articulation import Articulation

ROUNDING = 1e-6
"""Relative excess over a limit that counts as rounding (commands may travel as float32), not as a violation."""


@dataclass(frozen=True)
class Motion:
    """What the arm did, sampled at `time`."""

    time: np.ndarray
    """Time since the start of the reference [s], shape (T,)."""
    position: np.ndarray
    """Joint positions [rad | m], shape (T, n)."""
    velocity: np.ndarray
    """Joint velocities [rad/s | m/s], shape (T, n)."""
    torque: np.ndarray
    """Joint torques in force from then on [Nm | N], shape (T, n)."""
    tool: np.ndarray
    """Tool positions, base frame [m], shape (T, 3)."""
    target: np.ndarray
    """Where the reference was at the same times [m], shape (T, 3)."""


@dataclass(frozen=True)
class Solves:
    """What the controller did, one entry a tick."""

    time: np.ndarray
    """Time of the tick since the start of the reference [s], shape (K,)."""
    solve_time: np.ndarray
    """Host time, state in to plan out [s], shape (K,)."""
    merit: np.ndarray
    """Objective after the tick, shape (K,)."""
    kkt_residual: np.ndarray
    """Largest |dV/da| at the linearisation, shape (K,)."""
    step_size: np.ndarray
    """Accepted step length, 0 when refused, shape (K,)."""
    row: np.ndarray
    """Selected hypothesis, shape (K,)."""
    wrench: np.ndarray
    """Wrench that the selected plan assumes [N, Nm], shape (K, 6)."""
    status: tuple[str, ...]
    """Outcome of the solve, per tick."""
    mode: tuple[str, ...]
    """Mode of the guard, per tick."""


@dataclass(frozen=True)
class Recording:
    """A run: motion, solves, and the facts that state what was measured."""

    articulation: Articulation
    """The robot, for its limits."""
    motion: Motion
    """What the arm did."""
    solves: Solves
    """What the controller did."""
    approach: float
    """Length of the approach, which the tracking error leaves out [s]."""
    period: float
    """Control period [s]; a solve that takes longer is an overrun."""
    overruns: int | None = None
    """Overruns counted by the node, None to count the solves longer than the period."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Device, policy, settings, versions: copied into the metrics."""


def tracking_error(motion: Motion) -> np.ndarray:
    """Return the distance between tool and target at the same time [m], shape (T,)."""
    return np.linalg.norm(motion.tool - motion.target, axis=1)


def metrics(recording: Recording) -> dict[str, Any]:
    """Return the numbers of a run by name; units are part of the names, None where nothing was measured."""
    motion, solves = recording.motion, recording.solves
    error = 1e3 * tracking_error(motion)[motion.time > recording.approach]
    milliseconds = 1e3 * solves.solve_time
    violations = limit_violations(motion, recording.articulation)
    late = int((solves.solve_time > recording.period).sum()) if recording.overruns is None else recording.overruns
    return {
        "robot": recording.articulation.name,
        "tracking_rms_mm": _number(np.sqrt(np.mean(error**2)) if error.size else None),
        "tracking_max_mm": _number(error.max() if error.size else None),
        "ticks": len(solves.time),
        "overruns": late,
        "solve_ms_p50": _percentile(milliseconds, 50),
        "solve_ms_p95": _percentile(milliseconds, 95),
        "solve_ms_p99": _percentile(milliseconds, 99),
        "solve_ms_max": _percentile(milliseconds, 100),
        "merit": _number(solves.merit[-1] if len(solves.merit) else None),
        "kkt_residual": _percentile(solves.kkt_residual, 50),
        "kkt_residual_last": _number(solves.kkt_residual[-1] if len(solves.kkt_residual) else None),
        "limit_violations": sum(violations.values()),
        **{f"limit_violations_{name}": count for name, count in violations.items()},
        "torque_use": _number(torque_use(motion, recording.articulation)),
        "solve_status": dict(Counter(solves.status)),
        "guard_mode": dict(Counter(solves.mode)),
        "motion_s": _number(motion.time[-1] - motion.time[0] if len(motion.time) else None),
        **recording.facts,
    }


def limit_violations(motion: Motion, articulation: Articulation) -> dict[str, int]:
    """Return the number of (sample, joint) pairs out of limits, or not finite, for position, velocity and torque."""
    span = np.where(np.isfinite(articulation.position_upper), articulation.position_upper - articulation.position_lower, 0.0)
    slack = ROUNDING * span
    inside = (motion.position >= articulation.position_lower - slack) & (motion.position <= articulation.position_upper + slack)
    slow = np.abs(motion.velocity) <= articulation.velocity_limit * (1.0 + ROUNDING)
    weak = np.abs(motion.torque) <= articulation.effort_limit * (1.0 + ROUNDING)
    return {"position": int((~inside).sum()), "velocity": int((~slow).sum()), "torque": int((~weak).sum())}


def torque_use(motion: Motion, articulation: Articulation) -> float | None:
    """Return the largest torque as a fraction of its joint's limit, None for an empty run."""
    return float(np.max(np.abs(motion.torque) / articulation.effort_limit)) if motion.torque.size else None


def _percentile(values: np.ndarray, percent: float) -> float | None:
    """Return the smallest measured value with at least `percent` of the values at or below it."""
    return _number(np.percentile(values, percent, method="inverted_cdf") if len(values) else None)


def _number(value: float | None) -> float | None:
    """Return a value for JSON: None for what is missing or not finite."""
    return None if value is None or not np.isfinite(value) else float(value)
