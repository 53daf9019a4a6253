"""Kernels of plans on trees as text: the shells around the front body for every schedule, and the access to arrays that they share.

A cell is an instance, or a frame of one where nothing couples frames. Groups of fronts are rows (first, count) of a list of fronts: a
single front, a path, or all of them; a launch takes a range of groups.
"""

from dataclasses import dataclass

from branch_mpc.branch import front_lanes, front_tree
from branch_mpc.branch.arrays import itemsize
from branch_mpc.branch.pieces import Source
from branch_mpc.branch.program import Program
from branch_mpc.branch.tables import FrontTable, layout_names
from branch_mpc.branch.text import Worker, braces
from branch_mpc.branch.tree_plan import TreePlan

SPECIAL_CLASSES = 4  # more classes than this run through one body with sizes read from the table


@dataclass(frozen=True, eq=False)
class Layout:
    """How a plan is laid out for a schedule on a device.

    Attributes:
        plan: The plan.
        table: The front table.
        worker: One thread or a block of lanes per front.
        on_chip: Numbers of the largest panel where panels are factored on chip, else 0.
        minor: True where neighbouring threads are neighbouring cells in memory.
        blocks: Cells per block where threads of a block share fronts (instance_blocks), else 0.
        unroll: True where sizes and table are constants of the code.
    """

    plan: TreePlan
    table: FrontTable
    worker: Worker
    on_chip: int
    minor: bool
    blocks: int
    unroll: bool

    @property
    def widest(self) -> int:
        """Largest number of eliminated unknowns of a front."""
        return max(1, *(front.widths[1] for front in self.plan.fronts))

    @property
    def staged(self) -> int:
        """Numbers that a block of the solve kernel keeps on chip: its part of the solution, and L where it fits."""
        whole = self.widest * (self.widest + 1)
        fits = self.on_chip and whole * itemsize(self.plan.problem.dtype) <= front_lanes.STAGED
        return whole if fits else self.widest


def source_pointers(sources: list[Source], split: int) -> str:
    """The function source(array, cell): where the numbers of a cell begin."""
    cases = "".join(f"case {i}: return {s.name}.data + {cell_offset(s.strides, split)};\n" for i, s in enumerate(sources))
    return (
        braces("auto source = [&](int array, int cell) -> const T* {", braces("switch (array) {", cases) + "return nullptr;")[:-1] + ";\n"
    )


def cell_offset(strides: tuple[int, ...], split: int) -> str:
    """Distance of a cell from the first, for strides (instances, frames)."""
    if split == 1:
        return f"(size_t)cell * {strides[0]}"
    if strides[0] == split * strides[1]:
        return f"(size_t)cell * {strides[1]}"
    return f"(size_t)(cell / {split}) * {strides[0]}" + (f" + (cell % {split}) * {strides[1]}" if strides[1] else "")


def preamble(layout: Layout, dtype: str) -> str:
    """Names and access functions of the factor and solve kernels."""
    plan, tree = layout.plan, layout.plan.problem.tree
    u = plan.blocks.tangents
    frames = 1 if plan.split > 1 else u.frames
    text = f"using T = wp::{dtype};\n" + layout_names()
    text += f"constexpr int FRONTS = {len(plan.fronts)}, PANELS = {layout.table.panels}, UPDATES = {layout.table.updates};\n"
    widest = max(m + p for m, p, _ in (f.widths for f in plan.fronts))
    text += f"constexpr int PANEL_WIDTH = {max(1, widest)}, NU = {frames * u.width}, NX = {frames * u.topology.bodies * 6};\n"
    for name, size in (("panel", "PANELS"), ("update", "UPDATES")):
        where = f"{name}s.data[(size_t)k * cells + cell]" if layout.minor else f"{name}s.data[(size_t)cell * {size} + k]"
        text += f"auto {name}_of = [&](int cell, int k) -> T& {{ return {where}; }};\n"
    if tree.twists is not None:
        lead = lambda data: cell_offset(data.strides[:2], plan.split)  # noqa: E731
        text += f"auto columns = [&](int cell) -> const T* {{ return S.data + {lead(tree.twists.S)}; }};\n"
        unit = "i == j ? T(1) : T(0)"
        entry = unit if tree.twists.X is None else f"X.data[{lead(tree.twists.X)} + body * 36 + i * 6 + j]"
        text += f"auto transport = [&](int cell, int body, int i, int j) -> T {{ return {entry}; }};\n"
        text += "auto value = [&](int cell, int at) -> T& { return at < NU ? u_out.data[(size_t)cell * NU + at]"
        text += " : x_out.data[(size_t)cell * NX + at - NU]; };\n"
    else:
        text += "auto columns = [&](int cell) -> const T* { return nullptr; };\n"
        text += "auto transport = [&](int cell, int body, int i, int j) -> T { return T(0); };\n"
        text += "auto value = [&](int cell, int at) -> T& { return u_out.data[(size_t)cell * NU + at]; };\n"
    return text


def _sizes(layout: Layout) -> tuple[str, str]:
    """Types of the sizes of a class, and the statement that calls `body` with those of a front."""
    classes = list(layout.plan.classes)
    if len(classes) > SPECIAL_CLASSES:
        return "struct Sizes { int M, P, Q; };\n", "body(Sizes{row[H_M], row[H_P], row[H_Q]});\n"
    text = "".join(f"struct Class{i} {{ enum {{ M = {m}, P = {p}, Q = {q} }}; }};\n" for i, (m, p, q) in enumerate(classes))
    if len(classes) == 1:
        return text, "body(Class0{});\n"
    return text, braces("switch (row[H_CLASS]) {", "".join(f"case {i}: body(Class{i}{{}}); break;\n" for i in range(len(classes))))


