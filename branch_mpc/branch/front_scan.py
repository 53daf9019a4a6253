"""Fronts of the cyclic plan of a chain of states: segments of the horizon are joined in pairs, in logarithmic depth.

A segment from x_i to x_j whose inputs are eliminated is x_j = A x_i + b + C lambda with the cost 1/2 x_i' J x_i - eta' x_i, where lambda is
the multiplier of its end. Joining it with what follows, of value 1/2 x_j' J2 x_j - eta2' x_j, eliminates x_j. With J2 = L L' and
K = L (1 + L' C L)^-1 L' = (1 + J2 C)^-1 J2, symmetric and without the inverse of a matrix that may be singular:

    J <- J + A' K A,     eta <- eta + A' (e - K C e),  e = eta2 - J2 b                                   (values and segments)
    A <- A2 (1 - C K) A, b <- b2 + A2 (1 - C K)(b + C eta2), C <- C2 + A2 (1 - C K) C A2'                (segments only)

Up the tree segments are joined, down the tree values are passed to the left halves; then every frame has the value of its successor and
all gains are computed at once. Every block H_uu must be positive on its own, which the chronological plan does not need.
Source: Sarkka and Garcia-Fernandez, Temporal parallelization of dynamic programming and linear quadratic control (2023), equation 42.
"""

from branch_mpc.branch.front_chain import RECORD, solve_walk
from branch_mpc.branch.problem import Coefficient
from branch_mpc.branch.program import Layout, Program, assemble_sums, pointers, preamble, scales, skip
from branch_mpc.branch.scan_table import operations
from branch_mpc.branch.text import Worker, braces, tables

# Work of an instance: records of the frames, then segments (A, C, b, J, eta), then values (J, eta), then scratch of the widest level.
SIZES = (
    "constexpr int J_AT = 2 * NX * NX + NX, SEGMENT = J_AT + NX * NX + NX, VALUE = NX * NX + NX, SCRATCH = {scratch} * NX * NX + 4 * NX;\n"
)
MATRICES = ("L", "CL", "S", "Z", "K", "W", "WA", "WC", "KA", "D")


def workspace(layout: Layout) -> int:
    """Numbers of global memory per instance."""
    relation = layout.plan.relation
    nx, nu, steps = relation.states.width, relation.inputs.width, relation.inputs.frames
    levels, _, segments = operations(steps, nx)
    widest = max((len(level) for level in levels), default=0)
    return steps * (nu * nu + nu * layout.row + 2) + segments + widest * (len(MATRICES) * nx * nx + 4 * nx)


def programs(layout: Layout, dtype: str) -> tuple[Program, Program]:
    """The factor and solve kernels."""
    return _factor(layout, dtype), solve_walk(layout, dtype, workspace(layout))


def _factor(layout: Layout, dtype: str) -> Program:
    worker, relation = layout.worker, layout.plan.relation
    levels, _, segments = operations(relation.inputs.frames, relation.states.width)
    text = preamble(layout, dtype, {"flag": 1}) + RECORD.format(update="0") + SIZES.format(scratch=len(MATRICES))
    text += f"constexpr int SEGMENTS = {segments}, LEVELS = {len(levels)}, WORK = {workspace(layout)};\n"
    text += skip("active.data[instance] == 0") + scales(layout)
    text += "T* const records = work.data + (size_t)instance * WORK;\nT* const segments = records + STEPS * RECORD;\n"
    text += "T* const scratch = segments + SEGMENTS;\nconst int* const places = table.data + 3 * STEPS;\n"
    text += f"{worker.first}flag[0] = T(0);\n{worker.first}pivot_failed.data[instance] = 0;\n" + worker.sync
    text += "// SEGMENTS OF ONE FRAME\n" + worker.each("t", "STEPS", _leaf(layout))
    text += "// VALUE OF THE LAST FRAME\nT* const last = segments + places[STEPS - 1];\n" + _terminal(layout) + worker.sync
    level = "const int* const rows = table.data + places[STEPS + 2 * l];\nconst int count = places[STEPS + 2 * l + 1];\n"
    text += braces("for (int l = 0; l < LEVELS; ++l) {", level + _join(worker))
    text += "// GAINS\n" + worker.each("t", "STEPS", _gains(layout)) + worker.sync
    text += braces("if (flag[0] != T(0)) {", f"{worker.first}pivot_failed.data[instance] = (int)flag[0];\nreturn;")
    sums = "T largest = T(0), half = T(0);\n"
    each = "const T* const s = records + i * RECORD + STATISTICS;\nlargest = wp::max(largest, s[0]);\nhalf += s[1];"
    sums += braces("for (int i = 0; i < STEPS; ++i) {", each)
    sums += "gradient.data[instance] = largest;\npredicted_decrease.data[instance] = half;"
    text += braces("if (lane == 0) {" if worker.block else "{", sums)
    return Program("factor", text, 1 if worker.block else 0, False)


