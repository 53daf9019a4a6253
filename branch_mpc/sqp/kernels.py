"""Warp kernels of the SQP loop that do not depend on the robot."""

from functools import cache
from typing import Any

import warp as wp

OPTIONS = {"enable_backward": False, "grid_stride": False, "module": "unique", "module_options": {"max_unroll": 0}}
CANDIDATES = 8
NOISE = 2e-6  # float32 rounding of a sum of stage costs relative to the sum of their magnitudes, with a margin of about 10
DAMPING_MIN = 0.1  # first damping after a refused step; below it damping does not change a step of the shipped weights
DAMPING_MAX = 1e6
DAMPING_FACTOR = 10.0


@cache
def sqp_kernels(real: Any) -> dict[str, Any]:
    """Kernels 'rollout', 'begin' and 'line_search' for one floating-point type."""
    noise, damping_min, damping_max, factor = real(NOISE), real(DAMPING_MIN), real(DAMPING_MAX), real(DAMPING_FACTOR)

    @wp.kernel(**OPTIONS)
    def rollout(
        x0: wp.array(dtype=real, ndim=2),  # (problems, 2n) first states [q; v]
        A: wp.array(dtype=real, ndim=3),  # (problems, knots - 1, n) accelerations
        step: wp.array(dtype=real),  # (1,) time between knots [s]
        # outputs
        X: wp.array(dtype=real, ndim=3),  # (problems, knots, 2n) states
    ):
        problem = wp.tid()
        n = A.shape[2]
        h = step[0]
        for i in range(n):
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
        total = wp.float64(0.0)
        magnitude = wp.float64(0.0)
        for k in range(costs.shape[1]):
            total = total + wp.float64(costs[problem, k])
            magnitude = magnitude + wp.abs(wp.float64(costs[problem, k]))
        merit[problem] = real(total)
        spread[problem] = real(magnitude)
        step_size[problem] = real(0.0)
        pending[problem] = 1

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
        if pending[problem] == 0:
            return
        if attempt == 0 and first == 0:
            kkt[problem] = gradient[problem]
        best = int(-1)
        # Near the optimum the true decrease is below the rounding of the sum: there a step within the noise is taken.
        slack = noise * spread[problem]
        bound = merit[problem]
        if predicted[problem] <= slack:
            bound = bound + slack
        if pivot_failed[problem] == 0:
            for j in range(first, first + count):
                total = wp.float64(0.0)
                for k in range(costs.shape[2]):
                    total = total + wp.float64(costs[problem, j, k])
                if real(total) <= bound:  # false for NaN
                    bound = real(total)
                    best = j
        if best >= 0:
            alpha = wp.pow(real(0.5), real(best))
            for k in range(X.shape[1]):
                for i in range(X.shape[2]):
                    X[problem, k, i] = X[problem, k, i] + alpha * dX[problem, k, i]
            for k in range(A.shape[1]):
                for i in range(A.shape[2]):
                    A[problem, k, i] = A[problem, k, i] + alpha * dA[problem, k, i]
            pending[problem] = 0
            merit[problem] = bound
            step_size[problem] = alpha
            damping[problem] = damping[problem] / factor
            if damping[problem] < damping_min:
                damping[problem] = real(0.0)
        elif first + count == costs.shape[1]:  # every candidate is refused
            damping[problem] = wp.min(wp.max(damping[problem] * factor, damping_min), damping_max)

    return {"rollout": rollout, "begin": begin, "line_search": line_search}
