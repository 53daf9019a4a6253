"""Warp kernels of the tracking problem for one robot.

Threads work on groups of consecutive (problem, knot) pairs: single knots on CUDA and in float64, SIMD lanes on the CPU.
"""

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
    """(groups): H, g and cost of every knot at the iterate."""
    merit: Any
    """(candidates, groups): cost of every knot at every line-search candidate."""
    lanes: int
    """Knots in a group."""

    def groups(self, problems: int, knots: int) -> int:
        """Number of groups of a batch."""
        return -(-problems * knots // self.lanes)


def tracking_kernels(articulation: Articulation, weights: CostWeights, dtype: str = "float32", *, lanes: int = 1) -> TrackingKernels:
    """Make the kernels of one robot; the margins of `weights` are compiled in, its weights are an argument.

    Args:
        articulation: The robot, n joints.
        weights: Margins of the barriers.
        dtype: 'float32' or 'float64'.
        lanes: Knots in a group: 1, or `lanes.LANES` for float32 on the CPU.
    """
    return TrackingKernels(_terms(articulation, weights, dtype, lanes), _merit(articulation, weights, dtype, lanes), lanes)


def _terms(articulation: Articulation, weights: CostWeights, dtype: str, lanes: int) -> Any:
    real = REAL[dtype]
    body = tracking_code.terms_body(articulation, weights, dtype, lanes)

    @wp.func_native(body)
    def group_terms(
        X: wp.array(dtype=real, ndim=3),
        A: wp.array(dtype=real, ndim=3),
        wrenches: wp.array(dtype=real, ndim=2),
        targets: wp.array(dtype=real, ndim=2),
        weights: wp.array(dtype=real),
        nominal: wp.array(dtype=real),
        H: wp.array(dtype=real, ndim=4),
        g: wp.array(dtype=real, ndim=3),
        costs: wp.array(dtype=real, ndim=2),
        group: int,
        problems: int,
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
        group = wp.tid()
        group_terms(X, A, wrenches, targets, weights, nominal, H, g, costs, group, X.shape[0], X.shape[1])

    return tracking_terms


def _merit(articulation: Articulation, weights: CostWeights, dtype: str, lanes: int) -> Any:
    real = REAL[dtype]
    body = tracking_code.merit_body(articulation, weights, dtype, lanes)

    @wp.func_native(body)
    def group_cost(
        X: wp.array(dtype=real, ndim=3),
        A: wp.array(dtype=real, ndim=3),
        dX: wp.array(dtype=real, ndim=3),
        dA: wp.array(dtype=real, ndim=3),
        wrenches: wp.array(dtype=real, ndim=2),
        targets: wp.array(dtype=real, ndim=2),
        weights: wp.array(dtype=real),
        nominal: wp.array(dtype=real),
        pending: wp.array(dtype=wp.int32),
        costs: wp.array(dtype=real, ndim=3),
        alpha: real,
        candidate: int,
        candidates: int,
        group: int,
        problems: int,
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
        candidate, group = wp.tid()
        index = first + candidate
        alpha = wp.pow(real(0.5), real(index))
        problems, knots, candidates = X.shape[0], X.shape[1], costs.shape[1]
        group_cost(
            X, A, dX, dA, wrenches, targets, weights, nominal, pending, costs, alpha, index, candidates, group, problems, knots
        )

    return tracking_merit
