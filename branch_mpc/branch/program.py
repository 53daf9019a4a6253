"""What the two plans share: the kernel arguments, the on-chip arrays, and the steps ASSEMBLE and SUBSTITUTE of a front.

A front works on z_t = [x_t; u_t] with these arrays (row-major, LD numbers a row):

    V (NX, LD)   value of the frame after it: columns [Hessian | gradient]
    R (NZ, LD)   [A B]' V
    M (NZ, LD)   columns [x | right-hand side] of the frame's quadratic, rows [x; u]
    P (NU, NU)   its pivot block, rows and columns u, lower triangle

ASSEMBLE sums the terms of frame t into M and P, SUBSTITUTE eliminates x_{t+1} = A x_t + B u_t + c_t:
M, P += [A B]' V [A B] and the right-hand side += [A B]' (v + V c). M's x part is kept symmetric by writing each entry twice.
"""

from dataclasses import dataclass

from branch_mpc.branch.plan import Plan
from branch_mpc.branch.text import Worker, adjoint, braces, forward, literal, unrolled


@dataclass(frozen=True)
class Program:
    """One generated kernel: its body as a snippet and what it needs.

    Attributes:
        name: Name of the kernel.
        snippet: C++ text, the same for CPU and CUDA.
        shared: Numbers of on-chip storage the lanes of a block share; 0 for one thread.
        fronts: True when the launch picks the fronts, one per block; False when the body walks them all.
    """

    name: str
    snippet: str
    shared: int
    fronts: bool


@dataclass(frozen=True)
class Layout:
    """Sizes of the arrays of a front under a schedule.

    Attributes:
        plan: The plan.
        worker: One thread or a block of lanes.
    """

    plan: Plan
    worker: Worker

    @property
    def row(self) -> int:
        """Numbers in a row LD: whole SIMD registers for one thread, odd for lanes (they walk down columns: no bank conflicts)."""
        nx = self.plan.relation.states.width
        return (nx + 1) | 1 if self.worker.block else (nx + 4) // 4 * 4

    @property
    def columns(self) -> str:
        """Columns a step walks: one thread takes the padding along, which is zero."""
        return "NX + 1" if self.worker.block else "LD"

    @property
    def arrays(self) -> dict[str, int]:
        """Sizes of V, R, M and P."""
        nx, nu = self.plan.relation.states.width, self.plan.relation.inputs.width
        return {"V": nx * self.row, "R": (nx + nu) * self.row, "M": (nx + nu) * self.row, "P": nu * nu}


def preamble(layout: Layout, dtype: str, storage: dict[str, int]) -> str:
    """Constants, the lane, and the on-chip arrays of a snippet."""
    plan, relation = layout.plan, layout.plan.relation
    sizes = {
        "NX": relation.states.width,
        "NU": relation.inputs.width,
        "NZ": relation.states.width + relation.inputs.width,
        "LD": layout.row,
        "FRAMES": relation.states.frames,
        "STEPS": relation.inputs.frames,
        "FRONTS": relation.inputs.frames if plan.kind == "cyclic" else len(plan.fronts),
    }
    text = f"using T = wp::{dtype};\nconstexpr int {', '.join(f'{name} = {size}' for name, size in sizes.items())};\n"
    if layout.worker.block:
        text += "const int lane = WP_TILE_THREAD_IDX; constexpr int lanes = WP_TILE_BLOCK_DIM;\n"
        if storage:
            text += "T* const shared = (T*)storage.data.ptr;\n"
        offset = 0
        for name, size in storage.items():
            text += f"T* const {name} = shared + {offset};\n"
            offset += size
    else:
        text += "".join(f"T {name}[{size}];\n" for name, size in storage.items())
    return text


def assemble(layout: Layout) -> str:
    """M, P = sum of the terms of frame t."""
    worker, problem = layout.worker, layout.plan.problem
    terms = range(len(problem.quadratics))
    text = "".join(
        f"const T* const H{i}_t = H{i}.data + ((size_t)instance * FRAMES + t) * NZ * NZ;\n"
        f"const T* const g{i}_t = g{i}.data + ((size_t)instance * FRAMES + t) * NZ;\n"
        for i in terms
    )
    text += worker.grid("i", "NZ", "j", "NX", f"M[i * LD + j] = {' + '.join(f'H{i}_t[i * NZ + j]' for i in terms)};")
    text += worker.grid("i", "NU", "j", "NU", f"P[i * NU + j] = {' + '.join(f'H{i}_t[(NX + i) * NZ + NX + j]' for i in terms)};")
    text += worker.each("i", "NZ", f"M[i * LD + NX] = {' + '.join(f'g{i}_t[i]' for i in terms)};")
    if problem.dampings:
        text += worker.sync
        text += worker.each("i", "NX", f"M[i * LD + i] += {_damping(layout, 'i')};")
        text += worker.each("i", "NU", f"P[i * NU + i] += {_damping(layout, '(NX + i)')};")
    return text


def assemble_sums(layout: Layout) -> tuple[str, str]:
    """Entry (i, j), i >= j, of the quadratic of a frame, and entry i of its gradient, as expressions."""
    problem = layout.plan.problem
    terms = range(len(problem.quadratics))
    H, g = " + ".join(f"H{k}_t[i * NZ + j]" for k in terms), " + ".join(f"g{k}_t[i]" for k in terms)
    return H + (f" + (i == j ? {_damping(layout, 'i')} : T(0))" if problem.dampings else ""), g


def scales(layout: Layout) -> str:
    """Tables of the damping scales and the weights of this instance."""
    text = ""
    for index, term in enumerate(layout.plan.problem.dampings):
        text += f"constexpr T scale{index}[NZ] = {{{', '.join(literal(float(v)) for v in term.scale)}}};\n"
        text += f"const T weight{index} = rho{index}.data[instance];\n"
    return text


