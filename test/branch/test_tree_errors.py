"""What does not fit together on trees is refused with a line that names it."""

from collections.abc import Callable

import numpy as np
import pytest
import warp as wp
from trees import limit, reach, smooth, tree

import branch_mpc.branch as br
from branch_mpc.errors import PlanError, ProblemError, ScheduleError


def zeros(*shape: int, dtype: type = wp.float32) -> wp.array:
    return wp.zeros(shape, dtype=dtype, device="cpu")


def add(*args: object, **arguments: object) -> Callable[[], object]:
    """Add something to a problem; strings name block sets of the problem as expressions of u and x."""

    def call() -> object:
        case = tree(frames=3)
        scope = {"u": case.u, "x": case.x}
        read = lambda v: eval(v, scope) if isinstance(v, str) else v  # noqa: E731
        terms = [term(case) if callable(term) and not isinstance(term, br.Residual) else term for term in args]
        return case.problem.add(*terms, **{name: read(value) for name, value in arguments.items()})

    return call


@br.residual
def two_wide(d: br.Dof) -> wp.vec3:
    return wp.vec2(d.q, d.value)


@br.residual
def branching(d: br.Dof) -> float:
    if d.value > 0.0:
        return d.value
    return -d.value


@br.residual
def unknown_function(d: br.Dof) -> float:
    return wp.erf(d.value)


def linearized(residual: br.Residual) -> Callable[[], object]:
    """Compile a problem with one residual on all unknowns."""

    def call() -> object:
        case = tree(frames=1)
        case.problem.add(residual, d=case.u.dofs)
        plan = br.plan(case.problem, br.order.dense(case.u))
        return br.compile(plan, br.Schedule.serial(plan))

    return call


def annotated(kind: object) -> Callable[[], object]:
    def function(d):
        return d.value

    function.__annotations__ = {"d": kind} if kind else {}
    return lambda: br.residual(function)


BAD = {
    "loop": (lambda: br.Topology((2, 0, 1), (1, 1, 1)), "the parents form a loop: 'body0' -> 'body2' -> 'body1' -> 'body0'"),
    "child first": (lambda: br.Topology((1, -1), (1, 1), ("hand", "arm")), "body 0 'hand' comes before its parent 1 'arm'"),
    "too many dofs": (lambda: br.Topology((-1,), (7,)), "body 'body0' has 7 dofs"),
    "parent that is none": (lambda: br.Topology((-1, 5), (1, 1)), "body 'body1' has parent 5"),
    "names twice": (lambda: br.Topology((-1, 0), (1, 1), ("a", "a")), "1 different names"),
    "nothing moves": (lambda: br.tangents(br.Topology((-1,), (0,)), instances=1), "no body of 'u' has an unknown"),
    "no frames": (lambda: br.tangents(br.Topology((-1,), (1,)), instances=1, frames=0), "frames of 'u' is 0"),
    "S of wrong shape": (
        lambda: br.twists(br.tangents(br.Topology((-1,), (2,)), instances=3), S=zeros(3, 1, 1, 6)),
        r"S of 'x' has shape \(3, 1, 1, 6\), expected \(3, 1, 2, 6\)",
    ),
    "coordinates": (lambda: br.twists(tree().u, S=tree().arrays["S"], coordinates="tool"), "coordinates of 'x' are 'tool'"),
    "unknown body": (lambda: tree().x["foot"], "body 'foot' does not exist; choose one of body0"),
    "frame out of range": (lambda: tree().x["body0", 9], "there is no frame of 'x' 9"),
    "empty slice": (lambda: tree().u[:, 4:], "holds no frame of 'u'"),
    "H of wrong shape": (add(lambda c: br.quadratic(c.x["body4"], H=zeros(2, 3, 5, 5))), r"H of the term on 'x' has shape \(2, 3, 5, 5\)"),
    "mixed widths": (add(lambda c: br.quadratic(c.u[[0, 1]], H=zeros(2, 3, 2, 2))), r"blocks of 'u' have widths \[1, 2\]"),
    "H of integers": (add(lambda c: br.quadratic(c.u.dofs, H=zeros(2, 3, 8, dtype=wp.int32))), "holds int32"),
    "coupling of wrong shape": (add(lambda c: br.coupling(c.u, C=zeros(2, 3, 8, 8))), r"C of the coupling on 'u' has shape"),
    "coupling of one frame": (lambda: br.coupling(tree(frames=1).u, C=zeros(2, 1, 8, 8)), "at least two frames"),
    "damping on twists": (add(lambda c: br.damping(c.x, weight=1.0)), "damping on 'x', which are twists"),
    "damping scale": (add(lambda c: br.damping(c.u, weight=1.0, scale=-np.ones(8))), "not negative"),
    "argument missing": (add(reach, body="x['body4']", target=wp.vec3()), r"lacks \['point'\] and has no \[\]"),
    "argument unknown": (add(limit, d="u.dofs", low=0.0, high=1.0, middle=0.5), r"has no \['middle'\]"),
    "twist for a dof": (add(limit, d="x['body4']", low=0.0, high=1.0), "'d' of residual 'limit' is a view of 'x', a twist"),
    "frames that differ": (
        add(smooth, a="u.dofs", b="u.dofs[:, 1:]", rate=1.0),
        "'b' of residual 'smooth' has 2 frames, another argument 3",
    ),
    "one block twice": (add(smooth, a="u.dofs", b="u.dofs", rate=1.0), "takes one block as 'a' and as 'b'"),
    "target of wrong shape": (
        add(reach, body="x[[1, 2]]", target=np.zeros((4, 3)), point=wp.vec3()),
        r"'target' of residual 'reach' has shape \(4, 3\), expected \(2, 3, 2, 3\)",
    ),
    "data not finite": (add(limit, d="u.dofs", low=np.nan, high=1.0), "'low' of residual 'limit' holds a number that is not finite"),
    "data no number": (add(limit, d="u.dofs", low="'a'", high=1.0), "'low' of residual 'limit' is a str"),
    "no term": (add(lambda c: "quadratic"), "str is not a term"),
    "other tangents": (add(lambda c: br.damping(tree(frames=3).u, weight=1.0)), "use one set of tangents"),
    "wrong width": (linearized(two_wide), "residual 'two_wide' returns 2 numbers, its annotation says 3"),
    "if on data": (linearized(branching), "residual 'branching' cannot be traced: the branch taken depends"),
    "unknown function": (linearized(unknown_function), "wp.erf cannot be traced"),
    "no annotation": (annotated(None), "argument 'd' of residual 'function' is annotated None"),
    "odd annotation": (annotated(str), "annotate br.Body, br.Dof, float"),
    "no block": (annotated(float), "has no br.Body and no br.Dof"),
}