def _terms(layout: Layout, at: str) -> str:
    """Functions h(i, j), i >= j, and g(i) of frame `at`: the sum of all terms."""
    H, g = assemble_sums(layout)
    text = "".join(
        f"const T* const H{i}_t = H{i}.data + ((size_t)instance * FRAMES + {at}) * NZ * NZ;\n"
        f"const T* const g{i}_t = g{i}.data + ((size_t)instance * FRAMES + {at}) * NZ;\n"
        for i in range(len(layout.plan.problem.quadratics))
    )
    return text + f"auto h = [&](int i, int j) -> T {{ return {H}; }};\nauto gradient_of = [&](int i) -> T {{ return {g}; }};\n"


def _matrices(layout: Layout) -> str:
    """A_t and B_t as pointers or tables, and c_t."""
    matrices: list[Coefficient] = [layout.plan.relation.A, layout.plan.relation.B]
    text = pointers(layout) + tables(matrices)
    if layout.plan.relation.c is None:
        return text + "auto offset = [&](int i) -> T { return T(0); };\n"
    return text + "auto offset = [&](int i) -> T { return c_t[i]; };\n"


CHOLESKY = """for (int k = 0; k < NU; ++k) {
    T d = L[k * NU + k];
    for (int p = 0; p < k; ++p) d -= L[k * NU + p] * L[k * NU + p];
    if (!(d > T(0) && d * T(0) == T(0))) flag[0] = T(1);
    const T inverse = T(1) / wp::sqrt(d);
    L[k * NU + k] = inverse;
    for (int i = k + 1; i < NU; ++i) {
        T s = L[i * NU + k];
        for (int p = 0; p < k; ++p) s -= L[i * NU + p] * L[k * NU + p];
        L[i * NU + k] = s * inverse;
    }
    for (int j = 0; j <= NX; ++j) {
        T s = Y[k * (NX + 1) + j];
        for (int p = 0; p < k; ++p) s -= L[k * NU + p] * Y[p * (NX + 1) + j];
        Y[k * (NX + 1) + j] = s * inverse;
    }
}
"""


def _leaf(layout: Layout) -> str:
    """One frame as a segment: u eliminated without what follows."""
    text = _terms(layout, "t") + _matrices(layout) + "T L[NU * NU], Y[NU * (NX + 1)], G[NX * NU];\n"
    text += "for (int i = 0; i < NU; ++i) { for (int j = 0; j <= i; ++j) L[i * NU + j] = h(NX + i, NX + j);\n"
    text += "for (int j = 0; j < NX; ++j) Y[i * (NX + 1) + j] = h(NX + i, j);\nY[i * (NX + 1) + NX] = gradient_of(NX + i); }\n"
    text += CHOLESKY
    text += """for (int i = 0; i < NX; ++i) for (int k = 0; k < NU; ++k) {  // G = B L^-T
    T s = B_t[i * NU + k];
    for (int p = 0; p < k; ++p) s -= G[i * NU + p] * L[k * NU + p];
    G[i * NU + k] = s * L[k * NU + k];
}
T* const own = segments + t * SEGMENT;
for (int i = 0; i < NX; ++i) {
    T b = offset(i), eta = -gradient_of(i);
    for (int k = 0; k < NU; ++k) { b -= G[i * NU + k] * Y[k * (NX + 1) + NX]; eta += Y[k * (NX + 1) + i] * Y[k * (NX + 1) + NX]; }
    own[2 * NX * NX + i] = b;
    own[J_AT + NX * NX + i] = eta;
    for (int j = 0; j < NX; ++j) {
        T a = A_t[i * NX + j], c = T(0), q = i >= j ? h(i, j) : h(j, i);
        for (int k = 0; k < NU; ++k) {
            a -= G[i * NU + k] * Y[k * (NX + 1) + j];
            c += G[i * NU + k] * G[j * NU + k];
            q -= Y[k * (NX + 1) + i] * Y[k * (NX + 1) + j];
        }
        own[i * NX + j] = a;
        own[NX * NX + i * NX + j] = c;
        own[J_AT + i * NX + j] = q;
    }
}
"""
    return text


