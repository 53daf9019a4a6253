"""SQP on the CPU with Pinocchio terms and OSQP: what branch_mpc is measured against."""

import time
from dataclasses import dataclass

import numpy as np

from branch_mpc.baseline.quadratic_program import OsqpSettings, TrackingQp
from branch_mpc.baseline.terms import PinocchioTerms, TrajectoryTerms
from branch_mpc.errors import TargetError
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.oracle.tracking import StageTerms, TrackingProblem
from branch_mpc.oracle.tracking_sqp import kkt_residual
from branch_mpc.robot.articulation import Articulation

CANDIDATES = tuple(0.5**i for i in range(8))
"""Step lengths of the line search."""


@dataclass(frozen=True)
class OsqpTimes:
    """Where the time of a solve went [s]."""

    total: float
    """All of it: first terms to accepted trajectory."""
    linearisation: float
    """Costs, gradients and Hessians: Pinocchio called from Python."""
    osqp: float
    """OSQP's own clock: update with factorisation, and ADMM iterations. No Python."""
    osqp_wall: float
    """The same seen from Python."""
    line_search: float
    """Costs of the candidates: Pinocchio called from Python."""


@dataclass(frozen=True)
class OsqpResult:
    """Solution of one problem."""

    states: np.ndarray
    """Knots [q; v], shape (N, 2n)."""
    accelerations: np.ndarray
    """Shape (N-1, n)."""
    torque: np.ndarray
    """Torque of the first interval, shape (n,) [Nm | N]."""
    cost: float
    """Total cost, the merit (the dynamics hold exactly)."""
    kkt_residual: float
    """Largest |dV/da| at the last linearisation, the device's measure (branch_mpc.oracle.tracking_sqp.kkt_residual)."""
    step_size: float
    """Last accepted step length, 0 when every candidate was refused."""
    iterations: int
    """OSQP (ADMM) iterations over all SQP iterations."""
    solved: bool
    """OSQP reached its tolerances every time."""
    times: OsqpTimes
    """Split of the time; the KKT residual and the torque are computed outside it."""


