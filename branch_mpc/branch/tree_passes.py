"""The passes around the fronts of plans on trees: condensing and rolling out twists, the end of a factorisation, many right-hand sides.

Condensing replaces the terms on twists of a frame by their Hessian and gradient over its tangents: V_b sums the terms of the subtree of b
(V_parent += X' V X), and H[i, j] = S_i' (X' .. X' V_b(j) S_j) for i above j.
Source: Featherstone, Rigid Body Dynamics Algorithms (2008), section 6.2, the composite-rigid-body algorithm with any V.
"""

from dataclasses import dataclass

import numpy as np

from branch_mpc.branch.blocks import TWIST, View
from branch_mpc.branch.front_tree import RELATION
from branch_mpc.branch.pieces import ROW
from branch_mpc.branch.program import Program
from branch_mpc.branch.text import braces
from branch_mpc.branch.tree_code import Layout, preamble, source_pointers
from branch_mpc.branch.tree_plan import TreePlan

# Threads of these passes are (index, cell): the frame of a cell, or a right-hand side.
GATHER = """const int frame = group % FRAMES, part = group / FRAMES;
const size_t at = (size_t)cell * FRAMES + frame;
const int* const parents = tree.data;
const int* const bodies = tree.data + BODIES;
const int* const firsts = tree.data + BODIES + DOFS;
"""


def tree_table(plan: TreePlan) -> np.ndarray:
    """Parents (bodies), body of each dof (dofs), first dof of each body (bodies + 1), then the records on twists of each frame and body.

    The last list is (first, count) per frame and body, then records of 8 numbers.
    """
    topology, frames = plan.blocks.tangents.topology, plan.blocks.frames
    records = np.zeros((0, 8), dtype=np.int64) if plan.condensed is None else plan.condensed
    owner = (records[:, ROW] - frames * topology.width) // TWIST
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(frames * topology.bodies + 1))
    parts = (topology.parents, topology.body_of, topology.offsets)
    base = sum(len(part) for part in parts) + 2 * frames * topology.bodies
    ranges = np.stack([base + 8 * bounds[:-1], np.diff(bounds)], axis=1)
    return np.concatenate([*parts, ranges.ravel(), records[order].ravel()]).astype(np.int32)


def _sizes(plan: TreePlan) -> str:
    topology = plan.blocks.tangents.topology
    return f"constexpr int BODIES = {topology.bodies}, DOFS = {topology.width}, FRAMES = {plan.blocks.frames};\n"


def composite(layout: Layout, dtype: str) -> Program:
    """V and v of every body, leaves first; a thread per frame."""
    plan = layout.plan
    text = preamble(layout, dtype) + _sizes(plan) + source_pointers(plan.pieces.sources, plan.split) + GATHER
    text += "T* const V = composites.data + at * BODIES * 42;\nfor (int i = 0; i < BODIES * 42; ++i) V[i] = T(0);\n"
    record = "const int* const e = tree.data + range[0] + 8 * n;\nconst T* const from = source(e[R_ARRAY], cell) + e[R_OFFSET];\n"
    lower = "for (int i = 0; i < 6; ++i) for (int j = 0; j < 6; ++j)"
    record += f"if (e[R_KIND] == LOWER) {{ {lower} own[i * 6 + j] += j <= i ? from[i * e[R_STRIDE] + j] : from[j * e[R_STRIDE] + i]; }}\n"
    record += "else for (int i = 0; i < 6; ++i) own[36 + i] += from[i];"
    body = "T* const own = V + b * 42;\nconst int* const range = tree.data + 2 * BODIES + DOFS + 1 + 2 * (frame * BODIES + b);\n"
    body += braces("for (int n = 0; n < range[1]; ++n) {", record)
    body += "if (parents[b] < 0) continue;\nT* const above = V + parents[b] * 42;\nconst int body = frame * BODIES + b;\n"
    if plan.problem.tree.twists is not None and plan.problem.tree.twists.X is not None:
        half = "T sum = T(0);\nfor (int k = 0; k < 6; ++k) sum += own[i * 6 + k] * transport(cell, body, k, j);\nhalf[i * 6 + j] = sum;"
        body += "T half[36];\n" + braces(f"{lower} {{", half)
        full = "T sum = T(0);\nfor (int k = 0; k < 6; ++k) sum += transport(cell, body, k, i) * half[k * 6 + j];\nabove[i * 6 + j] += sum;"
        body += braces(f"{lower} {{", full)
        body += "for (int i = 0; i < 6; ++i) for (int k = 0; k < 6; ++k) above[36 + i] += transport(cell, body, k, i) * own[36 + k];\n"
    else:
        body += "for (int i = 0; i < 42; ++i) above[i] += own[i];\n"
    return Program("composite", text + braces("for (int b = BODIES - 1; b >= 0; --b) {", body), 0, True)


