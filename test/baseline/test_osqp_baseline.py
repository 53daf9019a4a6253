"""The CPU baseline solves the same problem as the oracle, and solves it exactly enough."""

import numpy as np
import pytest

from branch_mpc.baseline import OsqpController, OsqpSettings
from branch_mpc.baseline.quadratic_program import TrackingQp
from branch_mpc.baseline.terms import PinocchioTerms, TrajectoryTerms
from branch_mpc.errors import TargetError
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.oracle.tracking import StageTerms, TrackingProblem, rollout, total_cost, trajectory_terms
from branch_mpc.oracle.tracking_sqp import kkt_residual, newton_step
from branch_mpc.robot import Articulation, load_robot, ready_configuration

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
EVERYTHING = CostWeights(
    tool_position=3.0, tool_position_terminal=7.0, velocity=0.2, torque=1e-3, posture=0.3, position_barrier=0.05, velocity_barrier=0.03,
    torque_barrier=0.02,
)  # fmt: skip


def figure8_controller(robot: str, knots: int, solver: OsqpSettings | None = None) -> tuple[OsqpController, np.ndarray, np.ndarray]:
    """The baseline with GATO's weights, the first state and the targets of design section 2."""
    q = ready_configuration(robot)
    controller = OsqpController(load_robot(robot), MpcSettings(knots=knots, weights=GATO), solver=solver)
    return controller, np.r_[q, 0.0 * q], window(figure8_for(robot, np.zeros(3)), 0.0, knots, 0.01)


def wild_trajectory(arm: Articulation, knots: int, seed: int) -> tuple[TrackingProblem, np.ndarray, np.ndarray]:
    """A problem with every term at work and a trajectory that goes near and beyond limits, under a wrench."""
    random = np.random.default_rng(seed)
    lower = np.where(np.isfinite(arm.position_lower), arm.position_lower, -1.0)
    upper = np.where(np.isfinite(arm.position_upper), arm.position_upper, 1.0)
    position = lower + (upper - lower) * random.uniform(-0.05, 1.05, (knots, arm.dof))
    velocity = arm.velocity_limit * random.uniform(-1.1, 1.1, (knots, arm.dof))
    wrench = np.array([20.0, -30.0, 50.0, 3.0, -4.0, 5.0])
    problem = TrackingProblem(arm, random.normal(size=(knots, 3)), EVERYTHING, 0.01, random.normal(size=arm.dof), wrench)
    return problem, np.hstack([position, velocity]), random.normal(size=(knots - 1, arm.dof))


def assert_terms_agree(terms: TrajectoryTerms, twins: list[StageTerms]) -> None:
    """Cost, gradients and Hessians of every knot agree to rounding of two float64 codes that share nothing."""
    assert terms.cost == pytest.approx(sum(twin.cost for twin in twins), rel=1e-10)
    for gradient, hessian, twin in zip(terms.gradient, terms.hessian, twins, strict=True):
        np.testing.assert_allclose(gradient, twin.gradient, atol=1e-9 * max(1.0, np.abs(twin.gradient).max()))
        np.testing.assert_allclose(hessian, twin.hessian, atol=1e-9 * max(1.0, np.abs(twin.hessian).max()))


