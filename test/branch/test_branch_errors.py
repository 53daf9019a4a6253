"""What does not fit together is refused with a line that names it."""

from collections.abc import Callable

import numpy as np
import pytest
import warp as wp
from chains import chain, double_integrator

import branch_mpc.branch as br
from branch_mpc.errors import DeviceError, PlanError, ProblemError, ScheduleError

A, B = double_integrator(2)


def zeros(*shape: int, dtype: type = wp.float32) -> wp.array:
    return wp.zeros(shape, dtype=dtype, device="cpu")


def state(**changes: object) -> Callable[[], object]:
    """A call of `states` with something wrong, on 3 instances, 5 steps, 2 inputs."""

    def call() -> object:
        problem = br.Problem(instances=3)
        u = problem.inputs("acceleration", width=2, frames=5)
        return problem.states("state", u, **({"A": A, "B": B} | changes))

    return call


def term(make: Callable[[br.BlockSet, br.BlockSet], object]) -> Callable[[], object]:
    """A call of `add` with a term that does not fit, on the same block sets."""

    def call() -> object:
        problem = br.Problem(instances=3)
        u = problem.inputs("acceleration", width=2, frames=5)
        x = problem.states("state", u, A=A, B=B)
        return problem.add(make(x, u))

    return call


def bad_quadratic(h: tuple[int, ...], g: tuple[int, ...], h_type: type = wp.float32, g_type: type = wp.float32) -> Callable[[], object]:
    """A quadratic term with arrays of these shapes and types."""
    return term(lambda x, u: br.quadratic(x, u, H=zeros(*h, dtype=h_type), g=zeros(*g, dtype=g_type)))


BAD = {
    "no instances": (lambda: br.Problem(instances=0), "instances of the problem is 0"),
    "no width": (lambda: br.Problem(instances=1).inputs("push", width=0, frames=3), "width of 'push' is 0"),
    "no frames": (lambda: br.Problem(instances=1).inputs("push", width=1, frames=True), "frames of 'push' is True"),
    "A not square": (state(A=A[:3]), r"A of 'state' has shape \(3, 4\), expected \(4, 4\)"),
    "B of other width": (state(B=B[:, :1]), r"B of 'state' has shape \(4, 1\), expected \(4, 2\)"),
    "A not finite": (state(A=np.nan * A), "A of 'state' holds a number that is not finite"),
    "B array per wrong frame": (state(B=zeros(6, 4, 2)), r"B of 'state' has shape \(6, 4, 2\), expected \(5, 4, 2\) or \(3, 5, 4, 2\)"),
    "c of wrong shape": (state(c=zeros(3, 6, 4)), r"c of 'state' has shape \(3, 6, 4\)"),
    "initial not an array": (state(initial=np.zeros((3, 4))), "initial of 'state' is a ndarray"),
    "H too small": (bad_quadratic((3, 6, 5, 5), (3, 6, 6)), r"H on \('state', 'acceleration'\) has shape"),
    "g one frame short": (bad_quadratic((3, 6, 6, 6), (3, 5, 6)), r"expected \(3, 6, 6\)"),
    "g of other type": (bad_quadratic((3, 6, 6, 6), (3, 6, 6), g_type=wp.float64), "holds float64, expected float32"),
    "H of integers": (bad_quadratic((3, 6, 6, 6), (3, 6, 6), h_type=wp.int32), "holds int32"),
    "H not contiguous": (
        term(lambda x, u: br.quadratic(x, u, H=zeros(3, 6, 6, 12)[:, :, :, ::2], g=zeros(3, 6, 6))),
        "H on .* is not contiguous",
    ),
    "swapped block sets": (term(lambda x, u: br.quadratic(u, x, H=zeros(3, 6, 6, 6), g=zeros(3, 6, 6))), "in this order"),
    "negative damping": (term(lambda x, u: br.damping(x, u, scale=-np.ones(6), weight=zeros(3))), "damping scale on .* not negative"),
    "short damping": (term(lambda x, u: br.damping(x, u, scale=np.ones(5), weight=zeros(3))), r"shape \(5,\); give 6"),
    "damping weight": (term(lambda x, u: br.damping(x, u, scale=np.ones(6), weight=zeros(2))), r"damping weight on .* has shape \(2,\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_shapes_that_do_not_fit_are_named(name: str) -> None:
    """The message names the block set, the shape it has and the shape it should have."""
    call, message = BAD[name]
    with pytest.raises(ProblemError, match=message):
        call()


def test_one_relation_per_problem() -> None:
    """A second set of inputs or states, or inputs of another problem, is refused."""
    case, other = chain(), chain()
    with pytest.raises(ProblemError, match="second set of inputs beside 'acceleration'"):
        case.problem.inputs("more", width=1, frames=5)
    with pytest.raises(ProblemError, match="second set of states beside 'state'"):
        case.problem.states("more", case.inputs, A=A, B=B)
    with pytest.raises(ProblemError, match="not a block set of this problem"):
        case.problem.states("more", other.inputs, A=A, B=B)
    with pytest.raises(PlanError, match="not on the inputs of this problem"):
        br.plan(case.problem, br.order.dense(other.inputs))


def test_unknown_orders_devices_and_block_sizes_are_named() -> None:
    """The message lists what exists."""
    case, other = chain(), chain()
    with pytest.raises(PlanError, match="'backwards' does not exist; choose one of chronological"):
        br.order.frames(case.inputs, time="backwards")
    plan = br.plan(case.problem, br.order.frames(case.inputs))
    with pytest.raises(DeviceError, match=r"device 'cuda:77' does not exist; choose one of .*cpu"):
        br.compile(plan, br.Schedule.serial(plan), device="cuda:77")
    with pytest.raises(ScheduleError, match="block_dim is 31; choose one of 32"):
        br.Schedule.fused(plan, block_dim=31)
    second = br.plan(other.problem, br.order.frames(other.inputs))
    with pytest.raises(ScheduleError, match="made for another plan"):
        br.compile(plan, br.Schedule.serial(second))


def test_types_must_agree() -> None:
    """Arrays of another type than the solver's are named; a problem without a term has nothing to plan."""
    case = chain(dtype=wp.float64)
    plan = br.plan(case.problem, br.order.frames(case.inputs))
    with pytest.raises(ProblemError, match="array H0 holds float64, the solver float32"):
        br.compile(plan, br.Schedule.serial(plan), dtype=wp.float32)
    problem = br.Problem(instances=1)
    u = problem.inputs("push", width=2, frames=2)
    problem.states("body", u, A=A, B=B)
    with pytest.raises(ProblemError, match="no quadratic term"):
        br.plan(problem, br.order.frames(u))


def test_solution_of_a_foreign_block_set_is_refused() -> None:
    """Asking for unknowns of another problem names the ones that there are."""
    case, other = chain(), chain()
    plan = br.plan(case.problem, br.order.frames(case.inputs))
    made = br.compile(plan, br.Schedule.serial(plan))
    assert made.solution(case.inputs).shape == (3, 5, 2)
    assert made.solution(case.states).shape == (3, 6, 4)
    with pytest.raises(ProblemError, match="ask for 'acceleration' or 'state'"):
        made.solution(other.inputs)