class OsqpController:
    """Warm-started SQP whose subproblem is solved by OSQP, on exactly the problem that branch_mpc solves.

    Variables (x, a), the constant-acceleration integrator, the cost with relaxed barriers, the full-rank Gauss-Newton
    Hessian, the step lengths (1 first, then halvings to 2^-7; the first that lowers the cost), the warm start and the
    number of iterations are those of the device. GATO's published CPU baseline differed from GATO in ways that cost it
    accuracy: explicit Euler instead of the constant-acceleration step, a rank-one tool Hessian, a gradient that belongs
    to a shifted quadratic, a merit with un-halved squares and 2-norm defects, no joint limits, OSQP at its default
    tolerance of 1e-3, and more threads than cores. None of that is so here: OSQP keeps one workspace per batch row, its
    tolerance is set so that its step is the exact one to the digits that matter, and its own run time is reported apart
    from the time that Python spends on the terms. A batch of M problems is solved one after the other on one core.

    A solve does not depend on earlier ones; the OSQP workspaces are kept for their factorisation pattern.

    Args:
        articulation: The arm.
        settings: Horizon, step, iterations and weights; device, batch and policy are not used.
        nominal: Posture of the posture weight, shape (n,); zeros when None.
        solver: Settings of OSQP.
    """

    def __init__(
        self, articulation: Articulation, settings: MpcSettings, nominal: np.ndarray | None = None, solver: OsqpSettings | None = None
    ) -> None:
        self.articulation, self.settings = articulation, settings
        self.solver_settings = OsqpSettings() if solver is None else solver
        self.terms = PinocchioTerms(articulation, settings.weights, nominal)
        self._programs: list[TrackingQp] = []

    def solve(
        self, x0: np.ndarray, targets: np.ndarray, wrench: np.ndarray, warm: np.ndarray, row: int = 0, *, residual: bool = True
    ) -> OsqpResult:
        """Solve one problem from a warm start.

        Args:
            x0: Measured state [q; v], shape (2n,) [rad | m, rad/s | m/s].
            targets: Tool targets, base frame, shape (N, 3) [m].
            wrench: World wrench (force, moment) on the tool, shape (6,) [N, Nm].
            warm: Accelerations to start from, shape (N-1, n).
            row: Batch row whose OSQP workspace is used.
            residual: Compute the KKT residual (about as slow as a solve, outside the times); NaN otherwise.

        Raises:
            TargetError: Targets of the wrong length or not finite.
        """
        targets, wrench = self._checked(targets), np.asarray(wrench, dtype=float)
        program = self._program(row)
        begin, clock = time.perf_counter(), {"linearisation": 0.0, "osqp": 0.0, "osqp_wall": 0.0, "line_search": 0.0}
        a = np.array(warm, dtype=float)
        states = self.rollout(x0, a)
        iterations, solved, step_size = 0, True, 0.0
        for _ in range(self.settings.iterations):
            start = time.perf_counter()
            terms = self.terms.quadratic(states, a, targets, wrench)
            middle = time.perf_counter()
            step = program.solve(terms)
            end = time.perf_counter()
            states, a, cost, step_size = self._line_search(x0, states, a, step.accelerations, terms.cost, targets, wrench)
            clock["linearisation"] += middle - start
            clock["osqp"] += step.run_time
            clock["osqp_wall"] += step.wall_time
            clock["line_search"] += time.perf_counter() - end
            iterations, solved = iterations + step.iterations, solved and step.solved
        times = OsqpTimes(total=time.perf_counter() - begin, **clock)
        torque = self.terms.torque(states[0], a[0], wrench)
        slope = self.kkt_residual(terms, targets) if residual else float("nan")
        return OsqpResult(states, a, torque, cost, slope, step_size, iterations, solved, times)

    def solve_batch(
        self, x0: np.ndarray, targets: np.ndarray, wrenches: np.ndarray, warm: np.ndarray, *, residual: bool = True
    ) -> list[OsqpResult]:
        """Solve M problems one after the other.

        Args:
            x0: States [q; v], shape (M, 2n).
            targets: Tool targets of every problem, shape (N, 3) [m].
            wrenches: World wrenches on the tool, shape (M, 6) [N, Nm].
            warm: Accelerations that all start from, shape (N-1, n).
            residual: Compute the KKT residuals.
        """
        rows = enumerate(zip(x0, wrenches, strict=True))
        return [self.solve(start, targets, wrench, warm, row, residual=residual) for row, (start, wrench) in rows]

    def rollout(self, x0: np.ndarray, accelerations: np.ndarray) -> np.ndarray:
        """Return the knots [q; v], shape (N, 2n), of q+ = q + h v + h^2/2 a, v+ = v + h a from x0, shape (2n,)."""
        n, h = self.articulation.dof, self.settings.step
        velocity = x0[n:] + h * np.vstack([np.zeros(n), np.cumsum(accelerations, axis=0)])
        position = x0[:n] + np.vstack([np.zeros(n), np.cumsum(h * velocity[:-1] + 0.5 * h * h * accelerations, axis=0)])
        return np.hstack([position, velocity])

    def _line_search(
        self, x0: np.ndarray, states: np.ndarray, a: np.ndarray, da: np.ndarray, cost: float, targets: np.ndarray, wrench: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        for alpha in CANDIDATES:
            candidate = self.rollout(x0, a + alpha * da)
            value = self.terms.cost(candidate, a + alpha * da, targets, wrench)
            if value < cost:  # false for NaN too: such a step is refused
                return candidate, a + alpha * da, value, alpha
        return states, a, cost, 0.0

    def kkt_residual(self, terms: TrajectoryTerms, targets: np.ndarray) -> float:
        """Return the largest |dV/da| of the local quadratic, as the device reports it."""
        problem = TrackingProblem(self.articulation, targets, self.settings.weights, self.settings.step)
        return kkt_residual(problem, [StageTerms(0.0, g, h) for g, h in zip(terms.gradient, terms.hessian, strict=True)])

    def _program(self, row: int) -> TrackingQp:
        while len(self._programs) <= row:
            self._programs.append(TrackingQp(self.articulation.dof, self.settings.knots, self.settings.step, self.solver_settings))
        return self._programs[row]

    def _checked(self, targets: np.ndarray) -> np.ndarray:
        targets = np.asarray(targets, dtype=float)
        if targets.shape != (self.settings.knots, 3) or not np.isfinite(targets).all():
            raise TargetError(
                f"targets have shape {targets.shape}" + ("" if np.isfinite(targets).all() else " and are not finite"),
                f"give {self.settings.knots} finite tool positions, one a knot",
            )
        return targets