@pytest.mark.parametrize("name", BAD)
def test_problems_that_do_not_fit_are_named(name: str) -> None:
    """The message names the block set, argument or body and what it should be."""
    call, message = BAD[name]
    with pytest.raises(ProblemError, match=message):
        call()


def test_poses_and_values_are_asked_for() -> None:
    """Residuals that read a pose or a value need it declared."""
    u = br.tangents(br.Topology((-1,), (1,)), instances=1)
    x = br.twists(u, S=zeros(1, 1, 1, 6))
    with pytest.raises(ProblemError, match="needs the poses of 'x'; pass pose="):
        br.Problem().add(reach, body=x, target=wp.vec3(), point=wp.vec3())
    with pytest.raises(ProblemError, match=r"needs the values of 'u'.dofs; pass q="):
        br.Problem().add(limit, d=u.dofs, low=0.0, high=1.0)


def test_orders_hold_every_block_once() -> None:
    """A block eliminated twice or never, a parent before its child, or a block set of another problem, is named."""
    case = tree(frames=1)

    def plan(order: br.order.TreeOrder) -> object:
        return br.plan(case.problem, order)

    with pytest.raises(PlanError, match=r"block u\['body1', 0\] is eliminated twice"):
        plan(br.order.eliminate(case.u, case.u["body1"]))
    with pytest.raises(PlanError, match=r"block u\['body5', 0\] is eliminated never"):
        plan(br.order.eliminate(case.u[:5]))
    with pytest.raises(PlanError, match="order whole subtrees"):
        plan(br.order.tree(case.u[[0, 1]]) + br.order.tree(case.u[[2, 3, 4, 5]]))
    with pytest.raises(PlanError, match="not on the tangents of this problem"):
        plan(br.order.dense(tree(frames=1).u))
    with pytest.raises(PlanError, match=r"order the tangents u, or a slice"):
        br.order.dense(case.u.dofs)
    with pytest.raises(PlanError, match="nothing to eliminate"):
        br.order.eliminate()
    with pytest.raises(ProblemError, match="the problem has no term"):
        br.plan(br.Problem(), br.order.dense(case.u))


def test_schedules_and_solvers_refuse_what_they_cannot_do() -> None:
    """Block sizes, types and views are named."""
    case = tree(frames=1)
    plan = br.plan(case.problem, br.order.tree(case.u))
    with pytest.raises(ScheduleError, match="block_dim is 48"):
        br.Schedule.levels(plan, block_dim=48)
    with pytest.raises(ScheduleError, match="a block of 0 instances"):
        br.Schedule.instance_blocks(plan, k=0)
    with pytest.raises(ProblemError, match="holds float32, the solver float64"):
        br.compile(plan, br.Schedule.serial(plan), dtype=wp.float64)
    made = br.compile(plan, br.Schedule.serial(plan))
    other = tree(frames=1)
    with pytest.raises(ProblemError, match="'u' is not a block set of this problem"):
        made.solution(other.u)
    with pytest.raises(ProblemError, match="'x' is not of this problem"):
        made.columns(2, given=other.x, wanted=case.u)
    with pytest.raises(ProblemError, match="0 right-hand sides"):
        made.columns(0, given=case.x, wanted=case.u)
    with pytest.raises(ProblemError, match="this slice of 'x' was not wanted"):
        made.columns(1, given=case.x, wanted=case.u).solution(case.x)