def condense(layout: Layout, dtype: str) -> Program:
    """Row and gradient of a dof over the dofs above it; a thread per (dof, frame)."""
    plan = layout.plan
    text = preamble(layout, dtype) + _sizes(plan) + GATHER
    text += "const int j = part;\nint b = bodies[j];\nconst T* const V = composites.data + (at * BODIES + b) * 42;\n"
    text += "const T* const S_t = columns(cell) + (size_t)frame * DOFS * 6;\nT force[6], gradient = T(0);\n"
    first = "T sum = T(0);\nfor (int k = 0; k < 6; ++k) sum += V[i * 6 + k] * S_t[j * 6 + k];\nforce[i] = sum;\n"
    first += "gradient += V[36 + i] * S_t[j * 6 + i];"
    text += braces("for (int i = 0; i < 6; ++i) {", first)
    text += "T* const H = condensed.data + at * (DOFS * DOFS + DOFS);\nH[DOFS * DOFS + j] = gradient;\n"
    row = "T sum = T(0);\nfor (int k = 0; k < 6; ++k) sum += S_t[i * 6 + k] * force[k];\nH[j * DOFS + i] = sum;"
    walk = braces("for (int i = firsts[b]; i < firsts[b + 1] && i <= j; ++i) {", row)
    if plan.problem.tree.twists is not None and plan.problem.tree.twists.X is not None:
        up = "T sum = T(0);\nfor (int k = 0; k < 6; ++k) sum += transport(cell, frame * BODIES + b, k, i) * force[k];\nmoved[i] = sum;"
        walk += "T moved[6];\n" + braces("for (int i = 0; i < 6; ++i) {", up) + "for (int i = 0; i < 6; ++i) force[i] = moved[i];\n"
    return Program("condense", text + braces("while (b >= 0) {", walk + "b = parents[b];"), 0, True)


ROLL = """T sum = T(0);
for (int k = 0; k < 6 && parents[b] >= 0; ++k) sum += transport(cell, frame * BODIES + b, i, k) * {x}[parents[b] * 6 + k];
for (int d = firsts[b]; d < firsts[b + 1]; ++d) sum += columns(cell)[((size_t)frame * DOFS + d) * 6 + i] * {u}[d];
{x}[b * 6 + i] = sum;"""


def rollout(layout: Layout, dtype: str) -> Program:
    """Twists of all bodies from the tangents; a thread per frame."""
    split = layout.plan.split
    text = preamble(layout, dtype) + _sizes(layout.plan) + GATHER
    text += f"if (active.data[cell / {split}] == 0 || pivot_failed.data[cell / {split}] != 0) return;\n"
    text += "const T* const u = u_out.data + at * DOFS;\nT* const x = x_out.data + at * BODIES * 6;\n"
    each = braces("for (int i = 0; i < 6; ++i) {", _roll("x", "u"))
    return Program("rollout", text + braces("for (int b = 0; b < BODIES; ++b) {", each), 0, True)


def _roll(x: str, u: str) -> str:
    return ROLL.format(x=x, u=u)