def _terminal(layout: Layout) -> str:
    body = "last[i * NX + j] = i >= j ? h(i, j) : h(j, i);\nif (j == 0) last[NX * NX + i] = -gradient_of(i);"
    return braces("{", _terms(layout, "(FRAMES - 1)") + layout.worker.grid("i", "NX", "j", "NX", body))


POINTERS = """const int* const row = rows + 4 * n;
const T* const A = segments + row[0];
const T* const C = A + NX * NX;
const T* const b = C + NX * NX;
const T* const J = A + J_AT;
const T* const eta = J + NX * NX;
const T* const J2 = segments + row[1];
const T* const eta2 = J2 + NX * NX;
T* const s = scratch + n * SCRATCH;
"""


def _join(worker: Worker) -> str:
    """All operations of a level, step by step: entries of all results in parallel."""
    names = "".join(f"T* const {name} = s + {i} * NX * NX;\n" for i, name in enumerate(MATRICES))
    names += f"T* const e = s + {len(MATRICES)} * NX * NX;\nT* const f = e + NX;\nT* const p = f + NX;\nT* const w = p + NX;\n"
    names += "(void)A; (void)b; (void)J; (void)eta; (void)eta2; (void)f; (void)p; (void)w; (void)e;\n"
    base = POINTERS + names

    def entries(body: str) -> str:
        head = "const int n = at / (NX * NX), i = at % (NX * NX) / NX, j = at % NX;\n"
        return worker.each("at", "count * (NX * NX)", head + base + body) + worker.sync

    def lines(body: str) -> str:
        return worker.each("at", "count * NX", "const int n = at / NX, i = at % NX;\n" + base + body) + worker.sync

    def product(left: str, right: str, result: str, start: str = "T(0)", sign: str = "+") -> str:
        return f"{{ T sum = {start};\nfor (int k = 0; k < NX; ++k) sum {sign}= {left} * {right};\n{result} = sum; }}\n"

    text = worker.each("n", "count", base + _roots()) + worker.sync
    text += entries(product("C[i * NX + k]", "L[k * NX + j]", "CL[i * NX + j]"))
    text += entries(product("L[k * NX + i]", "CL[k * NX + j]", "S[i * NX + j]", "i == j ? T(1) : T(0)"))
    text += worker.each("n", "count", base + _inner_cholesky()) + worker.sync
    text += lines(_forward_lines())
    text += entries(product("Z[k * NX + i]", "Z[k * NX + j]", "K[i * NX + j]"))
    text += entries(
        product("C[i * NX + k]", "K[k * NX + j]", "W[i * NX + j]", "i == j ? T(1) : T(0)", "-")
        + product("K[i * NX + k]", "A[k * NX + j]", "KA[i * NX + j]")
        + braces(
            "if (j == 0) {", product("J2[i * NX + k]", "b[k]", "e[i]", "eta2[i]", "-") + product("C[i * NX + k]", "eta2[k]", "p[i]", "b[i]")
        )
    )
    text += entries(
        product("W[i * NX + k]", "A[k * NX + j]", "WA[i * NX + j]")
        + product("W[i * NX + k]", "C[k * NX + j]", "WC[i * NX + j]")
        # (1 - K C) e is the transpose of W
        + braces("if (j == 0) {", product("W[k * NX + i]", "e[k]", "f[i]") + product("W[i * NX + k]", "p[k]", "w[i]"))
    )
    out = "T* const made = segments + row[2] + (row[3] < 0 ? 0 : J_AT);\n"
    out += product("A[k * NX + i]", "KA[k * NX + j]", "made[i * NX + j]", "J[i * NX + j]")
    out += braces("if (j == 0) {", product("A[k * NX + i]", "f[k]", "made[NX * NX + i]", "eta[i]"))
    whole = "const T* const A2 = segments + row[3];\n" + product("A2[i * NX + k]", "WC[k * NX + j]", "D[i * NX + j]")
    whole += product("A2[i * NX + k]", "WA[k * NX + j]", "segments[row[2] + i * NX + j]")
    joined = product("A2[i * NX + k]", "w[k]", "segments[row[2] + 2 * NX * NX + i]", "A2[2 * NX * NX + i]")
    text += entries(out + braces("if (row[3] >= 0) {", whole + braces("if (j == 0) {", joined)))
    last = "const T* const A2 = segments + row[3];\n"
    last += product("D[i * NX + k]", "A2[j * NX + k]", "segments[row[2] + NX * NX + i * NX + j]", "A2[NX * NX + i * NX + j]")
    return text + entries(braces("if (row[3] >= 0) {", last))


