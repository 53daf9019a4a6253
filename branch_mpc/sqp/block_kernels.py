"""Kernels of the SQP loop for CUDA where iterations are launches of their own: a warp a problem, fixed order of every sum.

They do what the kernels of the same names in `kernels` do, for trees, long arms and long horizons; the CPU keeps those.
"""

from functools import cache
from typing import Any

import warp as wp

from branch_mpc.sqp.kernels import DAMPING_FACTOR, DAMPING_MAX, DAMPING_MIN, NOISE, OPTIONS

BLOCK = 32

SUM = """
const int lane = WP_TILE_THREAD_IDX;
double* const partial = (double*)storage.data.ptr;
// the sum of `count` numbers in a fixed order, the same in every lane; two barriers
auto total = [&](const auto* from, int count, bool magnitudes) -> double {
    double sum = 0.0;
    for (int k = lane; k < count; k += 32) sum += (double)(magnitudes ? wp::abs(from[k]) : from[k]);
    partial[lane] = sum;
    WP_TILE_SYNC();
    sum = 0.0;
    for (int i = 0; i < 32; ++i) sum += partial[i];
    WP_TILE_SYNC();
    return sum;
};
"""

BEGIN = """
const auto* from = costs.data + (size_t)problem * knots;
const double value = total(from, knots, false), magnitude = total(from, knots, true);
if (lane == 0) { merit.data[problem] = value; spread.data[problem] = magnitude; step_size.data[problem] = 0; pending.data[problem] = 1; }
"""

SEARCH = """
using real = wp::@real;
if (pending.data[problem] == 0) return;
if (attempt == 0 && first == 0 && lane == 0) kkt.data[problem] = gradient.data[problem];
const real slack = real(@noise) * spread.data[problem];
real bound = merit.data[problem];
if (predicted.data[problem] <= slack) bound = bound + slack;
const real rho = damping.data[problem];
int best = -1;
if (pivot_failed.data[problem] == 0) {
    for (int c = first; c < first + count; ++c) {
        const real sum = real(total(costs.data + ((size_t)problem * candidates + c) * knots, knots, false));
        if (sum <= bound) { bound = sum; best = c; }  // false for NaN
    }
}
WP_TILE_SYNC();  // every lane has read what lane 0 is about to change
if (best >= 0) {
    const real alpha = real(1) / real(1 << best);
    const size_t at_x = (size_t)problem * knots * 2 * n, at_a = (size_t)problem * (knots - 1) * n;
    for (int i = lane; i < knots * 2 * n; i += 32) X.data[at_x + i] = X.data[at_x + i] + alpha * dX.data[at_x + i];
    for (int i = lane; i < (knots - 1) * n; i += 32) A.data[at_a + i] = A.data[at_a + i] + alpha * dA.data[at_a + i];
    if (lane == 0) {
        const real less = rho / real(@factor);
        pending.data[problem] = 0; merit.data[problem] = bound; step_size.data[problem] = alpha;
        damping.data[problem] = less < real(@least) ? real(0) : less;
    }
} else if (first + count == candidates && lane == 0) {  // every candidate is refused
    damping.data[problem] = wp::min(wp::max(rho * real(@factor), real(@least)), real(@most));
}
"""


@cache
def block_kernels(real: Any) -> dict[str, Any]:
    """Kernels for one floating-point type: 'begin' and 'line_search', launched tiled, [problems], in blocks of `BLOCK`, and 'rollout',
    a thread a (problem, joint).
    """
    constants = {"real": real.__name__, "noise": NOISE, "least": DAMPING_MIN, "most": DAMPING_MAX, "factor": DAMPING_FACTOR}
    search = SUM + SEARCH
    for name, constant in constants.items():
        search = search.replace(f"@{name}", str(constant))
    return {"rollout": _rollout(real), "begin": _begin(real), "line_search": _line_search(real, search)}


def _rollout(real: Any) -> Any:
    @wp.kernel(**OPTIONS)
    def rollout(
        x0: wp.array(dtype=real, ndim=2),  # (problems, 2n) first states [q; v]
        A: wp.array(dtype=real, ndim=3),  # (problems, knots - 1, n) accelerations
        step: wp.array(dtype=real),  # (1,) time between knots [s]
        # outputs
        X: wp.array(dtype=real, ndim=3),  # (problems, knots, 2n) states
    ):
        problem, i = wp.tid()
        n = A.shape[2]
        h = step[0]
        q = x0[problem, i]
        v = x0[problem, n + i]
        X[problem, 0, i] = q
        X[problem, 0, n + i] = v
        for k in range(A.shape[1]):
            a = A[problem, k, i]
            q = q + h * (v + real(0.5) * h * a)
            v = v + h * a
            X[problem, k + 1, i] = q
            X[problem, k + 1, n + i] = v

    return rollout


