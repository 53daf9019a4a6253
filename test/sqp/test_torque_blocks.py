"""The torque form's kernels against their float64 twin: KKT blocks, S, gamma, preconditioner, linear solves, steps, merit."""

import numpy as np
import pytest

from branch_mpc.errors import SettingError
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle import torque_form
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.oracle.tracking import TrackingProblem
from branch_mpc.sqp.torque_settings import TorqueSettings
from branch_mpc.sqp.torque_solver import TorqueSolver

ARM = random_articulation(np.random.default_rng(5), 2, branched=False, prismatic=False)
N, STEP, RHO = 5, 0.02, 0.03
WEIGHTS = CostWeights(3.0, 7.0, 0.2, 1e-3, 0.3, 0.05, 0.03, 0.02)
WRENCHES = np.array([[10.0, -20.0, 30.0, 1.0, 2.0, -3.0], np.zeros(6)])


def inputs():
    """First states, targets, states and torques of two problems, away from any optimum."""
    random = np.random.default_rng(7)
    x = 0.3 * random.normal(size=(2, N, 4))
    return x[:, 0] + 0.01, 0.3 * random.normal(size=(N, 3)), x, 3.0 * random.normal(size=(2, N - 1, 2))


def solver(integrator="trapezoidal", **options):
    """A solver of the two problems in float64, one iteration."""
    settings = TorqueSettings(rho=RHO, integrator=integrator, adapt_rho=False, **options)
    arguments = {"knots": N, "step": STEP, "batch": 2, "weights": WEIGHTS, "settings": settings, "nominal": np.array([0.1, -0.2])}
    return TorqueSolver(ARM, **arguments, dtype="float64", linear_solvers=("pcg", "direct"))


def twins(integrator="trapezoidal"):
    """The twin's blocks of both problems at the seed."""
    x0, targets, x, u = inputs()
    problems = [TrackingProblem(ARM, targets, WEIGHTS, STEP, np.array([0.1, -0.2]), w) for w in WRENCHES]
    return problems, [torque_form.blocks(p, x0[m], x[m], u[m], RHO, integrator) for m, p in enumerate(problems)]


@pytest.fixture(scope="module")
def made():
    """The trapezoidal solver, shared by the tests of this file."""
    return solver()


def run(made, linear_solver="pcg"):
    """One iteration from the seed."""
    x0, targets, x, u = inputs()
    made.reset()
    return made.solve(x0, targets, WRENCHES, x, u, linear_solver=linear_solver)


def dense(strips):
    """The matrix that column-major strips [left | diagonal | right], shape (N, 3 nx, nx), store."""
    knots, nx = len(strips), strips.shape[2]
    full = np.zeros((knots * nx, (knots + 2) * nx))
    for k in range(knots):
        full[k * nx : (k + 1) * nx, k * nx : (k + 3) * nx] = strips[k].T
    return full[:, nx:-nx]


