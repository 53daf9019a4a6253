"""Schur complement of the torque form on the costates, and its symmetric stair preconditioner.

With the KKT blocks of optimal_control.torque_code and phi_k = A_k Q_k^-1,

    S[0,0] = -Q_0^-1,   S[k+1,k+1] = -(phi_k A_k' + B_k R_k^-1 B_k' + Q_{k+1}^-1),   S[k+1,k] = phi_k,
    gamma_0 = c_0 - Q_0^-1 q_0,   gamma_{k+1} = c_{k+1} - Q_{k+1}^-1 q_{k+1} + phi_k q_k + B_k R_k^-1 r_k,

negative definite, block tridiagonal, stored as strips [left | diagonal | right] of each block row, *column-major*, so that
neighbouring lanes read neighbouring numbers. Preconditioner: D_k = S[k,k] - rho on its position half (not at k = 0),
P[k,k] = D_k^-1, P[k,k-1] = -D_k^-1 S[k,k-1] D_{k-1}^-1 (Bu and Plancher 2024, symmetric stair; stored the same way).
"""

from functools import cache
from typing import Any

from branch_mpc.optimal_control.native import LANES, native_kernel

BLOCK_DIM = 64
"""Lanes of a block: one block a (problem, knot)."""

# strip(M, k): first entry of block row k; entry (i, j) of block b (0 left, 1 diagonal, 2 right) is at (b nx + j) nx + i
STRIP = "auto strip = [&](real* data, int k) { return data + ((size_t)problem * knots + k) * 3 * nx * nx; };\n"


def sizes(n: int, dtype: str) -> str:
    """Constants of the bodies of this package: joints n, states nx = 2n."""
    return f"using real = wp::{dtype};\nconstexpr int n = {n}, nx = 2 * n;\n"


SCHUR = """
if (active.data[problem] == 0) return;
real* const phi = (real*)storage.data.ptr; real* const theta = phi + nx * nx;
real* const s = strip(S.data, knot);
const size_t at = (size_t)problem * knots + knot;
const real* const Qik = Qi.data + at * n * n; const real* const Qvk = Qv.data + at * n;
const real* const q = gx.data + at * nx;
if (knot == 0) {
    for (int e = lane; e < nx * nx; e += lanes) {
        const int i = e / nx, j = e % nx;
        theta[e] = i < n && j < n ? Qik[i * n + j] : (i == j ? real(1) / Qvk[i - n] : real(0));
    }
} else {
    const size_t at_u = (size_t)problem * (knots - 1) + knot - 1;
    const real* const A = A_in.data + at_u * nx * nx; const real* const B = B_in.data + at_u * nx * n;
    const real* const Rk = R.data + at_u * n; const real* const r = gu.data + at_u * n;
    const real* const Qip = Qik - n * n; const real* const Qvp = Qvk - n; const real* const qp = q - nx;
    for (int e = lane; e < nx * nx; e += lanes) {
        const int i = e / nx, j = e % nx;
        real sum = real(0);
        if (j < n) for (int l = 0; l < n; ++l) sum += A[i * nx + l] * Qip[l * n + j];
        else sum = A[e] / Qvp[j - n];
        phi[e] = sum;
    }
    WP_TILE_SYNC();
    for (int e = lane; e < nx * nx; e += lanes) {
        const int i = e / nx, j = e % nx;
        if (j > i) continue;
        real sum = i < n && j < n ? Qik[i * n + j] : (i == j ? real(1) / Qvk[i - n] : real(0));
        for (int l = 0; l < nx; ++l) sum += phi[i * nx + l] * A[j * nx + l];
        for (int l = 0; l < n; ++l) sum += B[i * n + l] * B[j * n + l] / Rk[l];
        theta[e] = sum; theta[j * nx + i] = sum;
    }
    real* const previous = strip(S.data, knot - 1);
    for (int e = lane; e < nx * nx; e += lanes) {
        const int i = e / nx, j = e % nx;
        s[j * nx + i] = phi[e];
        previous[(2 * nx + i) * nx + j] = phi[e];
    }
    for (int i = lane; i < nx; i += lanes) {
        real sum = real(0);
        for (int l = 0; l < nx; ++l) sum += phi[i * nx + l] * qp[l];
        for (int l = 0; l < n; ++l) sum += B[i * n + l] * r[l] / Rk[l];
        gamma.data[at * nx + i] = sum;
    }
}
WP_TILE_SYNC();
for (int i = lane; i < nx; i += lanes) {
    real sum = knot == 0 ? real(0) : gamma.data[at * nx + i];
    real own = real(0);
    if (i < n) for (int l = 0; l < n; ++l) own += Qik[i * n + l] * q[l];
    else own = q[i] / Qvk[i - n];
    gamma.data[at * nx + i] = c.data[at * nx + i] - own + sum;
}
for (int e = lane; e < nx * nx; e += lanes) s[(nx + e / nx) * nx + e % nx] = -theta[e];
real* const inverse = strip(P.data, knot) + nx * nx;
if (knot == 0) {  // D_0 is -Q_0^-1, whose inverse is known
    for (int e = lane; e < nx * nx; e += lanes) {
        const int i = e / nx, j = e % nx;
        inverse[e] = i < n && j < n ? -Q.data[at * n * n + i * n + j] : (i == j ? -Qvk[i - n] : real(0));
    }
    return;
}
WP_TILE_SYNC();
for (int i = lane; i < n; i += lanes) theta[i * nx + i] += rho.data[problem];
WP_TILE_SYNC();
// sweep operator (Goodnight 1979): after all sweeps theta is -theta^-1, symmetric to the last bit
for (int k = 0; k < nx; ++k) {
    const real scale = real(1) / theta[k * nx + k];
    for (int e = lane; e < nx * nx; e += lanes) {
        const int i = e / nx, j = e % nx;
        if (i != k && j != k) theta[e] -= theta[(i > j ? i : j) * nx + k] * theta[(i > j ? j : i) * nx + k] * scale;
    }
    WP_TILE_SYNC();
    for (int i = lane; i < nx; i += lanes) {
        const real moved = i == k ? -scale : theta[i * nx + k] * scale;
        theta[i * nx + k] = moved; theta[k * nx + i] = moved;
    }
    WP_TILE_SYNC();
}
bool finite = true;
for (int e = lane; e < nx * nx; e += lanes) { inverse[e] = theta[e]; finite = finite && theta[e] * real(0) == real(0); }
if (!finite) failed.data[problem] = 1;
"""

