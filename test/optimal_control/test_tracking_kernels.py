"""The generated knot terms and merit against their float64 twin."""

import numpy as np
import pytest
import warp as wp

from branch_mpc.optimal_control.kernels import REAL, tracking_kernels
from branch_mpc.optimal_control.lanes import LANES
from branch_mpc.optimal_control.tracking_code import weight_vector
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.oracle.tracking import TrackingProblem, stage_cost, stage_terms
from branch_mpc.robot import load_robot

KNOTS, PROBLEMS = 3, 2
# every term switched on, so that none can be wrong unseen
WEIGHTS = CostWeights(
    tool_position=20.0,
    tool_position_terminal=50.0,
    torque=1e-4,
    posture=0.3,
    position_barrier=0.02,
    velocity_barrier=0.05,
    torque_barrier=0.5,
    velocity_margin=0.2,
    torque_margin=0.5,
)
# float32 arithmetic of a few thousand operations: 1e-4 relative to the largest entry; float64 correspondingly
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}


class Case:
    """Random iterate, step and problem data of one robot, on host and device."""

    def __init__(self, articulation, dtype, spread=1.0, lanes=1):
        rng, n = np.random.default_rng(11), articulation.dof
        self.articulation, self.real = articulation, REAL[dtype]
        self.X = rng.uniform(-1, 1, (PROBLEMS, KNOTS, 2 * n)) * spread
        self.A = rng.uniform(-2, 2, (PROBLEMS, KNOTS - 1, n))
        self.dX, self.dA = 0.1 * rng.uniform(-1, 1, self.X.shape), 0.1 * rng.uniform(-1, 1, self.A.shape)
        self.wrenches, self.targets = rng.uniform(-20, 20, (PROBLEMS, 6)), rng.uniform(-0.5, 0.5, (KNOTS, 3))
        self.nominal = rng.uniform(-1, 1, n)
        self.kernels = tracking_kernels(articulation, WEIGHTS, dtype, lanes=lanes)
        self.groups = self.kernels.groups(PROBLEMS, KNOTS)

    def array(self, value):
        """A device copy."""
        return wp.array(value, dtype=self.real, device="cpu")

    def data(self):
        """Problem data in the kernels' order."""
        return [self.array(value) for value in (self.wrenches, self.targets, weight_vector(WEIGHTS), self.nominal)]

    def twin(self, problem):
        """The float64 problem."""
        return TrackingProblem(self.articulation, self.targets, WEIGHTS, nominal=self.nominal, wrench=self.wrenches[problem])


def close(value, expected, tolerance):
    """Equality relative to the largest expected entry."""
    return np.abs(value - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


ROBOTS = {
    "indy7": lambda: load_robot("indy7"),
    "iiwa14": lambda: load_robot("iiwa14"),
    "tree": lambda: random_articulation(np.random.default_rng(5), 5, branched=True, prismatic=True),
}


@pytest.mark.parametrize(
    ("robot", "dtype", "lanes"),
    [("indy7", "float32", 1), ("indy7", "float64", 1), ("tree", "float64", 1), ("indy7", "float32", LANES), ("iiwa14", "float32", 4)],
)
def test_terms_equal_their_twin(robot, dtype, lanes):
    """Cost, gradient and lower Hessian of every knot, with every weight and barrier on, equal the oracle's; with lanes, the knots
    fill neither the last group (16 lanes for 6 knots) nor whole groups (4 lanes)."""
    case = Case(ROBOTS[robot](), dtype, lanes=lanes)
    n = case.articulation.dof
    shapes = ((PROBLEMS, KNOTS, 3 * n, 3 * n), (PROBLEMS, KNOTS, 3 * n), (PROBLEMS, KNOTS))
    outputs = [wp.zeros(shape, dtype=case.real, device="cpu") for shape in shapes]
    inputs = [case.array(case.X), case.array(case.A), *case.data()]
    wp.launch(case.kernels.terms, dim=case.groups, inputs=inputs, outputs=outputs, device="cpu")
    H, g, costs = (array.numpy() for array in outputs)
    for m in range(PROBLEMS):
        for k in range(KNOTS):
            expected = stage_terms(case.twin(m), k, case.X[m, k], case.A[m, k] if k < KNOTS - 1 else None)
            assert close(costs[m, k], expected.cost, TOLERANCE[dtype])
            assert close(g[m, k], expected.gradient, TOLERANCE[dtype])
            assert close(np.tril(H[m, k]), np.tril(expected.hessian), TOLERANCE[dtype])


@pytest.mark.parametrize(("dtype", "lanes"), [("float64", 1), ("float32", LANES)])
@pytest.mark.parametrize("spread", [1.0, 6.0], ids=["inside the limits", "outside the limits"])
def test_merit_equals_its_twin(spread, dtype, lanes):
    """The merit at every candidate step equals the oracle's cost there, also where limits are violated (relaxed barrier)."""
    case = Case(load_robot("indy7"), dtype, spread, lanes)
    costs = wp.zeros((PROBLEMS, 8, KNOTS), dtype=case.real, device="cpu")
    pending = wp.array([1, 1], dtype=wp.int32, device="cpu")
    iterate = [case.array(value) for value in (case.X, case.A, case.dX, case.dA)]
    wp.launch(case.kernels.merit, dim=(7, case.groups), inputs=[*iterate, *case.data(), pending, 1], outputs=[costs], device="cpu")
    for m in range(PROBLEMS):
        for j in range(1, 8):
            for k in range(KNOTS):
                a = case.A[m, k] + 0.5**j * case.dA[m, k] if k < KNOTS - 1 else None
                expected = stage_cost(case.twin(m), k, case.X[m, k] + 0.5**j * case.dX[m, k], a)
                assert close(costs.numpy()[m, j, k], expected, TOLERANCE[dtype])


def test_problem_that_is_not_pending_is_left_alone():
    """A problem with an accepted step gets no candidates: its costs stay untouched."""
    case = Case(load_robot("indy7"), "float32", lanes=LANES)
    costs = wp.full((PROBLEMS, 8, KNOTS), value=-7.0, dtype=case.real, device="cpu")
    pending = wp.array([1, 0], dtype=wp.int32, device="cpu")
    iterate = [case.array(value) for value in (case.X, case.A, case.dX, case.dA)]
    wp.launch(case.kernels.merit, dim=(8, case.groups), inputs=[*iterate, *case.data(), pending, 0], outputs=[costs], device="cpu")
    assert (costs.numpy()[1] == -7.0).all()
    assert (costs.numpy()[0] != -7.0).all()
