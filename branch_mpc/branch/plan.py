"""Plans: which unknowns are eliminated together, in which order, and what that costs; symbolic only."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from branch_mpc.branch import scan_table
from branch_mpc.branch.arrays import itemsize
from branch_mpc.branch.order import Order, TreeOrder
from branch_mpc.branch.problem import Problem, Relation
from branch_mpc.branch.tree_plan import TreePlan, plan_tree
from branch_mpc.errors import PlanError

MEMORY_BUDGET = 2 << 30  # bytes; a tenth of the smallest GPU the package is meant for


@dataclass(frozen=True)
class Front:
    """Unknowns that are eliminated together.

    Attributes:
        frames: Frames whose inputs are eliminated here.
        eliminated: Number of eliminated unknowns.
        coupled: Number of unknowns they couple to, which stay alive.
        children: Fronts whose update enters this one.
        parent: Front that takes this one's update, or None.
        level: Length of the longest chain of fronts below this one.
    """

    frames: tuple[int, ...]
    eliminated: int
    coupled: int
    children: tuple[int, ...]
    parent: int | None
    level: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Fronts in elimination order; made by `plan`.

    Attributes:
        problem: The problem.
        relation: Its relation.
        kind: Order it came from.
        fronts: Fronts, children before parents.
        memory_budget: Largest device memory [bytes] the solver may take.
    """

    problem: Problem
    relation: Relation
    kind: str
    fronts: tuple[Front, ...]
    memory_budget: int

    @property
    def classes(self) -> dict[tuple[int, int], int]:
        """Number of fronts per class (eliminated, coupled); the fronts of a class share one body of code."""
        return dict(Counter((front.eliminated, front.coupled) for front in self.fronts))

    @property
    def levels(self) -> list[list[int]]:
        """Fronts per level; the fronts of a level are independent of each other."""
        return [[i for i, front in enumerate(self.fronts) if front.level == level] for level in range(self.depth)]

    @property
    def depth(self) -> int:
        """Longest chain of fronts that depend on one another."""
        return 1 + max(front.level for front in self.fronts)

    @property
    def fill(self) -> int:
        """Factor entries per instance: the triangle of every pivot block and its coupled block."""
        return sum(f.eliminated * (f.eliminated + 1) // 2 + f.eliminated * f.coupled for f in self.fronts)

    @property
    def bytes_per_instance(self) -> int:
        """Bytes of factor, forward-solved right-hand side and solution."""
        states, inputs = self.relation.states, self.relation.inputs
        solution = states.width * states.frames + inputs.width * inputs.frames
        return itemsize(self.problem.dtype) * (self.fill + sum(f.eliminated for f in self.fronts) + solution)

    @property
    def flops(self) -> tuple[int, int]:
        """Additions and multiplications per instance of (factor, solve)."""
        return flops(self)

    def table(self) -> np.ndarray:
        """Front table (fronts, 3) int32: first frame, first child or -1, parent or -1; of the cyclic order that of scan_table.py."""
        if self.kind == "cyclic":
            return np.array(scan_table.table(self.relation.inputs.frames, self.relation.states.width), dtype=np.int32)
        rows = [(f.frames[0], f.children[0] if f.children else -1, -1 if f.parent is None else f.parent) for f in self.fronts]
        return np.array(rows, dtype=np.int32)

    def report(self) -> str:
        """Readable table: front classes, widths, levels, depth, fill, storage, operations."""
        relation, m, (factor, solve) = self.relation, self.problem.instances, self.flops
        blocks = ", ".join(f"'{block.name}' {block.frames} x {block.width}" for block in (relation.inputs, relation.states))
        lines = [
            f"plan {self.kind}: {m} instances, {blocks}, {self.problem.dtype.__name__}",
            "  front class   eliminated  coupled  width  count",
        ]
        for index, ((eliminated, coupled), count) in enumerate(self.classes.items()):
            lines.append(f"  {index:<11d} {eliminated:12d} {coupled:8d} {eliminated + coupled:6d} {count:6d}")
        if self.kind == "cyclic":
            lines.append("  note: segments are joined in pairs up the levels, then values pass down as many")
        lines += [
            f"  fronts {len(self.fronts)}, levels {len(self.levels)}, depth {self.depth}, fill {self.fill} entries",
            f"  {self.bytes_per_instance} bytes per instance, {self.bytes_per_instance * m} in all (budget {self.memory_budget})",
            f"  flops per instance: factor {factor}, solve {solve}",
        ]
        return "\n".join(lines)


def plan(problem: Problem, order: Order | TreeOrder, *, memory_budget: int = MEMORY_BUDGET) -> Plan | TreePlan:
    """Turn a problem and an order into fronts; nothing is compiled.

    Args:
        problem: The problem, with at least one term.
        order: A recipe of `order`.
        memory_budget: Largest device memory [bytes] for all instances together.

    Raises:
        ProblemError: The problem has no term.
        PlanError: The order is not on the unknowns of the problem, does not hold each of them once, or the plan
            is over the budget (the error carries the report).
    """
    if isinstance(order, TreeOrder):
        return plan_tree(problem, order, memory_budget)
    relation = problem.relation
    if relation is None or order.inputs is not relation.inputs:
        raise PlanError(f"the order on '{order.inputs.name}' is not on the inputs of this problem", "order the block set given to states()")
    fronts = {"chronological": _chain, "dense": _dense, "cyclic": _pairs}[order.kind](relation)
    result = Plan(problem, relation, order.kind, fronts, memory_budget)
    total = result.bytes_per_instance * problem.instances
    if total > memory_budget:
        problem_found = f"the plan needs {total} bytes, the budget is {memory_budget}"
        raise PlanError(problem_found, "choose another order or fewer instances", result.report())
    return result


def _chain(relation: Relation) -> tuple[Front, ...]:
    """One front per frame from the last to the first: pivots u_t, coupled to x_t."""
    nu, nx, steps = relation.inputs.width, relation.states.width, relation.inputs.frames
    return tuple(Front((steps - 1 - i,), nu, nx, (i - 1,) if i else (), i + 1 if i + 1 < steps else None, i) for i in range(steps))


def _pairs(relation: Relation) -> tuple[Front, ...]:
    """One front per frame, its inputs eliminated, then pairs of neighbouring segments joined at the state between them."""
    nu, nx, steps = relation.inputs.width, relation.states.width, relation.inputs.frames
    nodes: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [((t,), (), 0) for t in range(steps)]
    row, parents = list(range(steps)), {}
    while len(row) > 1:
        joined = []
        for left, right in zip(row[0::2], row[1::2], strict=False):
            parents[left] = parents[right] = len(nodes)
            joined.append(len(nodes))
            nodes.append((nodes[left][0] + nodes[right][0], (left, right), 1 + max(nodes[left][2], nodes[right][2])))
        row = joined + row[2 * len(joined) :]
    return tuple(
        Front(frames, nx if children else nu, 2 * nx, children, parents.get(i), level) for i, (frames, children, level) in enumerate(nodes)
    )


def _dense(relation: Relation) -> tuple[Front, ...]:
    """One front with all inputs; nothing is left to couple to because x_0 is given."""
    steps = relation.inputs.frames
    return (Front(tuple(range(steps)), relation.inputs.width * steps, 0, (), None, 0),)


def flops(plan: Plan) -> tuple[int, int]:
    """Operations per instance of (factor, solve), from the sparsity of A and B and the widths of the fronts."""
    relation = plan.relation
    nx, nu, steps = relation.states.width, relation.inputs.width, relation.inputs.frames
    a, b = (np.count_nonzero(m.nonzeros, axis=0) for m in (relation.A, relation.B))  # terms per column
    both = int(a.sum() + b.sum())
    # [A B]' [V v], then the lower triangle of its product with [A B], added to H
    triangle = sum(int(n) * (nx - j) for j, n in enumerate(a)) + nu * int(a.sum()) + sum(int(n) * (nu - k) for k, n in enumerate(b))
    substitute = 2 * both * (nx + 1) + 2 * triangle
    rollout = 2 * both * steps
    if plan.kind == "cyclic":
        joins, values = 11 * 2 * nx**3 + 2 * _cholesky(nx), 8 * 2 * nx**3 + 2 * _cholesky(nx)
        frame = _cholesky(nu) + 2 * nu * nu * (nx + 1) + 2 * nx * nu * (nu + 3 * nx)
        return (steps - 1) * (joins + values) + 2 * steps * frame, steps * (2 * nu * nx + nu * nu) + rollout
    if plan.kind == "dense":
        # column (s, j) passes the frames t > s: nu rows of K_t and one product with A each
        columns = nu * (steps * (steps - 1) // 2) * 2 * (nu * nx + int(a.sum()))
        p = nu * steps
        return steps * substitute + columns + _cholesky(p) + p * p, p * p + rollout
    front = substitute + _cholesky(nu) + nu * nu * (nx + 1) + 2 * nu * (nx * (nx + 1) // 2 + nx)
    return steps * front, steps * (2 * nu * nx + nu * nu) + rollout


def _cholesky(p: int) -> int:
    """Additions, multiplications, divisions and roots of a Cholesky factor (Golub and Van Loan, section 4.2)."""
    return (2 * p**3 + 3 * p**2 + p) // 6