def finish(layout: Layout, dtype: str) -> Program:
    """Flags and predicted decrease of an instance; a thread per instance."""
    split, compact = layout.plan.split, layout.table.compact
    text = (
        preamble(layout, dtype) + f"const int instance = cell;\nif (active.data[instance] == 0) return;\nconstexpr int SPLIT = {split};\n"
    )
    text += "int worst = 0, where = 0;\nT half = T(0);\n"
    z = "(P + Q) * P + k" if compact else "(M + P + Q) * (M + P) + M + k"
    front = "const int* const row = table.data + front * HEADER;\nconst int M = row[H_M], P = row[H_P], Q = row[H_Q];\n(void)M; (void)Q;\n"
    front += braces("for (int k = 0; k < P; ++k) {", f"const T z = panel_of(at, row[H_PANEL] + {z});\nhalf += T(0.5) * z * z;")
    each = "const int at = instance * SPLIT + n, word = status.data[at];\nstatus.data[at] = 0;\n"
    each += "if (word > worst) { worst = word; where = n; }\n" + braces("for (int front = 0; front < FRONTS; ++front) {", front)
    text += braces("for (int n = 0; n < SPLIT; ++n) {", each)
    text += "pivot_failed.data[instance] = worst == 0 ? 0 : (worst & 3) == 3 ? 1 : 2;\n"
    text += (
        "failed_front.data[instance] = worst == 0 ? -1 : (FRONTS - worst / 4) * SPLIT + where;\npredicted_decrease.data[instance] = half;"
    )
    # Panels may be strided by the number of cells, which is not that of the threads here.
    return Program("finish", text.replace("* cells + cell", f"* (cells * {split}) + cell"), 0, True)


@dataclass(frozen=True, eq=False)
class ManyLists:
    """What many right-hand sides read and write, as lists of variables of a cell.

    Attributes:
        given: Variables of each right-hand side array.
        wanted: Variables of each solution array.
    """

    given: list[np.ndarray]
    wanted: list[np.ndarray]


def view_variables(view: View, plan: TreePlan) -> np.ndarray:
    """Variables of a view within a cell, in the order of its array (frames, blocks, numbers)."""
    first, width = view.ranges()
    frames = plan.blocks.frames
    if plan.split > 1:
        u = view.tangents
        shift = u.frames * u.width - u.width if view.kind == "twist" else 0
        first, width = first[:1] - shift, width[:1]
    assert frames >= 1
    spans = [np.arange(f, f + w) for f, w in zip(first.ravel().tolist(), width.ravel().tolist(), strict=True)]
    return np.concatenate(spans)


def many(layout: Layout, dtype: str, lists: ManyLists, count: int) -> Program:
    """Solve for one right-hand side of one cell; a thread each, through all fronts."""
    plan = layout.plan
    has_twists = plan.problem.tree.twists is not None
    text = preamble(layout, dtype) + _sizes(plan)
    text += f"constexpr int COUNT = {count}, SPLIT = {plan.split}, VECTORS = {layout.table.vectors}, NY = NU + NX;\n"
    text += "const int rhs = group;\nconst int* const parents = tree.data;\nconst int* const firsts = tree.data + BODIES + DOFS;\n"
    text += "(void)parents; (void)firsts;\n"
    text += "if (active.data[cell / SPLIT] == 0 || pivot_failed.data[cell / SPLIT] != 0) return;\n"
    text += "T* const y = vectors.data + ((size_t)cell * COUNT + rhs) * (NY + VECTORS);\nT* const v = y + NY;\n"
    text += "const size_t place = ((size_t)(cell / SPLIT) * COUNT + rhs) * SPLIT + cell % SPLIT;\n"
    text += "for (int i = 0; i < NY; ++i) y[i] = T(0);\n"
    at = 0
    for n, variables in enumerate(lists.given):
        text += f"for (int i = 0; i < {len(variables)}; ++i) y[lists.data[{at} + i]] += given{n}.data[place * {len(variables)} + i];\n"
        at += len(variables)
    if has_twists and plan.condensed is not None:
        text += _pull_back()
    text += braces("for (int front = 0; front < FRONTS; ++front) {", _forward(layout))
    text += braces("for (int front = FRONTS - 1; front >= 0; --front) {", _backward(layout))
    if has_twists and plan.condensed is not None:
        inner = "const T* const u = y + frame * DOFS;\nT* const x = y + NU + frame * BODIES * 6;\n"
        inner += braces("for (int b = 0; b < BODIES; ++b) for (int i = 0; i < 6; ++i) {", _roll("x", "u"))
        text += braces("for (int frame = 0; frame < FRAMES; ++frame) {", inner)
    for n, variables in enumerate(lists.wanted):
        text += f"for (int i = 0; i < {len(variables)}; ++i) wanted{n}.data[place * {len(variables)} + i] = y[lists.data[{at} + i]];\n"
        at += len(variables)
    return Program("many", text, 0, True)


