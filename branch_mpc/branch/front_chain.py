"""Fronts of the chronological plan: pivots u_t, coupled to x_t (the Riccati recursion).

With M and P of frame t (program.py) and P = L L':   Y = L^-1 [M_ux | m_u],   V_t = M_xx - Y_x' Y_x,   v_t = m_x - Y_x' y,
and forward in time   u_t = -L^-T (Y_x x_t + y),   x_{t+1} = A x_t + B u_t + c_t.
Source: Rawlings, Mayne, Diehl, Model Predictive Control (2017), section 8.8, in square-root form.
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

# A record per front, in global memory: L (diagonal inverted), Y, the front's two statistics, and its update where launches part fronts.
RECORD = "constexpr int Y_AT = NU * NU, STATISTICS = Y_AT + NU * LD, UPDATE = STATISTICS + 2, RECORD = UPDATE + {update};\n"
ROW = "const int t = table.data[3 * front], child = table.data[3 * front + 1], parent = table.data[3 * front + 2];\n"


def workspace(layout: Layout, fronts: bool) -> int:
    """Numbers of global memory per instance."""
    nx, nu = layout.plan.relation.states.width, layout.plan.relation.inputs.width
    return len(layout.plan.fronts) * (nu * nu + nu * layout.row + 2 + (nx * layout.row if fronts else 0))


def programs(layout: Layout, dtype: str, fronts: bool) -> tuple[Program, Program]:
    """The factor and solve kernels; `fronts`: the launch picks the front, else the body walks the chain with V kept on chip."""
    return _factor(layout, dtype, fronts), _solve(layout, dtype, fronts)


def _factor(layout: Layout, dtype: str, fronts: bool) -> Program:
    worker, nu = layout.worker, layout.plan.relation.inputs.width
    storage = layout.arrays | {"Y": nu * layout.row, "flag": 1}
    text = preamble(layout, dtype, storage) + RECORD.format(update="NX * LD" if fronts else "0")
    text += skip("active.data[instance] == 0")
    text += scales(layout) + "T* const records = work.data + (size_t)instance * FRONTS * RECORD;\n" + clear(layout)
    load = "// V: terms of the last frame, or the update of the child\n"
    load += braces("if (child < 0) {", f"{worker.first}pivot_failed.data[instance] = 0;\n" + terminal(layout))
    if fronts:
        stored = "const T* const update = records + child * RECORD + UPDATE;\n" + worker.each("i", "NX * LD", "V[i] = update[i];")
        load += braces("else {", stored)
    body = ROW + ("" if not fronts else skip("child >= 0 && pivot_failed.data[instance] != 0"))
    body += pointers(layout) + load + "// ASSEMBLE\n" + assemble(layout) + f"{worker.first}flag[0] = T(0);\n" + worker.sync
    body += "// SUBSTITUTE\n" + substitute(layout) + worker.sync
    body += "// PANEL\n" + _panel(layout) + worker.sync
    body += braces("if (flag[0] != T(0)) {", f"{worker.first}pivot_failed.data[instance] = (int)flag[0];\nreturn;")
    body += "// STORE\n" + _store(layout) + "// UPDATE\n" + _update(layout) + worker.sync
    if fronts:
        body += "T* const update = record + UPDATE;\n" + worker.each("i", "NX * LD", "update[i] = V[i];")
    body += braces(f"if (parent < 0{' && lane == 0' if worker.block else ''}) {{", _statistics())
    text += body if fronts else braces("for (int front = 0; front < FRONTS; ++front) {", body)
    return Program("factor", text, sum(storage.values()) if worker.block else 0, fronts)


def _panel(layout: Layout) -> str:
    """L in registers, by every lane on its own; then a column of Y each. flag: 1 a pivot is not positive, 2 Y is not finite."""
    factor = "T d = P[k * NU + k];\n" + unrolled("p", "k", "d -= L[k * NU + p] * L[k * NU + p];")
    factor += "positive = positive && d > T(0) && d * T(0) == T(0);\nconst T inverse = T(1) / wp::sqrt(d);\nL[k * NU + k] = inverse;\n"
    below = "T s = P[i * NU + k];\n" + unrolled("p", "k", "s -= L[i * NU + p] * L[k * NU + p];") + "L[i * NU + k] = s * inverse;"
    factor += unrolled("i", "NU", below, start="k + 1")
    text = "T L[NU * NU];\nbool positive = true, finite = true;\n" + unrolled("k", "NU", factor)
    row = "T s = M[(NX + k) * LD + i];\n" + unrolled("p", "k", "s -= L[k * NU + p] * y[p];")
    row += "y[k] = s * L[k * NU + k];\nY[k * LD + i] = y[k];\ncheck += y[k] * T(0);"
    column = "T y[NU];\nT check = T(0);\n" + unrolled("k", "NU", row) + "finite = finite && check == T(0);"
    text += layout.worker.each("i", layout.columns, column)
    return text + "if (!positive) flag[0] = T(1);\nelse if (!finite) flag[0] = T(2);\n"


def _store(layout: Layout) -> str:
    worker = layout.worker
    text = "T* const record = records + front * RECORD;\n"
    # L is in registers, where lanes need constant indices
    text += unrolled("i", "NU * NU", f"{worker.owns('i')}record[i] = L[i];")
    text += worker.each("i", "NU * LD", "record[Y_AT + i] = Y[i];")
    sums = "T largest = T(0), half = T(0);\n"
    sums += unrolled(
        "k", "NU", "largest = wp::max(largest, wp::abs(M[(NX + k) * LD + NX]));\nhalf += T(0.5) * Y[k * LD + NX] * Y[k * LD + NX];"
    )
    sums += "record[STATISTICS] = largest;\nrecord[STATISTICS + 1] = half;"
    return text + braces("if (lane == 0) {" if worker.block else "{", sums)


def _update(layout: Layout) -> str:
    """V = M_xx - Y' Y with both factors read from the same Y, so that V is symmetric to the last bit."""
    entry = "T s = M[i * LD + j];\n" + unrolled("k", "NU", "s -= Y[k * LD + i] * Y[k * LD + j];") + "V[i * LD + j] = s;"
    return layout.worker.grid("i", "NX", "j", layout.columns, entry)