def _constants(layout: Layout, text: str) -> str:
    """The table as constants of the code where fronts are unrolled."""
    if not layout.unroll:
        return text
    numbers = ", ".join(map(str, layout.table.numbers.tolist()))
    return f"static constexpr int TABLE[] = {{{numbers}}};\n" + text.replace("table.data", "TABLE")


def _runner(layout: Layout, body: str) -> str:
    """The function run(front, cell)."""
    types, call = _sizes(layout)
    inner = "const int M = sizes.M, P = sizes.P, Q = sizes.Q;\n"
    inner += (
        "auto panel = [&](int k) -> T& { return panel_of(cell, k); };\nauto update = [&](int k) -> T& { return update_of(cell, k); };\n"
    )
    lambda_text = braces("auto body = [&](auto sizes) {", inner + body)[:-1] + ";\n"
    text = "const int* const row = table.data + front * HEADER;\n" + lambda_text + call
    return types + braces("auto run = [&](int front, int cell) {", text)[:-1] + ";\n"


def _walk(layout: Layout, skip: str, backward: bool) -> str:
    """Run the fronts of a group of a cell, or of all levels of a block of cells."""
    if not layout.blocks:
        step = "count - 1 - k" if backward else "k"
        text = f"if ({skip}) return;\nconst int* const listed = groups.data + groups.data[2 * group];\n"
        text += "const int count = groups.data[2 * group + 1];\n"
        if layout.unroll:
            order = range(len(layout.plan.fronts))
            return text + "(void)listed; (void)count;\n" + "".join(f"run({i}, cell);\n" for i in (reversed(order) if backward else order))
        return text + braces("for (int k = 0; k < count; ++k) {", f"run(listed[{step}], cell);")
    level = "const int* const level = groups.data + 2 * (group + " + ("last - l" if backward else "l") + ");\n"
    work = "const int cell = block * CELLS + n % CELLS, front = groups.data[level[0] + n / CELLS];\n"
    work += f"if (cell < cells && !({skip})) run(front, cell);"
    walk = braces("for (int n = WP_TILE_THREAD_IDX; n < level[1] * CELLS; n += WP_TILE_BLOCK_DIM) {", work)
    text = f"constexpr int CELLS = {layout.blocks}, last = {len(layout.plan.levels) - 1};\n"
    return text + braces("for (int l = 0; l <= last; ++l) {", level + walk + "WP_TILE_SYNC();")


def _block(layout: Layout, shared: int) -> str:
    if not layout.worker.block:
        return ""
    text = "const int lane = WP_TILE_THREAD_IDX; constexpr int lanes = WP_TILE_BLOCK_DIM;\n"
    return text + (f"constexpr int WIDEST = {layout.widest};\n" if shared else "")


def factor(layout: Layout, dtype: str) -> Program:
    """The kernel that eliminates the fronts of a group."""
    shared = layout.on_chip + layout.widest if layout.worker.block else 0
    text = preamble(layout, dtype) + source_pointers(layout.plan.pieces.sources, layout.plan.split) + _block(layout, shared)
    if shared:
        text += "T* const inverses = (T*)storage.data.ptr;\n" + ("T* const A = inverses + WIDEST;\n" if layout.on_chip else "")
    text += _runner(layout, front_tree.front(layout.worker, on_chip=layout.on_chip, unroll=layout.unroll))
    skip = f"active.data[cell / {layout.plan.split}] == 0"
    return Program("factor", _constants(layout, text + _walk(layout, skip, backward=False)), shared, not layout.blocks)


def solve(layout: Layout, dtype: str) -> Program:
    """The kernel that substitutes back."""
    shared = layout.staged if layout.worker.block else 0
    text = preamble(layout, dtype) + _block(layout, shared) + ("T* const s = (T*)storage.data.ptr;\n" if shared else "")
    staged = shared > layout.widest
    text += _runner(layout, front_tree.back(layout.worker, on_chip=bool(layout.on_chip), wide=layout.widest, staged=staged))
    instance = f"cell / {layout.plan.split}"
    skip = f"active.data[{instance}] == 0 || pivot_failed.data[{instance}] != 0"
    return Program("solve", _constants(layout, text + _walk(layout, skip, backward=True)), shared, not layout.blocks)


def shell(program: Program, arguments: list[tuple[str, str]], layout: Layout, dtype: str) -> str:
    """Text of a kernel: the snippet as a native function and the launch shell around it.

    Args:
        program: The snippet.
        arguments: (name, annotation) of every array.
        layout: Who runs it.
        dtype: Scalar type.
    """
    typed, names = ", ".join(f"{n}: {kind}" for n, kind in arguments), ", ".join(n for n, _ in arguments)
    tile = bool(program.shared)
    ids = "block: wp.int32, group: wp.int32" if layout.blocks else "group: wp.int32, cell: wp.int32"
    lines = [f'@wp.func_native(r"""\n{program.snippet}""")']
    lines += [f"def {program.name}_body({typed}, {ids}, cells: wp.int32{', storage: Any' if tile else ''}): ...", "", ""]
    lines.append('@wp.kernel(enable_backward=False, module="unique", grid_stride=False, module_options={"max_unroll": 0})')
    lines.append(f"def branch_{program.name}({typed}, first: wp.int32, cells: wp.int32):")
    if layout.blocks:
        lines += ["    block = wp.tid()", f"    {program.name}_body({names}, block, first, cells)"]
    else:
        lines.append(f"    {'cell, group' if layout.worker.block else 'group, cell'} = wp.tid()")
        if tile:
            lines.append(f'    storage = wp.tile_empty(shape={program.shared}, dtype=wp.{dtype}, storage="shared")')
        lines.append(f"    {program.name}_body({names}, first + group, cell, cells{', storage' if tile else ''})")
    return "\n".join([*lines, ""])
