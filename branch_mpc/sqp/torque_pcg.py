"""Preconditioned conjugate gradients on the costates, one block a problem, with GATO's stopping rule.

    r = gamma - S l;  z = p = P r;  e_0 = e = r'z;  stop at once if |e| < FLOOR
    repeat: a = e / p'Sp;  l += a p;  r -= a Sp;  z = P r;  e' = r'z;  stop if |e'| < FLOOR + tolerance |e_0| or at the cap;
            p = z + (e'/e) p
(Nocedal and Wright 2006, algorithm 5.3; S and P are negative definite, which changes no formula.) The costates persist from
solve to solve. Sums run in a fixed order for a block size, so that runs agree to the last bit.
"""

from functools import cache
from typing import Any

from branch_mpc.optimal_control.native import LANES, native_kernel
from branch_mpc.sqp.torque_schur import sizes

FLOOR = 1e-6
"""Absolute part of the stopping rule; below it a problem counts as converged."""
WIDEST = 512
"""Lanes of the widest block: twice as many would leave each 64 registers."""


def block_dim(rows: int) -> int:
    """Lanes for `rows` numbers a vector: whole warps, the passes over the rows evenly filled."""
    passes = -(-rows // WIDEST)
    return max(32, -(-rows // (passes * 32)) * 32)


def product(matrix: str, vector: str, statement: str) -> str:
    """Loop over the rows of a lane: `statement` sees `row` and `value` = (matrix vector)[row].

    A lane a row under CUDA, where neighbouring lanes then read neighbouring numbers; a lane a block row on the CPU, where the
    compiler turns the loop over its rows into vector code.
    """
    return f"""
#if defined(__CUDA_ARCH__)
for (int row = lane; row < rows; row += lanes) {{
    const int k = row / nx, i = row % nx;
    const real* const m = {matrix} + (size_t)k * 3 * nx * nx + i;
    const int begin = k > 0 ? 0 : nx, end = k < knots - 1 ? 3 * nx : 2 * nx;
    real value = real(0);
    for (int j = begin; j < end; ++j) value += m[j * nx] * {vector}[(k - 1) * nx + j];
    {statement}
}}
#else
for (int k = lane; k < knots; k += lanes) {{
    const real* const m = {matrix} + (size_t)k * 3 * nx * nx;
    const int begin = k > 0 ? 0 : nx, end = k < knots - 1 ? 3 * nx : 2 * nx;
    real sums[nx] = {{}};
    for (int j = begin; j < end; ++j) {{
        const real factor = {vector}[(k - 1) * nx + j];
        for (int i = 0; i < nx; ++i) sums[i] += m[j * nx + i] * factor;
    }}
    for (int i = 0; i < nx; ++i) {{ const int row = k * nx + i; const real value = sums[i]; {statement} }}
}}
#endif
"""


EACH = """
#if defined(__CUDA_ARCH__)
for (int row = lane; row < rows; row += lanes) {{ {0} }}
#else
for (int k = lane; k < knots; k += lanes) for (int row = k * nx; row < (k + 1) * nx; ++row) {{ {0} }}
#endif
"""

REDUCE = """
// sum over the lanes in a fixed order, the same value for every lane
auto total = [&](real value) {
#if defined(__CUDA_ARCH__)
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
    if (lane % 32 == 0) partial[lane / 32] = value;
    const int count = lanes / 32;
#else
    partial[lane] = value;
    const int count = lanes;
#endif
    WP_TILE_SYNC();
    real sum = real(0);
    for (int i = 0; i < count; ++i) sum += partial[i];
    WP_TILE_SYNC();
    return sum;
};
"""


def pcg_body(n: int, dtype: str) -> str:
    """Body of one problem; `cap` 0 only asks whether the costates solve the system already."""
    start = product("matrix", "costate", "r[row] = right[row] - value;") + "WP_TILE_SYNC();\nreal sum = real(0);\n"
    start += product("stair", "r", "z[row] = value; p[row] = value; sum += r[row] * value;")
    multiply = "sum = real(0);\n" + product("matrix", "p", "product[row] = value; sum += p[row] * value;")
    move = EACH.format("costate[row] += step * p[row]; r[row] -= step * product[row];") + "WP_TILE_SYNC();\nsum = real(0);\n"
    move += product("stair", "r", "z[row] = value; sum += r[row] * value;")
    turn = EACH.format("p[row] = z[row] + ratio * p[row];") + "WP_TILE_SYNC();\n"
    return f"""{sizes(n, dtype)}{LANES}
if (active.data[problem] == 0) return;
const int knots = gamma.shape[1], rows = knots * nx;
real* const p = (real*)storage.data.ptr; real* const r = p + rows; real* const partial = r + rows;
real* const product = work.data + (size_t)problem * 2 * rows; real* const z = product + rows;
const real* const matrix = S.data + (size_t)problem * knots * 3 * nx * nx;
const real* const stair = P.data + (size_t)problem * knots * 3 * nx * nx;
const real* const right = gamma.data + (size_t)problem * rows;
real* const costate = dual.data + (size_t)problem * rows;
{REDUCE}
{start}
const real first = total(sum);
real eta = first;
const real bound = real({FLOOR!r}) + tolerance.data[problem] * wp::abs(first);
int count = 0;
bool open = wp::abs(first) >= real({FLOOR!r});
while (open && count < cap) {{
{multiply}
    const real step = eta / total(sum);
{move}
    const real next = total(sum);
    ++count;
    open = wp::abs(next) >= bound;
    const real ratio = next / eta;
    eta = next;
    if (open && count < cap) {{
{turn}
    }}
}}
const bool finite = eta * real(0) == real(0);
if (!finite) {{
{EACH.format("costate[row] = real(0);")}
}}
if (lane == 0) {{
    iterations.data[iteration * iterations.shape[1] + problem] = count;
    // no step to take; a direct solve runs this with cap 0, and only that outcome stops it
    if (count == 0 && finite && wp::abs(first) < real({FLOOR!r})) active.data[problem] = 0;
    if (!finite) failed.data[problem] = 2;
}}
"""


@cache
def pcg_kernel(n: int, knots: int, dtype: str) -> Any:
    """Kernel over blocks (problems): costates, iteration counts, and `active` 0 where there was nothing to do.

    NaN makes `open` false, and a problem with one is flagged as failed with its costates cleared.
    """
    arrays = {"S": f"{dtype} 4", "P": f"{dtype} 4", "gamma": f"{dtype} 3", "tolerance": f"{dtype} 1", "active": "int32 1"}
    arrays |= {"dual": f"{dtype} 3", "work": f"{dtype} 1", "iterations": "int32 2", "failed": "int32 1"}
    room = 64
    while room < knots:
        room *= 2  # few sizes, so that horizons share a compiled kernel
    shared = f"{dtype} {4 * n * room + WIDEST}"
    scalars = {"cap": "int32", "iteration": "int32"}
    return native_kernel("torque_pcg", pcg_body(n, dtype), arrays, indices=("problem",), scalars=scalars, shared=shared)