def _statistics() -> str:
    """Sum over the fronts in a fixed order, once the root is done."""
    each = "const T* const s = records + i * RECORD + STATISTICS;\nlargest = wp::max(largest, s[0]);\nhalf += s[1];"
    text = "T largest = T(0), half = T(0);\n" + braces("for (int i = 0; i < FRONTS; ++i) {", each)
    return text + "gradient.data[instance] = largest;\npredicted_decrease.data[instance] = half;"


def solve_walk(layout: Layout, dtype: str, stride: int) -> Program:
    """The solve kernel that walks records which lie `stride` numbers apart from instance to instance."""
    return _solve(layout, dtype, False, str(stride))


def _solve(layout: Layout, dtype: str, fronts: bool, stride: str = "FRONTS * RECORD") -> Program:
    worker, nu = layout.worker, layout.plan.relation.inputs.width
    storage = {"s": nu}
    text = preamble(layout, dtype, storage) + RECORD.format(update="NX * LD" if fronts else "0")
    text += skip("active.data[instance] == 0 || pivot_failed.data[instance] != 0")
    text += f"const T* const records = work.data + (size_t)instance * {stride};\n"
    text += outputs()
    text += "T x[NX], u[NU];\n"
    begin = start_state(layout) + _write(layout, "NX", "states[i] = x[i];")
    body = ROW + pointers(layout)
    if fronts:
        body += braces("if (parent < 0) {", begin) + braces("else {", unrolled("i", "NX", "x[i] = states[t * NX + i];"))
    body += "const T* const record = records + front * RECORD;\n"
    dot = "T sum = record[Y_AT + i * LD + NX];\n" + unrolled("k", "NX", "sum += record[Y_AT + i * LD + k] * x[k];") + "s[i] = sum;"
    body += worker.each("i", "NU", dot) + worker.sync
    back = "const int k = NU - 1 - m;\nT sum = -s[k];\n" + unrolled("p", "NU", "sum -= record[p * NU + k] * u[p];", start="k + 1")
    body += unrolled("m", "NU", back + "u[k] = sum * record[k * NU + k];")
    body += _write(layout, "NU", "inputs[t * NU + i] = u[i];") + advance(layout)
    body += _write(layout, "NX", "states[(t + 1) * NX + i] = x[i];") + worker.sync
    if fronts:
        return Program("solve", text + body, nu if worker.block else 0, True)
    walk = braces("for (int front = FRONTS - 1; front >= 0; --front) {", body)
    return Program("solve", text + begin + walk, nu if worker.block else 0, False)


def _write(layout: Layout, count: str, statement: str) -> str:
    return unrolled("i", count, layout.worker.owns("i") + statement)
