"""Elimination orders: recipes that `plan` turns into fronts."""

from dataclasses import dataclass

from branch_mpc.branch.blocks import Tangents, View, as_view
from branch_mpc.branch.terms import BlockSet
from branch_mpc.errors import PlanError

TIMES = ("chronological", "cyclic")


@dataclass(frozen=True, eq=False)
class Order:
    """An elimination order on the inputs of a chain; made by `frames`, `dense` or `tree`.

    Attributes:
        kind: Name shown in reports.
        inputs: The block set that is eliminated.
    """

    kind: str
    inputs: BlockSet


@dataclass(frozen=True, eq=False)
class Step:
    """A part of an order on a tree.

    Attributes:
        kind: "tree", "dense", "chronological", "cyclic" or "eliminate".
        view: Tangent blocks that it eliminates.
    """

    kind: str
    view: View


@dataclass(frozen=True, eq=False)
class TreeOrder:
    """An elimination order on the tangents of a tree; orders are joined with +.

    Attributes:
        steps: One after the other.
    """

    steps: tuple[Step, ...]

    @property
    def kind(self) -> str:
        """Name shown in reports."""
        return " + ".join(step.kind for step in self.steps)

    def __add__(self, other: "TreeOrder") -> "TreeOrder":
        """First this order, then the other."""
        return TreeOrder(self.steps + other.steps)


def tree(u: BlockSet | Tangents | View) -> Order | TreeOrder:
    """Eliminate body by body from the leaves to the root, each coupled to the twist of its parent.

    On a chain of states the parent of a frame is the frame before: that is the chronological order.

    Args:
        u: Inputs of a chain, or tangents, or a slice of them that holds whole subtrees.
    """
    return Order("chronological", u) if isinstance(u, BlockSet) else _step("tree", u)


def frames(u: BlockSet | Tangents | View, *, time: str = "chronological") -> Order | TreeOrder:
    """Eliminate frame by frame.

    Args:
        u: Inputs of a chain, or tangents, or a slice of them.
        time: "chronological": one frame after the other (block-Thomas; on a chain from the last to the first, the Riccati recursion).
            "cyclic": every other frame, then every other of those that are left (cyclic reduction), in logarithmic depth.

    Raises:
        PlanError: An unknown `time`.
    """
    if time not in TIMES:
        raise PlanError(f"order of frames '{time}' does not exist", f"choose one of {', '.join(TIMES)}, or br.order.dense(u)")
    return Order(time, u) if isinstance(u, BlockSet) else _step(time, u)


def dense(u: BlockSet | Tangents | View) -> Order | TreeOrder:
    """Eliminate all unknowns of all frames in one front, or of each frame where nothing couples frames: the normal matrix."""
    return Order("dense", u) if isinstance(u, BlockSet) else _step("dense", u)


def eliminate(*views: Tangents | View) -> TreeOrder:
    """Eliminate the tangents of each argument in one front, in this order."""
    if not views:
        raise PlanError("nothing to eliminate", "give slices of the tangents")
    return TreeOrder(tuple(_step("eliminate", view).steps[0] for view in views))


def _step(kind: str, u: Tangents | View) -> TreeOrder:
    view = as_view(u)
    if view.kind != "tangent":
        raise PlanError(f"an order on {view.label} blocks of kind '{view.kind}'", "order the tangents u, or a slice u[bodies, frames]")
    return TreeOrder((Step(kind, view),))
