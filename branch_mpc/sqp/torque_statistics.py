"""What a solve of the torque form leaves behind: trajectories and statistics, and the times of its stages."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import warp as wp

STAGES = ("kkt", "schur", "linsys", "merit", "line_search")
"""Stages of an SQP iteration in order: KKT blocks, Schur complement with preconditioner, linear solve with the recovery of the step
(and the KKT residual in the last iteration), merit of the candidates, line search."""


@dataclass(frozen=True)
class TorqueStatistics:
    """Statistics of a batch of M solves of K SQP iterations."""

    linear_solver: str
    """'pcg', 'direct' or 'direct_first'."""
    linear_iterations: np.ndarray
    """Shape (K, M): PCG iterations, or 1 after a direct solve and 2 after its failure; 0: nothing to do, or stopped before."""
    step_sizes: np.ndarray
    """Accepted step lengths, 0 when refused or stopped before, shape (K, M)."""
    merits: np.ndarray
    """Merit after each SQP iteration, 0 where the problem had stopped before, shape (K, M)."""
    initial_merit: np.ndarray
    """Merit of the seed, shape (M,)."""
    final_merit: np.ndarray
    """Merit of the result, shape (M,)."""
    defect: np.ndarray
    """L1 norm of the defects of the result, shape (M,)."""
    kkt_residual: np.ndarray
    """Largest |dJ/du| and |c| at the last linearisation, shape (M,)."""
    rho: np.ndarray
    """Regularisation after the solve, shape (M,)."""
    pivot_failed: np.ndarray
    """True where the last linear solve had no step to give, shape (M,)."""
    converged: np.ndarray
    """True where a linear solve found nothing to do, shape (M,)."""
    stage_times: np.ndarray = field(default_factory=lambda: np.zeros((0, len(STAGES))))
    """Times of the stages [s], shape (K, 5), only of `timed` solves."""

    @property
    def merit_history(self) -> np.ndarray:
        """Merit of the seed and after each iteration, shape (K + 1, M); a problem that stopped keeps its last one."""
        rows = [self.initial_merit]
        for merit, iterations in zip(self.merits, self.linear_iterations, strict=True):
            rows.append(np.where(iterations > 0, merit, rows[-1]))
        return np.array(rows)

    def summary(self) -> str:
        """One line for people."""
        lowest, most = int(self.linear_iterations[0].min()), int(self.linear_iterations[0].max())
        count = f"{lowest}" if lowest == most else f"{lowest} to {most}"
        return (
            f"{self.linear_solver}: merit {self.initial_merit[0]:.4f} to {self.final_merit[0]:.4f}, defect {self.defect[0]:.3g}, "
            f"KKT residual {self.kkt_residual[0]:.2g}, {count} linear iterations in the first SQP iteration, "
            f"step sizes {', '.join(f'{a:g}' for a in self.step_sizes[:, 0])}"
        )


@dataclass(frozen=True)
class TorqueResult:
    """Host copies of a batch of M solves."""

    position: np.ndarray
    """Joint positions, shape (M, N, n) [rad | m]."""
    velocity: np.ndarray
    """Joint velocities, shape (M, N, n) [rad/s | m/s]."""
    torque: np.ndarray
    """Joint torques, shape (M, N-1, n) [Nm | N]."""
    statistics: TorqueStatistics
    """How it went."""

    @property
    def merit(self) -> np.ndarray:
        """Merit of the result, shape (M,)."""
        return self.statistics.final_merit


class StageClock:
    """Times launches by CUDA events, or by the host clock on the CPU, where launches run to their end."""

    def __init__(self, device: wp.Device) -> None:
        self._device = device
        self._marks: list[wp.Event | float] = []

    def mark(self) -> None:
        """End the present stage and begin the next one."""
        if self._device.is_cuda:
            self._marks.append(wp.record_event(wp.Event(device=self._device, enable_timing=True)))
        else:
            self._marks.append(time.perf_counter())

    def times(self) -> np.ndarray:
        """Return the lengths of the stages [s], shape (marks - 1,); waits for the device."""
        if self._device.is_cuda:
            wp.synchronize_device(self._device)
            pairs = zip(self._marks[:-1], self._marks[1:], strict=True)
            return np.array([1e-3 * wp.get_event_elapsed_time(a, b) for a, b in pairs])
        return np.diff(self._marks)


Launch = Callable[[], None]
