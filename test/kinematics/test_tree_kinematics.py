"""Kinematics of trees on the device against the float64 twins, and the twins against the textbook and finite differences."""

import numpy as np
import pytest
import warp as wp

from branch_mpc.errors import ProblemError
from branch_mpc.kinematics import TreeKinematics, kernels
from branch_mpc.kinematics.tree import quaternion
from branch_mpc.oracle import rigid_body
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.oracle.random_trees import random_articulation, random_rotation
from branch_mpc.robot.tree_model import TreeModel, tree_of_articulation

ROWS = 4
# Float32 rounds at 6e-8; a path of ten joints and lengths of some metres multiply that by about 30.
FLOAT32 = 4e-6


def _tree(seed: int, free: bool) -> tuple[TreeModel, np.ndarray]:
    rng = np.random.default_rng(seed)
    tree = twin.random_tree(rng, 10, free)
    return tree, np.array([twin.random_configuration(tree, rng) for _ in range(ROWS)])


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("seed", range(3))
def test_poses_and_subspaces_equal_the_twins(seed: int, free: bool) -> None:
    """Poses and motion subspaces of every body, by a thread a row and by a thread a body, equal those of the float64 twin."""
    tree, q = _tree(seed, free)
    kinematics, device_q = TreeKinematics(tree), wp.array(q, dtype=wp.float32)
    for kernel, dim in ((kernels.forward_rows, ROWS), (kernels.forward_bodies, (ROWS, tree.bodies))):
        pose, S = wp.zeros((ROWS, tree.bodies), dtype=wp.transformf), wp.zeros((ROWS, tree.dof), dtype=wp.spatial_vectorf)
        joints = wp.zeros((ROWS, tree.dof), dtype=wp.float32)
        wp.launch(kernel, dim, [kinematics.table, device_q, wp.zeros(0, dtype=wp.int32), pose, S, joints], device="cpu")
        for row in range(ROWS):
            for body, (rotation, origin) in enumerate(twin.poses(tree, q[row])):
                found = pose.numpy()[row, body]
                assert np.abs(found[:3] - origin).max() < FLOAT32
                assert np.abs(twin.rotation_of_quaternion(found[3:].astype(float)) - rotation).max() < FLOAT32
            assert np.abs(joints.numpy()[row] - twin.joint_numbers(tree, q[row])).max() < FLOAT32
            assert np.abs(S.numpy()[row].T - np.concatenate(twin.subspaces(tree, q[row]), axis=1)).max() < 2 * FLOAT32


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
def test_inertias_and_retraction_equal_the_twins(free: bool) -> None:
    """Spatial inertias about the world origin and configurations moved along a tangent equal those of the float64 twin."""
    tree, q = _tree(7, free)
    kinematics, device_q = TreeKinematics(tree), wp.array(q, dtype=wp.float32)
    pose, inertia = wp.zeros((ROWS, tree.bodies), dtype=wp.transformf), wp.zeros((ROWS, tree.bodies), dtype=wp.spatial_matrixf)
    kinematics.forward(device_q, pose)
    kinematics.inertias(pose, inertia)
    step = 0.3 * np.random.default_rng(8).normal(size=(ROWS, tree.dof))
    kinematics.retract(device_q, wp.array(step, dtype=wp.float32), device_q)  # in place
    for row in range(ROWS):
        expected = twin.spatial_inertias(tree, q[row])
        assert np.abs(inertia.numpy()[row] - expected).max() < FLOAT32 * np.abs(expected).max()
        assert np.abs(device_q.numpy()[row] - twin.retract(tree, q[row], step[row])).max() < FLOAT32


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
def test_advance_is_retract_and_forward(free: bool) -> None:
    """Moving and refreshing in one launch, by a thread a row and by a thread a body, equals the two launches."""
    tree, q = _tree(13, free)
    kinematics, device_q = TreeKinematics(tree), wp.array(q, dtype=wp.float32)
    step = wp.array(0.3 * np.random.default_rng(5).normal(size=(ROWS, tree.dof)), dtype=wp.float32)

    def outputs() -> list[wp.array]:
        shapes = ((tree.coordinates, wp.float32), (tree.bodies, wp.transformf), (tree.dof, wp.spatial_vectorf), (tree.dof, wp.float32))
        return [wp.zeros((ROWS, width), dtype=dtype) for width, dtype in shapes]

    expected, by_rows, by_bodies = outputs(), outputs(), outputs()
    kinematics.retract(device_q, step, expected[0])
    kinematics.forward(*expected)
    kinematics.advance(device_q, step, *by_rows)
    wp.launch(kernels.advance_bodies, (ROWS, tree.bodies), [kinematics.table, device_q, step, *by_bodies], device="cpu")
    for found in (by_rows, by_bodies):
        for have, want in zip(found, expected, strict=True):
            assert np.abs(have.numpy() - want.numpy()).max() < FLOAT32
    with pytest.raises(ProblemError, match="one array"):
        kinematics.advance(device_q, step, device_q, *by_rows[1:])


