"""The step of states and torques from the costates, or by roll-out of the torques, and the KKT residual.

    dx_k = -Q_k^-1 (q_k - l_k + A_k' l_{k+1}),   du_k = -R_k^-1 (r_k + B_k' l_{k+1}).

The residual of S l = gamma is the linear defect of that step, so an inexact l makes states that do not follow from the torques.
The roll-out keeps du and takes dx_0 = -c_0, dx_{k+1} = A_k dx_k + B_k du_k - c_{k+1} instead: no defect in the linear model.

KKT residual of the iterate: the largest of |dJ/du_k| with the adjoint m_k = q_k + A_k' m_{k+1} (Bryson and Ho 1975,
section 2.2) and of |c|.
"""

from functools import cache
from typing import Any

from branch_mpc.optimal_control.native import LANES, native_kernel
from branch_mpc.sqp.torque_schur import sizes

BLOCK_DIM = 32

RECOVER = """
if (active.data[problem] == 0 || failed.data[problem] != 0) return;
const int knots = gx.shape[1];
real* const s = (real*)storage.data.ptr;
const size_t at = (size_t)problem * knots + knot, at_u = (size_t)problem * (knots - 1) + knot;
const bool last = knot == knots - 1;
const real* const l = dual.data + at * nx; const real* const next = l + nx;
for (int i = lane; i < nx; i += lanes) {
    real sum = gx.data[at * nx + i] - l[i];
    if (!last) for (int j = 0; j < nx; ++j) sum += A.data[(at_u * nx + j) * nx + i] * next[j];
    s[i] = sum;
}
WP_TILE_SYNC();
for (int i = lane; i < nx; i += lanes) {
    real sum = real(0);
    if (i < n) for (int j = 0; j < n; ++j) sum += Qi.data[(at * n + i) * n + j] * s[j];
    else sum = s[i] / Qv.data[at * n + i - n];
    dX.data[at * nx + i] = -sum;
}
for (int i = lane; !last && i < n; i += lanes) {
    real sum = gu.data[at_u * n + i];
    for (int j = 0; j < nx; ++j) sum += B.data[(at_u * nx + j) * n + i] * next[j];
    dU.data[at_u * n + i] = -sum / R.data[at_u * n + i];
}
"""

ROLL_OUT = """
if (active.data[problem] == 0 || failed.data[problem] != 0) return;
const int knots = c.shape[1];
const size_t row = (size_t)problem * knots, row_u = (size_t)problem * (knots - 1);
for (int i = lane; i < nx; i += lanes) dX.data[row * nx + i] = -c.data[row * nx + i];
WP_TILE_SYNC();
for (int k = 0; k < knots - 1; ++k) {
    const real* const x = dX.data + (row + k) * nx; const real* const u = dU.data + (row_u + k) * n;
    for (int i = lane; i < nx; i += lanes) {
        real sum = -c.data[(row + k + 1) * nx + i];
        for (int j = 0; j < nx; ++j) sum += A.data[((row_u + k) * nx + i) * nx + j] * x[j];
        for (int j = 0; j < n; ++j) sum += B.data[((row_u + k) * nx + i) * n + j] * u[j];
        dX.data[(row + k + 1) * nx + i] = sum;
    }
    WP_TILE_SYNC();
}
"""

RESIDUAL = """
const int knots = c.shape[1];
real* const m = (real*)storage.data.ptr; real* const moved = m + nx; real* const worst = moved + nx;
const size_t row = (size_t)problem * knots, row_u = (size_t)problem * (knots - 1);
real largest = real(0);
for (int i = lane; i < nx; i += lanes) m[i] = gx.data[(row + knots - 1) * nx + i];
for (int e = lane; e < knots * nx; e += lanes) largest = wp::max(largest, wp::abs(c.data[row * nx + e]));
WP_TILE_SYNC();
for (int k = knots - 2; k >= 0; --k) {
    for (int i = lane; i < nx + n; i += lanes) {
        real sum = real(0);
        if (i < nx) {
            for (int j = 0; j < nx; ++j) sum += A.data[((row_u + k) * nx + j) * nx + i] * m[j];
            moved[i] = gx.data[(row + k) * nx + i] + sum;
        } else {
            for (int j = 0; j < nx; ++j) sum += B.data[((row_u + k) * nx + j) * n + i - nx] * m[j];
            largest = wp::max(largest, wp::abs(gu.data[(row_u + k) * n + i - nx] + sum));
        }
    }
    WP_TILE_SYNC();
    for (int i = lane; i < nx; i += lanes) m[i] = moved[i];
    WP_TILE_SYNC();
}
worst[lane] = largest;
WP_TILE_SYNC();
if (lane == 0) {
    for (int i = 1; i < lanes; ++i) largest = wp::max(largest, worst[i]);
    kkt.data[problem] = largest;
}
"""


def _kernel(name: str, body: str, n: int, dtype: str, inputs: dict[str, int], outputs: dict[str, int], flags: list[str], size: int) -> Any:
    arrays = {key: f"{dtype} {count}" for key, count in inputs.items()} | {key: "int32 1" for key in flags}
    arrays |= {key: f"{dtype} {count}" for key, count in outputs.items()}
    indices = ("problem", "knot") if name == "torque_recover" else ("problem",)
    return native_kernel(name, sizes(n, dtype) + LANES + body, arrays, indices=indices, shared=f"{dtype} {size}")


@cache
def recover_kernel(n: int, dtype: str) -> Any:
    """Kernel over blocks (problems, knots): dX and dU from the costates."""
    inputs = {"Qi": 4, "Qv": 3, "R": 3, "gx": 3, "gu": 3, "A": 4, "B": 4, "dual": 3}
    return _kernel("torque_recover", RECOVER, n, dtype, inputs, {"dX": 3, "dU": 3}, ["active", "failed"], 2 * n)


@cache
def roll_out_kernel(n: int, dtype: str) -> Any:
    """Kernel over blocks (problems): dX from dU through the linear model."""
    return _kernel("torque_roll_out", ROLL_OUT, n, dtype, {"A": 4, "B": 4, "c": 3, "dU": 3}, {"dX": 3}, ["active", "failed"], 1)


@cache
def residual_kernel(n: int, dtype: str) -> Any:
    """Kernel over blocks (problems): KKT residual of the linearised iterate; a frozen problem's blocks are those it stopped at."""
    inputs = {"gx": 3, "gu": 3, "A": 4, "B": 4, "c": 3}
    return _kernel("torque_residual", RESIDUAL, n, dtype, inputs, {"kkt": 1}, [], 4 * n + BLOCK_DIM)
