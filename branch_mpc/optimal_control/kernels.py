"""Warp kernels of the tracking problem for one robot."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from branch_mpc.optimal_control import tracking_code
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation

REAL = {"float32": wp.float32, "float64": wp.float64}
OPTIONS = {"enable_backward": False, "grid_stride": False, "module": "unique", "module_options": {"max_unroll": 0, "fast_math": False}}


@dataclass(frozen=True)
class TrackingKernels:
    """Kernels that evaluate the tracking problem; launch dimensions in brackets."""

    terms: Any
    """(problems, knots): H, g and cost of every knot at the iterate."""
    merit: Any
    """(problems, candidates, knots): cost of every knot at every line-search candidate."""


def tracking_kernels(articulation: Articulation, weights: CostWeights, dtype: str = "float32") -> TrackingKernels:
    """Make the kernels of one robot; the margins of `weights` are compiled in, its weights are an argument.

    Args:
        articulation: The robot, n joints.
        weights: Margins of the barriers.
        dtype: 'float32' or 'float64'.
    """
    return TrackingKernels(_terms(articulation, weights, dtype), _merit(articulation, weights, dtype))


def _terms(articulation: Articulation, weights: CostWeights, dtype: str) -> Any:
    real = REAL[dtype]
    body = tracking_code.terms_body(articulation, weights, dtype)

    @wp.func_native(body)
    def knot_terms(
        X: wp.array(dtype=real, ndim=3),
        A: wp.array(dtype=real, ndim=3),
        wrenches: wp.array(dtype=real, ndim=2),
        targets: wp.array(dtype=real, ndim=2),
        weights: wp.array(dtype=real),
        nominal: wp.array(dtype=real),
        H: wp.array(dtype=real, ndim=4),
        g: wp.array(dtype=real, ndim=3),
        costs: wp.array(dtype=real, ndim=2),
        problem: int,
        knot: int,
        knots: int,
    ): ...

    @wp.kernel(**OPTIONS)
    def tracking_terms(
        X: wp.array(dtype=real, ndim=3),  # (problems, knots, 2n) states [q; v]
        A: wp.array(dtype=real, ndim=3),  # (problems, knots - 1, n) accelerations
        wrenches: wp.array(dtype=real, ndim=2),  # (problems, 6) world force and moment on the tool
        targets: wp.array(dtype=real, ndim=2),  # (knots, 3) tool targets
        weights: wp.array(dtype=real),  # (8,) tracking_code.weight_vector
        nominal: wp.array(dtype=real),  # (n,) nominal posture
        # outputs
        H: wp.array(dtype=real, ndim=4),  # (problems, knots, 3n, 3n) Gauss-Newton Hessian over [q; v; a]
        g: wp.array(dtype=real, ndim=3),  # (problems, knots, 3n) gradient
        costs: wp.array(dtype=real, ndim=2),  # (problems, knots) stage costs
    ):
        problem, knot = wp.tid()
        knot_terms(X, A, wrenches, targets, weights, nominal, H, g, costs, problem, knot, X.shape[1])

    return tracking_terms


def _merit(articulation: Articulation, weights: CostWeights, dtype: str) -> Any:
    real = REAL[dtype]
    body = tracking_code.merit_body(articulation, weights, dtype)

    @wp.func_native(body)
    def knot_cost(
        X: wp.array(dtype=real, ndim=3),
        A: wp.array(dtype=real, ndim=3),
        dX: wp.array(dtype=real, ndim=3),
        dA: wp.array(dtype=real, ndim=3),
        wrenches: wp.array(dtype=real, ndim=2),
        targets: wp.array(dtype=real, ndim=2),
        weights: wp.array(dtype=real),
        nominal: wp.array(dtype=real),
        costs: wp.array(dtype=real, ndim=3),
        alpha: real,
        problem: int,
        candidate: int,
        candidates: int,
        knot: int,
        knots: int,
    ): ...

    @wp.kernel(**OPTIONS)
    def tracking_merit(
        X: wp.array(dtype=real, ndim=3),  # (problems, knots, 2n) states [q; v]
        A: wp.array(dtype=real, ndim=3),  # (problems, knots - 1, n) accelerations
        dX: wp.array(dtype=real, ndim=3),  # (problems, knots, 2n) step of the states
        dA: wp.array(dtype=real, ndim=3),  # (problems, knots - 1, n) step of the accelerations
        wrenches: wp.array(dtype=real, ndim=2),  # (problems, 6) world force and moment on the tool
        targets: wp.array(dtype=real, ndim=2),  # (knots, 3) tool targets
        weights: wp.array(dtype=real),  # (8,) tracking_code.weight_vector
        nominal: wp.array(dtype=real),  # (n,) nominal posture
        pending: wp.array(dtype=wp.int32),  # (problems,) 0: this problem needs no candidates
        first: int,  # candidate j of this launch is step 2^-(first + j)
        # outputs
        costs: wp.array(dtype=real, ndim=3),  # (problems, candidates, knots) stage costs
    ):
        problem, candidate, knot = wp.tid()
        if pending[problem] != 0:
            alpha = wp.pow(real(0.5), real(first + candidate))
            knots = X.shape[1]
            index = first + candidate
            knot_cost(X, A, dX, dA, wrenches, targets, weights, nominal, costs, alpha, problem, index, costs.shape[1], knot, knots)

    return tracking_merit
