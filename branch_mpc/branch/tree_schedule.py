"""Schedules of plans on trees: how fronts are grouped onto threads, blocks and launches, and where their panels live."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from branch_mpc.branch import tables
from branch_mpc.branch.arrays import itemsize
from branch_mpc.branch.text import Worker
from branch_mpc.branch.tree_code import Layout
from branch_mpc.branch.tree_plan import TreePlan
from branch_mpc.errors import ScheduleError

REGISTERS = 640  # numbers of a panel that a thread of a GPU keeps to itself
CPU_ARENA = 192 << 10  # bytes of the tile arena that a block on the CPU may use; the arena has 256 KiB
WORKERS = {
    "serial": "one thread an instance",
    "levels": "one thread per (instance, front), a launch per level",
    "paths": "one thread per (instance, path), a launch per level of paths",
    "instance_blocks": "one block of {block_dim} per {per_block} instances, its threads share the fronts of a level",
    "cooperative": "one block of {block_dim} per (instance, front), a launch per level",
    "fused": "one block of {block_dim} per (instance, path), a launch per level of paths",
}
LANES = ("cooperative", "fused")
BLOCK_DIMS = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, eq=False)
class TreeSchedule:
    """How a plan on a tree is executed; made by the functions of `Schedule`.

    Attributes:
        plan: The plan.
        kind: A key of `WORKERS`.
        block_dim: Threads of a block.
        shared_memory: Bytes a block may use on the device in mind.
        per_block: Instances per block of instance_blocks.
        unroll: True where every front is unrolled with literal sizes and offsets.
    """

    plan: TreePlan
    kind: str
    block_dim: int
    shared_memory: int
    per_block: int = 1
    unroll: bool = False

    @cached_property
    def groups(self) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """Rows (first, count) of lists of fronts with the lists after them, and the (first row, rows) of every launch."""
        plan = self.plan
        if self.kind == "serial":
            launches = [[list(range(len(plan.fronts)))]]
        elif self.kind in ("paths", "fused"):
            launches = plan.paths
        elif self.kind == "instance_blocks":
            launches = [plan.levels]
        else:
            launches = [[[front] for front in level] for level in plan.levels]
        rows = [group for launch in launches for group in launch]
        counts = np.array([len(group) for group in rows])
        first = 2 * len(rows) + np.cumsum(counts) - counts
        numbers = np.concatenate([np.stack([first, counts], axis=1).ravel(), *map(np.array, rows)]).astype(np.int32)
        sizes = [len(launch) for launch in launches]
        starts = np.cumsum(sizes) - sizes
        return numbers, [(int(start), size) for start, size in zip(starts, sizes, strict=True)]

    @property
    def launches(self) -> tuple[int, int]:
        """Launches of (factor, solve), with the passes around the fronts."""
        around = 1 + 2 * self.condenses
        count = 1 if self.kind == "instance_blocks" else len(self.groups[1])
        return count + around, count + self.rolls

    @property
    def condenses(self) -> bool:
        """True where terms on twists are condensed before the fronts."""
        return self.plan.condensed is not None and len(self.plan.condensed) > 0

    @property
    def rolls(self) -> bool:
        """True where twists are rolled out after the fronts."""
        return self.plan.problem.tree.twists is not None and self.plan.condensed is not None

    @cached_property
    def widest_panel(self) -> int:
        """Numbers of the largest panel."""
        sizes = [front.widths for front in self.plan.fronts]
        if self.kind in LANES:  # rows are padded to an odd length: lanes read down columns without bank conflicts
            return max((m + p + q + 1) * (m + p | 1) for m, p, q in sizes)
        return max(tables.panel_size(front, False) for front in self.plan.fronts)

    @property
    def _block_numbers(self) -> int:
        """Numbers a block shares: the panel and one over the diagonal of L."""
        return self.widest_panel + max(1, *(front.widths[1] for front in self.plan.fronts))

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        if self.kind not in LANES or not self.on_chip(cpu=False):
            return 0
        return self._block_numbers * itemsize(self.plan.problem.dtype)

    def on_chip(self, cpu: bool) -> bool:
        """True where panels are factored in registers or shared memory."""
        if self.kind in LANES:
            limit = min(CPU_ARENA, self.shared_memory) if cpu else self.shared_memory
            return self._block_numbers * itemsize(self.plan.problem.dtype) <= limit
        return not cpu and self.widest_panel <= REGISTERS

    def layout(self, cpu: bool) -> Layout:
        """The table and the way its numbers are stored on a device."""
        chip = self.on_chip(cpu)
        table = tables.build(self.plan, compact=chip)
        lanes = self.kind in LANES
        return Layout(
            self.plan,
            table,
            Worker(block=lanes),
            on_chip=self.widest_panel if chip else 0,
            minor=chip and not lanes,
            blocks=self.per_block if self.kind == "instance_blocks" else 0,
            unroll=self.unroll,
        )

    @property
    def workspace(self) -> int:
        """Numbers of global memory per instance, where panels are factored in place."""
        fronts = sum(tables.panel_size(f, False) + f.widths[2] * (f.widths[2] + 1) for f in self.plan.fronts)
        return self.plan.split * fronts

    def report(self) -> str:
        """Readable summary: launches per phase, kernels, storage per block and per instance, whether it fits."""
        size, (factor, solve) = itemsize(self.plan.problem.dtype), self.launches
        worker = WORKERS[self.kind].format(block_dim=self.block_dim, per_block=self.per_block)
        where = f"shared memory {self.shared_bytes} bytes per block, {self.shared_memory} available: fits"
        if self.kind in LANES and not self.shared_bytes:
            need = self.widest_panel * size
            where = f"a panel of {need} bytes exceeds the {self.shared_memory} bytes of shared memory: factored in place in global memory"
        elif self.kind not in LANES:
            chip = self.on_chip(cpu=False)
            where = f"the widest panel of {self.widest_panel} numbers is {'kept by its thread' if chip else 'factored in place'} on a GPU"
        lines = [
            f"schedule {self.kind} on plan {self.plan.kind}: {worker}",
            f"  launches: factor {factor}, solve {solve}; kernels {3 + 2 * self.condenses + self.rolls}",
            f"  {where}",
            f"  workspace {self.workspace * size} bytes per instance, {self.workspace * size * (self.plan.problem.instances or 0)} in all",
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self._notes())])

    def _notes(self) -> list[str]:
        plan, found = self.plan, []
        longest = max(len(path) for level in plan.paths for path in level)
        if len(plan.fronts) == 1 and self.kind != "serial":
            found.append("the plan has one front: one thread or block an instance does all of it")
        elif self.kind == "fused" and longest == 1:
            found.append("no front has a single child, so every path is one front: the same as cooperative")
        elif self.kind == "paths" and longest == 1:
            found.append("no front has a single child, so every path is one front: the same as levels")
        elif self.kind in ("levels", "cooperative", "instance_blocks") and plan.depth == len(plan.fronts):
            found.append("every level holds one front, so the fronts of an instance run one after the other")
        if self.unroll:
            found.append("every front is unrolled: compiling takes long")
        return found


def check(schedule: TreeSchedule) -> TreeSchedule:
    """Return the schedule if it fits.

    Raises:
        ScheduleError: A block size that is not allowed, or a workspace over the budget (the error carries the report).
    """
    if schedule.block_dim not in BLOCK_DIMS:
        raise ScheduleError(f"block_dim is {schedule.block_dim}", f"choose one of {', '.join(map(str, BLOCK_DIMS))}")
    if not isinstance(schedule.per_block, int) or schedule.per_block < 1:
        raise ScheduleError(f"a block of {schedule.per_block!r} instances", "give a whole number of at least 1")
    plan = schedule.plan
    total = schedule.workspace * itemsize(plan.problem.dtype) * (plan.problem.instances or 1)
    if total > plan.memory_budget:
        found = f"the workspace needs {total} bytes, the budget is {plan.memory_budget}"
        raise ScheduleError(found, "choose another order, or fewer instances", schedule.report())
    return schedule
