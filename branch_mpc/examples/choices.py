"""Elimination plans and schedules by the names that maps and command lines use."""

import time
from dataclasses import dataclass
from typing import Any

import branch_mpc.branch as br
from branch_mpc.errors import PlanError, ScheduleError

PLANS = ("tree", "dense", "chronological", "cyclic")
SCHEDULES = ("serial", "levels", "paths", "instance_blocks", "cooperative", "fused")
LETTERS = dict(zip(SCHEDULES, "SLPICF", strict=True))


@dataclass(frozen=True)
class Choice:
    """One way to solve: an elimination plan and a schedule of it."""

    plan: str
    """One of `PLANS`."""
    schedule: str
    """One of `SCHEDULES`."""
    block_dim: int = 64
    """Threads of a block; serial, levels and paths have no blocks."""
    k: int = 4
    """Instances of a block of `instance_blocks`."""

    @property
    def label(self) -> str:
        """The choice in words, such as 'cyclic / fused'."""
        return f"{self.plan} / {self.schedule}"


TREE_SERIAL, DENSE_SERIAL, CHRONOLOGICAL_SERIAL = (Choice(plan, "serial") for plan in PLANS[:3])


def choices(plans: tuple[str, ...] = PLANS, schedules: tuple[str, ...] = SCHEDULES) -> list[Choice]:
    """Return every plan under every schedule."""
    return [Choice(plan, schedule) for plan in plans for schedule in schedules]


def order_of(blocks: Any, plan: str) -> Any:
    """Return the elimination order of a name.

    Args:
        blocks: The tangents that are eliminated.
        plan: One of `PLANS`.

    Raises:
        PlanError: An unknown name.
    """
    if plan in ("chronological", "cyclic"):
        return br.order.frames(blocks, time=plan)
    if plan not in PLANS:
        raise PlanError(f"plan '{plan}' does not exist", f"choose one of {', '.join(PLANS)}")
    return br.order.tree(blocks) if plan == "tree" else br.order.dense(blocks)


def schedule_of(plan: Any, choice: Choice) -> Any:
    """Return the schedule of a choice.

    Raises:
        ScheduleError: An unknown name, or a front that does not fit the device.
    """
    if choice.schedule not in SCHEDULES:
        raise ScheduleError(f"schedule '{choice.schedule}' does not exist", f"choose one of {', '.join(SCHEDULES)}")
    make = getattr(br.Schedule, choice.schedule)
    if choice.schedule in ("serial", "levels", "paths"):
        return make(plan)
    if choice.schedule == "instance_blocks":
        return make(plan, k=choice.k, block_dim=choice.block_dim)
    return make(plan, block_dim=choice.block_dim)


@dataclass(frozen=True)
class Planned:
    """A plan and its schedule, before anything is compiled."""

    plan: Any
    schedule: Any
    seconds: float
    """How long the symbolic planning took [s]."""


def planned(problem: br.Problem, blocks: Any, choice: Choice) -> Planned:
    """Plan a problem as chosen; compiles nothing.

    Args:
        problem: The Branch problem.
        blocks: The tangents that are eliminated.
        choice: Plan and schedule.

    Raises:
        PlanError: The choice does not apply to the problem or does not fit (the error carries the report).
    """
    begun = time.perf_counter()
    plan = br.plan(problem, order_of(blocks, choice.plan))
    seconds = time.perf_counter() - begun
    return Planned(plan, schedule_of(plan, choice), seconds)