@pytest.mark.parametrize("robot", ["indy7", "iiwa14"])
def test_terms_are_those_of_the_oracle(robot: str) -> None:
    """Pinocchio's cost, gradient and Hessian, barriers and wrench included, are the textbook twin's."""
    problem, states, accelerations = wild_trajectory(load_robot(robot), 5, seed=4)
    terms = PinocchioTerms(problem.articulation, EVERYTHING, problem.nominal)
    assert problem.wrench is not None
    quadratic = terms.quadratic(states, accelerations, problem.targets, problem.wrench)
    assert_terms_agree(quadratic, trajectory_terms(problem, states, accelerations))
    cost = terms.cost(states, accelerations, problem.targets, problem.wrench)
    assert cost == pytest.approx(total_cost(problem, states, accelerations), rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_terms_hold_for_branched_trees_with_sliders(seed: int) -> None:
    """The derivative of a world wrench is right on trees, where some joints do not carry the tool, and for prismatic joints."""
    arm = random_articulation(np.random.default_rng(seed), dof=6)
    problem, states, accelerations = wild_trajectory(arm, 3, seed)
    assert problem.wrench is not None
    terms = PinocchioTerms(arm, EVERYTHING, problem.nominal).quadratic(states, accelerations, problem.targets, problem.wrench)
    assert_terms_agree(terms, trajectory_terms(problem, states, accelerations))


def test_torque_is_that_of_the_cost() -> None:
    """The torque that leaves is the inverse dynamics under the wrench that the solve assumed."""
    controller, x0, targets = figure8_controller("indy7", 8)
    push, warm = np.array([0.0, 0.0, -50.0, 0.0, 0.0, 0.0]), np.zeros((7, 6))
    pushed, free = (controller.solve(x0, targets, wrench, warm) for wrench in (push, np.zeros(6)))
    lift = pushed.torque - controller.terms.torque(pushed.states[0], pushed.accelerations[0], np.zeros(6))
    assert np.abs(lift).max() > 1.0  # 50 N at half a metre
    np.testing.assert_allclose(free.torque, controller.terms.torque(free.states[0], free.accelerations[0], np.zeros(6)), rtol=1e-12)


# The numbers of the oracle's test and N = 128. OSQP at its stated tolerance is off by 1e-4 relative at most (first step, N = 128).
@pytest.mark.parametrize(
    ("robot", "knots", "costs"),
    [
        ("indy7", 32, (-3.1888, -3.2400, -3.2402)),
        ("indy7", 64, (-6.9317, -7.2652, -7.2706)),
        ("indy7", 128, (-12.184, -15.223, -15.430)),
        ("iiwa14", 32, (-3.5183, -3.5188, -3.5188)),
        ("iiwa14", 64, (-7.1136, -7.1235, -7.1235)),
    ],
)
def test_costs_of_the_design(robot: str, knots: int, costs: tuple[float, ...]) -> None:
    """Three iterations from the hold seed, each from the last one's result, give the costs of design section 2 with full steps."""
    controller, x0, targets = figure8_controller(robot, knots)
    accelerations = np.zeros((knots - 1, len(x0) // 2))
    for cost in costs:
        result = controller.solve(x0, targets, np.zeros(6), accelerations)
        accelerations = result.accelerations
        assert result.solved
        assert result.step_size == 1.0
        assert result.cost == pytest.approx(cost, rel=3e-4)


def test_several_iterations_are_several_solves() -> None:
    """Three iterations in one solve end where three solves end, up to OSQP's tolerance."""
    controller, x0, targets = figure8_controller("indy7", 16)
    once = OsqpController(controller.articulation, MpcSettings(knots=16, weights=GATO, iterations=3))
    accelerations = np.zeros((15, 6))
    for _ in range(3):
        accelerations = controller.solve(x0, targets, np.zeros(6), accelerations).accelerations
    together = once.solve(x0, targets, np.zeros(6), np.zeros((15, 6)))
    np.testing.assert_allclose(together.accelerations, accelerations, atol=1e-4 * np.abs(accelerations).max())
    assert together.times.linearisation > 0.0
    assert together.times.total >= together.times.linearisation + together.times.osqp_wall + together.times.line_search


@pytest.mark.parametrize("robot", ["indy7", "iiwa14"])
def test_step_is_the_exact_one(robot: str) -> None:
    """OSQP's step at the stated settings is the dense KKT system's to 1e-3, also far from the optimum."""
    controller, x0, targets = figure8_controller(robot, 16)
    problem = TrackingProblem(controller.articulation, targets, GATO)
    accelerations = 3.0 * np.random.default_rng(5).normal(size=(15, controller.articulation.dof))
    states = rollout(problem, x0, accelerations)
    terms = controller.terms.quadratic(states, accelerations, targets, np.zeros(6))
    step = TrackingQp(controller.articulation.dof, 16, 0.01, OsqpSettings()).solve(terms)
    _, exact = newton_step(problem, trajectory_terms(problem, states, accelerations))
    assert step.solved
    # sigma = 1e-9 and rho = 1e6 leave an error of this size in the flattest directions, the wrist's accelerations.
    np.testing.assert_allclose(step.accelerations, exact, atol=1e-3 * np.abs(exact).max())


def test_workspace_is_updated_in_place() -> None:
    """A second solve sees new terms only: its step does not depend on the problem solved before."""
    controller, x0, targets = figure8_controller("indy7", 16)
    qp, fresh = (TrackingQp(6, 16, 0.01, OsqpSettings()) for _ in range(2))
    terms = [
        controller.terms.quadratic(controller.rollout(x0, a), a, targets, np.zeros(6))
        for a in (np.full((15, 6), 5.0), np.zeros((15, 6)))
    ]  # fmt: skip
    qp.solve(terms[0])
    again, first = qp.solve(terms[1]).accelerations, fresh.solve(terms[1]).accelerations
    np.testing.assert_array_equal(again, first)


def test_rollout_is_the_integrator() -> None:
    """The closed sums of the roll-out are x+ = A x + B a."""
    controller, x0, targets = figure8_controller("indy7", 16)
    accelerations = np.random.default_rng(6).normal(size=(15, 6))
    expected = rollout(TrackingProblem(controller.articulation, targets), x0, accelerations)
    np.testing.assert_allclose(controller.rollout(x0, accelerations), expected, rtol=0.0, atol=1e-13)


def test_residual_is_the_device_measure() -> None:
    """The reported KKT residual is the oracle's |dV/da| at the warm start, the last linearisation of one iteration."""
    controller, x0, targets = figure8_controller("indy7", 16)
    problem = TrackingProblem(controller.articulation, targets, GATO)
    warm = np.zeros((15, 6))
    expected = kkt_residual(problem, trajectory_terms(problem, rollout(problem, x0, warm), warm))
    assert controller.solve(x0, targets, np.zeros(6), warm).kkt_residual == pytest.approx(expected, rel=1e-6)
    assert np.isnan(controller.solve(x0, targets, np.zeros(6), warm, residual=False).kkt_residual)


class Backwards:
    """A quadratic program that answers with an ascent direction."""

    def __init__(self, program: TrackingQp) -> None:
        self._program = program

    def solve(self, terms: TrajectoryTerms) -> object:
        step = self._program.solve(terms)
        return type(step)(-step.accelerations, step.iterations, step.run_time, step.wall_time, step.solved)


def test_a_step_that_raises_the_cost_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """When no step length lowers the cost the warm start comes back, and the result says so."""
    controller, x0, targets = figure8_controller("indy7", 16)
    program = Backwards(TrackingQp(6, 16, 0.01, OsqpSettings()))
    monkeypatch.setattr(controller, "_program", lambda row: program)
    warm = np.full((15, 6), 0.5)
    result = controller.solve(x0, targets, np.zeros(6), warm)
    assert result.step_size == 0.0
    np.testing.assert_array_equal(result.accelerations, warm)
    np.testing.assert_array_equal(result.states, controller.rollout(x0, warm))


def test_a_step_too_long_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eight times too long step is taken at a shorter length that lowers the cost."""
    controller, x0, targets = figure8_controller("indy7", 16)
    program = TrackingQp(6, 16, 0.01, OsqpSettings())

    class Long:
        def solve(self, terms: TrajectoryTerms) -> object:
            step = program.solve(terms)
            return type(step)(8.0 * step.accelerations, step.iterations, step.run_time, step.wall_time, step.solved)

    monkeypatch.setattr(controller, "_program", lambda row: Long())
    warm = np.zeros((15, 6))
    before = controller.terms.cost(controller.rollout(x0, warm), warm, targets, np.zeros(6))
    result = controller.solve(x0, targets, np.zeros(6), warm)
    assert result.step_size in (0.5, 0.25, 0.125)
    assert result.cost < before


def test_a_batch_is_its_rows() -> None:
    """Every row of a batch is solved with its own state and wrench."""
    controller, x0, targets = figure8_controller("indy7", 16)
    wrenches, warm = np.zeros((3, 6)), np.zeros((15, 6))
    wrenches[1, 2], wrenches[2, 0] = -40.0, 25.0
    states = np.array([x0, x0 + 0.01, x0 - 0.02])
    rows = controller.solve_batch(states, targets, wrenches, warm)
    for row, start, wrench in zip(rows, states, wrenches, strict=True):
        alone = OsqpController(controller.articulation, controller.settings).solve(start, targets, wrench, warm)
        assert row.cost == pytest.approx(alone.cost, rel=1e-9)


@pytest.mark.parametrize("targets", [np.zeros((5, 3)), np.full((16, 3), np.nan)])
def test_bad_targets_are_named(targets: np.ndarray) -> None:
    """Targets of the wrong length or not finite raise one clear line with the number of knots."""
    controller, x0, _ = figure8_controller("indy7", 16)
    with pytest.raises(TargetError, match="give 16 finite tool positions"):
        controller.solve(x0, targets, np.zeros(6), np.zeros((15, 6)))
