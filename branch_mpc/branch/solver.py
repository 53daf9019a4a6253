"""The solver: compiled kernels, their arrays, and recorded launches."""

import textwrap
from dataclasses import replace

import numpy as np
import warp as wp

from branch_mpc import __version__
from branch_mpc.branch import emit, warp_chain
from branch_mpc.branch.plan import Plan
from branch_mpc.branch.program import Program
from branch_mpc.branch.schedule import LANES, Schedule, available, check
from branch_mpc.branch.terms import BlockSet
from branch_mpc.branch.tree_plan import TreePlan
from branch_mpc.branch.tree_schedule import TreeSchedule
from branch_mpc.branch.tree_solver import TreeSolver
from branch_mpc.errors import DeviceError, ProblemError, ScheduleError


class Solver:
    """Factors and solves M problems; made by `compile`.

    State: the arrays below and a workspace. `factor` reads the arrays of the problem by reference and writes the workspace,
    `pivot_failed`, `gradient` and `predicted_decrease`; `solve` reads the workspace and writes the solution. Instances whose
    `active` is 0 are skipped, and `solve` skips instances whose pivot failed: their entries stay as they were.

    Attributes:
        active: (instances,) int32, 1 by default.
        pivot_failed: (instances,) int32; 0 factored, 1 a pivot was not positive and finite, 2 a right-hand side was not finite.
        gradient: (instances,) largest |reduced gradient| over the eliminated unknowns: of the value function with respect to u_t
            (chronological) or of the condensed problem at u = 0 (dense); both vanish at the optimum.
        predicted_decrease: (instances,) 1/2 sum |y|^2, the decrease of the objective from u = 0 to the solution; the chronological
            plan leaves out what the initial state and c contribute.
    """

    def __init__(self, plan: Plan, schedule: Schedule, device: wp.Device) -> None:
        """Allocate everything, compile both kernels and record their launches; use `compile`."""
        problem, relation = plan.problem, plan.relation
        m, dtype = problem.instances, problem.dtype
        self.plan, self.schedule, self.device = plan, schedule, device
        sweep = warp_chain if warp_chain.applies(plan, schedule.kind, schedule.block_dim, device) else None
        with wp.ScopedDevice(device):
            self.active = wp.full(m, 1, dtype=wp.int32)
            self.pivot_failed = wp.zeros(m, dtype=wp.int32)
            self.gradient, self.predicted_decrease = wp.zeros(m, dtype=dtype), wp.zeros(m, dtype=dtype)
            self._inputs = wp.zeros((m, relation.inputs.frames, relation.inputs.width), dtype=dtype)
            self._states = wp.zeros((m, relation.states.frames, relation.states.width), dtype=dtype)
            own = {
                "table": wp.array(plan.table().ravel(), dtype=wp.int32),
                "active": self.active,
                "work": wp.zeros(m * (sweep.workspace(plan) if sweep else schedule.workspace), dtype=dtype),
                "pivot_failed": self.pivot_failed,
                "gradient": self.gradient,
                "predicted_decrease": self.predicted_decrease,
                "inputs_out": self._inputs,
                "states_out": self._states,
            }
        self._arrays = problem.arrays() | own
        factor, solve = sweep.programs(plan) if sweep else schedule.programs
        self._texts: list[str] = []
        skip = {"factor": {"inputs_out", "states_out"}, "solve": {"gradient", "predicted_decrease"}}
        self._factor = self._record(factor, [n for n in self._arrays if n not in skip["factor"]])
        linear = [n for n in ("A", "B", "c", "initial") if n in self._arrays]
        self._solve = self._record(solve, [*linear, *(n for n in own if n not in skip["solve"])])[::-1]

    def linearize(self) -> None:
        """Nothing: the terms of a chain are read by reference."""

    def factor(self) -> None:
        """Eliminate all fronts: launches only, may be captured in a graph."""
        for launch in self._factor:
            launch.launch()

    def solve(self) -> None:
        """Substitute back: launches only, may be captured in a graph."""
        for launch in self._solve:
            launch.launch()

    def solution(self, blocks: BlockSet) -> wp.array:
        """The array that `solve` writes: (instances, frames, width) of a block set.

        Raises:
            ProblemError: The block set is not of this problem.
        """
        relation = self.plan.relation
        if blocks is relation.inputs:
            return self._inputs
        if blocks is relation.states:
            return self._states
        remedy = f"ask for '{relation.inputs.name}' or '{relation.states.name}'"
        raise ProblemError(f"'{blocks.name}' is not a block set of this problem", remedy)

    def source(self) -> str:
        """The generated text of both kernels, with what it was generated from."""
        version = f"branch_mpc {__version__}, generator {emit.VERSION}, warp {wp.config.version}"
        header = f"{version}\n{self.plan.report()}\n{self.schedule.report()}\n{_relation(self.plan)}"
        return "\n\n".join([textwrap.indent(header, "# "), *self._texts])

    def _record(self, program: Program, names: list[str]) -> list[wp.Launch]:
        """Compile a program and record its launches, one per level where the launch picks the fronts."""
        dtype = self.plan.problem.dtype.__name__
        text = emit.source(program, [emit.argument(name, self._arrays[name]) for name in names], dtype)
        self._texts.append(text)
        kernel = emit.kernel(program, text)
        m, block = self.plan.problem.instances, self.schedule.block_dim
        inputs = [self._arrays[name] for name in names]
        if self.schedule.kind not in LANES:
            return [wp.launch(kernel, dim=m, inputs=inputs, device=self.device, block_dim=block, record_cmd=True)]
        calls = [([m, len(level)], [*inputs, level[0]]) for level in self.plan.levels] if program.fronts else [([m], inputs)]
        return [wp.launch_tiled(kernel, dim=dim, inputs=args, device=self.device, block_dim=block, record_cmd=True) for dim, args in calls]


