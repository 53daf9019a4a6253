"""The SQP on GATO's problem: published objective after each iteration, and agreement of precisions and options."""

import numpy as np
import pytest

from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot import load_robot, ready_configuration
from branch_mpc.sqp.solver import SqpSolver

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)

# Objective after 1, 2, 3 iterations and at the optimum, from the hold seed, GATO's weights and figure-8 (design table,
# computed with Pinocchio in float64 around a float32 sweep).
TABLE = {
    ("indy7", 32): (-3.1888, -3.2400, -3.2402, -3.2402),
    ("indy7", 64): (-6.9317, -7.2652, -7.2706, -7.2706),
    ("indy7", 128): (-12.184, -15.223, -15.430, -15.431),
    ("iiwa14", 32): (-3.5183, -3.5188, -3.5188, -3.5188),
    ("iiwa14", 64): (-7.1136, -7.1235, -7.1235, -7.1235),
}


def make(robot, knots, iterations, **options):
    """A solver of the shipped robot at GATO's weights."""
    defaults = {"step": 0.01, "batch": 1, "weights": GATO}
    return SqpSolver(load_robot(robot), knots=knots, iterations=iterations, **(defaults | options))


def problem(robot, knots):
    """First state and targets of the figure-8."""
    q = ready_configuration(robot)
    return np.r_[q, 0 * q], window(figure8_for(robot), 0.0, knots, 0.01)


@pytest.mark.parametrize(("robot", "knots"), TABLE, ids=lambda value: str(value))
def test_objective_after_each_iteration(robot, knots):
    """After 1, 2, 3 iterations and at the optimum the objective is the table's to 1e-3, every step at full length."""
    x0, targets = problem(robot, knots)
    solver, acceleration, values = make(robot, knots, 1), None, []
    for _ in range(6):
        result = solver.solve(x0, targets, acceleration=acceleration)
        acceleration = result.acceleration
        values.append(float(result.merit[0]))
        assert result.step_size[0] == 1.0
    assert np.allclose([*values[:3], values[-1]], TABLE[robot, knots], atol=1e-3)
    assert result.kkt_residual[0] < 1e-4
