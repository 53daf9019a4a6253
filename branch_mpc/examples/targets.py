"""Targets of effectors: poses that the robot can reach, and how far a configuration is from them."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from branch_mpc.kinematics import TreeKinematics
from branch_mpc.kinematics.tree import effector_frames
from branch_mpc.robot.tree_model import TreeModel


@dataclass(frozen=True)
class EffectorPoses:
    """World poses of all effectors, for any leading shape."""

    position: np.ndarray
    """Positions [m], shape (..., effectors, 3)."""
    rotation: np.ndarray
    """Unit quaternions (x, y, z, w), shape (..., effectors, 4)."""

    def error(self, other: "EffectorPoses") -> tuple[np.ndarray, np.ndarray]:
        """Return the distance [m] and the angle [rad] to other poses, largest over the effectors, shape (...)."""
        distance = np.linalg.norm(self.position - other.position, axis=-1)
        product = multiply(self.rotation, other.rotation * np.array([-1.0, -1.0, -1.0, 1.0]))
        angle = 2.0 * np.arctan2(np.linalg.norm(product[..., :3], axis=-1), np.abs(product[..., 3]))
        return distance.max(axis=-1), angle.max(axis=-1)


def effector_poses(tree: TreeModel, q: np.ndarray, device: str = "cpu") -> EffectorPoses:
    """Return the effector poses of configurations, by the kinematics of the device.

    Args:
        tree: The robot.
        q: Configurations [rad | m], shape (..., coordinates).
        device: Where to compute.
    """
    lead = q.shape[:-1]
    rows = int(np.prod(lead))
    kinematics = TreeKinematics(tree, device)
    with wp.ScopedDevice(kinematics.device):
        pose = wp.zeros((rows, tree.bodies), dtype=wp.transformf)
        kinematics.forward(wp.array(q.reshape(rows, -1), dtype=wp.float32), pose)
    bodies = pose.numpy().astype(float)[:, list(tree.effector_bodies)]
    frames = effector_frames(tree)
    position = bodies[..., :3] + rotate(bodies[..., 3:], frames[:, :3])
    rotation = multiply(bodies[..., 3:], frames[:, 3:])
    count = len(tree.effector_names)
    return EffectorPoses(position.reshape(*lead, count, 3), rotation.reshape(*lead, count, 4))


def body_rotations(tree: TreeModel, rotation: np.ndarray) -> np.ndarray:
    """Return the rotation of the effectors' bodies when the effectors have `rotation`, shape (..., effectors, 4)."""
    return multiply(rotation, effector_frames(tree)[:, 3:] * np.array([-1.0, -1.0, -1.0, 1.0]))


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products of quaternions (x, y, z, w), shape (..., 4)."""
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    scalar = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return vectors turned by unit quaternions (x, y, z, w), shape (..., 3)."""
    axis = quaternion[..., :3]
    cross = 2.0 * np.cross(axis, vector)
    return vector + quaternion[..., 3:] * cross + np.cross(axis, cross)