@pytest.mark.parametrize("integrator", ["euler", "semi_implicit", "trapezoidal", "rk4"])
def test_blocks_equal_the_twin(integrator, made):
    """Q + rho, R, gradients, A, B, defects and the merit of every knot under a wrench, for every integrator, to 1e-9."""
    own = made if integrator == "trapezoidal" else solver(integrator)
    run(own)
    x0, _, x, u = inputs()
    problems, terms = twins(integrator)
    for m in range(2):
        for array, expected in (
            (own.gx, terms[m].gx),
            (own.gu, terms[m].gu),
            (own.A, terms[m].A),
            (own.B, terms[m].B),
            (own.c, terms[m].c),
        ):
            assert np.allclose(array.numpy()[m], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        assert np.allclose(own.Q.numpy()[m], terms[m].Q[:, :2, :2], rtol=1e-9, atol=1e-9)
        assert np.allclose(own.Qi.numpy()[m] @ own.Q.numpy()[m], np.eye(2), atol=1e-9)
        assert np.allclose(own.Qv.numpy()[m], [np.diag(q)[2:] for q in terms[m].Q], rtol=1e-9)
        assert np.allclose(own.R.numpy()[m], [np.diag(r) for r in terms[m].R], rtol=1e-9)
        assert np.isclose(own.initial_merit.numpy()[m], torque_form.merit(problems[m], x0[m], x[m], u[m], 10.0, integrator), rtol=1e-9)


def test_schur_complement_and_preconditioner_equal_the_twin(made):
    """S, gamma and the symmetric stair preconditioner, to 1e-9 of their size."""
    run(made)
    for m, terms in enumerate(twins()[1]):
        S, gamma = torque_form.schur(terms)
        P = torque_form.stair_preconditioner(S, 4, RHO)
        for ours, theirs in ((dense(made.S.numpy()[m]), S), (made.gamma.numpy()[m].ravel(), gamma), (dense(made.P.numpy()[m]), P)):
            assert np.abs(ours - theirs).max() < 1e-9 * np.abs(theirs).max()


def test_pcg_equals_the_twin(made):
    """Costates and iteration counts of PCG from zero equal the twin's: counts exactly, costates to 1e-6."""
    result = run(made)
    for m, terms in enumerate(twins()[1]):
        S, gamma = torque_form.schur(terms)
        costates, count = torque_form.pcg(S, torque_form.stair_preconditioner(S, 4, RHO), gamma, 1e-4, 200)
        assert result.statistics.linear_iterations[0, m] == count > 1
        assert np.abs(made.dual.numpy()[m].ravel() - costates).max() < 1e-6 * np.abs(costates).max()


def test_direct_solve_equals_the_twin(made):
    """Branch's sweep over the costates solves S l = gamma to 1e-8, reports one iteration, and no defect is left in the step."""
    result = run(made, "direct")
    assert (result.statistics.linear_iterations == 1).all()
    for m, terms in enumerate(twins()[1]):
        costates = np.linalg.solve(*torque_form.schur(terms))
        assert np.abs(made.dual.numpy()[m].ravel() - costates).max() < 1e-8 * np.abs(costates).max()
        dx, du = torque_form.step_from_costates(terms, costates.reshape(N, 4))
        assert np.abs(made.dX.numpy()[m] - dx).max() < 1e-7 * np.abs(dx).max()
        assert np.abs(made.dU.numpy()[m] - du).max() < 1e-7 * np.abs(du).max()


def test_steps_from_inexact_costates_equal_the_twin(made):
    """From PCG's inexact costates, the step is the twin's; rolled out instead, its states follow from its torques."""
    run(made)
    rolled = solver(recovery="rollout")
    run(rolled)
    for m, terms in enumerate(twins()[1]):
        dx, du = torque_form.step_from_costates(terms, made.dual.numpy()[m])
        assert np.abs(made.dX.numpy()[m] - dx).max() < 1e-7 * np.abs(dx).max()
        assert np.abs(made.dU.numpy()[m] - du).max() < 1e-7 * np.abs(du).max()
        follows = torque_form.roll_out(terms, rolled.dU.numpy()[m])
        assert np.abs(rolled.dX.numpy()[m] - follows).max() < 1e-9 * np.abs(follows).max()


def test_kkt_residual_and_line_search_equal_the_twin(made):
    """The residual is the twin's to 1e-9; the accepted step has the lowest of the eight merits, which the twin evaluates."""
    x0, _, x, u = inputs()
    result = run(made, "direct")
    for m, (problem, terms) in enumerate(zip(*twins(), strict=True)):
        assert np.isclose(result.statistics.kkt_residual[m], torque_form.kkt_residual(terms), rtol=1e-9)
        dx, du = made.dX.numpy()[m], made.dU.numpy()[m]
        merits = [torque_form.merit(problem, x0[m], x[m] + a * dx, u[m] + a * du, 10.0) for a in 0.5 ** np.arange(8)]
        assert result.statistics.step_sizes[0, m] == 0.5 ** int(np.argmin(merits))
        assert np.isclose(result.merit[m], min(merits), rtol=1e-9)


def test_unknown_names_are_refused(made):
    """A linear solver that was not compiled, an unknown integrator and an unknown order are named in the error."""
    x0, targets, x, u = inputs()
    with pytest.raises(SettingError, match="'direct_first' was not compiled"):
        made.solve(x0, targets, WRENCHES, x, u, linear_solver="direct_first")
    with pytest.raises(SettingError, match="integrator 'midpoint' does not exist"):
        solver("midpoint")
    with pytest.raises(SettingError, match="order 'dense' does not apply"):
        TorqueSolver(ARM, knots=N, step=STEP, batch=1, weights=WEIGHTS, linear_solvers=("direct",), order="dense")
