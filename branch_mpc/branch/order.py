"""Elimination orders: recipes that `plan` turns into fronts."""

from dataclasses import dataclass

from branch_mpc.branch.terms import BlockSet
from branch_mpc.errors import PlanError

TIMES = ("chronological",)


@dataclass(frozen=True, eq=False)
class Order:
    """An elimination order; made by `frames` or `dense`.

    Attributes:
        kind: Name shown in reports.
        inputs: The block set that is eliminated.
    """

    kind: str
    inputs: BlockSet


def frames(inputs: BlockSet, *, time: str = "chronological") -> Order:
    """Eliminate frame by frame.

    Args:
        inputs: Block set u.
        time: "chronological": one frame after the other from the last to the first, each coupled to its state (the Riccati recursion).

    Raises:
        PlanError: An unknown `time`.
    """
    if time not in TIMES:
        raise PlanError(f"order of frames '{time}' does not exist", f"choose one of {', '.join(TIMES)}, or br.order.dense(u)")
    return Order(time, inputs)


def dense(inputs: BlockSet) -> Order:
    """Eliminate all inputs of all frames in one front: the condensed problem."""
    return Order("dense", inputs)
