"""Poses, motion subspaces and inertias of all bodies of a robot, for many configurations at once."""

from typing import Any

import numpy as np
import warp as wp

from branch_mpc.errors import ProblemError
from branch_mpc.kinematics import kernels
from branch_mpc.robot.tree_model import TreeModel

_KINDS = {"free": 0, "revolute": 1, "continuous": 1, "prismatic": 2}


class TreeKinematics:
    """The table of a robot on a device and the launches over it; allocates its table only.

    Attributes:
        tree: The robot.
        device: The device of the table.
        table: `kernels.TreeTable`, for kernels of an application.
    """

    def __init__(self, tree: TreeModel, device: str | Any = "cpu") -> None:
        self.tree, self.device = tree, wp.get_device(device)
        table = kernels.TreeTable()
        with wp.ScopedDevice(self.device):
            table.parents = wp.array(tree.parents, dtype=wp.int32)
            table.kinds = wp.array([_KINDS[kind] for kind in tree.joint_types], dtype=wp.int32)
            table.coordinate = wp.array(tree.coordinate_start, dtype=wp.int32)
            table.dof = wp.array(tree.dof_start, dtype=wp.int32)
            table.placement = wp.array(_transforms(tree.translation, tree.rotation), dtype=wp.transformf)
            table.axis = wp.array(tree.axis, dtype=wp.vec3f)
            table.center = wp.array(tree.center_of_mass, dtype=wp.vec3f)
            table.mass = wp.array(tree.mass, dtype=wp.float32)
            table.inertia = wp.array(tree.inertia, dtype=wp.mat33f)
            self._all = wp.zeros(0, dtype=wp.int32)
            self._no_subspace = wp.zeros((0, 0), dtype=wp.spatial_vectorf)
            self._no_joints = wp.zeros((0, 0), dtype=wp.float32)
        self.table = table

    def forward(
        self, q: wp.array, pose: wp.array, S: wp.array | None = None, joints: wp.array | None = None, active: wp.array | None = None
    ) -> None:
        """Write the poses of all bodies and, where they are given, `S` and `joints`: one launch.

        Args:
            q: Configurations [rad | m], shape (rows, coordinates) float32.
            pose: Frames in the world, shape (rows, bodies) transformf.
            S: Columns (linear, angular) about the world origin, shape (rows, dof) spatial_vectorf.
            joints: q in tangent coordinates, shape (rows, dof) float32: numbers of the joints, position [m] and rotation vector
                [rad] of a free base.
            active: Rows of value 0 are left alone, shape (rows,) int32.

        Raises:
            ProblemError: Shapes or types that do not fit the robot.
        """
        self._check("q", q, (q.shape[0], self.tree.coordinates))
        self._check("pose", pose, (q.shape[0], self.tree.bodies), wp.transformf)
        if S is not None:
            self._check("S", S, (q.shape[0], self.tree.dof), wp.spatial_vectorf)
        if joints is not None:
            self._check("joints", joints, (q.shape[0], self.tree.dof))
        inputs = [self.table, q, self._all if active is None else active, pose]
        inputs += [self._no_subspace if S is None else S, self._no_joints if joints is None else joints]
        if self.device.is_cpu:
            wp.launch(kernels.forward_rows, q.shape[0], inputs, device=self.device)
        else:
            wp.launch(kernels.forward_bodies, (q.shape[0], self.tree.bodies), inputs, device=self.device, block_dim=128)

    def retract(self, q: wp.array, step: wp.array, moved: wp.array) -> None:
        """Write q moved along tangents `step`, shape (rows, dof) float32; `moved` may be q: one launch.

        Raises:
            ProblemError: Shapes or types that do not fit the robot.
        """
        self._check("q", q, (q.shape[0], self.tree.coordinates))
        self._check("step", step, (q.shape[0], self.tree.dof))
        self._check("moved", moved, tuple(q.shape))
        wp.launch(kernels.retract, (q.shape[0], self.tree.bodies), [self.table, q, step, moved], device=self.device, block_dim=128)

    def advance(self, q: wp.array, step: wp.array, moved: wp.array, pose: wp.array, S: wp.array, joints: wp.array) -> None:
        """`retract` into `moved`, another array than q, and `forward` there: one launch.

        Raises:
            ProblemError: Shapes or types that do not fit the robot, or `moved` is q.
        """
        rows, tree = q.shape[0], self.tree
        for label, array, width, dtype in (
            ("q", q, tree.coordinates, wp.float32),
            ("step", step, tree.dof, wp.float32),
            ("moved", moved, tree.coordinates, wp.float32),
            ("pose", pose, tree.bodies, wp.transformf),
            ("S", S, tree.dof, wp.spatial_vectorf),
            ("joints", joints, tree.dof, wp.float32),
        ):
            self._check(label, array, (rows, width), dtype)
        if moved.ptr == q.ptr:
            raise ProblemError("moved and q are one array", "give another array: other threads still read q")
        inputs = [self.table, q, step, moved, pose, S, joints]
        if self.device.is_cpu:
            wp.launch(kernels.advance_rows, rows, inputs, device=self.device)
        else:
            wp.launch(kernels.advance_bodies, (rows, tree.bodies), inputs, device=self.device, block_dim=128)

    def inertias(self, pose: wp.array, result: wp.array) -> None:
        """Write the spatial inertias of all bodies about the world origin, shape (rows, bodies) spatial_matrixf: one launch.

        Raises:
            ProblemError: Shapes or types that do not fit the robot.
        """
        self._check("pose", pose, (pose.shape[0], self.tree.bodies), wp.transformf)
        self._check("result", result, tuple(pose.shape), wp.spatial_matrixf)
        wp.launch(kernels.inertias, tuple(pose.shape), [self.table, pose, result], device=self.device, block_dim=128)

    def _check(self, label: str, array: wp.array, shape: tuple[int, ...], dtype: Any = wp.float32) -> None:
        if array.dtype is not dtype:
            raise ProblemError(f"{label} holds {array.dtype.__name__}, expected {dtype.__name__}", "pass dtype= when you make the array")
        if tuple(array.shape) != shape:
            raise ProblemError(f"{label} has shape {tuple(array.shape)}, expected {shape}", f"shape it for robot '{self.tree.name}'")


def effector_frames(tree: TreeModel) -> np.ndarray:
    """Return the frames of the effectors in their bodies: position [m], quaternion (x, y, z, w); shape (effectors, 7)."""
    return _transforms(tree.effector_translation, tree.effector_rotation)


def _transforms(translation: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    return np.concatenate([translation, [quaternion(matrix) for matrix in rotation]], axis=1) if len(rotation) else np.zeros((0, 7))


def quaternion(rotation: np.ndarray) -> np.ndarray:
    """Return the unit quaternion (x, y, z, w) of a rotation matrix, shape (3, 3), w not negative.

    The eigenvector of the largest eigenvalue of Bar-Itzhack's matrix (J. Guidance 23(6), 2000): no case distinction.
    """
    r = rotation
    bar = np.array(
        [
            [r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[2, 0] + r[0, 2], r[2, 1] - r[1, 2]],
            [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]],
            [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], r[1, 0] - r[0, 1]],
            [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r[0, 0] + r[1, 1] + r[2, 2]],
        ]
    )
    vector = np.linalg.eigh(bar)[1][:, -1]
    return -vector if vector[3] < 0.0 else vector
