"""The float64 twin of the tracking problem: the numbers it must give, and its derivatives against differences."""

import numpy as np
import pytest

from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle.tracking import (
    RELAXATION,
    StageTerms,
    TrackingProblem,
    barrier,
    rollout,
    stage_cost,
    stage_terms,
    total_cost,
    trajectory_terms,
)
from branch_mpc.oracle.tracking_sqp import kkt_residual, newton_step, reduced_gradient, sqp
from branch_mpc.robot import load_robot, ready_configuration

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
EVERYTHING = CostWeights(
    tool_position=3.0, tool_position_terminal=7.0, velocity=0.2, torque=1e-3, posture=0.3, position_barrier=0.05, velocity_barrier=0.03,
    torque_barrier=0.02,
)  # fmt: skip


def figure8_problem(robot: str, knots: int, weights: CostWeights = GATO) -> tuple[TrackingProblem, np.ndarray]:
    """The problem of design section 2 and its first state: at rest in the start configuration."""
    arm = load_robot(robot)
    q = ready_configuration(robot)
    return TrackingProblem(arm, window(figure8_for(robot, np.zeros(3)), 0.0, knots, 0.01), weights), np.r_[q, np.zeros(arm.dof)]


def rich_problem(seed: int = 1) -> tuple[TrackingProblem, np.ndarray, np.ndarray]:
    """Four knots with every term at work, a wrench, and joints near and beyond their limits."""
    problem, x0 = figure8_problem("indy7", 4, EVERYTHING)
    arm, random = problem.articulation, np.random.default_rng(seed)
    problem = TrackingProblem(arm, problem.targets, EVERYTHING, 0.05, random.normal(size=6), np.array([10.0, -20.0, 30.0, 1.0, 2.0, -3.0]))
    x0[0], x0[2] = arm.position_upper[0] - 0.05, arm.position_lower[2] + 0.2  # inside the margin; near it
    x0[6:] = 0.3 * random.normal(size=6)
    x0[7] = arm.velocity_limit[1] + 0.1
    return problem, x0, random.normal(size=(3, 6))


# Cost after 1, 2, 3 iterations from the hold seed: design section 2, measured with a float32 Riccati recursion.
@pytest.mark.parametrize(
    ("robot", "knots", "costs"),
    [
        ("indy7", 32, (-3.1888, -3.2400, -3.2402)),
        ("indy7", 64, (-6.9317, -7.2652, -7.2706)),
        ("iiwa14", 32, (-3.5183, -3.5188, -3.5188)),
        ("iiwa14", 64, (-7.1136, -7.1235, -7.1235)),
    ],
)
def test_costs_of_the_design(robot: str, knots: int, costs: tuple[float, ...]) -> None:
    """Three iterations on the figure-8 give the costs measured before there was any device code, with full steps; 1e-3 by the issue."""
    problem, x0 = figure8_problem(robot, knots)
    seed, *iterates = sqp(problem, x0, np.zeros((knots - 1, problem.articulation.dof)), 3)
    np.testing.assert_allclose([iterate.cost for iterate in iterates], costs, atol=1e-3)
    assert [iterate.step_size for iterate in iterates] == [1.0, 1.0, 1.0]
    assert seed.cost > iterates[0].cost > iterates[1].cost


def test_barrier_is_the_logarithm_inside() -> None:
    """Farther than the relaxation from a limit the barrier is -log d exactly, as GATO's."""
    d = np.array([RELAXATION, 0.01, 0.5, 3.0])
    value, slope, curvature = barrier(d)
    np.testing.assert_array_equal(value, -np.log(d))
    np.testing.assert_array_equal(slope, -1.0 / d)
    np.testing.assert_array_equal(curvature, 1.0 / d**2)


def test_barrier_is_smooth_and_convex_beyond_the_limit() -> None:
    """Value, slope and curvature are continuous where the parabola takes over, and the slope grows all the way through the limit."""
    left, right = (barrier(np.array([RELAXATION * (1.0 + side)])) for side in (-1e-9, 1e-9))
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)  # both differ from the joint value by about 1e-9
    d = np.linspace(-0.5, 0.5, 2001)
    slope, curvature = barrier(d)[1:]
    assert (np.diff(slope) > 0.0).all()
    assert (curvature > 0.0).all()
    assert (slope < 0.0).all()  # it always pushes away from the limit


def test_a_joint_without_limits_has_no_barrier() -> None:
    """An infinite distance adds nothing, instead of minus infinity; NaN stays NaN."""
    for part in barrier(np.array([np.inf])):
        assert part[0] == 0.0
    assert np.isnan(barrier(np.array([np.nan]))[0][0])


@pytest.mark.parametrize("knot", [0, 1, 3])
def test_stage_gradient_is_the_derivative_of_the_stage_cost(knot: int) -> None:
    """Every term's gradient agrees with central differences of the cost that is written separately, limits and wrench included."""
    problem, x0, accelerations = rich_problem()
    x, a = rollout(problem, x0, accelerations)[knot], accelerations[min(knot, 2)]
    terms, z, step = stage_terms(problem, knot, x, a), np.r_[x, a], 1e-6
    assert terms.cost == pytest.approx(stage_cost(problem, knot, x, a), rel=1e-12)
    differences = np.zeros_like(z)
    for i in range(len(z)):
        up, down = z.copy(), z.copy()
        up[i], down[i] = z[i] + step, z[i] - step
        differences[i] = (stage_cost(problem, knot, up[:12], up[12:]) - stage_cost(problem, knot, down[:12], down[12:])) / (2.0 * step)
    # Central differences: third derivatives of the barrier near its joint times 1e-12, and rounding 1e-16 / 1e-6.
    np.testing.assert_allclose(terms.gradient, differences, atol=1e-6 * np.abs(terms.gradient).max())


