"""The batched SQP against its float64 twin, and what it promises about rows, refusals and failures."""

import numpy as np
import pytest

from branch_mpc.errors import DeviceError, SettingError
from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle.tracking import TrackingProblem, rollout, total_cost, trajectory_terms
from branch_mpc.oracle.tracking_sqp import kkt_residual, sqp
from branch_mpc.robot import load_robot, ready_configuration
from branch_mpc.sqp.solver import SqpSolver

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
KNOTS = 12
Q = ready_configuration("indy7")
X0 = np.r_[Q, 0 * Q]
TARGETS = window(figure8_for("indy7"), 0.0, KNOTS, 0.01)


def make(**options):
    """A small Indy7 solver."""
    defaults = {"knots": KNOTS, "step": 0.01, "batch": 1, "weights": GATO}
    return SqpSolver(load_robot("indy7"), **(defaults | options))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("float64", 1e-8)])
def test_two_iterations_under_a_wrench_equal_the_oracle(dtype, tolerance):
    """Trajectory, objective and KKT residual after two iterations equal the dense float64 SQP's; float32 to its rounding."""
    wrench = np.array([10.0, -20.0, 30.0, 1.0, 0.5, -0.5])
    result = make(iterations=2, dtype=dtype).solve(X0, TARGETS, wrench[None])
    problem = TrackingProblem(load_robot("indy7"), TARGETS, GATO, wrench=wrench)
    expected = sqp(problem, X0, np.zeros((KNOTS - 1, 6)), 2)[-1]
    states = np.concatenate([result.position[0], result.velocity[0]], axis=1)
    assert np.abs(result.acceleration[0] - expected.accelerations).max() < tolerance * np.abs(expected.accelerations).max()
    assert np.abs(states - expected.states).max() < tolerance
    assert abs(result.merit[0] - expected.cost) < tolerance
    assert abs(result.kkt_residual[0] - expected.residual) < tolerance * max(1.0, expected.residual)


def test_residual_certifies_the_optimum_independently():
    """At convergence the residual recomputed in float64 from the returned accelerations is small, and so is the reported one."""
    result = make(iterations=5).solve(X0, TARGETS)
    problem = TrackingProblem(load_robot("indy7"), TARGETS, GATO)
    accelerations = result.acceleration[0].astype(float)
    states = rollout(problem, X0, accelerations)
    # float32 rounding of the terms (1e-7 of gradients of order 10) bounds what float32 iterates can reach
    assert kkt_residual(problem, trajectory_terms(problem, states, accelerations)) < 1e-5
    assert result.kkt_residual[0] < 1e-5
    assert abs(result.merit[0] - total_cost(problem, states, accelerations)) < 1e-5


@pytest.mark.parametrize(("order", "schedule"), [("dense", "serial"), ("chronological", "fused"), ("chronological", "cooperative")])
def test_every_order_and_schedule_takes_the_same_steps(order, schedule):
    """Orders and schedules change the arithmetic's sequence, not the iterates: accelerations agree to float32 rounding."""
    expected = make(iterations=2).solve(X0, TARGETS)
    result = make(iterations=2, order=order, schedule=schedule).solve(X0, TARGETS)
    assert np.abs(result.acceleration - expected.acceleration).max() < 2e-4 * np.abs(expected.acceleration).max()
    assert np.abs(result.merit - expected.merit).max() < 1e-5


def test_rows_are_independent_and_reruns_identical():
    """Changing one row's wrench changes no bit of the others, and the same solve twice gives the same bits."""
    solver = make(batch=3, iterations=2)
    wrenches = np.zeros((3, 6))
    wrenches[:, 2] = (0.0, -30.0, 20.0)
    first = solver.solve(X0, TARGETS, wrenches)
    again = solver.solve(X0, TARGETS, wrenches)
    wrenches[1, 2] = 45.0
    changed = solver.solve(X0, TARGETS, wrenches)
    assert np.array_equal(first.acceleration, again.acceleration)
    assert np.array_equal(first.acceleration[[0, 2]], changed.acceleration[[0, 2]])
    assert not np.array_equal(first.acceleration[1], changed.acceleration[1])


