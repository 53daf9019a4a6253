"""Warp kernels of the tracking problem of a serial arm with a lane per joint: the table-driven terms and merit for CUDA.

Blocks of 64 lanes take eight (problem, knot) pairs. H and g are gathered in shared memory and written to global memory in whole lines.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from branch_mpc.optimal_control import joint_lanes
from branch_mpc.warp_text import prelude

OPTIONS = {"enable_backward": False, "grid_stride": False, "module": "unique", "module_options": {"max_unroll": 0}}
BLOCK = 64
KNOTS = BLOCK // 8


@dataclass(frozen=True)
class LaneKernels:
    """Kernels launched tiled, in blocks of `BLOCK`; launch dimensions in brackets."""

    terms: Any
    """[groups]: H, g and cost of every knot at the iterate."""
    merit: Any
    """[candidates, groups]: cost of every knot at every line-search candidate."""

    def groups(self, problems: int, knots: int) -> int:
        """Number of blocks of a batch."""
        return -(-problems * knots // KNOTS)


@cache
def lane_kernels(n: int) -> LaneKernels:
    """Make the kernels of every serial arm of n joints, float32; the robot is an argument (`joint_table`)."""
    return LaneKernels(_terms(n), _merit(n))


PAIR = """
const int count = problems * knots, first = group * @knots;
const int at = first + (thread >> 3) < count ? first + (thread >> 3) : count - 1;
const int problem = at / knots, k = at - problem * knots;
"""

TERMS = """
const real* const x = X.data + (size_t)at * 2 * n;
const real* const acceleration = A.data + ((size_t)problem * (knots - 1) + (last ? 0 : k)) * n;
const real q = on ? x[jj] : real(0), v = on ? x[n + jj] : real(0), a = on && !last ? acceleration[jj] : real(0);
constexpr int HSIZE = 9 * n * n;
real* const Gk = shared + (thread >> 3) * 3 * n * @gs;
real* const Hk = shared + @knots * 3 * n * @gs + (thread >> 3) * HSIZE;
real* const gk = shared + @knots * (3 * n * @gs + HSIZE) + (thread >> 3) * 3 * n;
real cost, torque;
"""

# whole lines: eight knots lie one behind the other in shared and in global memory
COPY = """
cost = group_sum(cost);
if (j == 0) costs.data[at] = cost;
WP_TILE_SYNC();
const int valid = count - first < @knots ? count - first : @knots;
const real* const from = shared + @knots * 3 * n * @gs;
for (int i = thread; i < valid * HSIZE / 4; i += threads) ((Four*)(H.data + (size_t)first * HSIZE))[i] = ((const Four*)from)[i];
for (int i = valid * HSIZE / 4 * 4 + thread; i < valid * HSIZE; i += threads) H.data[(size_t)first * HSIZE + i] = from[i];
for (int i = thread; i < valid * 3 * n; i += threads) g.data[(size_t)first * 3 * n + i] = from[@knots * HSIZE + i];
"""

MERIT = """
bool wanted = pending.data[problem] != 0;
#if defined(__CUDA_ARCH__)
if (!__any_sync(0xffffffffu, wanted)) return;
#endif
const size_t at_x = (size_t)at * 2 * n, at_a = ((size_t)problem * (knots - 1) + (last ? 0 : k)) * n;
const real q = on ? X.data[at_x + jj] + alpha * dX.data[at_x + jj] : real(0);
const real v = on ? X.data[at_x + n + jj] + alpha * dX.data[at_x + n + jj] : real(0);
const real a = on && !last ? A.data[at_a + jj] + alpha * dA.data[at_a + jj] : real(0);
real cost, torque;
"""


def _fill(text: str) -> str:
    return text.replace("@knots", str(KNOTS)).replace("@gs", str(joint_lanes.G_STRIDE))


def _terms(n: int) -> Any:
    storage_size = KNOTS * (joint_lanes.scratch_size(n) + 9 * n * n + 3 * n)
    body = prelude(storage_size) + joint_lanes.helpers(n) + _fill(PAIR) + joint_lanes.KNOT_READ + _fill(TERMS)
    body += joint_lanes.knot(derivatives=True) + _fill(COPY)
    size = storage_size + BLOCK

    @wp.func_native(body)
    def lane_terms(
        X: wp.array(dtype=float, ndim=3),
        A: wp.array(dtype=float, ndim=3),
        wrenches: wp.array(dtype=float, ndim=2),
        targets: wp.array(dtype=float, ndim=2),
        weights: wp.array(dtype=float),
        nominal: wp.array(dtype=float),
        table: wp.array(dtype=float, ndim=3),
        H: wp.array(dtype=float, ndim=4),
        g: wp.array(dtype=float, ndim=3),
        costs: wp.array(dtype=float, ndim=2),
        group: int,
        problems: int,
        knots: int,
        storage: Any,
    ): ...

    @wp.kernel(**OPTIONS, launch_bounds=(BLOCK, 10))
    def tracking_lane_terms(
        X: wp.array(dtype=float, ndim=3),  # (problems, knots, 2n) states [q; v]
        A: wp.array(dtype=float, ndim=3),  # (problems, knots - 1, n) accelerations
        wrenches: wp.array(dtype=float, ndim=2),  # (problems, 6) world force and moment on the tool
        targets: wp.array(dtype=float, ndim=2),  # (knots, 3) tool targets
        weights: wp.array(dtype=float),  # (8,) tracking_code.weight_vector
        nominal: wp.array(dtype=float),  # (n,) nominal posture
        table: wp.array(dtype=float, ndim=3),  # (9, 8, 4) joint_table
        # outputs
        H: wp.array(dtype=float, ndim=4),  # (problems, knots, 3n, 3n) Gauss-Newton Hessian over [q; v; a]
        g: wp.array(dtype=float, ndim=3),  # (problems, knots, 3n) gradient
        costs: wp.array(dtype=float, ndim=2),  # (problems, knots) stage costs
    ):
        group = wp.tid()
        storage = wp.tile_empty(shape=size, dtype=float, storage="shared")
        lane_terms(X, A, wrenches, targets, weights, nominal, table, H, g, costs, group, X.shape[0], X.shape[1], storage)

    return tracking_lane_terms


def _merit(n: int) -> Any:
    body = prelude(0) + joint_lanes.helpers(n) + _fill(PAIR) + joint_lanes.KNOT_READ + MERIT + joint_lanes.knot(derivatives=False)
    body += "cost = group_sum(cost);\nif (j == 0 && wanted) costs.data[((size_t)problem * candidates + candidate) * knots + k] = cost;\n"

    @wp.func_native(body)
    def lane_cost(
        X: wp.array(dtype=float, ndim=3),
        A: wp.array(dtype=float, ndim=3),
        dX: wp.array(dtype=float, ndim=3),
        dA: wp.array(dtype=float, ndim=3),
        wrenches: wp.array(dtype=float, ndim=2),
        targets: wp.array(dtype=float, ndim=2),
        weights: wp.array(dtype=float),
        nominal: wp.array(dtype=float),
        pending: wp.array(dtype=wp.int32),
        table: wp.array(dtype=float, ndim=3),
        costs: wp.array(dtype=float, ndim=3),
        alpha: float,
        candidate: int,
        candidates: int,
        group: int,
        problems: int,
        knots: int,
        storage: Any,
    ): ...

    @wp.kernel(**OPTIONS)
    def tracking_lane_merit(
        X: wp.array(dtype=float, ndim=3),  # (problems, knots, 2n) states [q; v]
        A: wp.array(dtype=float, ndim=3),  # (problems, knots - 1, n) accelerations
        dX: wp.array(dtype=float, ndim=3),  # (problems, knots, 2n) step of the states
        dA: wp.array(dtype=float, ndim=3),  # (problems, knots - 1, n) step of the accelerations
        wrenches: wp.array(dtype=float, ndim=2),  # (problems, 6) world force and moment on the tool
        targets: wp.array(dtype=float, ndim=2),  # (knots, 3) tool targets
        weights: wp.array(dtype=float),  # (8,) tracking_code.weight_vector
        nominal: wp.array(dtype=float),  # (n,) nominal posture
        pending: wp.array(dtype=wp.int32),  # (problems,) 0: this problem needs no candidates
        first: int,  # candidate i of this launch is step 2^-(first + i)
        table: wp.array(dtype=float, ndim=3),  # (9, 8, 4) joint_table
        # outputs
        costs: wp.array(dtype=float, ndim=3),  # (problems, candidates, knots) stage costs
    ):
        candidate, group = wp.tid()
        index = first + candidate
        alpha = wp.pow(0.5, float(index))
        storage = wp.tile_empty(shape=BLOCK, dtype=float, storage="shared")
        problems, knots, candidates = X.shape[0], X.shape[1], costs.shape[1]
        lane_cost(
            X, A, dX, dA, wrenches, targets, weights, nominal, pending, table, costs, alpha, index, candidates, group, problems, knots,
            storage,
        )

    return tracking_lane_merit