def test_hessian_is_exact_where_gauss_newton_drops_nothing() -> None:
    """In the velocity and acceleration of a knot with zero torque residual curvature the Hessian is that of the cost."""
    problem, x0, accelerations = rich_problem()
    x, a, step = rollout(problem, x0, accelerations)[1], accelerations[1], 1e-5
    terms = stage_terms(problem, 1, x, a)
    columns = [
        (stage_terms(problem, 1, x, a + step * e).gradient[12:] - stage_terms(problem, 1, x, a - step * e).gradient[12:]) / (2.0 * step)
        for e in np.eye(6)
    ]
    # The torque is linear in a, so only the barrier's third derivative is left in the differences.
    np.testing.assert_allclose(np.array(columns), terms.hessian[12:, 12:], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(terms.hessian, terms.hessian.T, atol=1e-12)
    assert np.linalg.eigvalsh(terms.hessian).min() > -1e-9


def test_the_last_knot_has_its_own_weight_and_no_torque() -> None:
    """At the last knot the terminal weight replaces the other and the acceleration does not matter."""
    problem, x0, accelerations = rich_problem()
    last = stage_terms(problem, 3, x0, accelerations[2])
    assert not last.gradient[12:].any()
    assert not last.hessian[12:].any()
    assert last.cost == stage_terms(problem, 3, x0, None).cost
    plain = CostWeights(tool_position=3.0, tool_position_terminal=7.0, velocity=0.0, torque=1e-12, position_barrier=0.0)
    targets = np.tile(problem.targets[:1], (4, 1))
    inner, outer = (stage_cost(TrackingProblem(problem.articulation, targets, plain), knot, x0, None) for knot in (0, 3))
    assert outer == pytest.approx(inner * 7.0 / 3.0, rel=1e-12)


def test_newton_step_minimises_the_quadratic() -> None:
    """After the step the local quadratic has no slope left in any acceleration, and the step obeys the integrator."""
    problem, x0, accelerations = rich_problem()
    terms = trajectory_terms(problem, rollout(problem, x0, accelerations), accelerations)
    dx, da = newton_step(problem, terms)
    np.testing.assert_allclose(dx, rollout(problem, np.zeros(12), da), atol=1e-9 * np.abs(dx).max())
    steps = np.hstack([dx, np.vstack([da, np.zeros(6)])])
    moved = [StageTerms(0.0, t.gradient + t.hessian @ z, t.hessian) for t, z in zip(terms, steps, strict=True)]
    scale = np.abs(reduced_gradient(problem, terms)).max()
    np.testing.assert_allclose(reduced_gradient(problem, moved) / scale, 0.0, atol=1e-8)  # condition about 1e8 in the scaled unknowns
    assert kkt_residual(problem, moved) < 1e-8 * scale


def test_reduced_gradient_is_the_derivative_of_the_total_cost() -> None:
    """The adjoint's gradient in the accelerations agrees with central differences through the roll-out."""
    problem, x0, accelerations = rich_problem(seed=2)
    gradient = reduced_gradient(problem, trajectory_terms(problem, rollout(problem, x0, accelerations), accelerations))

    def cost(shift: np.ndarray) -> float:
        a = accelerations + shift
        return total_cost(problem, rollout(problem, x0, a), a)

    random = np.random.default_rng(3)
    for _ in range(5):
        direction = random.normal(size=accelerations.shape)
        slope = (cost(1e-6 * direction) - cost(-1e-6 * direction)) / 2e-6
        assert slope == pytest.approx(float(np.sum(gradient * direction)), rel=1e-5)  # third derivatives of the barriers, squared step


def test_value_gradient_is_the_reduced_gradient_at_the_last_interval() -> None:
    """With one interval nothing can react later, so the residual of the recursion is the plain gradient."""
    problem, x0, accelerations = rich_problem()
    short = TrackingProblem(problem.articulation, problem.targets[:2], EVERYTHING, 0.05, problem.nominal, problem.wrench)
    terms = trajectory_terms(short, rollout(short, x0, accelerations[:1]), accelerations[:1])
    assert kkt_residual(short, terms) == pytest.approx(np.abs(reduced_gradient(short, terms)).max(), rel=1e-12)


def test_both_residuals_vanish_together() -> None:
    """Converged on the figure-8, neither the value gradient nor the plain gradient is left; at the seed both are there."""
    problem, x0 = figure8_problem("indy7", 16)
    *_, last = sqp(problem, x0, np.zeros((15, 6)), 8)
    start, end = (trajectory_terms(problem, rollout(problem, x0, a), a) for a in (np.zeros((15, 6)), last.accelerations))
    for residual in (kkt_residual, lambda p, t: np.abs(reduced_gradient(p, t)).max()):
        assert residual(problem, end) < 1e-6 * residual(problem, start)


def test_a_step_that_raises_the_cost_is_refused() -> None:
    """At a converged trajectory no candidate lowers the cost beyond rounding, and the cost never rises."""
    problem, x0 = figure8_problem("indy7", 8)
    costs = [iterate.cost for iterate in sqp(problem, x0, np.full((7, 6), 20.0), 6)]
    assert (np.diff(costs) <= 0.0).all()
    assert costs[-1] == pytest.approx(costs[-2], rel=1e-9)
