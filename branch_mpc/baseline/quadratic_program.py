"""The quadratic subproblem of one SQP iteration as a persistent OSQP workspace."""

import time
from dataclasses import dataclass

import numpy as np
import osqp
from scipy import sparse

from branch_mpc.baseline.terms import TrajectoryTerms


@dataclass(frozen=True)
class OsqpSettings:
    """Settings of OSQP; the comparison states them.

    All rows are equalities, so the first ADMM iteration with a large rho and a small sigma nearly solves the KKT system;
    these values need the fewest iterations for a merit that agrees with the exact step (see test/baseline). OSQP's own
    equilibration is off because the unknowns are already scaled to (q, h v, h^2 a), and the step size is not adapted
    because each adaptation costs a factorisation. On the figure-8 at 32 knots this is four times faster than OSQP's
    default penalty, tolerance and equilibration (0.18 ms and 2 iterations against 0.80 ms and 25), at the same merit to eight digits.
    """

    rho: float = 1e3
    sigma: float = 1e-9
    alpha: float = 1.0
    eps_abs: float = 1e-6
    eps_rel: float = 1e-6
    max_iter: int = 200
    check_termination: int = 1
    scaling: int = 0


@dataclass(frozen=True)
class QpSolution:
    """Outcome of one quadratic program."""

    accelerations: np.ndarray
    """Step in the accelerations, shape (N-1, n)."""
    iterations: int
    """ADMM iterations."""
    run_time: float
    """OSQP's own measure of its update (with factorisation) and solve [s]; no Python in it."""
    wall_time: float
    """The same with OSQP's Python binding [s]."""
    solved: bool
    """OSQP reached its tolerances."""


class TrackingQp:
    """min sum g_k' z_k + z_k' H_k z_k / 2 subject to dx_{k+1} = A dx_k + B da_k, dx_0 = 0, for one problem.

    The unknowns, in order, are [da_0, dx_1, da_1, .., dx_{N-1}], scaled to (q, h v, h^2 a); dx_0 = 0 is left out. The rows
    never change, so a tick updates the values of P and q only. OSQP starts every solve from zero: with these settings a warm
    start saves no iteration (both need two), and without one a solve does not depend on the one before.

    Args:
        joints: Number of joints n.
        knots: Number of knots N.
        step: Time between knots h [s].
        settings: Settings of OSQP.
    """

    def __init__(self, joints: int, knots: int, step: float, settings: OsqpSettings) -> None:
        self._joints, self._knots = joints, knots
        self._width, self._size = 3 * joints, 3 * joints * (knots - 1)
        self._scale = np.repeat([1.0, 1.0 / step, 1.0 / step**2], joints)
        rows, columns, self._gather = _upper_pattern(joints, knots)
        order = np.lexsort((rows, columns))
        self._gather = self._gather[order]
        pattern = sparse.csc_matrix((np.ones(len(order)), (rows[order], columns[order])), shape=(self._size, self._size))
        pattern.setdiag(2.0)
        dynamics = _dynamics_rows(joints, knots)
        zeros = np.zeros(dynamics.shape[0])
        start = time.perf_counter()
        self._solver = osqp.OSQP(algebra="builtin")
        values = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
        values |= {"verbose": False, "polishing": False, "adaptive_rho": False, "warm_starting": False}
        self._solver.setup(pattern, np.zeros(self._size), dynamics, zeros, zeros, **values)
        self._solver.solve(raise_error=False)  # takes the set-up's own update out of the first run time
        self.setup_time = time.perf_counter() - start

    def solve(self, terms: TrajectoryTerms) -> QpSolution:
        """Return the step for the terms of the current trajectory."""
        scaled = terms.hessian * (self._scale[:, None] * self._scale)
        gradient = (terms.gradient * self._scale).reshape(-1)[2 * self._joints : 2 * self._joints + self._size]
        values = scaled.reshape(-1)[self._gather]
        start = time.perf_counter()
        self._solver.update(Px=values, q=gradient)
        result = self._solver.solve(raise_error=False)
        wall = time.perf_counter() - start
        steps = result.x.reshape(self._knots - 1, self._width)[:, : self._joints] * self._scale[-1]
        run = result.info.update_time + result.info.solve_time
        return QpSolution(steps, result.info.iter, run, wall, result.info.status_val == 1)


def _upper_pattern(joints: int, knots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows and columns of the upper triangle of P and where each entry lies in the flat Hessians (N, 3n, 3n)."""
    width, rows, columns, gather = 3 * joints, [], [], []
    for k in range(knots):
        # Of knot 0 only the acceleration is free; the last knot has none.
        first, last = (2 * joints if k == 0 else 0), (2 * joints if k == knots - 1 else width)
        for column in range(first, last):
            for row in range(first, column + 1):
                rows.append(k * width + row - 2 * joints)
                columns.append(k * width + column - 2 * joints)
                gather.append((k * width + row) * width + column)
    return np.array(rows), np.array(columns), np.array(gather)


def _dynamics_rows(joints: int, knots: int) -> sparse.csc_matrix:
    """Return the rows dx_{k+1} - A dx_k - B da_k in the scaled unknowns, where A and B hold no step: q+ = q + v + a/2, v+ = v + a."""
    eye = np.eye(joints)
    step = np.block([[eye, eye, 0.5 * eye], [0.0 * eye, eye, eye]])
    rows = sparse.lil_matrix((2 * joints * (knots - 1), 3 * joints * (knots - 1)))
    for k in range(knots - 1):
        row, at = slice(2 * joints * k, 2 * joints * (k + 1)), 3 * joints * k - 2 * joints  # [dx_k, da_k] starts at column `at`
        skip = 2 * joints if k == 0 else 0
        rows[row, at + skip : at + 3 * joints] = -step[:, skip:]
        rows[row, at + 3 * joints : at + 5 * joints] = np.eye(2 * joints)
    return sparse.csc_matrix(rows)
