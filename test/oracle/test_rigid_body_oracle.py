"""The textbook twin against Pinocchio, an independent implementation, on random trees."""

import numpy as np
import pinocchio as pin
import pytest

from branch_mpc.oracle import rigid_body
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.pinocchio_model import pinocchio_model

# Both sides are float64 recursions over at most 12 links: rounding is about 1e-14 times the largest intermediate number.
TOLERANCE = 1e-10

CASES = [(dof, seed) for dof in (1, 2, 3, 5, 7, 9, 12) for seed in range(3)]


def _robot(dof: int, seed: int) -> tuple[Articulation, np.random.Generator]:
    rng = np.random.default_rng([dof, seed])
    return random_articulation(rng, dof, branched=seed != 0), rng


def _assert_near(ours: np.ndarray, reference: np.ndarray, tolerance: float = TOLERANCE) -> None:
    assert ours.shape == reference.shape
    assert np.abs(ours - reference).max() <= tolerance * max(1.0, np.abs(reference).max())


def _jacobian(model: pin.Model, tool: int, q: np.ndarray) -> np.ndarray:
    jacobian = pin.computeFrameJacobian(model, model.createData(), q, tool, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    return jacobian.reshape(6, model.nv)  # one column comes back flat


@pytest.mark.parametrize(("dof", "seed"), CASES)
def test_tool_pose_and_jacobian_equal_pinocchio(dof: int, seed: int) -> None:
    """Position, rotation and world-aligned Jacobian of the tool equal Pinocchio's."""
    robot, rng = _robot(dof, seed)
    model, tool = pinocchio_model(robot)
    data, q = model.createData(), rng.uniform(-2, 2, dof)
    pin.framesForwardKinematics(model, data, q)
    position, rotation = rigid_body.tool_pose(robot, q)
    _assert_near(position, data.oMf[tool].translation)
    _assert_near(rotation, data.oMf[tool].rotation)
    _assert_near(rigid_body.tool_jacobian(robot, q), _jacobian(model, tool, q))


@pytest.mark.parametrize(("dof", "seed"), CASES)
def test_inverse_dynamics_equals_pinocchio_with_a_wrench(dof: int, seed: int) -> None:
    """Newton-Euler with a world wrench on the tool equals Pinocchio's torque minus J^T w."""
    robot, rng = _robot(dof, seed)
    model, tool = pinocchio_model(robot)
    q, v, a, wrench = rng.uniform(-2, 2, dof), rng.normal(size=dof), rng.normal(size=dof), 20 * rng.normal(size=6)
    reference = pin.rnea(model, model.createData(), q, v, a)
    _assert_near(rigid_body.inverse_dynamics(robot, q, v, a), reference)
    _assert_near(rigid_body.inverse_dynamics(robot, q, v, a, wrench), reference - _jacobian(model, tool, q).T @ wrench)


@pytest.mark.parametrize(("dof", "seed"), CASES)
def test_mass_matrix_equals_pinocchio(dof: int, seed: int) -> None:
    """The composite-rigid-body mass matrix equals Pinocchio's, both triangles."""
    robot, rng = _robot(dof, seed)
    model, _ = pinocchio_model(robot)
    q = rng.uniform(-2, 2, dof)
    upper = np.triu(pin.crba(model, model.createData(), q))
    _assert_near(rigid_body.mass_matrix(robot, q), upper + np.triu(upper, 1).T)


@pytest.mark.parametrize(("dof", "seed"), CASES)
def test_forward_dynamics_equals_pinocchio_and_inverts_inverse_dynamics(dof: int, seed: int) -> None:
    """The articulated-body accelerations equal Pinocchio's, and inverse dynamics takes them back to the torques."""
    robot, rng = _robot(dof, seed)
    model, tool = pinocchio_model(robot)
    q, v, torque, wrench = rng.uniform(-2, 2, dof), rng.normal(size=dof), 10 * rng.normal(size=dof), 20 * rng.normal(size=6)
    reference = pin.aba(model, model.createData(), q, v, torque + _jacobian(model, tool, q).T @ wrench)
    acceleration = rigid_body.forward_dynamics(robot, q, v, torque, wrench)
    # The mass matrices of these trees have condition numbers up to 1e4, which both recursions pay in the solve.
    _assert_near(acceleration, reference, 1e3 * TOLERANCE)
    _assert_near(rigid_body.inverse_dynamics(robot, q, v, acceleration, wrench), torque)


@pytest.mark.parametrize(("dof", "seed"), CASES)
def test_derivatives_equal_pinocchio_without_a_wrench(dof: int, seed: int) -> None:
    """Complex-step derivatives of inverse dynamics equal Pinocchio's analytic ones."""
    robot, rng = _robot(dof, seed)
    model, _ = pinocchio_model(robot)
    q, v, a = rng.uniform(-2, 2, dof), rng.normal(size=dof), rng.normal(size=dof)
    data = model.createData()
    dq, dv, da = pin.computeRNEADerivatives(model, data, q, v, a)
    ours = rigid_body.inverse_dynamics_derivatives(robot, q, v, a)
    for derivative, reference in zip(ours, (dq, dv, np.triu(da) + np.triu(da, 1).T), strict=True):
        _assert_near(derivative, reference)


@pytest.mark.parametrize(("dof", "seed"), [(3, 0), (7, 0), (9, 2)])
def test_derivative_holds_the_motion_of_a_world_fixed_wrench(dof: int, seed: int) -> None:
    """The derivative with respect to q counts that the tool moves under a world-fixed wrench: minus d(J^T w)/dq."""
    robot, rng = _robot(dof, seed)
    q, v, a, wrench = rng.uniform(-2, 2, dof), rng.normal(size=dof), rng.normal(size=dof), 20 * rng.normal(size=6)
    pushed, _, _ = rigid_body.inverse_dynamics_derivatives(robot, q, v, a, wrench)
    free, _, _ = rigid_body.inverse_dynamics_derivatives(robot, q, v, a)
    step = 1e-6
    moved = [
        (rigid_body.tool_jacobian(robot, q + h).T @ wrench - rigid_body.tool_jacobian(robot, q - h).T @ wrench) / (2 * step)
        for h in step * np.eye(dof)
    ]
    assert np.abs(np.array(moved)).max() > 0.1
    _assert_near(pushed - free, -np.array(moved).T, 1e-8)  # central differences: step^2 truncation plus 1e-16 / step rounding


def test_pendulum_has_its_closed_form() -> None:
    """A point-like pendulum obeys (I + m l^2) a + m g l sin(q) = tau, the equation in every textbook."""
    mass, length, inertia = 2.0, 0.7, 0.01
    zeros, eye = np.zeros((1, 3)), np.eye(3)
    robot = Articulation(
        "pendulum", ("swing",), ("continuous",), (-1,), eye[None], zeros, np.array([[0.0, 1.0, 0.0]]), np.array([mass]),
        np.array([[0.0, 0.0, -length]]), inertia * eye[None], np.array([-np.inf]), np.array([np.inf]), np.ones(1), np.ones(1),
        "bob", 0, eye, np.array([0.0, 0.0, -length]),
    )  # fmt: skip
    q, v, a = np.array([0.4]), np.array([1.3]), np.array([-0.8])
    expected = (inertia + mass * length**2) * a + mass * 9.81 * length * np.sin(q)
    _assert_near(rigid_body.inverse_dynamics(robot, q, v, a), expected, 1e-14)
    _assert_near(rigid_body.forward_dynamics(robot, q, v, expected), a, 1e-14)


def test_random_articulations_are_reproducible_and_varied() -> None:
    """Equal seeds give equal robots; over seeds there are branches, prismatic joints and oblique axes."""
    first, again = (random_articulation(np.random.default_rng(5), 8) for _ in range(2))
    assert first.fingerprint == again.fingerprint
    robots = [random_articulation(np.random.default_rng(seed), 8) for seed in range(10)]
    assert any(len(set(robot.parents)) < robot.dof for robot in robots)
    assert {kind for robot in robots for kind in robot.joint_types} == {"revolute", "continuous", "prismatic"}
    assert any(np.count_nonzero(robot.axis, axis=1).max() == 3 for robot in robots)
    chain = random_articulation(np.random.default_rng(1), 8, branched=False, prismatic=False)
    assert chain.parents == tuple(range(-1, 7)) and "prismatic" not in chain.joint_types
