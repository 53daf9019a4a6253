"""Generated Warp dynamics against Pinocchio in float64, on shipped robots and random trees."""

import numpy as np
import pinocchio as pin
import pytest

from branch_mpc.dynamics.batch import BatchDynamics
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import SettingError
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.robot import load_robot
from branch_mpc.robot.pinocchio_model import pinocchio_model

BATCH = 8
# float32: a chain of n joints multiplies a few hundred rounding errors of 6e-8; float64 the same with 1e-16.
TOLERANCE = {"float32": 5e-5, "float64": 1e-8}


def robots():
    """Shipped arms, and branched trees with prismatic joints from 1 to 12 degrees of freedom."""
    yield "indy7", lambda: load_robot("indy7")
    yield "iiwa14", lambda: load_robot("iiwa14")
    for dof in (1, 3, 12):
        yield f"tree{dof}", lambda dof=dof: random_articulation(np.random.default_rng(dof), dof, branched=True, prismatic=True)


CASES = [(name, make, "float32") for name, make in robots()]
CASES += [(name, make, "float64") for name, make in robots() if name in ("indy7", "tree3")]


def reference(articulation, q, v, a, u, w):
    """Every quantity at one state by Pinocchio in float64; derivatives of the world wrench term by differences of J' w."""
    model, frame = pinocchio_model(articulation)
    data = model.createData()
    jacobian = lambda at: pin.computeFrameJacobian(model, data, at, frame, pin.LOCAL_WORLD_ALIGNED).reshape(6, -1).copy()  # noqa: E731
    pin.framesForwardKinematics(model, data, q)
    pose = data.oMf[frame].copy()
    J = jacobian(q)
    tau = pin.rnea(model, data, q, v, a) - J.T @ w
    step = 1e-6
    push = np.stack([(jacobian(q + step * e).T @ w - jacobian(q - step * e).T @ w) / (2 * step) for e in np.eye(len(q))], axis=1)
    pin.computeRNEADerivatives(model, data, q, v, a)
    upper = np.triu(np.reshape(data.M, (len(q), -1)))
    M = upper + np.triu(upper, 1).T
    G = np.hstack([np.reshape(part, M.shape) for part in (data.dtau_dq - push, data.dtau_dv, M)])
    return pose.translation, pose.rotation, J, tau, G, M, np.linalg.solve(M, u + J.T @ w - pin.rnea(model, data, q, v, 0 * a))


def relative(value, expected):
    """Error relative to the largest entry of the expected array."""
    return np.abs(value - expected).max() / max(np.abs(expected).max(), 1e-3)


@pytest.mark.parametrize(("name", "make", "dtype"), CASES, ids=[f"{name}-{dtype}" for name, _, dtype in CASES])
def test_every_quantity_matches_pinocchio(name, make, dtype):
    """Kinematics, Jacobian, inverse dynamics, its derivatives, mass matrix and forward dynamics equal Pinocchio's."""
    articulation = make()
    rng, n = np.random.default_rng(7), articulation.dof
    q, v, a, u = rng.uniform(-1.5, 1.5, (4, BATCH, n))
    w = rng.uniform(-20, 20, (BATCH, 6))
    batch = BatchDynamics(articulation, dtype=dtype)
    position, rotation = batch.forward_kinematics(q)
    values = (
        position,
        rotation,
        batch.jacobian(q),
        batch.inverse_dynamics(q, v, a, w),
        batch.inverse_dynamics_derivatives(q, v, a, w),
        batch.mass_matrix(q),
        batch.forward_dynamics(q, v, u, w),
    )
    expected = [np.stack(item) for item in zip(*(reference(articulation, q[i], v[i], a[i], u[i], w[i]) for i in range(BATCH)), strict=True)]
    names = ("position", "rotation", "Jacobian", "torque", "derivatives", "mass matrix", "acceleration")
    condition = max(np.linalg.cond(M) for M in expected[5])
    for quantity, value, wanted in zip(names, values, expected, strict=True):
        tolerance = TOLERANCE[dtype]
        if quantity == "acceleration":  # M^-1 amplifies the rounding of the bias force by the condition of M, at worst
            tolerance *= max(1.0, condition / 1e3)
        assert relative(value, wanted) < tolerance, f"{name} {quantity}"


def test_host_dynamics_equal_the_oracle_free_reference():
    """The float64 host functions equal Pinocchio to rounding."""
    articulation = load_robot("iiwa14")
    rng = np.random.default_rng(3)
    q, v, a, u = rng.uniform(-1, 1, (4, 7))
    w = rng.uniform(-10, 10, 6)
    host = HostDynamics(articulation)
    position, rotation, J, tau, _, M, _ = reference(articulation, q, v, a, u, w)
    assert np.allclose(host.tool(q)[0], position, atol=1e-12)
    assert np.allclose(host.tool(q)[1], rotation, atol=1e-12)
    assert np.allclose(host.jacobian(q), J, atol=1e-12)
    assert np.allclose(host.inverse_dynamics(q, v, a, w), tau, atol=1e-10)
    assert np.allclose(host.mass_matrix(q), M, atol=1e-12)
    assert np.allclose(host.gravity(q), host.inverse_dynamics(q, 0 * q, 0 * q), atol=1e-12)


def test_wrong_shape_names_the_input():
    """An input of the wrong shape is refused by name with the shape that is wanted."""
    batch = BatchDynamics(load_robot("indy7"))
    with pytest.raises(SettingError, match=r"'v' has shape \(2, 5\); give \(2, 6\)"):
        batch.inverse_dynamics(np.zeros((2, 6)), np.zeros((2, 5)), np.zeros((2, 6)))