def terminal(layout: Layout) -> str:
    """V = terms of the last frame, both triangles from the lower one."""
    worker, problem = layout.worker, layout.plan.problem
    terms = range(len(problem.quadratics))
    text = "".join(
        f"const T* const H{i}_last = H{i}.data + ((size_t)instance * FRAMES + FRAMES - 1) * NZ * NZ;\n"
        f"const T* const g{i}_last = g{i}.data + ((size_t)instance * FRAMES + FRAMES - 1) * NZ;\n"
        for i in terms
    )
    entry = " + ".join(f"H{i}_last[at]" for i in terms)
    text += worker.grid("i", "NX", "j", "NX", f"const int at = i >= j ? i * NZ + j : j * NZ + i;\nV[i * LD + j] = {entry};")
    text += worker.each("i", "NX", f"V[i * LD + NX] = {' + '.join(f'g{i}_last[i]' for i in terms)};")
    if problem.dampings:
        text += worker.sync + worker.each("i", "NX", f"V[i * LD + i] += {_damping(layout, 'i')};")
    return text


def pointers(layout: Layout) -> str:
    """Pointers to frame t of the matrices and offsets that are arrays."""
    relation = layout.plan.relation
    text = ""
    for matrix in (relation.A, relation.B):
        if matrix.array is not None:
            size = matrix.rows * matrix.columns
            text += f"const T* const {matrix.name}_t = {matrix.name}.data + {_frame(matrix.array.ndim == 4)} * {size};\n"
    if relation.c is not None:
        text += f"const T* const c_t = c.data + {_frame(relation.c.ndim == 3)} * NX;\n"
    return text


def substitute(layout: Layout) -> str:
    """M, P += [A B]' [V v] [A B] after a barrier; the columns of R, then the rows of M, are independent."""
    worker, relation = layout.worker, layout.plan.relation
    text = ""
    if relation.c is not None:
        shift = "T sum = V[i * LD + NX];\n" + unrolled("k", "NX", "sum += V[i * LD + k] * c_t[k];") + "V[i * LD + NX] = sum;"
        text += worker.each("i", "NX", shift) + worker.sync
    columns = "T v[NX];\n" + unrolled("k", "NX", "v[k] = V[k * LD + i];")
    columns += adjoint(relation.A, lambda k: f"v[{k}]", lambda j, value: f"R[{j} * LD + i] = {value};")
    columns += adjoint(relation.B, lambda k: f"v[{k}]", lambda j, value: f"R[(NX + {j}) * LD + i] = {value};")
    text += worker.each("i", layout.columns, columns) + worker.sync
    state = "const T* const r = R + i * LD;\n" + adjoint(relation.A, _row, _symmetric) + "M[i * LD + NX] += r[NX];"
    control = "const T* const r = R + (NX + i) * LD;\nT* const m = M + (NX + i) * LD;\n"
    control += adjoint(relation.A, _row, lambda j, value: f"m[{j}] += {value};") + "m[NX] += r[NX];\n"
    control += adjoint(relation.B, _row, lambda j, value: f"if ({j} <= i) P[i * NU + {j}] += {value};")
    return text + worker.each("i", "NX", state, unroll=True) + worker.each("i", "NU", control, unroll=True)


def start_state(layout: Layout, when: str = "") -> str:
    """Set x to the state of frame 0, or to zero where the condition `when` does not hold."""
    source = "T(0)" if layout.plan.relation.initial is None else "initial.data[(size_t)instance * NX + i]"
    return unrolled("i", "NX", f"x[i] = {_only(when, source)};")


def outputs() -> str:
    """Pointers to the solution of this instance."""
    text = "T* const states = states_out.data + (size_t)instance * FRAMES * NX;\n"
    return text + "T* const inputs = inputs_out.data + (size_t)instance * STEPS * NU;\n"


def clear(layout: Layout) -> str:
    """Zero padding, so that it stays finite."""
    if layout.worker.block:
        return ""
    return "".join(layout.worker.grid("i", rows, "j", "LD", f"{name}[i * LD + j] = T(0);") for name, rows in (("V", "NX"), ("M", "NZ")))


def advance(layout: Layout, when: str = "") -> str:
    """Set x to A x + B u + c of frame t, without c where the condition `when` does not hold; every lane computes all of it."""
    relation = layout.plan.relation
    offset = (lambda i: _only(when, f"c_t[{i}]")) if relation.c is not None else None
    products = [(relation.A, lambda k: f"x[{k}]"), (relation.B, lambda k: f"u[{k}]")]
    text = "T next[NX];\n" + forward(products, offset, lambda i, value: f"next[{i}] = {value};")
    return text + unrolled("i", "NX", "x[i] = next[i];")


def skip(condition: str) -> str:
    """Leave the snippet; the condition is the same for all lanes of a block."""
    return braces(f"if ({condition}) {{", "return;")


def _only(when: str, value: str) -> str:
    return f"({when} ? {value} : T(0))" if when else value


def _frame(per_instance: bool) -> str:
    return "((size_t)instance * STEPS + t)" if per_instance else "(size_t)t"


def _row(k: object) -> str:
    return f"r[{k}]"


def _symmetric(j: object, value: str) -> str:
    return f"if ({j} <= i) {{ const T m = M[i * LD + {j}] + {value}; M[i * LD + {j}] = m; M[{j} * LD + i] = m; }}"


def _damping(layout: Layout, index: str) -> str:
    return " + ".join(f"weight{i} * scale{i}[{index}]" for i in range(len(layout.plan.problem.dampings)))