def _roots() -> str:
    """J2 = L L', columns of pivots that are not positive beside the largest are left out: J2 may be singular."""
    return """T most = T(0), finite = T(0);
for (int k = 0; k < NX; ++k) most = wp::max(most, J2[k * NX + k]);
for (int k = 0; k < NX * NX; ++k) finite += J2[k] * T(0);
const T unit = T(NX) * (sizeof(T) == 4 ? T(1.2e-7) : T(2.3e-16));
if (!(finite == T(0))) flag[0] = T(1);
for (int k = 0; k < NX; ++k) {
    T d = J2[k * NX + k];
    for (int m = 0; m < k; ++m) d -= L[k * NX + m] * L[k * NX + m];
    const bool keep = d > unit * J2[k * NX + k];
    if (d < T(-64) * unit * most) flag[0] = T(1);  // not convex: this plan cannot tell whether the whole problem is
    const T root = keep ? wp::sqrt(d) : T(0);
    for (int i = 0; i < NX; ++i) {
        T v = J2[i * NX + k];
        for (int m = 0; m < k; ++m) v -= L[i * NX + m] * L[k * NX + m];
        L[i * NX + k] = i < k || !keep ? T(0) : i == k ? root : v / root;
    }
}
"""


def _inner_cholesky() -> str:
    """S = R R' in place, S at least 1."""
    return """for (int k = 0; k < NX; ++k) {
    T d = S[k * NX + k];
    for (int m = 0; m < k; ++m) d -= S[k * NX + m] * S[k * NX + m];
    if (!(d > T(0) && d * T(0) == T(0))) flag[0] = T(1);
    const T inverse = T(1) / wp::sqrt(d);
    S[k * NX + k] = inverse;
    for (int i = k + 1; i < NX; ++i) {
        T v = S[i * NX + k];
        for (int m = 0; m < k; ++m) v -= S[i * NX + m] * S[k * NX + m];
        S[i * NX + k] = v * inverse;
    }
}
"""


def _forward_lines() -> str:
    """Column i of Z = R^-1 L'."""
    return """for (int k = 0; k < NX; ++k) {
    T v = L[i * NX + k];
    for (int m = 0; m < k; ++m) v -= S[k * NX + m] * Z[m * NX + i];
    Z[k * NX + i] = v * S[k * NX + k];
}
"""


def _gains(layout: Layout) -> str:
    """The record of frame t from the value of its successor: the panel of the chronological plan."""
    text = _terms(layout, "t") + _matrices(layout) + "const T* const V = segments + places[t];\nconst T* const eta = V + NX * NX;\n"
    text += """T L[NU * NU], Y[NU * (NX + 1)], G[NX * NU], v[NX];
for (int i = 0; i < NX; ++i) {
    v[i] = -eta[i];
    for (int k = 0; k < NX; ++k) v[i] += V[i * NX + k] * offset(k);
    for (int j = 0; j < NU; ++j) {
        T sum = T(0);
        for (int k = 0; k < NX; ++k) sum += V[i * NX + k] * B_t[k * NU + j];
        G[i * NU + j] = sum;
    }
}
T largest = T(0), half = T(0);
for (int i = 0; i < NU; ++i) {
    for (int j = 0; j <= i; ++j) {
        T sum = h(NX + i, NX + j);
        for (int k = 0; k < NX; ++k) sum += B_t[k * NU + i] * G[k * NU + j];
        L[i * NU + j] = sum;
    }
    for (int j = 0; j < NX; ++j) {
        T sum = h(NX + i, j);
        for (int k = 0; k < NX; ++k) sum += G[k * NU + i] * A_t[k * NX + j];
        Y[i * (NX + 1) + j] = sum;
    }
    T sum = gradient_of(NX + i);
    for (int k = 0; k < NX; ++k) sum += B_t[k * NU + i] * v[k];
    Y[i * (NX + 1) + NX] = sum;
    largest = wp::max(largest, wp::abs(sum));
}
"""
    text += CHOLESKY
    text += """T* const record = records + (STEPS - 1 - t) * RECORD;
T check = T(0);
for (int i = 0; i < NU * NU; ++i) record[i] = L[i];
for (int i = 0; i < NU; ++i) {
    for (int j = 0; j < LD; ++j) record[Y_AT + i * LD + j] = j <= NX ? Y[i * (NX + 1) + j] : T(0);
    for (int j = 0; j <= NX; ++j) check += Y[i * (NX + 1) + j] * T(0);
    half += T(0.5) * Y[i * (NX + 1) + NX] * Y[i * (NX + 1) + NX];
}
if (check != T(0) && flag[0] == T(0)) flag[0] = T(2);
record[STATISTICS] = largest;
record[STATISTICS + 1] = half;
"""
    return text