def compile(
    plan: Plan | TreePlan, schedule: Schedule | TreeSchedule, *, device: str | wp.Device = "cpu", dtype: type = wp.float32
) -> Solver | TreeSolver:
    """Generate and load the kernels, allocate all arrays.

    On the CPU a block runs as one lane, or as fibers with real barriers when `wp.config.enable_cpu_blocks` is set.

    Args:
        plan: The plan.
        schedule: A schedule of this plan.
        device: Where the problem's arrays live: "cpu" or "cuda:0".
        dtype: wp.float32 or wp.float64, that of the problem's arrays.

    Raises:
        DeviceError: The device does not exist.
        ProblemError: An array is of another type or on another device.
        ScheduleError: The schedule belongs to another plan or does not fit the device (the error carries the report).
    """
    if schedule.plan is not plan:
        raise ScheduleError("the schedule was made for another plan", "make it from the plan that is compiled")
    try:
        target = wp.get_device(device)
    except Exception as error:
        known = ", ".join(d.alias for d in wp.get_devices())
        raise DeviceError(f"device '{device}' does not exist", f"choose one of {known}") from error
    if isinstance(plan, TreePlan):
        _check_tree(plan, target, dtype)
        if not target.is_cpu:  # a schedule made for a larger device factors in place here
            schedule = replace(schedule, shared_memory=min(schedule.shared_memory, int(target.max_shared_memory_per_block)))
        return TreeSolver(plan, schedule, target)
    for name, array in plan.problem.arrays().items():
        if array.dtype is not dtype:
            raise ProblemError(f"array {name} holds {array.dtype.__name__}, the solver {dtype.__name__}", "make them agree")
        if array.device != target:
            raise ProblemError(f"array {name} is on device '{array.device}', the solver on '{target}'", "make them agree")
    check(schedule, available(schedule, target))
    return Solver(plan, schedule, target)


def _check_tree(plan: TreePlan, target: wp.Device, dtype: type) -> None:
    """Every array of the problem is of this type and on this device."""
    for data in plan.problem.tree.arrays():
        if data.dtype not in (None, dtype):
            found = f"an array of shape {tuple(data.array.shape)} holds {data.dtype.__name__}, the solver {dtype.__name__}"
            raise ProblemError(found, "make them agree")
        if data.dtype is not None and data.array.device != target:
            found = f"an array of shape {tuple(data.array.shape)} is on device '{data.array.device}', the solver on '{target}'"
            raise ProblemError(found, "make them agree")


def _relation(plan: Plan) -> str:
    """The relation and terms in words, for the header of the source."""
    relation, problem = plan.relation, plan.problem
    parts = []
    for matrix in (relation.A, relation.B):
        kind = f"constants, {np.count_nonzero(matrix.nonzeros)} nonzeros" if matrix.array is None else f"array {tuple(matrix.array.shape)}"
        parts.append(f"{matrix.name} ({matrix.rows}, {matrix.columns}) {kind}")
    parts += [f"{name} array" for name in ("c", "initial") if getattr(relation, name) is not None]
    return f"relation: {'; '.join(parts)}\nterms: {len(problem.quadratics)} quadratic, {len(problem.dampings)} damping"
