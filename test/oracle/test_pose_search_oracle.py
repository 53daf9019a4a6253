"""The float64 twins of pose search and contact response against first principles."""

import numpy as np
import pytest

from branch_mpc.oracle import contact, pose_search
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_model import TreeModel

FRAMES = 3


def _problem(seed: int) -> tuple[TreeModel, np.ndarray, pose_search.PoseTargets]:
    rng = np.random.default_rng(seed)
    tree = twin.random_tree(rng, 6)
    q = np.array([twin.random_configuration(tree, rng, 1.2) for _ in range(FRAMES)])  # some joints out of their limits
    goal = [[twin.effector_pose(tree, twin.random_configuration(tree, rng, 0.5), effector) for effector in range(2)] for _ in range(FRAMES)]
    position, rotation = (np.array([[pair[index] for pair in row] for row in goal]) for index in (1, 0))
    return tree, q, pose_search.PoseTargets(position, rotation, 1.0, 0.3, 10.0, 0.02, 0.1, 30.0)


@pytest.mark.parametrize("seed", range(3))
def test_jacobian_is_the_derivative_of_the_residuals(seed: int) -> None:
    """The Jacobian of every residual, limits and rotations included, equals central differences along the retraction."""
    tree, q, targets = _problem(seed)
    jacobian, h = pose_search.least_squares(tree, q, targets)[1].toarray(), 1e-6
    for index in range(FRAMES * tree.dof):
        step = h * np.eye(FRAMES * tree.dof)[index].reshape(FRAMES, tree.dof)
        ahead, behind = (
            pose_search.least_squares(tree, np.array([twin.retract(tree, a, side * b) for a, b in zip(q, step, strict=True)]), targets)[0]
            for side in (1.0, -1.0)
        )
        # Central differences: h^2 times third derivatives of order one, and 1e-16 times rates of 30 / h.
        assert np.abs((ahead - behind) / (2.0 * h) - jacobian[:, index]).max() < 3e-8


def test_search_ends_where_the_gradient_vanishes() -> None:
    """After enough iterations from near the targets the gradient is zero to rounding, and the cost has fallen."""
    tree, _, targets = _problem(4)
    start = np.repeat(tree.nominal[None], FRAMES, axis=0)
    before = pose_search.least_squares(tree, start, targets)[0]
    q, cost = pose_search.search(tree, start, targets, iterations=100)
    residual, jacobian = pose_search.least_squares(tree, q, targets)
    assert cost < 0.5 * before @ before
    # Linear convergence at worst; the start is 1e2 or more.
    assert np.abs(jacobian.T @ residual).max() < 1e-6


def test_search_reaches_a_reachable_pose() -> None:
    """A pose near the start is reached to rounding."""
    rng = np.random.default_rng(5)
    tree = twin.random_tree(rng, 7, effectors=1)
    goal = twin.random_configuration(tree, rng, 0.3)
    rotation, position = twin.effector_pose(tree, goal, 0)
    targets = pose_search.PoseTargets(position[None, None], rotation[None, None], 1.0, 0.1, 10.0)
    q, cost = pose_search.search(tree, tree.nominal[None], targets, iterations=40)
    assert cost < 1e-20 and np.abs(twin.effector_pose(tree, q[0], 0)[1] - position).max() < 1e-9


def test_contact_response_is_the_answer_of_the_mass_matrix() -> None:
    """M times the response columns gives J^T, and J M^-1 J^T is symmetric and positive semidefinite."""
    rng = np.random.default_rng(6)
    tree = twin.random_tree(rng, 8, free=True, effectors=3)
    q = twin.random_configuration(tree, rng)
    columns, jacobian = contact.response_columns(tree, q), contact.contact_jacobian(tree, q)
    assert np.abs(twin.mass_matrix(tree, q) @ columns - jacobian.T).max() < 1e-10
    matrix = jacobian @ columns
    assert np.abs(matrix - matrix.T).max() < 1e-10 * np.abs(matrix).max()
    assert np.linalg.eigvalsh(matrix)[0] > -1e-10 * np.abs(matrix).max()


@pytest.mark.parametrize("friction", [0.0, 0.7])
def test_contact_impulses_obey_the_contact_laws(friction: float) -> None:
    """No contact sinks, none is pulled, pushing contacts do not lift off, and tangential impulses stay in the friction disc."""
    rng = np.random.default_rng(7)
    tree = twin.random_tree(rng, 10, free=True, effectors=3)
    q = twin.random_configuration(tree, rng)
    jacobian = contact.contact_jacobian(tree, q)
    matrix = jacobian @ contact.response_columns(tree, q)
    free = jacobian @ np.concatenate([[0.3, 0.0, -1.0, 0.0, 0.0, 0.0], 0.3 * rng.normal(size=10)])
    impulse = contact.contact_impulses(matrix, free, friction, sweeps=3000)
    normal, velocity = impulse[2::3], (free + matrix @ impulse)[2::3]
    # What Gauss-Seidel leaves after 3000 sweeps.
    assert (normal >= 0.0).all() and (velocity > -1e-6).all() and np.abs(normal * velocity).max() < 1e-6
    assert (np.hypot(impulse[0::3], impulse[1::3]) <= friction * normal + 1e-12).all()
