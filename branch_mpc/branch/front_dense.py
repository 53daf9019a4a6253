"""The one front of the dense plan: all inputs, the states condensed out.

The relation is substituted backward without elimination, V_t = M_xx, which leaves K_t = [M_ux | m_u] and the pivot block P of every frame
(program.py); the normal matrix and right-hand side over all inputs are then

    G[t, t] = P_t,   G[t, s] = K_t x for the states x_t that a unit of u_s alone causes (s < t),   b_t = m_u + K_t x for the free states.

Then G = L L', y = L^-1 b, u = -L^-T y, and the states follow by rolling out.
Source: Bock and Plitt, A multiple shooting algorithm (1984), condensing; Golub and Van Loan, Matrix Computations (2013), section 4.2.
"""

from branch_mpc.branch.program import (
    Layout,
    Program,
    advance,
    assemble,
    clear,
    outputs,
    pointers,
    preamble,
    scales,
    skip,
    start_state,
    substitute,
    terminal,
)
from branch_mpc.branch.text import braces, unrolled

# Row r of the triangle starts at r (r + 1) / 2; row PIVOTS is the right-hand side.
SIZES = "constexpr int PIVOTS = STEPS * NU, RHS = PIVOTS * (PIVOTS + 1) / 2;\n"
SIZES += "constexpr int G_AT = STEPS * NU * LD, RECORD = G_AT + RHS + 2 * PIVOTS + 1;\n"


def triangle(layout: Layout) -> int:
    """Entries of the triangle of G and the right-hand side."""
    p = layout.plan.fronts[0].eliminated
    return p * (p + 1) // 2 + p


def workspace(layout: Layout) -> int:
    """Numbers of global memory per instance: K of every frame, the factor, and a column."""
    front = layout.plan.fronts[0]
    return front.eliminated * layout.row + triangle(layout) + front.eliminated + 1


def programs(layout: Layout, dtype: str) -> tuple[Program, Program]:
    """The factor and solve kernels."""
    return _factor(layout, dtype), _solve(layout, dtype)


def _factor(layout: Layout, dtype: str) -> Program:
    worker, pivots = layout.worker, layout.plan.fronts[0].eliminated
    storage = layout.arrays | ({"G": triangle(layout), "column": pivots + 1} if worker.block else {}) | {"flag": 1}
    text = preamble(layout, dtype, storage) + SIZES + skip("active.data[instance] == 0") + scales(layout)
    text += "T* const record = work.data + (size_t)instance * RECORD;\n"
    if not worker.block:
        text += "T* const G = record + G_AT;\nT* const column = G + RHS + PIVOTS;\n"
    text += clear(layout) + f"{worker.first}flag[0] = T(0);\n{worker.first}pivot_failed.data[instance] = 0;\n"
    text += terminal(layout)
    text += braces("for (int t = STEPS - 1; t >= 0; --t) {", _backward(layout))
    text += "// NORMAL MATRIX, a column a lane; column PIVOTS is the right-hand side\n"
    text += worker.each("n", "PIVOTS + 1", _column(layout)) + worker.sync + "T largest = T(0);\n"
    largest = "for (int i = 0; i < PIVOTS; ++i) largest = wp::max(largest, wp::abs(G[RHS + i]));\n"
    text += (braces("if (lane == 0) {", largest) if worker.block else largest) + worker.sync
    text += "// CHOLESKY, right-looking, the right-hand side as the last row\n"
    text += braces("for (int k = 0; k < PIVOTS; ++k) {", _eliminate(layout))
    text += worker.each("i", "PIVOTS", "if (!(G[RHS + i] * T(0) == T(0))) flag[0] = T(2);") + worker.sync
    text += braces("if (flag[0] != T(0)) {", f"{worker.first}pivot_failed.data[instance] = (int)flag[0];\nreturn;")
    if worker.block:
        text += worker.each("i", "RHS + PIVOTS", "record[G_AT + i] = G[i];")
    sums = "T half = T(0);\nfor (int i = 0; i < PIVOTS; ++i) half += T(0.5) * G[RHS + i] * G[RHS + i];\n"
    sums += "gradient.data[instance] = largest;\npredicted_decrease.data[instance] = half;"
    text += braces("if (lane == 0) {" if worker.block else "{", sums)
    return Program("factor", text, sum(storage.values()) if worker.block else 0, False)


