"""Direct solve of the costate system S l = gamma through Branch.

-S is positive definite and block tridiagonal, so l minimises sum 1/2 l_k' D_k l_k + l_k' E_k l_{k-1} + gamma_k' l_k with D, E the
blocks of -S. Branch solves it as a chain whose input of frame k is l_k and whose state is the costate before, x_{k+1} = l_k:
a relation with A = 0 and B = 1. The chronological plan on it is the block Cholesky sweep (block Thomas). Branch's cyclic plan for
chains of states does not apply: it joins segments, and a segment of this chain alone is not convex in its first state.
"""

from functools import cache
from typing import Any

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.errors import SettingError
from branch_mpc.optimal_control.native import native_kernel
from branch_mpc.sqp.torque_schur import sizes

ORDERS = ("chronological",)
SCHEDULES = {"serial": br.Schedule.serial, "cooperative": br.Schedule.cooperative, "fused": br.Schedule.fused}

LOAD = """
const int knots = S.shape[1];
if (active.data[problem] == 0) return;
const size_t at = (size_t)problem * knots + knot;
const real* const s = S.data + at * 3 * nx * nx;
real* const h = H.data + (((size_t)problem * (knots + 1) + knot) * 2 * nx + nx + i) * 2 * nx;
for (int j = 0; j < nx; ++j) {
    h[j] = knot > 0 ? -s[j * nx + i] : real(0);
    h[nx + j] = -s[(nx + j) * nx + i];
}
g.data[((size_t)problem * (knots + 1) + knot) * 2 * nx + nx + i] = gamma.data[at * nx + i];
"""

ACCEPT = """
const int knots = dual.shape[1];
if (active.data[problem] == 0) return;
// a failed pivot leaves the costates as they were
const bool good = pivot_failed.data[problem] == 0;
for (int i = 0; good && i < nx; ++i) {
    const size_t at = ((size_t)problem * knots + knot) * nx + i;
    dual.data[at] = solution.data[at];
}
if (knot == 0) {
    iterations.data[iteration * iterations.shape[1] + problem] = good ? 1 : 2;
    if (!good) failed.data[problem] = 1;
}
"""


@cache
def _load_kernel(n: int, dtype: str) -> Any:
    arrays = {"active": "int32 1", "S": f"{dtype} 4", "gamma": f"{dtype} 3", "H": f"{dtype} 4", "g": f"{dtype} 3"}
    return native_kernel("torque_direct_load", sizes(n, dtype) + LOAD, arrays, indices=("problem", "knot", "i"))


@cache
def _accept_kernel(n: int, dtype: str) -> Any:
    arrays = {"active": "int32 1", "pivot_failed": "int32 1", "solution": f"{dtype} 3", "dual": f"{dtype} 3"}
    arrays |= {"iterations": "int32 2", "failed": "int32 1"}
    body = sizes(n, dtype) + ACCEPT
    return native_kernel("torque_direct_accept", body, arrays, indices=("problem", "knot"), scalars={"iteration": "int32"})


class DirectCostateSolver:
    """Solves S l = gamma of M problems by elimination; stateless between calls."""

    def __init__(
        self,
        S: wp.array,
        gamma: wp.array,
        dual: wp.array,
        iterations: wp.array,
        failed: wp.array,
        *,
        order: str = "chronological",
        schedule: str = "serial",
    ) -> None:
        """Plan, generate and compile for these arrays.

        Args:
            S: Strips of the Schur complement (torque_schur), shape (M, N, 3 nx, nx).
            gamma: Right-hand side, shape (M, N, nx).
            dual: Costates, shape (M, N, nx), written where the factorisation succeeds.
            iterations: Counts, shape (SQP iterations, M): 1 after a solve, 2 after a failed pivot.
            failed: Set to 1 where a pivot failed, shape (M,).
            order: One of ORDERS.
            schedule: 'serial', 'cooperative' or 'fused'.

        Raises:
            SettingError: An order that Branch does not offer here.
            PlanError: The plan is over the memory budget or the schedule does not fit the device.
        """
        if order not in ORDERS:
            raise SettingError(f"elimination order '{order}' does not apply to the costates", f"choose one of {', '.join(ORDERS)}")
        self._arrays = S, gamma, dual, iterations, failed
        M, N, nx = gamma.shape
        self._n, self._dtype, self.device = nx // 2, gamma.dtype.__name__, gamma.device
        self._H = wp.zeros((M, N + 1, 2 * nx, 2 * nx), dtype=gamma.dtype, device=self.device)
        self._g = wp.zeros((M, N + 1, 2 * nx), dtype=gamma.dtype, device=self.device)
        problem = br.Problem(instances=M)
        costate = problem.inputs("costate", width=nx, frames=N)
        before = problem.states("costate before", costate, A=np.zeros((nx, nx)), B=np.eye(nx))
        problem.add(br.quadratic(before, costate, H=self._H, g=self._g))
        plan = br.plan(problem, br.order.frames(costate, time=order))
        self.linear = br.compile(plan, SCHEDULES[schedule](plan), device=str(self.device), dtype=gamma.dtype)
        self._solution = self.linear.solution(costate)
        self._load, self._accept = _load_kernel(self._n, self._dtype), _accept_kernel(self._n, self._dtype)

    @property
    def active(self) -> wp.array:
        """Problems to solve, shape (M,), int32; the SQP loop uses this array as its own."""
        return self.linear.active

    def launch(self, iteration: int) -> None:
        """Launch load, factorisation, substitution and acceptance; allocates nothing and may be captured.

        Args:
            iteration: Row of `iterations` that is written.
        """
        S, gamma, dual, iterations, failed = self._arrays
        M, N, nx = gamma.shape
        wp.launch(self._load, dim=(M, N, nx), inputs=[self.active, S, gamma], outputs=[self._H, self._g], device=self.device)
        self.linear.factor()
        self.linear.solve()
        inputs = [self.active, self.linear.pivot_failed, self._solution]
        wp.launch(self._accept, dim=(M, N), inputs=[*inputs, dual, iterations, failed, iteration], device=self.device)
