"""The float64 twin of the torque form: derivatives against Pinocchio and differences, S against the KKT system, GATO's numbers."""

import numpy as np
import pinocchio as pin
import pytest

from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle import torque_form
from branch_mpc.oracle.tracking import TrackingProblem
from branch_mpc.robot import load_robot, ready_configuration
from branch_mpc.robot.pinocchio_model import pinocchio_model

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
INTEGRATORS = ("euler", "semi_implicit", "trapezoidal", "rk4")


def rich(wrench=None):
    """Four knots of the Indy7 with every term at work, states and torques away from any optimum."""
    arm, random = load_robot("indy7"), np.random.default_rng(3)
    weights = CostWeights(3.0, 7.0, 0.2, 1e-3, 0.3, 0.05, 0.03, 0.02)
    problem = TrackingProblem(arm, window(figure8_for("indy7"), 0.0, 4, 0.02), weights, 0.02, random.normal(size=6), wrench)
    x = np.r_[ready_configuration("indy7"), np.zeros(6)] + 0.2 * random.normal(size=(4, 12))
    return problem, x, 5.0 * random.normal(size=(3, 6))


@pytest.mark.parametrize("robot", ["indy7", "iiwa14"])
def test_acceleration_and_derivatives_are_pinocchios(robot):
    """Without a wrench, a, da/dq, da/dv and da/du equal Pinocchio's ABA and its derivatives to 1e-8 of their size."""
    arm, random = load_robot(robot), np.random.default_rng(0)
    model, _ = pinocchio_model(arm)
    data, n = model.createData(), arm.dof
    problem = TrackingProblem(arm, np.zeros((2, 3)))
    for _ in range(3):
        q, v, u = ready_configuration(robot) + 0.3 * random.normal(size=n), random.normal(size=n), 10.0 * random.normal(size=n)
        by_q, by_v, by_u = pin.computeABADerivatives(model, data, q, v, u)
        by_x, inverse = torque_form.acceleration_derivatives(problem, np.r_[q, v], u)
        for ours, theirs in (
            (torque_form.acceleration(problem, np.r_[q, v], u), data.ddq),
            (by_x, np.hstack([by_q, by_v])),
            (inverse, by_u),
        ):
            assert np.allclose(ours, theirs, rtol=1e-8, atol=1e-8 * np.abs(theirs).max())


def test_wrench_is_pinocchios_external_force():
    """A world wrench gives the acceleration of Pinocchio's ABA with the same force in the frame of the last joint."""
    wrench = np.array([10.0, -20.0, 30.0, 1.0, 2.0, -3.0])
    problem, x, u = rich(wrench)
    model, tool = pinocchio_model(problem.articulation)
    data = model.createData()
    q, v = x[1, :6], x[1, 6:]
    pin.framesForwardKinematics(model, data, q)
    at_tool = pin.SE3(data.oMf[tool].rotation.T, np.zeros(3)).act(pin.Force(wrench))
    forces = [pin.Force.Zero() for _ in range(model.njoints)]
    forces[model.frames[tool].parentJoint] = model.frames[tool].placement.act(at_tool)
    theirs = pin.aba(model, data, q, v, u[1], forces)
    assert np.allclose(torque_form.acceleration(problem, x[1], u[1]), theirs, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_step_derivatives_are_differences(integrator):
    """A and B of every integrator equal central differences of the step under a wrench, to 1e-5 of their size."""
    problem, x, u = rich(np.array([10.0, -20.0, 30.0, 1.0, 2.0, -3.0]))
    z, e = np.r_[x[0], u[0]], 1e-6
    step = lambda y: torque_form.discrete_step(problem, y[:12], y[12:], integrator)  # noqa: E731
    differences = [(step(z + e * d) - step(z - e * d)) / (2 * e) for d in np.eye(18)]
    ours = np.hstack(torque_form.step_derivatives(problem, x[0], u[0], integrator))
    assert np.allclose(ours, np.array(differences).T, rtol=1e-5, atol=1e-6 * np.abs(ours).max())


def test_schur_solution_solves_the_kkt_system():
    """The step from S l = gamma satisfies the linearised constraints and the stationarity of the quadratic to 1e-8."""
    problem, x, u = rich()
    terms = torque_form.blocks(problem, x[0] + 0.01, x, u, 0.01)
    S, gamma = torque_form.schur(terms)
    costates = np.linalg.solve(S, gamma).reshape(4, 12)
    dx, du = torque_form.step_from_costates(terms, costates)
    assert np.abs(dx - torque_form.roll_out(terms, du)).max() < 1e-8 * np.abs(dx).max()
    G, g, C = torque_form._stacked(terms)
    z = np.r_[np.hstack([dx[:-1], du]).ravel(), dx[-1]]
    assert np.abs(G @ z + g - C.T @ costates.ravel()).max() < 1e-8 * np.abs(g).max()


def test_pcg_with_the_stair_preconditioner_reaches_the_solution():
    """PCG run far takes under 60 iterations on 48 unknowns of condition 1e8 and ends at the solution to 1e-5."""
    problem, x, u = rich()
    S, gamma = torque_form.schur(torque_form.blocks(problem, x[0], x, u, 0.01))
    P = torque_form.stair_preconditioner(S, 12, 0.01)
    costates, count = torque_form.pcg(S, P, gamma, 1e-14, 60, floor=0.0)
    exact = np.linalg.solve(S, gamma)
    assert count < 60
    assert np.abs(costates - exact).max() < 1e-5 * np.abs(exact).max()


# Measured on gato-mpc 0.1.6: initial merit and PCG iterations of the first SQP iteration, from the hold seed with zero torque.
@pytest.mark.parametrize(
    ("robot", "knots", "initial", "count"),
    [("indy7", 32, 184.043, 45), ("indy7", 64, 373.928, 52), ("iiwa14", 32, 243.241, 35), ("iiwa14", 64, 494.803, 55)],
)
def test_gatos_first_iteration_in_float64(robot, knots, initial, count):
    """The twin's initial merit is GATO's to its last printed digit, its float64 PCG count within 10 %."""
    arm, q = load_robot(robot), ready_configuration(robot)
    problem = TrackingProblem(arm, window(figure8_for(robot), 0.0, knots, 0.01), GATO)
    x, u = np.tile(np.r_[q, 0 * q], (knots, 1)), np.zeros((knots - 1, arm.dof))
    assert abs(torque_form.merit(problem, x[0], x, u, 10.0) - initial) < 1e-3
    S, gamma = torque_form.schur(torque_form.blocks(problem, x[0], x, u, 0.01))
    P = torque_form.stair_preconditioner(S, 2 * arm.dof, 0.01)
    assert abs(torque_form.pcg(S, P, gamma, 1e-4, 200)[1] - count) <= 0.1 * count
