"""The lane-per-joint terms and merit, on fibers (and on CUDA where there is one), against their float64 twin."""

import dataclasses

import numpy as np
import pytest
import warp as wp

from branch_mpc.optimal_control.joint_table import is_serial_arm, joint_table, turned_to_z
from branch_mpc.optimal_control.lane_kernels import BLOCK, lane_kernels
from branch_mpc.optimal_control.tracking_code import weight_vector
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.oracle.tracking import TrackingProblem, stage_cost, stage_terms
from branch_mpc.robot import load_robot

KNOTS, PROBLEMS = 5, 2  # ten knots: a whole block of eight and two
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
TOLERANCE = 1e-4  # float32 arithmetic of a few thousand operations, relative to the largest entry

ROBOTS = {
    "indy7": lambda: load_robot("indy7"),
    "iiwa14 with its tool on the fourth link": lambda: dataclasses.replace(load_robot("iiwa14"), tool_link=3),
    "seven joints, two kinds": lambda: serial(7, 2),
    "eight joints, two kinds": lambda: serial(8, 4),
    "three joints": lambda: serial(3, 6),
}


def serial(n, seed):
    """A random unbranched chain with skew axes, some of them prismatic, and skew gravity."""
    arm = random_articulation(np.random.default_rng(seed), n, branched=False, prismatic=True)
    return dataclasses.replace(arm, gravity=np.array([1.0, -2.0, -9.0]))


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.cuda)])
def device(request, monkeypatch):
    """CPU blocks as fibers, or CUDA."""
    if request.param != "cpu" and not wp.is_cuda_available():
        pytest.skip("Warp finds no CUDA device")
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    return request.param


class Case:
    """Random iterate, step and problem data of one robot."""

    def __init__(self, articulation, device, spread=1.0):
        rng, n = np.random.default_rng(11), articulation.dof
        self.articulation, self.device = articulation, device
        self.X = rng.uniform(-1, 1, (PROBLEMS, KNOTS, 2 * n)) * spread
        self.A = rng.uniform(-2, 2, (PROBLEMS, KNOTS - 1, n))
        self.dX, self.dA = 0.1 * rng.uniform(-1, 1, self.X.shape), 0.1 * rng.uniform(-1, 1, self.A.shape)
        self.wrenches, self.targets = rng.uniform(-20, 20, (PROBLEMS, 6)), rng.uniform(-0.5, 0.5, (KNOTS, 3))
        self.nominal = rng.uniform(-1, 1, n)
        self.kernels = lane_kernels(n)
        self.groups = self.kernels.groups(PROBLEMS, KNOTS)

    def array(self, value):
        """A device copy."""
        return wp.array(value, dtype=wp.float32, device=self.device)

    def data(self):
        """Problem data in the kernels' order."""
        return [self.array(value) for value in (self.wrenches, self.targets, weight_vector(WEIGHTS), self.nominal)]

    def table(self):
        """The robot."""
        return self.array(joint_table(self.articulation, WEIGHTS))

    def twin(self, problem):
        """The float64 problem."""
        return TrackingProblem(self.articulation, self.targets, WEIGHTS, nominal=self.nominal, wrench=self.wrenches[problem])

    def launch(self, kernel, dim, inputs, outputs):
        """A tiled launch."""
        wp.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=outputs, block_dim=BLOCK, device=self.device)


def close(value, expected):
    """Equality relative to the largest expected entry."""
    return np.abs(value - expected).max() <= TOLERANCE * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("robot", ROBOTS)
def test_terms_equal_their_twin(robot, device):
    """Cost, gradient and the whole, symmetric Hessian of every knot equal the oracle's, with every weight, barrier and a wrench."""
    case = Case(ROBOTS[robot](), device)
    n = case.articulation.dof
    outputs = [case.array(np.zeros(shape)) for shape in ((PROBLEMS, KNOTS, 3 * n, 3 * n), (PROBLEMS, KNOTS, 3 * n), (PROBLEMS, KNOTS))]
    case.launch(case.kernels.terms, [case.groups], [case.array(case.X), case.array(case.A), *case.data(), case.table()], outputs)
    H, g, costs = (array.numpy() for array in outputs)
    for m in range(PROBLEMS):
        for k in range(KNOTS):
            expected = stage_terms(case.twin(m), k, case.X[m, k], case.A[m, k] if k < KNOTS - 1 else None)
            assert close(costs[m, k], expected.cost)
            assert close(g[m, k], expected.gradient)
            assert close(H[m, k], expected.hessian)
    assert np.array_equal(H, H.swapaxes(-1, -2))


@pytest.mark.parametrize("spread", [1.0, 6.0], ids=["inside the limits", "outside the limits"])
def test_merit_equals_its_twin(spread, device):
    """The cost at every candidate equals the oracle's, also beyond limits, and a problem that is not pending is left alone."""
    case = Case(load_robot("indy7"), device, spread)
    costs = case.array(np.full((PROBLEMS, 8, KNOTS), -7.0))
    pending = wp.array([1, 0], dtype=wp.int32, device=device)
    iterate = [case.array(value) for value in (case.X, case.A, case.dX, case.dA)]
    case.launch(case.kernels.merit, [7, case.groups], [*iterate, *case.data(), pending, 1, case.table()], [costs])
    for j in range(1, 8):
        for k in range(KNOTS):
            a = case.A[0, k] + 0.5**j * case.dA[0, k] if k < KNOTS - 1 else None
            assert close(costs.numpy()[0, j, k], stage_cost(case.twin(0), k, case.X[0, k] + 0.5**j * case.dX[0, k], a))
    assert (costs.numpy()[1] == -7.0).all()


def test_trees_and_long_arms_are_recognised():
    """Only unbranched chains of at most eight joints have a lane a joint."""
    assert is_serial_arm(serial(8, 1))
    assert not is_serial_arm(serial(9, 1))
    assert not is_serial_arm(random_articulation(np.random.default_rng(5), 5, branched=True, prismatic=True))


@pytest.mark.parametrize("axis", [(0, 0, 1), (0, 0, -1), (0, 1, 0), (1, 2, -3)])
def test_turned_frames_are_rotations_onto_the_axis(axis):
    """The turn is orthonormal, right-handed, and its third column is the axis, to float64 rounding."""
    turn, unit = turned_to_z(np.array(axis, dtype=float)), np.array(axis) / np.linalg.norm(axis)
    assert np.allclose(turn.T @ turn, np.eye(3), atol=1e-14)
    assert np.isclose(np.linalg.det(turn), 1.0)
    assert np.allclose(turn[:, 2], unit, atol=1e-15)