def _backward(layout: Layout) -> str:
    """Substitute frame t+1 and keep K_t, P_t and the value of frame t."""
    worker = layout.worker
    text = pointers(layout) + "// ASSEMBLE\n" + assemble(layout) + worker.sync + "// SUBSTITUTE\n" + substitute(layout) + worker.sync
    text += "// STORE\n" + worker.each("i", "NU * LD", "record[t * NU * LD + i] = M[NX * LD + i];")
    text += worker.grid("i", "NU", "j", "i + 1" if not worker.block else "NU", _diagonal(worker.block))
    return text + worker.grid("i", "NX", "j", layout.columns, "V[i * LD + j] = M[i * LD + j];") + worker.sync


def _diagonal(block: bool) -> str:
    return ("if (j <= i) " if block else "") + "G[(t * NU + i) * (t * NU + i + 1) / 2 + t * NU + j] = P[i * NU + j];"


def _column(layout: Layout) -> str:
    """Column n of G below its diagonal block: roll out a unit of input n, or the free states for the right-hand side."""
    text = "const bool free = n == PIVOTS;\nint t = free ? 0 : n / NU;\nT x[NX], u[NU];\n"
    text += start_state(layout, when="free")
    text += unrolled("i", "NU", "u[i] = !free && i == n % NU ? T(1) : T(0);")
    move = pointers(layout) + advance(layout, when="free")
    text += braces("if (!free) {", move + unrolled("i", "NU", "u[i] = T(0);") + "++t;")
    entry = "const T* const k = record + (t * NU + i) * LD;\nT sum = free ? k[NX] : T(0);\n" + unrolled("j", "NX", "sum += k[j] * x[j];")
    entry += "const int row = t * NU + i;\nG[free ? RHS + row : row * (row + 1) / 2 + n] = sum;"
    return text + braces("for (; t < STEPS; ++t) {", unrolled("i", "NU", entry) + move)


def _eliminate(layout: Layout) -> str:
    worker = layout.worker
    text = "T* const pivot = G + k * (k + 1) / 2 + k;\nconst T d = *pivot;\n"
    text += braces("if (!(d > T(0) && d * T(0) == T(0))) {", f"{worker.first}pivot_failed.data[instance] = 1;\nreturn;")
    text += "const T inverse = T(1) / wp::sqrt(d);\n"
    scale = "T* const entry = G + i * (i + 1) / 2 + k;\n*entry *= inverse;\ncolumn[i] = *entry;"
    text += worker.each("i", "PIVOTS + 1", scale, start="k + 1") + worker.sync + f"{worker.first}*pivot = inverse;\n"
    row = "T* const row = G + i * (i + 1) / 2;\nconst T factor = column[i];\nconst int end = i < PIVOTS ? i + 1 : PIVOTS;\n"
    row += "for (int j = k + 1; j < end; ++j) row[j] -= factor * column[j];"
    return text + worker.each("i", "PIVOTS + 1", row, start="k + 1") + worker.sync


def _solve(layout: Layout, dtype: str) -> Program:
    worker = layout.worker
    text = preamble(layout, dtype, {}) + SIZES + skip("active.data[instance] == 0 || pivot_failed.data[instance] != 0")
    text += "const T* const G = work.data + (size_t)instance * RECORD + G_AT;\n"
    text += outputs()
    text += worker.each("i", "PIVOTS", "inputs[i] = -G[RHS + i];") + worker.sync
    back = "const T* const row = G + k * (k + 1) / 2;\nconst T value = inputs[k] * row[k];\n" + worker.sync
    back += f"{worker.first}inputs[k] = value;\n" + worker.each("i", "k", "inputs[i] -= row[i] * value;") + worker.sync
    text += braces("for (int k = PIVOTS - 1; k >= 0; --k) {", back)
    text += "T x[NX], u[NU];\n" + start_state(layout) + unrolled("i", "NX", f"{worker.owns('i')}states[i] = x[i];")
    step = pointers(layout) + unrolled("i", "NU", "u[i] = inputs[t * NU + i];") + advance(layout)
    step += unrolled("i", "NX", f"{worker.owns('i')}states[(t + 1) * NX + i] = x[i];")
    return Program("solve", text + braces("for (int t = 0; t < STEPS; ++t) {", step), 0, False)
