"""Merit of a torque-form iterate, the parallel line search over it, and the adaptation of rho.

Merit: sum of the stage costs plus mu times the L1 defects. The candidate with the lowest merit of the eight is taken if it is
below the merit of the iterate. After a success d <- min(d / 1.2, 1 / 1.2), else d <- max(1.2 d, 1.2), and rho <- rho d inside
[1e-8, 10]; a failure at 10 goes back to 1e-3; d starts at 1 with every solve. A failed pivot multiplies rho by 100.
"""

from functools import cache
from typing import Any

from branch_mpc.optimal_control.native import LANES, native_kernel
from branch_mpc.optimal_control.torque_kernels import CANDIDATES
from branch_mpc.sqp.torque_schur import sizes

BLOCK_DIM = 128

BEGIN = """
const int knots = costs.shape[1];
wide sum = wide(0), gap = wide(0);
for (int k = 0; k < knots; ++k) { sum += wide(costs.data[problem * knots + k]); gap += wide(defects.data[problem * knots + k]); }
const real total = real(sum + wide(mu.data[problem]) * gap);
merit.data[problem] = total; initial.data[problem] = total; defect.data[problem] = real(gap);
step_size.data[problem] = real(0); factor.data[problem] = real(1);
"""

SEARCH = """
if (active.data[problem] == 0) return;
const int knots = X.shape[1];
real* const totals = (real*)storage.data.ptr; real* const gaps = totals + candidates;
const bool usable = failed.data[problem] == 0;
for (int j = lane; j < candidates; j += lanes) {
    // in knot order, whatever the launch of the merit kernel was
    const size_t at = ((size_t)problem * candidates + j) * knots;
    wide sum = wide(0), gap = wide(0);
    for (int k = 0; usable && k < knots; ++k) { sum += wide(costs.data[at + k]); gap += wide(defects.data[at + k]); }
    totals[j] = real(sum + wide(mu.data[problem]) * gap); gaps[j] = real(gap);
}
WP_TILE_SYNC();
int best = -1;
real lowest = merit.data[problem];
for (int j = 0; usable && j < candidates; ++j) if (totals[j] < lowest) { lowest = totals[j]; best = j; }  // false for NaN
const real alpha = best < 0 ? real(0) : real(1) / real(1 << (best < 0 ? 0 : best));
WP_TILE_SYNC();
if (best >= 0) {
    const size_t row = (size_t)problem * knots * nx, row_u = (size_t)problem * (knots - 1) * n;
    for (int e = lane; e < knots * nx; e += lanes) X.data[row + e] += alpha * dX.data[row + e];
    for (int e = lane; e < (knots - 1) * n; e += lanes) U.data[row_u + e] += alpha * dU.data[row_u + e];
}
if (lane != 0) return;
merit.data[problem] = lowest; step_size.data[problem] = alpha;
steps.data[iteration * steps.shape[1] + problem] = alpha; merits.data[iteration * steps.shape[1] + problem] = lowest;
if (best >= 0) defect.data[problem] = gaps[best];
real own = rho.data[problem], d = factor.data[problem];
if (!usable) own = wp::min(own * real(100), real(10));
if (adapt != 0) {
    const real top = real(10);
    if (best >= 0) d = wp::min(d / real(1.2), real(1) / real(1.2)); else d = wp::max(d * real(1.2), real(1.2));
    own = best < 0 && own >= top ? real(1e-3) : wp::min(wp::max(own * d, real(1e-8)), top);
}
rho.data[problem] = own; factor.data[problem] = d; failed.data[problem] = 0;
if (!usable) pivots.data[problem] = 1; else pivots.data[problem] = 0;
"""

GATE = """
int still = 0;
const int count = active.shape[0];
for (int i = 0; i < count; ++i) still += active.data[i];
if (real(count - still) >= ratio * real(count)) for (int i = 0; i < count; ++i) active.data[i] = 0;
"""


def _types(n: int, dtype: str, reduction: str) -> str:
    return sizes(n, dtype) + f"using wide = wp::{reduction};\nconstexpr int candidates = {CANDIDATES};\n"


@cache
def begin_kernel(dtype: str, reduction: str) -> Any:
    """Kernel over (problems): merit and defect of the seed; d = 1."""
    arrays = {"costs": 2, "defects": 2, "mu": 1, "merit": 1, "initial": 1, "defect": 1, "step_size": 1, "factor": 1}
    types = {name: f"{dtype} {count}" for name, count in arrays.items()}
    return native_kernel("torque_begin", _types(1, dtype, reduction) + BEGIN, types, indices=("problem",))


@cache
def search_kernel(n: int, dtype: str, reduction: str) -> Any:
    """Kernel over blocks (problems): the best candidate, the new iterate, rho."""
    arrays = {"costs": 3, "defects": 3, "mu": 1, "dX": 3, "dU": 3}
    outputs = {"merit": 1, "defect": 1, "step_size": 1, "rho": 1, "factor": 1, "X": 3, "U": 3, "steps": 2, "merits": 2}
    types = {name: f"{dtype} {count}" for name, count in (arrays | outputs).items()}
    types |= {name: "int32 1" for name in ("active", "failed", "pivots")}
    body = _types(n, dtype, reduction) + LANES + SEARCH
    scalars = {"iteration": "int32", "adapt": "int32"}
    shared = f"{dtype} {2 * CANDIDATES}"
    return native_kernel("torque_line_search", body, types, indices=("problem",), scalars=scalars, shared=shared)


@cache
def gate_kernel(dtype: str) -> Any:
    """Kernel over (1): stops every problem once the converged share of the batch reaches `ratio`."""
    body = f"using real = wp::{dtype};\n" + GATE
    return native_kernel("torque_gate", body, {"active": "int32 1"}, indices=("unused",), scalars={"ratio": dtype})
