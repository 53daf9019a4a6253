"""The front of plans on trees: one body of code per class of equal fronts, driven by the table (tables.py).

A front works on the variables [s; p; q] (substituted, eliminated, coupled) and a right-hand side as its last row:

    ASSEMBLE    sum the records of the table and the updates of the children
    SUBSTITUTE  s = T [p; q], T = [S_b X_b]:   F += T' F_ss T + T' F_s + F_s' T
    PANEL       L L' = F_pp,  W = F_qp L^-T,  z = L^-1 b_p, in place
    UPDATE      U = F_qq - W W',  u = b_q - W z, for the parent
    BACK        x_p = -L^-T (z + W' x_q),  x_s = T [x_p; x_q]

Columns s and p are the panel, on chip where it fits; columns q live where the parent reads them. So a front of any width takes a panel
of its own height, and the update is formed row by row from it (the split factor).
Source: Duff, Erisman, Reid, Direct Methods for Sparse Matrices (2017), chapter 11; Featherstone, Rigid Body Dynamics Algorithms (2008),
section 7.2, for the substitution on a tree.
"""

from branch_mpc.branch import front_lanes
from branch_mpc.branch.text import Worker, braces


def front(worker: Worker, *, on_chip: int, unroll: bool) -> str:
    """Statements that factor `front` of `cell` with the sizes M, P, Q; `on_chip` numbers of a panel, 0 for in place."""
    text = f"const int E = M + P + Q, MP = M + P, LD = {'MP | 1' if on_chip and worker.block else 'MP'};\n"
    if on_chip and not worker.block:
        text += f"T A[{on_chip}];\n"
    elif not on_chip:
        text += "T* const A = panels.data + (size_t)cell * PANELS + row[H_PANEL];\n"
    text += "int failed = 0;\n"
    text += "auto F = [&](int i, int j) -> T& { return j < MP ? A[i * LD + j] : update(row[H_UPDATE] + (i - MP) * Q + j - MP); };\n"
    if worker.block:
        text += front_lanes.assemble() + braces("if (M > 0) {", _substitute(worker)) + front_lanes.panel()
    else:
        text += "for (int i = 0; i < (E + 1) * MP; ++i) A[i] = T(0);\n"
        text += "for (int i = 0; i < Q * Q + Q; ++i) update(row[H_UPDATE] + i) = T(0);\n"
        text += _assemble(worker) + braces("if (M > 0) {", _substitute(worker)) + _panel(worker, unroll)
    text += _update(worker, unroll) + (_store(worker) if on_chip else "")
    word = "if (failed) wp::atomic_max(&status.data[cell], (FRONTS - front) * 4 + (failed & 1 ? 3 : 2));\n"
    return text + word + worker.sync


def _assemble(worker: Worker) -> str:
    at = "const int r = e[R_ROW], c = e[R_COL], rows = e[R_ROWS], cols = e[R_COLS], stride = e[R_STRIDE];\n"
    head = "const int* const e = table.data + row[H_PIECES] + 8 * n;\nconst int kind = e[R_KIND];\n" + at
    head += "const T* const from = source(e[R_ARRAY], cell) + e[R_OFFSET];\n"
    lower = worker.grid("i", "rows", "j", "rows", "if (j <= i) F(r + i, c + j) += from[i * stride + j];")
    full = worker.grid("i", "rows", "j", "cols", "F(r + i, c + j) += from[i * stride + j];")
    turned = worker.grid("i", "rows", "j", "cols", "F(c + j, r + i) += from[i * stride + j];")
    band = worker.each("i", "rows", "F(r + i, c + i) += from[i * stride];")
    scaled = worker.each("i", "rows", "F(r + i, r + i) += from[0] * source(cols, cell)[c + i];")
    gradient = worker.each("i", "rows", "F(E, r + i) += from[i * stride];")
    cases = [("LOWER", lower), ("FULL", full), ("TRANSPOSED", turned), ("BAND", band), ("SCALED", scaled), ("GRADIENT", gradient)]
    body = head + "else ".join(braces(f"if (kind == {name}) {{", code) for name, code in cases) + worker.sync
    text = braces("for (int n = 0; n < row[H_PIECE_COUNT]; ++n) {", body)
    child = "const int* const e = table.data + row[H_CHILDREN] + 4 * n;\nconst int* const map = table.data + e[2];\n"
    child += "const int count = e[1], from = e[0];\n"
    add = "const int a = map[i], b = map[j];\nF(a > b ? a : b, a > b ? b : a) += update(from + i * count + j);"
    child += worker.grid("i", "count", "j", "count", braces("if (j <= i) {", add))
    child += worker.each("i", "count", "F(E, map[i]) += update(from + count * count + i);") + worker.sync
    return text + braces("for (int n = 0; n < row[H_CHILD_COUNT]; ++n) {", child)


