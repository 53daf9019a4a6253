"""The steps of a front that a block of lanes takes differently from one thread: fewer barriers, the same results.

ASSEMBLE gives every lane columns of its own, so that records and children need no barrier between them and are summed in the order of
the table. PANEL keeps columns unscaled until all are eliminated, which takes one barrier a pivot. BACK works on a copy of L on chip.
"""

from collections.abc import Callable

from branch_mpc.branch.text import Worker, braces

STAGED = 64 << 10  # bytes of L that the solve kernel copies to shared memory
LANES = Worker(block=True)


def own(first: str, index: str, count: str, body: str) -> str:
    """A loop over the columns first + index that this lane owns."""
    start = f"const int begin = (lane - ({first}) % lanes + lanes) % lanes;\n"
    return braces("{", start + braces(f"for (int {index} = begin; {index} < {count}; {index} += lanes) {{", body))


def assemble() -> str:
    """Zero the front and sum its records and children."""
    clear = "if (j < MP) for (int i = 0; i <= E; ++i) A[i * LD + j] = T(0);\n"
    clear += "else for (int i = 0; i <= Q; ++i) update(row[H_UPDATE] + i * Q + j - MP) = T(0);"
    text = own("0", "j", "MP + Q", clear)
    head = "const int* const e = table.data + row[H_PIECES] + 8 * n;\nconst int kind = e[R_KIND];\n"
    head += "const int r = e[R_ROW], c = e[R_COL], rows = e[R_ROWS], cols = e[R_COLS], stride = e[R_STRIDE];\n"
    head += "const T* const from = source(e[R_ARRAY], cell) + e[R_OFFSET];\n"
    down: Callable[[str], str] = lambda start: f"for (int i = {start}; i < rows; ++i) F(r + i, c + j) += from[i * stride + j];"  # noqa: E731
    cases = [
        ("LOWER", own("c", "j", "rows", down("j"))),
        ("FULL", own("c", "j", "cols", down("0"))),
        ("TRANSPOSED", own("r", "i", "rows", "for (int j = 0; j < cols; ++j) F(c + j, r + i) += from[i * stride + j];")),
        ("BAND", own("c", "i", "rows", "F(r + i, c + i) += from[i * stride];")),
        ("SCALED", own("r", "i", "rows", "F(r + i, r + i) += from[0] * source(cols, cell)[c + i];")),
        ("GRADIENT", own("r", "i", "rows", "F(E, r + i) += from[i * stride];")),
    ]
    body = head + "else ".join(braces(f"if (kind == {name}) {{", code) for name, code in cases)
    text += braces("for (int n = 0; n < row[H_PIECE_COUNT]; ++n) {", body)
    # Maps ascend: both fronts list their unknowns in the order of elimination.
    column = "const int b = map[j];\nif (b % lanes != lane) continue;\n"
    column += "for (int i = j; i < count; ++i) F(map[i], b) += update(from + i * count + j);\n"
    column += "F(E, b) += update(from + count * count + j);"
    child = "const int* const e = table.data + row[H_CHILDREN] + 4 * n;\nconst int* const map = table.data + e[2];\n"
    child += "const int count = e[1], from = e[0];\n" + braces("for (int j = 0; j < count; ++j) {", column)
    return text + braces("for (int n = 0; n < row[H_CHILD_COUNT]; ++n) {", child) + LANES.sync


def panel() -> str:
    """L, W and z; `inverses` holds one over the diagonal of L."""
    pivot = "const int c = M + k;\nconst T d = A[c * LD + c];\nconst bool good = d > T(0) && d * T(0) == T(0);\n"
    pivot += "if (!good) failed |= 1;\nconst T square = good ? T(1) / d : T(0);\n"
    line = "const int end = i < MP ? i + 1 : MP;\nconst T f = A[i * LD + c] * square;\nT* const a = A + i * LD;\n"
    line += "for (int j = c + 1; j < end; ++j) a[j] -= f * A[j * LD + c];"
    text = braces("for (int k = 0; k < P; ++k) {", pivot + LANES.each("i", "E + 1", line, start="c + 1") + LANES.sync)
    root = "const T d = A[(M + k) * LD + M + k];\ninverses[k] = d > T(0) && d * T(0) == T(0) ? T(1) / wp::sqrt(d) : T(0);"
    text += LANES.each("k", "P", root) + LANES.sync
    entry = "T& a = A[(M + i) * LD + M + j];\nif (j == i) a = inverses[j];\nelse if (j < i) a *= inverses[j];"
    text += LANES.grid("i", "P + Q + 1", "j", "P", entry) + LANES.sync
    return text + LANES.each("k", "P", "if (!(A[E * LD + M + k] * T(0) == T(0))) failed |= 2;")


def back(staged: bool) -> str:
    """Solve from a copy of the triangle of L, one barrier a pivot."""
    text = "auto triangle = [&](int i, int j) -> T { return L(i, j); };\n"
    if staged:
        text = "T* const copy = s + WIDEST;\nauto triangle = [&](int i, int j) -> T { return copy[i * P + j]; };\n"
        text += LANES.grid("i", "P", "j", "P", "copy[i * P + j] = L(i, j);")
    start = "T sum = -L(P + Q, j);\nfor (int i = 0; i < Q; ++i) sum -= L(P + i, j) * value(cell, ids[P + i]);\ns[j] = sum;"
    text += LANES.each("j", "P", start) + LANES.sync
    step = "const T x = s[j] * triangle(j, j);\n" + LANES.each("i", "j", "s[i] -= triangle(j, i) * x;")
    return text + braces("for (int j = P - 1; j >= 0; --j) {", step + f"{LANES.first}value(cell, ids[j]) = x;\n" + LANES.sync)
