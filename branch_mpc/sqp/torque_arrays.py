"""The arrays of the torque form's solver, in one place."""

from typing import Any

import warp as wp

from branch_mpc.optimal_control.torque_kernels import CANDIDATES


class TorqueArrays:
    """Device arrays of M problems of N knots and n joints, nx = 2n; shapes are in the allocation.

    x0, wrenches, targets, weights and nominal state the problem, X and U are the iterate, dX and dU its step; Q .. c are the KKT
    blocks (optimal_control.torque_kernels), S, P, gamma and dual the costate system (torque_schur); per problem: merit, defect, kkt,
    step_size, rho, mu and tolerance, and the flags active, failed (in this iteration) and pivot_failed (in the last one).
    """

    device: wp.Device
    _real: Any

    def _allocate(self, M: int, N: int, K: int, n: int, step: float) -> None:
        """Allocate every array of M problems, N knots, K iterations, n joints; nothing is allocated later."""
        nx, real = 2 * n, self._real

        def zeros(*shape: int, dtype: type = real) -> wp.array:
            return wp.zeros(shape, dtype=dtype, device=self.device)

        self.x0, self.wrenches, self.targets = zeros(M, nx), zeros(M, 6), zeros(N, 3)
        self.X, self.U, self.dX, self.dU = zeros(M, N, nx), zeros(M, N - 1, n), zeros(M, N, nx), zeros(M, N - 1, n)
        self.Q, self.Qi, self.Qv, self.R = zeros(M, N, n, n), zeros(M, N, n, n), zeros(M, N, n), zeros(M, N - 1, n)
        self.gx, self.gu, self.A, self.B = zeros(M, N, nx), zeros(M, N - 1, n), zeros(M, N - 1, nx, nx), zeros(M, N - 1, nx, n)
        self.c, self.costs, self.defects = zeros(M, N, nx), zeros(M, N), zeros(M, N)
        self.S, self.P, self.gamma, self.dual = zeros(M, N, 3 * nx, nx), zeros(M, N, 3 * nx, nx), zeros(M, N, nx), zeros(M, N, nx)
        self._work = zeros(M * 2 * N * nx)
        self.candidate_costs, self.candidate_defects = zeros(M, CANDIDATES, N), zeros(M, CANDIDATES, N)
        self.merit, self.initial_merit, self.defect, self.kkt, self.step_size = (zeros(M) for _ in range(5))
        self.rho, self.first_rho, self.mu, self.tolerance, self._factor = (zeros(M) for _ in range(5))
        self.steps, self.merits, self.linear_iterations = zeros(K, M), zeros(K, M), zeros(K, M, dtype=wp.int32)
        self.active, self.failed, self.pivot_failed = (zeros(M, dtype=wp.int32) for _ in range(3))
        self.weights, self.nominal = zeros(8), zeros(n)
        self._step_array = wp.array([step], dtype=real, device=self.device)