def _substitute(worker: Worker) -> str:
    """Columns of T are S_b and X_b (or unit vectors); every lane keeps all of them."""
    text = RELATION
    text += "T t[12 * 6], R[12 * 6];\n"
    columns = "for (int i = 0; i < 6; ++i) t[k * 6 + i] = column(k, i);\n"
    products = "T sum = T(0);\nfor (int j = 0; j < 6; ++j) sum += A[(i > j ? i : j) * LD + (i > j ? j : i)] * t[k * 6 + j];\n"
    text += braces("for (int k = 0; k < K; ++k) {", columns + braces("for (int i = 0; i < 6; ++i) {", products + "R[k * 6 + i] = sum;"))
    pair = "const int a = at(k), b = at(l);\nif (a < b) continue;\nT sum = T(0);\n"
    pair += "for (int i = 0; i < 6; ++i) sum += t[k * 6 + i] * (R[l * 6 + i] + A[(6 + b) * LD + i]) + A[(6 + a) * LD + i] * t[l * 6 + i];\n"
    text += worker.grid("k", "K", "l", "K", pair + "F(6 + a, 6 + b) += sum;")
    other = "if (j >= dof_at && j < dof_at + dofs || twist_at >= 0 && j >= twist_at && j < twist_at + 6) continue;\n"
    other += "const int a = at(k);\nT sum = T(0);\nfor (int i = 0; i < 6; ++i) sum += t[k * 6 + i] * A[(6 + j) * LD + i];\n"
    text += worker.grid("k", "K", "j", "P + Q", other + "F(6 + (a > j ? a : j), 6 + (a > j ? j : a)) += sum;")
    right = "T sum = T(0);\nfor (int i = 0; i < 6; ++i) sum += t[k * 6 + i] * A[E * LD + i];\nF(E, 6 + at(k)) += sum;"
    return text + worker.each("k", "K", right) + worker.sync


# Columns of T: those of S_b first, then those of X_b.
RELATION = """const int dofs = row[H_DOFS], dof_at = row[H_DOF_AT], twist_at = row[H_TWIST_AT], K = dofs + (twist_at >= 0 ? 6 : 0);
auto at = [&](int k) { return k < dofs ? dof_at + k : twist_at + k - dofs; };
auto column = [&](int k, int i) -> T {
    return k < dofs ? columns(cell)[(row[H_FIRST_DOF] + k) * 6 + i] : transport(cell, row[H_BODY], i, k - dofs);
};
"""


def _panel(worker: Worker, unroll: bool) -> str:
    """Right-looking; the right-hand side is the last row. Bit 1 of `failed`: a pivot, bit 2: a right-hand side."""
    pivot = "const int c = M + k;\nconst T d = A[c * LD + c];\n"
    pivot += "const bool good = d > T(0) && d * T(0) == T(0);\nif (!good) failed |= 1;\n"
    pivot += "const T inverse = good ? T(1) / wp::sqrt(d) : T(0);\n"
    scale = worker.each("i", "E + 1", "A[i * LD + c] *= inverse;", start="c + 1") + "A[c * LD + c] = inverse;\n"
    scale += "for (int j = c + 1; j < MP; ++j) column[j] = A[j * LD + c];\n"
    row = "const int end = i < MP ? i + 1 : MP;\nconst T f = A[i * LD + c];\nT* const line = A + i * LD;\n"
    row += "for (int j = c + 1; j < end; ++j) line[j] -= f * column[j];"
    eliminate = worker.each("i", "E + 1", row, start="c + 1")
    head = "WP_PRAGMA_UNROLL\n" if unroll else ""
    text = "T column[PANEL_WIDTH];\n" + head + braces("for (int k = 0; k < P; ++k) {", pivot + scale + eliminate)
    return text + "for (int k = 0; k < P; ++k) if (!(A[E * LD + M + k] * T(0) == T(0))) failed |= 2;\n"


def _update(worker: Worker, unroll: bool) -> str:
    entry = "const T* const a = A + (MP + i) * LD + M;\nconst T* const b = A + (MP + j) * LD + M;\nT sum = T(0);\n"
    entry += ("WP_PRAGMA_UNROLL\n" if unroll else "") + "for (int k = 0; k < P; ++k) sum += a[k] * b[k];\n"
    text = worker.grid("i", "Q + 1", "j", "Q", braces("if (j <= i) {", entry + "update(row[H_UPDATE] + i * Q + j) -= sum;"))
    finite = worker.each("i", "Q", "if (!(update(row[H_UPDATE] + Q * Q + i) * T(0) == T(0))) failed |= 2;")
    return text + worker.sync + finite


def _store(worker: Worker) -> str:
    return worker.grid("i", "P + Q + 1", "j", "P", "panel(row[H_PANEL] + i * P + j) = A[(M + i) * LD + M + j];")


def back(worker: Worker, *, on_chip: bool, wide: int, staged: bool) -> str:
    """Statements that solve `front` of `cell` from the solution of its coupled variables."""
    text = "const int* const ids = table.data + row[H_IDS];\n"
    if on_chip:
        text += "auto L = [&](int i, int j) -> T { return panel(row[H_PANEL] + i * P + j); };\n"
    else:
        text += "const T* const A = panels.data + (size_t)cell * PANELS + row[H_PANEL] + M * (M + P) + M;\n"
        text += "auto L = [&](int i, int j) -> T { return A[i * (M + P) + j]; };\n"
    if worker.block:
        text += front_lanes.back(staged)
    else:
        text += f"T s[{wide}];\n"
        start = "T sum = -L(P + Q, j);\nfor (int i = 0; i < Q; ++i) sum -= L(P + i, j) * value(cell, ids[P + i]);\ns[j] = sum;"
        step = "const T x = s[j] * L(j, j);\n" + worker.each("i", "j", "s[i] -= L(j, i) * x;") + "value(cell, ids[j]) = x;\n"
        text += worker.each("j", "P", start) + braces("for (int j = P - 1; j >= 0; --j) {", step)
    twist = "T sum = T(0);\nfor (int k = 0; k < K; ++k) sum += column(k, i) * value(cell, ids[at(k)]);\n"
    return text + braces("if (M > 0) {", RELATION + worker.each("i", "6", twist + "value(cell, row[H_TWIST] + i) = sum;") + worker.sync)
