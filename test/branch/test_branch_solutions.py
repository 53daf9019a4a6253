"""Every plan under every schedule against the float64 oracle."""

import numpy as np
import pytest
import warp as wp
from chains import PLANS, SCHEDULES, Chain, assert_optimal, chain, positive_terms, results, solved, solver
from hypothesis import given, settings
from hypothesis import strategies as st

import branch_mpc.branch as br
from branch_mpc.oracle import quadratic as oracle


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_and_schedule_is_optimal(plan: str, schedule: str) -> None:
    """With c, an initial state, two terms and damping the solution is the oracle's and stationary in float64."""
    assert_optimal(solved(chain(everything=True), plan, schedule))


@pytest.mark.parametrize("schedule", ("cooperative", "fused"))
@pytest.mark.parametrize("plan", PLANS)
def test_real_lanes_agree_with_one_lane(plan: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of 32 fibers with barriers is optimal too, and each lane's share is what one lane computes, to rounding."""
    case = chain(everything=True, seed=1)
    one = solved(case, plan, schedule)
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    lanes = solved(case, plan, schedule)
    assert_optimal(lanes)
    # The compiler may contract multiply-adds differently in the two builds: a few units of the last place of the largest number.
    for a, b in zip(results(one), results(lanes), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("plan", PLANS)
def test_double_precision_is_carried_through(plan: str) -> None:
    """In float64 the same code reaches float64 accuracy."""
    assert_optimal(solved(chain(everything=True, dtype=wp.float64), plan, "serial"))


@pytest.mark.parametrize("matrices", ("frames", "mixed"))
@pytest.mark.parametrize("plan", PLANS)
def test_matrices_may_be_arrays(plan: str, matrices: str) -> None:
    """A and B per frame, or B per instance and frame beside a constant A, are read by reference."""
    case = chain(matrices=matrices, everything=matrices == "frames")
    made = solved(case, plan, "serial")
    assert_optimal(made)
    case.problem.relation.B.array.assign(2.0 * case.problem.relation.B.array.numpy())
    made.factor()
    made.solve()
    assert_optimal(made)


def test_fused_reads_matrices_from_arrays() -> None:
    """The lanes of a block walk the same text with matrices that change from frame to frame."""
    assert_optimal(solved(chain(matrices="frames"), "chronological", "fused"))


def test_one_frame_and_one_joint() -> None:
    """The shortest chain has a single front and no child."""
    for plan in PLANS:
        assert_optimal(solved(chain(steps=1, joints=1), plan, "serial"))


def test_structure_of_the_constants_does_not_matter() -> None:
    """Zeros, ones, minus ones and a state without input in the constants give the same solution as the same matrices in arrays."""
    A = np.array([[1.0, 0.25, 0.0], [0.0, -1.0, -0.5], [0.0, 0.0, 0.0]])
    B = np.array([[0.0, 0.0], [1.0, 0.0], [-2.0, 1.0]])
    rng = np.random.default_rng(3)
    H, g = (wp.array(v, dtype=wp.float32, device="cpu") for v in positive_terms(rng, 2, 5, 5))
    answers = []
    for left, right in ((A, B), tuple(wp.array(np.tile(v, (4, 1, 1)), dtype=wp.float32, device="cpu") for v in (A, B))):
        problem = br.Problem(instances=2)
        u = problem.inputs("push", width=2, frames=4)
        x = problem.states("body", u, A=left, B=right)
        problem.add(br.quadratic(x, u, H=H, g=g))
        made = solved(Chain(problem, u, x, [H], [g]), "chronological", "serial")
        assert_optimal(made)
        answers.append(made.solution(u).numpy())
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-4, atol=1e-5)  # same sums in another order


@pytest.fixture(scope="module")
def fixed() -> tuple[Chain, list[br.Solver]]:
    """One chain whose numbers the property test replaces, under every plan."""
    case = chain()
    return case, [solver(case, plan, "serial") for plan in PLANS]


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), scale=st.floats(-4.0, 4.0), weight=st.floats(-2.0, 2.0))
def test_random_chains_are_optimal(fixed: tuple[Chain, list[br.Solver]], seed: int, scale: float, weight: float) -> None:
    """Whatever the positive definite terms and their scale, both plans solve to the accuracy their condition allows."""
    case, made = fixed
    H, g = positive_terms(np.random.default_rng(seed), 3, 6, 6)
    case.H[0].assign(10.0**scale * H)
    case.g[0].assign(10.0 ** (scale + weight) * g)
    for each in made:
        each.factor()
        each.solve()
        assert_optimal(each)


@pytest.mark.parametrize("plan", PLANS)
def test_predicted_decrease_is_the_decrease_from_zero(plan: str) -> None:
    """From x_0 = 0, c = 0 the objective falls by 1/2 sum |y|^2 between u = 0 and the solution."""
    case = chain(seed=4)
    made = solved(case, plan, "serial")
    u = made.solution(case.inputs).numpy()
    decrease = oracle.objective(case.problem, 0.0 * u) - oracle.objective(case.problem, u)
    np.testing.assert_allclose(made.predicted_decrease.numpy(), decrease, rtol=1e-5)  # 25 roundings of float32


def test_gradients_vanish_at_the_optimum() -> None:
    """Moving the origin of the unknowns to the solution leaves a gradient of rounding size in both plans."""
    case = chain(seed=5)
    for plan in PLANS:
        made = solver(case, plan, "serial")
        made.factor()
        before = made.gradient.numpy().copy()
        exact = oracle.solve(case.problem)
        H, g = case.H[0].numpy().astype(np.float64), case.g[0].numpy().astype(np.float64)
        lower = np.tril(H)
        full = lower + np.tril(lower, -1).swapaxes(-1, -2)
        z = np.concatenate([exact.states, np.pad(exact.inputs, ((0, 0), (0, 1), (0, 0)))], axis=2)
        case.g[0].assign(g + np.einsum("mtij,mtj->mti", full, z))
        made.factor()
        # float32 rounding of g itself, summed over the chain by products with A
        assert (made.gradient.numpy() < 1e-5 * (1.0 + before)).all()
        case.g[0].assign(g)


def test_dense_gradient_is_that_of_the_condensed_problem() -> None:
    """The dense plan reports max |dJ/du| at u = 0, states following from x_0 and c."""
    case = chain(everything=True, seed=6)
    made = solved(case, "dense", "serial")
    _, b = oracle.reduced(case.problem)
    np.testing.assert_allclose(made.gradient.numpy(), np.abs(b).max(axis=1), rtol=1e-5)