STAIR = """
if (active.data[problem] == 0 || knot == 0) return;
real* const W = (real*)storage.data.ptr;
const real* const phi = strip(S.data, knot);
real* const own = strip(P.data, knot); real* const previous = strip(P.data, knot - 1);
const real* const D = own + nx * nx; const real* const Dp = previous + nx * nx;
for (int e = lane; e < nx * nx; e += lanes) {
    const int j = e / nx, i = e % nx;
    real sum = real(0);
    for (int l = 0; l < nx; ++l) sum += D[l * nx + i] * phi[j * nx + l];
    W[e] = sum;
}
WP_TILE_SYNC();
for (int e = lane; e < nx * nx; e += lanes) {
    const int j = e / nx, i = e % nx;
    real sum = real(0);
    for (int l = 0; l < nx; ++l) sum += W[l * nx + i] * Dp[j * nx + l];
    own[j * nx + i] = -sum;
    previous[(2 * nx + i) * nx + j] = -sum;
}
"""


@cache
def schur_kernel(n: int, dtype: str) -> Any:
    """Kernel over blocks (problems, knots): strips of S, gamma, and the diagonal blocks of the preconditioner."""
    body = sizes(n, dtype) + LANES + "const int knots = c.shape[1];\n" + STRIP + SCHUR
    inputs = {"Q": 4, "Qi": 4, "Qv": 3, "R": 3, "gx": 3, "gu": 3, "A_in": 4, "B_in": 4, "c": 3, "rho": 1}
    arrays = {name: f"{dtype} {count}" for name, count in inputs.items()} | {"active": "int32 1"}
    arrays |= {name: f"{dtype} {count}" for name, count in {"S": 4, "P": 4, "gamma": 3}.items()} | {"failed": "int32 1"}
    return native_kernel("torque_schur", body, arrays, indices=("problem", "knot"), shared=f"{dtype} {2 * (2 * n) ** 2}")


@cache
def stair_kernel(n: int, dtype: str) -> Any:
    """Kernel over blocks (problems, knots): the off-diagonal blocks of the preconditioner."""
    body = sizes(n, dtype) + LANES + "const int knots = S.shape[1];\n" + STRIP + STAIR
    arrays = {"active": "int32 1", "S": f"{dtype} 4", "P": f"{dtype} 4"}
    return native_kernel("torque_stair", body, arrays, indices=("problem", "knot"), shared=f"{dtype} {(2 * n) ** 2}")
