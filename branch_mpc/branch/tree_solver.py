"""The solver of plans on trees: compiled kernels, their arrays, and recorded launches."""

import textwrap
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp

from branch_mpc import __version__
from branch_mpc.branch import emit, residual_kernel, tree_code, tree_passes
from branch_mpc.branch.blocks import TWIST, Tangents, Twists, View, as_view
from branch_mpc.branch.many import Columns
from branch_mpc.branch.pieces import ARRAY, ROW
from branch_mpc.branch.program import Program
from branch_mpc.branch.residual_term import ResidualTerm
from branch_mpc.branch.text import Worker
from branch_mpc.branch.tree_code import Layout
from branch_mpc.branch.tree_plan import TreePlan
from branch_mpc.branch.tree_schedule import LANES, TreeSchedule
from branch_mpc.errors import ProblemError

FLAGS = {1: "a pivot is not positive and finite", 2: "a right-hand side is not finite"}
WARP_BLOCK = 64  # threads of a block of the passes


class TreeSolver:
    """Linearises, factors and solves M problems on a tree; made by `compile`.

    State: the arrays below and a workspace. `linearize` writes the terms of the residuals, `factor` the workspace and the flags, `solve`
    the solution z = -H^-1 g. Instances whose `active` is 0 are skipped, and `solve` skips instances that failed.

    Attributes:
        plan: The plan.
        schedule: The schedule.
        device: Where everything lives.
        active: (instances,) int32, 1 by default.
        pivot_failed: (instances,) int32; 0 factored, 1 a pivot was not positive and finite, 2 a right-hand side was not finite.
        predicted_decrease: (instances,) decrease 1/2 g' H^-1 g of the quadratic from zero to the solution.
        cost: (instances,) sum of 1/2 weight |residual|^2 after `linearize` or `evaluate`.
    """

    def __init__(self, plan: TreePlan, schedule: TreeSchedule, device: wp.Device) -> None:
        """Allocate everything, compile every kernel and record the launches; use `compile`."""
        self.plan, self.schedule, self.device = plan, schedule, device
        self._layout = schedule.layout(device.is_cpu)
        self._dtype = plan.problem.dtype
        self._texts: dict[str, str] = {}
        with wp.ScopedDevice(device):
            self._arrays = self._allocate()
            self._linearize, self._evaluate = self._residuals()
        names = list(self._common)
        sources = [source.name for source in plan.pieces.sources]
        condense = (
            self._pass(tree_passes.composite, [*names, "tree", "composites", *sources], plan.blocks.frames) if schedule.condenses else []
        )
        if schedule.condenses:
            count = plan.blocks.frames * plan.blocks.tangents.width
            condense += self._pass(tree_passes.condense, [*names, "tree", "composites", "condensed"], count)
        fronts = self._fronts(tree_code.factor(self._layout, self._dtype.__name__), [*names, "status", *sources])
        tail = ["status", "pivot_failed", "failed_front", "predicted_decrease"]
        finish = self._pass(tree_passes.finish, [*names, *tail], 1, cells=self.instances)
        self._factor = [*condense, *fronts, *finish]
        self._solve = self._fronts(tree_code.solve(self._layout, self._dtype.__name__), [*names, "pivot_failed"])[::-1]
        if schedule.rolls:
            self._solve += self._pass(tree_passes.rollout, [*names, "tree", "pivot_failed"], plan.blocks.frames)

    @property
    def instances(self) -> int:
        """Number of problems."""
        return self.plan.blocks.tangents.instances

    @property
    def cells(self) -> int:
        """Number of problems that are factored on their own."""
        return self.instances * self.plan.split

    def linearize(self) -> None:
        """Residuals and Jacobians to quadratic terms, and `cost`: launches only, may be captured in a graph."""
        self._run(self._linearize)

    def evaluate(self) -> None:
        """Residuals to `cost`: launches only, may be captured in a graph."""
        self._run(self._evaluate)

    def factor(self) -> None:
        """Eliminate all fronts: launches only, may be captured in a graph."""
        self._run(self._factor)

    def solve(self) -> None:
        """Substitute back: launches only, may be captured in a graph."""
        self._run(self._solve)

    def solution(self, blocks: Tangents | Twists) -> wp.array:
        """The array that `solve` writes: (instances, frames, width) of tangents, (instances, frames, bodies, 6) of twists.

        Raises:
            ProblemError: The block set is not of this problem.
        """
        tree = self.plan.problem.tree
        if blocks is tree.tangents:
            return self._u
        if blocks is tree.twists and tree.twists is not None:
            return self._x
        remedy = "ask for the tangents or twists that the terms are on"
        raise ProblemError(f"'{getattr(blocks, 'name', blocks)}' is not a block set of this problem", remedy)

    def columns(self, count: int, *, given: Any, wanted: Any) -> Columns:
        """Many right-hand sides at once, H y = r, on this factorisation; allocates and compiles.

        Args:
            count: Right-hand sides per instance.
            given: Block set or slice that the right-hand sides are on, or a list of them; zero elsewhere.
            wanted: Block set or slice to solve for, or a list of them.

        Raises:
            ProblemError: Blocks of another problem.
        """
        return Columns(self, count, self._views(given), self._views(wanted))

    def failures(self) -> list[str]:
        """What failed in the last factorisation, one line per instance: its blocks, and the terms that reach them; copies to the host."""
        kinds, fronts = self.pivot_failed.numpy(), self.failed_front.numpy()
        lines = []
        for instance in np.flatnonzero(kinds).tolist():
            front, frame = divmod(int(fronts[instance]), self.plan.split)
            where = f" of frame {frame}" if self.plan.split > 1 else ""
            labels = self._blamed(front, instance)
            line = f"instance {instance}: {FLAGS[int(kinds[instance])]} where {self.plan.front_name(front)}{where} is eliminated"
            lines.append(f"{line}; terms there: {', '.join(labels)}")
        return lines

    def source(self) -> str:
        """The generated text of every kernel, with what it was generated from."""
        version = f"branch_mpc {__version__}, generator {emit.VERSION}, warp {wp.config.version}"
        header = f"{version}\n{self.plan.report()}\n{self.schedule.report()}"
        return "\n\n".join([textwrap.indent(header, "# "), *self._texts.values()])

    def _run(self, launches: list[wp.Launch]) -> None:
        for launch in launches:
            launch.launch()

    def _views(self, blocks: Any) -> list[View]:
        views = [as_view(each) for each in (blocks if isinstance(blocks, list | tuple) else [blocks])]
        tree = self.plan.problem.tree
        for view in views:
            if view.owner is not tree.tangents and view.owner is not tree.twists:
                raise ProblemError(f"{view.label} is not of this problem", "give slices of its tangents or twists")
        return views

    def _allocate(self) -> dict[str, wp.array]:
        """Allocate every array of the solver; nothing is allocated later."""
        plan, table, dtype = self.plan, self._layout.table, self._dtype
        u, twists = plan.blocks.tangents, plan.problem.tree.twists
        m, cells, bodies = self.instances, self.cells, plan.blocks.tangents.topology.bodies
        self.active, self.pivot_failed = wp.full(m, 1, dtype=wp.int32), wp.zeros(m, dtype=wp.int32)
        self.failed_front = wp.full(m, -1, dtype=wp.int32)
        self.predicted_decrease, self.cost = wp.zeros(m, dtype=dtype), wp.zeros(m, dtype=dtype)
        self._u = wp.zeros((m, u.frames, u.width), dtype=dtype)
        self._common = {
            "table": wp.array(table.numbers, dtype=wp.int32),
            "groups": wp.array(self.schedule.groups[0], dtype=wp.int32),
            "panels": wp.zeros(max(1, cells * table.panels), dtype=dtype),
            "updates": wp.zeros(max(1, cells * table.updates), dtype=dtype),
            "active": self.active,
            "u_out": self._u.flatten(),
        }
        if twists is not None:
            self._x = wp.zeros((m, u.frames, bodies, TWIST), dtype=dtype)
            self._common |= {"x_out": self._x.flatten(), "S": twists.S.on(self.device, dtype)}
            if twists.X is not None:
                self._common["X"] = twists.X.on(self.device, dtype)
        own = {
            "status": wp.zeros(cells, dtype=wp.int32),
            "pivot_failed": self.pivot_failed,
            "failed_front": self.failed_front,
            "predicted_decrease": self.predicted_decrease,
            "tree": wp.array(tree_passes.tree_table(plan), dtype=wp.int32),
        }
        for source in plan.pieces.sources:
            data = source.data
            own[source.name] = wp.zeros(m * source.size, dtype=dtype) if data is None else data.on(self.device, dtype)
            if source.term < 0:
                own["condensed"] = own[source.name]
        if self.schedule.condenses:
            own["composites"] = wp.zeros(m * u.frames * bodies * 42, dtype=dtype)
        return self._common | own

    def _residuals(self) -> tuple[list[wp.Launch], list[wp.Launch]]:
        """Launches that linearise and evaluate every residual term, then sum the costs."""
        linearize: list[wp.Launch] = []
        evaluate: list[wp.Launch] = []
        sums: list[wp.Launch] = []
        for index, term in enumerate(self.plan.problem.tree.terms):
            if not isinstance(term, ResidualTerm):
                continue
            made = residual_kernel.code(term, self._dtype.__name__)
            count = int(np.prod(term.shape))
            slots = next(s.name for s in self.plan.pieces.sources if s.term == index)
            arrays = {name: data.on(self.device, self._dtype) for name, data in made.arrays.items()}
            arrays |= {"index": wp.array(made.index.ravel(), dtype=wp.int32), "costs": wp.zeros(self.instances * count, dtype=self._dtype)}
            self._keep = [*getattr(self, "_keep", []), arrays]
            evaluate += self._threads(made.evaluate, arrays, count, self.instances, f"evaluate {index}")
            filled = arrays | {"slots": self._arrays[slots]}
            linearize += self._threads(made.linearize, filled, count, self.instances, f"linearize {index}")
            text = _SUM.format(dtype=self._dtype.__name__, first=int(not sums), count=count)
            names = {"costs": arrays["costs"], "cost": self.cost}
            sums += self._threads(Program("sum_costs", text, 0, True), names, 1, self.instances, f"sum {index}")
        return [*linearize, *sums], [*evaluate, *sums]

    def _pass(self, make: Any, names: list[str], groups: int, cells: int | None = None) -> list[wp.Launch]:
        layout = replace(self._layout, worker=Worker(False), blocks=0)
        program = make(layout, self._dtype.__name__)
        arrays = {name: self._arrays[name] for name in names}
        return self._threads(program, arrays, groups, self.cells if cells is None else cells, program.name, layout)

    def _many(self, make: Any, arrays: dict[str, wp.array], count: int) -> list[wp.Launch]:
        """Launches of many right-hand sides: one thread per (right-hand side, cell)."""
        layout = replace(self._layout, worker=Worker(False), blocks=0)
        return self._threads(make(layout, self._dtype.__name__), arrays, count, self.cells, "columns", layout)

    def _threads(
        self, program: Program, arrays: dict[str, wp.array], groups: int, cells: int, name: str, layout: Layout | None = None
    ) -> list[wp.Launch]:
        """A launch of a pass: one thread per (group, cell)."""
        layout = layout or replace(self._layout, worker=Worker(False), blocks=0)
        kernel = self._kernel(program, arrays, layout, name)
        inputs = [*arrays.values(), 0, cells]
        return [wp.launch(kernel, dim=(groups, cells), inputs=inputs, device=self.device, block_dim=WARP_BLOCK, record_cmd=True)]

    def _kernel(self, program: Program, arrays: dict[str, wp.array], layout: Layout, name: str) -> wp.Kernel:
        typed = [(each, f"wp.array(dtype=wp.{array.dtype.__name__})") for each, array in arrays.items()]
        text = tree_code.shell(program, typed, layout, self._dtype.__name__)
        self._texts[name] = text
        return emit.kernel(program, text)

    def _fronts(self, program: Program, names: Iterable[str]) -> list[wp.Launch]:
        """Launches of the factor or solve kernel, in the order of the fronts."""
        arrays = {name: self._arrays[name] for name in names}
        kernel = self._kernel(program, arrays, self._layout, program.name)
        schedule, inputs, cells = self.schedule, list(arrays.values()), self.cells
        common = {"device": self.device, "block_dim": schedule.block_dim, "record_cmd": True}
        if self._layout.blocks:
            return [wp.launch_tiled(kernel, dim=[-(-cells // self._layout.blocks)], inputs=[*inputs, 0, cells], **common)]
        made = []
        for first, count in schedule.groups[1]:
            tiled = schedule.kind in LANES
            launch, dim = (wp.launch_tiled, [cells, count]) if tiled else (wp.launch, (count, cells))
            made.append(launch(kernel, dim=dim, inputs=[*inputs, first, cells], **common))
        return made

    def _blamed(self, front: int, instance: int) -> list[str]:
        """Labels of the terms that reach a front or one below it, those with numbers that are not finite first and marked."""
        below, stack = set(), [front]
        while stack:
            below.add(top := stack.pop())
            stack += self.plan.fronts[top].children
        blocks = {b for f in below for b in (*self.plan.fronts[f].pivots, self.plan.fronts[f].substituted) if b is not None}
        records = self.plan.records
        own = records[np.isin(self.plan.blocks.of(records[:, ROW]), list(blocks))] if len(records) else records
        parts = [own, *([] if self.plan.condensed is None else [self.plan.condensed])]
        sources = sorted({int(s) for part in parts for s in part[:, ARRAY]})
        found = []
        for source in (self.plan.pieces.sources[s] for s in sources):
            values = self._arrays[source.name].numpy()
            stride = source.strides[0]
            mine = values[instance * stride : (instance + 1) * stride] if stride else values
            if source.term >= 0:
                found.append((bool(np.isfinite(mine).all()), source.label))
        return [label if finite else f"{label} (not finite)" for finite, label in sorted(found)]


_SUM = """using T = wp::{dtype};
T total = {first} ? T(0) : cost.data[cell];
for (int i = 0; i < {count}; ++i) total += costs.data[(size_t)cell * {count} + i];
cost.data[cell] = total;
"""
