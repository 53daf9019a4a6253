"""Schedules: how the fronts of a plan are grouped onto threads, blocks and launches, and where their arrays live."""

from dataclasses import dataclass

import warp as wp

from branch_mpc.branch import front_chain, front_dense, front_scan, tree_schedule
from branch_mpc.branch.arrays import itemsize
from branch_mpc.branch.plan import Plan
from branch_mpc.branch.program import Layout, Program
from branch_mpc.branch.text import Worker
from branch_mpc.branch.tree_plan import TreePlan
from branch_mpc.branch.tree_schedule import TreeSchedule
from branch_mpc.errors import ScheduleError

SHARED_MEMORY = 227 << 10  # bytes a block of a data-centre GPU may use; compile() takes the real device's figure
LANES = ("cooperative", "fused")  # kinds whose blocks work on one front together
BLOCK_DIMS = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, eq=False)
class Schedule:
    """How a plan is executed; made by `serial`, `cooperative` or `fused`.

    Attributes:
        plan: The plan.
        kind: "serial", "levels", "paths", "instance_blocks", "cooperative" or "fused".
        block_dim: Lanes of a block; threads of different instances for serial.
        shared_memory: Bytes a block may use on the device in mind.
    """

    plan: Plan
    kind: str
    block_dim: int
    shared_memory: int

    @staticmethod
    def serial(plan: Plan | TreePlan, *, unroll: bool = False) -> "Schedule | TreeSchedule":
        """One thread an instance walks all fronts; their arrays are the thread's own.

        Args:
            plan: The plan.
            unroll: Unroll every front of a plan on a tree with literal offsets; compiling takes long.
        """
        if isinstance(plan, TreePlan):
            return tree_schedule.check(TreeSchedule(plan, "serial", 32, SHARED_MEMORY, unroll=unroll))
        return Schedule(plan, "serial", 32, SHARED_MEMORY)

    @staticmethod
    def levels(plan: Plan | TreePlan, *, block_dim: int = 32) -> "Schedule | TreeSchedule":
        """A thread per (instance, front), a launch per level.

        Args:
            plan: The plan.
            block_dim: Threads of a block, a power of two from 32 to 1024.

        Raises:
            ScheduleError: A block size that is not allowed, or a plan that does not fit (the error carries the report).
        """
        return Schedule._threads(plan, "levels", block_dim)

    @staticmethod
    def paths(plan: Plan | TreePlan, *, block_dim: int = 32) -> "Schedule | TreeSchedule":
        """A thread per (instance, path of fronts with a single child), a launch per level of paths.

        Args and errors as for `levels`.
        """
        return Schedule._threads(plan, "paths", block_dim)

    @staticmethod
    def instance_blocks(plan: Plan | TreePlan, *, k: int = 1, block_dim: int = 32) -> "Schedule | TreeSchedule":
        """A block per k instances whose threads share the fronts of a level; one launch.

        Args:
            plan: The plan.
            k: Instances of a block.
            block_dim: Threads of a block, a power of two from 32 to 1024.

        Raises:
            ScheduleError: As for `levels`.
        """
        if isinstance(plan, TreePlan):
            return tree_schedule.check(TreeSchedule(plan, "instance_blocks", block_dim, SHARED_MEMORY, per_block=k))
        return Schedule._threads(plan, "instance_blocks", block_dim)

    @staticmethod
    def cooperative(plan: Plan | TreePlan, *, block_dim: int = 32, shared_memory: int = SHARED_MEMORY) -> "Schedule | TreeSchedule":
        """A block per (instance, front), a launch per level; fronts pass their updates through global memory.

        Args:
            plan: The plan.
            block_dim: Lanes of a block, a power of two from 32 to 1024.
            shared_memory: Bytes a block may use; on a tree, panels that need more are factored in global memory.

        Raises:
            ScheduleError: A block size that is not allowed, or a front that does not fit (the error carries the report).
        """
        if isinstance(plan, TreePlan):
            return tree_schedule.check(TreeSchedule(plan, "cooperative", block_dim, shared_memory))
        return _checked(Schedule(plan, "cooperative", block_dim, shared_memory))

    @staticmethod
    def fused(plan: Plan | TreePlan, *, block_dim: int = 32, shared_memory: int = SHARED_MEMORY) -> "Schedule | TreeSchedule":
        """A block per (instance, chain) walks the chain in one launch; the front stays in shared memory.

        Args and errors as for `cooperative`.
        """
        if isinstance(plan, TreePlan):
            return tree_schedule.check(TreeSchedule(plan, "fused", block_dim, shared_memory))
        return _checked(Schedule(plan, "fused", block_dim, shared_memory))

    @staticmethod
    def _threads(plan: Plan | TreePlan, kind: str, block_dim: int) -> "Schedule | TreeSchedule":
        if isinstance(plan, TreePlan):
            return tree_schedule.check(TreeSchedule(plan, kind, block_dim, SHARED_MEMORY))
        return _checked(Schedule(plan, kind, block_dim, SHARED_MEMORY))

    @property
    def layout(self) -> Layout:
        """Array sizes of a front under this schedule."""
        return Layout(self.plan, Worker(block=self.kind in LANES))

    @property
    def by_level(self) -> bool:
        """True when every level is a launch of its own and the update of a front passes through global memory."""
        return self.kind == "cooperative" and self.plan.kind == "chronological" and len(self.plan.fronts) > 1

    @property
    def programs(self) -> tuple[Program, Program]:
        """The factor and solve kernels."""
        dtype = self.plan.problem.dtype.__name__
        if self.plan.kind == "dense":
            return front_dense.programs(self.layout, dtype)
        if self.plan.kind == "cyclic":
            return front_scan.programs(self.layout, dtype)
        return front_chain.programs(self.layout, dtype, self.by_level)

    @property
    def workspace(self) -> int:
        """Numbers of global memory per instance."""
        if self.plan.kind == "cyclic":
            return front_scan.workspace(self.layout)
        return front_dense.workspace(self.layout) if self.plan.kind == "dense" else front_chain.workspace(self.layout, self.by_level)

    @property
    def launches(self) -> tuple[int, int]:
        """Launches of (factor, solve)."""
        count = self.plan.depth if self.by_level else 1
        return count, count

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of the largest block."""
        return max(program.shared for program in self.programs) * itemsize(self.plan.problem.dtype)

    def report(self) -> str:
        """Readable summary: launches per phase, kernels, storage per block and per instance, whether it fits."""
        size, (factor, solve) = itemsize(self.plan.problem.dtype), self.launches
        workers = {
            **dict.fromkeys(("serial", "levels", "paths", "instance_blocks"), "one thread an instance"),
            "cooperative": f"one block of {self.block_dim} per (instance, front)",
            "fused": f"one block of {self.block_dim} per (instance, chain)",
        }
        fits = "fits" if self.shared_bytes <= self.shared_memory else "does not fit"
        lines = [
            f"schedule {self.kind} on plan {self.plan.kind}: {workers[self.kind]}",
            f"  launches: factor {factor}, solve {solve}; kernels {len(self.programs)}",
            f"  shared memory {self.shared_bytes} bytes per block, {self.shared_memory} available: {fits}",
            f"  workspace {self.workspace * size} bytes per instance, {self.workspace * size * self.plan.problem.instances} in all",
        ]
        lines += [f"  note: {note}" for note in self._notes()]
        return "\n".join(lines)

    def _notes(self) -> list[str]:
        if self.kind == "serial" or len(self.plan.fronts) > 1 and self.kind == "fused" and self.plan.kind != "cyclic":
            return []
        if self.kind not in LANES and self.plan.kind == "cyclic":
            return ["one thread an instance walks all levels, as serial does"]
        if self.kind not in LANES:
            return ["the fronts of an instance form one chain, so it runs as serial does"]
        if len(self.plan.fronts) == 1:
            return ["the plan has one front, so cooperative and fused are the same: one block per instance"]
        if self.plan.kind == "cyclic":
            return [
                f"one block per instance walks all levels in one launch, as {'fused' if self.kind == 'cooperative' else 'cooperative'} does"
            ]
        if self.plan.depth == len(self.plan.fronts):
            return ["every level holds one front, so each launch runs one block per instance; fused walks the same chain in one launch"]
        return []


def available(schedule: Schedule, device: wp.Device) -> int:
    """Bytes of shared memory a block may use on `device`, or what the schedule was made for on the CPU."""
    return schedule.shared_memory if device.is_cpu else int(device.max_shared_memory_per_block)


def check(schedule: Schedule, shared_memory: int) -> None:
    """Raise when the largest block or the workspace does not fit.

    Raises:
        ScheduleError: With the report.
    """
    plan, need = schedule.plan, schedule.shared_bytes
    if need > shared_memory:
        problem = f"a block of the {schedule.kind} schedule needs {need} bytes of shared memory, {shared_memory} are available"
        raise ScheduleError(problem, "choose br.Schedule.serial or an order with smaller fronts", schedule.report())
    total = schedule.workspace * itemsize(plan.problem.dtype) * plan.problem.instances
    if total > plan.memory_budget:
        problem = f"the workspace needs {total} bytes, the budget is {plan.memory_budget}"
        raise ScheduleError(problem, "choose another order or schedule, or fewer instances", schedule.report())


def _checked(schedule: Schedule) -> Schedule:
    if schedule.block_dim not in BLOCK_DIMS:
        raise ScheduleError(f"block_dim is {schedule.block_dim}", f"choose one of {', '.join(map(str, BLOCK_DIMS))}")
    check(schedule, schedule.shared_memory)
    return schedule