@pytest.mark.parametrize("seed", range(4))
def test_objective_never_rises(seed):
    """From random states with far targets, where full steps are refused, no iteration raises the objective beyond float32 noise."""
    rng = np.random.default_rng(seed)
    solver = make(weights=CostWeights(tool_position=200.0, tool_position_terminal=2000.0), retries=2)
    x0 = np.r_[rng.uniform(-2.5, 2.5, 6), rng.uniform(-2, 2, 6)]
    targets = np.tile(rng.uniform(-1.0, 1.0, 3), (KNOTS, 1))
    acceleration, previous = rng.uniform(-20, 20, (KNOTS - 1, 6)), np.inf
    for _ in range(12):
        result = solver.solve(x0, targets, acceleration=acceleration)
        assert result.merit[0] <= previous + 1e-5 * abs(previous) if np.isfinite(previous) else True
        assert result.step_size[0] in [0.0, *0.5 ** np.arange(8)]
        acceleration, previous = result.acceleration, float(result.merit[0])
    assert result.kkt_residual[0] < 1e-2 * abs(previous)


def test_refused_step_raises_the_damping_and_a_retry_uses_it():
    """Where every candidate is refused the iterate stays, the damping rises, and a retry in the same tick may succeed."""
    rng = np.random.default_rng(3)
    weights = CostWeights(tool_position=2e5, tool_position_terminal=2e6, velocity=1e-4, torque=1e-9)
    found = False
    for _ in range(40):
        x0 = np.r_[rng.uniform(-3.0, 3.0, 6), rng.uniform(-3, 3, 6)]
        targets = np.tile(rng.uniform(-1.5, 1.5, 3), (KNOTS, 1))
        acceleration = rng.uniform(-300, 300, (KNOTS - 1, 6))
        once = _refusing().solve(x0, targets, acceleration=acceleration)
        if once.step_size[0] == 0.0 and not once.pivot_failed[0]:
            assert np.array_equal(once.acceleration[0], acceleration.astype(np.float32))
            assert once.damping[0] >= 0.1
            more = make(weights=weights, step=0.05, retries=8).solve(x0, targets, acceleration=acceleration)
            assert more.merit[0] <= once.merit[0]
            found = True
            break
    assert found, "no problem of the sample refused a full line search"


_SOLVER = []


def _refusing():
    """One solver without retries, made once and reset."""
    if not _SOLVER:
        weights = CostWeights(tool_position=2e5, tool_position_terminal=2e6, velocity=1e-4, torque=1e-9)
        _SOLVER.append(make(weights=weights, step=0.05, retries=0))
    _SOLVER[0].reset()
    return _SOLVER[0]


def test_poisoned_row_is_flagged_and_leaves_no_trace():
    """NaN in one row's wrench fails its pivot, leaves its accelerations as they were, spares the other rows, and after a reset
    the next clean solve equals a fresh solver's bit for bit."""
    solver, wrenches = make(batch=2, iterations=2), np.zeros((2, 6))
    clean = solver.solve(X0, TARGETS, wrenches)
    wrenches[1, 0] = np.nan
    poisoned = solver.solve(X0, TARGETS, wrenches)
    assert poisoned.pivot_failed.tolist() == [False, True]
    assert not poisoned.acceleration[1].any()
    assert poisoned.step_size[1] == 0.0
    assert np.array_equal(poisoned.acceleration[0], clean.acceleration[0])
    solver.reset()
    assert np.array_equal(solver.solve(X0, TARGETS).acceleration, clean.acceleration)


def test_unknown_device_is_named_with_the_known_ones():
    """A device that is not there is refused with the list of those that are."""
    with pytest.raises(DeviceError, match=r"device 'cuda:9' does not exist; choose one of cpu"):
        make(device="cuda:9")


def test_margins_are_fixed_and_weights_are_live():
    """Weights change without a new solver and act; margins, which are compiled in, are refused by name."""
    solver = make(iterations=3)
    near = solver.solve(X0, TARGETS).position[0, -1]
    solver.set_weights(CostWeights(tool_position=2.0, tool_position_terminal=50.0, velocity=100.0))
    slow = solver.solve(X0, TARGETS).position[0, -1]
    assert np.abs(slow - Q).max() < 0.5 * np.abs(near - Q).max()
    with pytest.raises(SettingError, match=r"weights.position_margin' cannot change"):
        solver.set_weights(CostWeights(position_margin=0.2))


def test_one_knot_is_refused():
    """A horizon without an interval is refused."""
    with pytest.raises(SettingError, match="knots 1"):
        make(knots=1)
