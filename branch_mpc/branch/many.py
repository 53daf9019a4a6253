"""Many right-hand sides on one factorisation: the columns of H^-1 that an application asks for."""

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from branch_mpc.branch import tree_passes
from branch_mpc.branch.arrays import scalars
from branch_mpc.branch.blocks import TWIST, View, as_view
from branch_mpc.branch.tree_passes import ManyLists
from branch_mpc.errors import ProblemError

if TYPE_CHECKING:
    from branch_mpc.branch.tree_solver import TreeSolver


class Columns:
    """Solves H y = r for several r per instance; made by `TreeSolver.columns`.

    One thread walks all fronts for one right-hand side of one instance, under every schedule: right-hand sides are the parallel work.
    A right-hand side on twists is a force that acts on bodies: it reaches the tangents through the relation.

    Attributes:
        count: Right-hand sides per instance.
        rhs: Array of the first given view: (instances, count, frames, blocks) of 6-vectors on twists,
            (instances, count, frames, n) of numbers on tangents.
    """

    def __init__(self, solver: "TreeSolver", count: int, given: list[View], wanted: list[View]) -> None:
        """Allocate and compile; use `TreeSolver.columns`."""
        if not isinstance(count, int | np.integer) or count < 1:
            raise ProblemError(f"{count!r} right-hand sides", "give a whole number of at least 1")
        self.count, self._given, self._wanted = int(count), given, wanted
        plan, dtype, m = solver.plan, solver.plan.problem.dtype, solver.instances
        variables = [[tree_passes.view_variables(view, plan) for view in views] for views in (given, wanted)]
        u = plan.blocks.tangents
        numbers = (u.frames if plan.split == 1 else 1) * (u.width + 6 * u.topology.bodies) + solver._layout.table.vectors
        with wp.ScopedDevice(solver.device):
            self._inputs = [_zeros((m, self.count), view, dtype) for view in given]
            self._outputs = [_zeros((m, self.count), view, dtype) for view in wanted]
            lists = wp.array(np.concatenate([*variables[0], *variables[1]]).astype(np.int32), dtype=wp.int32)
            work = wp.zeros(solver.cells * self.count * numbers, dtype=dtype)
        self.rhs = self._inputs[0]
        arrays = solver._common | {name: solver._arrays[name] for name in ("pivot_failed", "tree")} | {"lists": lists, "vectors": work}
        arrays |= {f"given{i}": _flat(array, dtype) for i, array in enumerate(self._inputs)}
        arrays |= {f"wanted{i}": _flat(array, dtype) for i, array in enumerate(self._outputs)}

        def program(layout: tree_passes.Layout, name: str) -> tree_passes.Program:
            return tree_passes.many(layout, name, ManyLists(*variables), self.count)

        self._launches = solver._many(program, arrays, self.count)

    def solve(self) -> None:
        """Solve for all right-hand sides: launches only, may be captured in a graph."""
        for launch in self._launches:
            launch.launch()

    def right_hand_side(self, blocks: object) -> wp.array:
        """The array to fill for a given view."""
        return self._find(self._given, self._inputs, blocks, "given")

    def solution(self, blocks: object) -> wp.array:
        """The array that `solve` writes for a wanted view."""
        return self._find(self._wanted, self._outputs, blocks, "wanted")

    def _find(self, views: list[View], arrays: list[wp.array], blocks: object, what: str) -> wp.array:
        view = as_view(blocks)
        for have, array in zip(views, arrays, strict=True):
            if (have.owner, have.kind, have.members, have.frames) == (view.owner, view.kind, view.members, view.frames):
                return array
        raise ProblemError(f"this slice of {view.label} was not {what}", f"name it in {what}= of columns()")


def _zeros(lead: tuple[int, int], view: View, dtype: type) -> wp.array:
    if view.kind == "twist":
        return wp.zeros((*lead, len(view.frames), len(view.members)), dtype=wp.types.vector(length=TWIST, dtype=dtype))
    width = len(view.members) if view.kind == "dof" else sum(view.owner.topology.dofs[b] for b in view.members)
    return wp.zeros((*lead, len(view.frames), width), dtype=dtype)


def _flat(array: wp.array, dtype: type) -> wp.array:
    """The same memory as plain numbers."""
    count = int(np.prod(array.shape)) * scalars(array.dtype)
    return wp.array(ptr=array.ptr, dtype=dtype, shape=(count,), device=array.device, copy=False)