def _pull_back() -> str:
    """Right-hand sides on twists moved to the tangents, leaves first."""
    up = "T* const above = f + parents[b] * 6;\nconst T* const own = f + b * 6;\n"
    up += "for (int i = 0; i < 6; ++i) for (int k = 0; k < 6; ++k) above[i] += transport(cell, frame * BODIES + b, k, i) * own[k];"
    dof = "T sum = T(0);\nfor (int i = 0; i < 6; ++i) sum += columns(cell)[((size_t)frame * DOFS + d) * 6 + i] * f[b * 6 + i];\n"
    dof += "y[frame * DOFS + d] += sum;"
    body = braces("for (int d = firsts[b]; d < firsts[b + 1]; ++d) {", dof) + braces("if (parents[b] >= 0) {", up)
    inner = "T* const f = y + NU + frame * BODIES * 6;\n" + braces("for (int b = BODIES - 1; b >= 0; --b) {", body)
    return braces("for (int frame = 0; frame < FRAMES; ++frame) {", inner)


def _row(layout: Layout) -> str:
    entry = "panel_of(cell, row[H_PANEL] + i * P + j)"
    if not layout.table.compact:
        entry = "panel_of(cell, row[H_PANEL] + (M + i) * (M + P) + M + j)"
    text = "const int* const row = table.data + front * HEADER;\nconst int M = row[H_M], P = row[H_P], Q = row[H_Q];\n"
    text += f"auto L = [&](int i, int j) -> T {{ return {entry}; }};\nT* const b = v + row[H_VECTOR] + M;\n"
    return text + "const int* const ids = table.data + row[H_IDS];\n" + RELATION


def _forward(layout: Layout) -> str:
    text = _row(layout) + "T* const s = b - M;\nfor (int i = 0; i < M; ++i) s[i] = y[row[H_TWIST] + i];\n"
    text += "for (int i = 0; i < P; ++i) b[i] = y[ids[i]];\nfor (int i = 0; i < Q; ++i) b[P + i] = T(0);\n"
    child = "const int* const e = table.data + row[H_CHILDREN] + 4 * n;\nconst int* const map = table.data + e[2];\n"
    child += "const int* const from = table.data + e[3] * HEADER;\nconst T* const u = v + from[H_VECTOR] + from[H_M] + from[H_P];\n"
    text += braces("for (int n = 0; n < row[H_CHILD_COUNT]; ++n) {", child + "for (int i = 0; i < e[1]; ++i) s[map[i]] += u[i];")
    relation = "for (int k = 0; k < K; ++k) for (int i = 0; i < 6; ++i) b[at(k)] += column(k, i) * s[i];\n"
    text += braces("if (M > 0) {", relation)
    text += braces(
        "for (int j = 0; j < P; ++j) {", "T sum = b[j];\nfor (int k = 0; k < j; ++k) sum -= L(j, k) * b[k];\nb[j] = sum * L(j, j);"
    )
    return text + "for (int i = 0; i < Q; ++i) for (int k = 0; k < P; ++k) b[P + i] -= L(P + i, k) * b[k];\n"


def _backward(layout: Layout) -> str:
    text = _row(layout)
    text += "for (int i = 0; i < Q; ++i) for (int k = 0; k < P; ++k) b[k] -= L(P + i, k) * y[ids[P + i]];\n"
    back = "b[j] *= L(j, j);\nfor (int k = 0; k < j; ++k) b[k] -= L(j, k) * b[j];\ny[ids[j]] = b[j];"
    text += braces("for (int j = P - 1; j >= 0; --j) {", back)
    twist = "T sum = T(0);\nfor (int k = 0; k < K; ++k) sum += column(k, i) * y[ids[at(k)]];\ny[row[H_TWIST] + i] = sum;"
    return text + braces("if (M > 0) for (int i = 0; i < 6; ++i) {", twist)