def test_inactive_rows_are_left_alone() -> None:
    """Rows of value 0 in `active` keep what they had."""
    tree, q = _tree(9, False)
    pose = wp.zeros((ROWS, tree.bodies), dtype=wp.transformf)
    TreeKinematics(tree).forward(wp.array(q, dtype=wp.float32), pose, active=wp.array([1, 0, 1, 0], dtype=wp.int32))
    assert pose.numpy()[[0, 2]].any() and not pose.numpy()[[1, 3]].any()


def test_wrong_shapes_are_refused() -> None:
    """An array for another robot is refused with the shape that fits: a kernel has no bounds checks."""
    tree, q = _tree(9, False)
    kinematics, good = TreeKinematics(tree), wp.array(q, dtype=wp.float32)
    pose = wp.zeros((ROWS, tree.bodies), dtype=wp.transformf)
    short = wp.zeros((ROWS, 3), dtype=wp.transformf)
    for wrong in (
        lambda: kinematics.forward(good, short),
        lambda: kinematics.forward(good, good),
        lambda: kinematics.retract(good, pose, good),
        lambda: kinematics.retract(good, wp.zeros((ROWS, 3), dtype=wp.float32), good),
    ):
        with pytest.raises(ProblemError, match="expected"):
            wrong()


@pytest.mark.parametrize("seed", range(3))
def test_twins_agree_with_the_textbook(seed: int) -> None:
    """The mass matrix and the tool Jacobian of a tree equal those of the articulation, made in body frames."""
    rng = np.random.default_rng(seed)
    arm = random_articulation(rng, 8)
    tree = tree_of_articulation(arm)
    q = twin.random_configuration(tree, rng)
    expected = rigid_body.mass_matrix(arm, q)
    # Both float64: rounding of sums of about 100 products.
    assert np.abs(twin.mass_matrix(tree, q) - expected).max() < 1e-12 * np.abs(expected).max()
    assert np.abs(twin.effector_jacobian(tree, q, 0) - rigid_body.tool_jacobian(arm, q)).max() < 1e-12


def test_twin_jacobian_is_the_derivative_along_the_retraction() -> None:
    """The effector Jacobian of a free-floating tree is the derivative of its pose along `retract`."""
    rng = np.random.default_rng(4)
    tree = twin.random_tree(rng, 6, free=True)
    q, h = twin.random_configuration(tree, rng), 1e-6
    rotation = twin.effector_pose(tree, q, 0)[0]
    for index in range(tree.dof):
        step = h * np.eye(tree.dof)[index]
        (ahead, p), (behind, o) = (twin.effector_pose(tree, twin.retract(tree, q, side * step), 0) for side in (1.0, -1.0))
        turn = (ahead - behind) @ rotation.T / (2.0 * h)
        numeric = np.concatenate([(p - o) / (2.0 * h), [turn[2, 1], turn[0, 2], turn[1, 0]]])
        # Central differences: h^2 and 1e-16 / h.
        assert np.abs(numeric - twin.effector_jacobian(tree, q, 0)[:, index]).max() < 1e-9


def test_quaternions_of_any_rotation() -> None:
    """The quaternion of a rotation gives the rotation back, for half turns as well."""
    rng = np.random.default_rng(0)
    turns = [np.diag(signs) for signs in ([1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1])]
    for rotation in turns + [random_rotation(rng) for _ in range(20)]:
        assert np.abs(twin.rotation_of_quaternion(quaternion(rotation)) - rotation).max() < 1e-14