def _begin(real: Any) -> Any:
    @wp.func_native(SUM + BEGIN)
    def begin_problem(
        costs: wp.array(dtype=real, ndim=2),
        pending: wp.array(dtype=wp.int32),
        merit: wp.array(dtype=real),
        spread: wp.array(dtype=real),
        step_size: wp.array(dtype=real),
        problem: int,
        knots: int,
        storage: Any,
    ): ...

    @wp.kernel(**OPTIONS)
    def begin(
        costs: wp.array(dtype=real, ndim=2),  # (problems, knots) stage costs at the iterate
        # outputs
        pending: wp.array(dtype=wp.int32),  # (problems,) 1: no step accepted yet in this iteration
        merit: wp.array(dtype=real),  # (problems,) sum of the stage costs
        spread: wp.array(dtype=real),  # (problems,) sum of their magnitudes
        step_size: wp.array(dtype=real),  # (problems,) accepted step length, 0 until one is
    ):
        problem = wp.tid()
        storage = wp.tile_empty(shape=BLOCK, dtype=wp.float64, storage="shared")
        begin_problem(costs, pending, merit, spread, step_size, problem, costs.shape[1], storage)

    return begin


def _line_search(real: Any, text: str) -> Any:
    @wp.func_native(text)
    def search_problem(
        costs: wp.array(dtype=real, ndim=3),
        spread: wp.array(dtype=real),
        predicted: wp.array(dtype=real),
        gradient: wp.array(dtype=real),
        pivot_failed: wp.array(dtype=wp.int32),
        dX: wp.array(dtype=real, ndim=3),
        dA: wp.array(dtype=real, ndim=3),
        first: int,
        count: int,
        attempt: int,
        pending: wp.array(dtype=wp.int32),
        merit: wp.array(dtype=real),
        step_size: wp.array(dtype=real),
        damping: wp.array(dtype=real),
        kkt: wp.array(dtype=real),
        X: wp.array(dtype=real, ndim=3),
        A: wp.array(dtype=real, ndim=3),
        problem: int,
        candidates: int,
        knots: int,
        n: int,
        storage: Any,
    ): ...

    @wp.kernel(**OPTIONS)
    def line_search(
        costs: wp.array(dtype=real, ndim=3),  # (problems, candidates, knots) stage costs of the candidates
        spread: wp.array(dtype=real),  # (problems,) magnitude of the merit's terms
        predicted: wp.array(dtype=real),  # (problems,) decrease of the quadratic model
        gradient: wp.array(dtype=real),  # (problems,) largest |dV/da| at the iterate
        pivot_failed: wp.array(dtype=wp.int32),  # (problems,) 1: the factorisation failed
        dX: wp.array(dtype=real, ndim=3),  # (problems, knots, 2n)
        dA: wp.array(dtype=real, ndim=3),  # (problems, knots - 1, n)
        first: int,  # first candidate looked at
        count: int,  # how many
        attempt: int,  # 0 for the first factorisation of an iteration
        # outputs
        pending: wp.array(dtype=wp.int32),  # (problems,)
        merit: wp.array(dtype=real),  # (problems,)
        step_size: wp.array(dtype=real),  # (problems,)
        damping: wp.array(dtype=real),  # (problems,)
        kkt: wp.array(dtype=real),  # (problems,) KKT residual of the iterate
        X: wp.array(dtype=real, ndim=3),  # (problems, knots, 2n)
        A: wp.array(dtype=real, ndim=3),  # (problems, knots - 1, n)
    ):
        problem = wp.tid()
        storage = wp.tile_empty(shape=BLOCK, dtype=wp.float64, storage="shared")
        search_problem(
            costs, spread, predicted, gradient, pivot_failed, dX, dA, first, count, attempt,
            pending, merit, step_size, damping, kkt, X, A, problem, costs.shape[1], costs.shape[2], A.shape[2], storage,
        )  # fmt: skip

    return line_search
