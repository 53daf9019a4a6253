"""Float64 twins of the kinematics of a tree: poses, motion subspaces, mass matrix, Jacobians of effectors.

Twists are (linear, angular) in world axes about the world origin. Equations: Featherstone, RBDA (2008).
"""

import numpy as np

from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.oracle.spatial import skew
from branch_mpc.robot.tree_checks import checked_tree
from branch_mpc.robot.tree_model import TreeModel, tree_of_articulation


def rotation_of(axis: np.ndarray, angle: float) -> np.ndarray:
    """Return the rotation by `angle` [rad] about a unit axis, shape (3, 3) (Rodrigues' formula)."""
    cross = skew(axis)
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def rotation_of_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """Return the rotation of a quaternion (x, y, z, w) of any length over zero, shape (3, 3)."""
    x, y, z, w = quaternion / np.linalg.norm(quaternion)
    cross = skew(np.array([x, y, z]))
    return np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross


def poses(tree: TreeModel, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rotation (3, 3) and origin (3,) [m] of every body in the world.

    Args:
        tree: The robot.
        q: Configuration [rad | m], shape (coordinates,).
    """
    frames: list[tuple[np.ndarray, np.ndarray]] = []
    for body, kind in enumerate(tree.joint_types):
        i = tree.coordinate_start[body]
        turn, shift = np.eye(3), np.zeros(3)
        if kind == "free":
            turn, shift = rotation_of_quaternion(q[i + 3 : i + 7]), q[i : i + 3]
        elif kind == "prismatic":
            shift = q[i] * tree.axis[body]
        else:
            turn = rotation_of(tree.axis[body], q[i])
        rotation, origin = tree.rotation[body] @ turn, tree.translation[body] + tree.rotation[body] @ shift
        if tree.parents[body] >= 0:
            above, base = frames[tree.parents[body]]
            rotation, origin = above @ rotation, base + above @ origin
        frames.append((rotation, origin))
    return frames


def subspaces(tree: TreeModel, q: np.ndarray) -> list[np.ndarray]:
    """Return S of every body, shape (6, width) each."""
    result = []
    for kind, axis, (rotation, origin) in zip(tree.joint_types, tree.axis, poses(tree, q), strict=True):
        world = (rotation @ axis)[:, None]
        if kind == "free":
            result.append(np.block([[np.eye(3), skew(origin)], [np.zeros((3, 3)), np.eye(3)]]))
        elif kind == "prismatic":
            result.append(np.concatenate([world, np.zeros((3, 1))]))
        else:
            result.append(np.concatenate([skew(origin) @ world, world]))
    return result


def body_jacobian(tree: TreeModel, q: np.ndarray, body: int) -> np.ndarray:
    """Return the matrix that takes a tangent to the twist of a body about the world origin, shape (6, dof)."""
    columns, S = np.zeros((6, tree.dof)), subspaces(tree, q)
    while body >= 0:
        columns[:, tree.dof_start[body] : tree.dof_start[body] + tree.widths[body]] = S[body]
        body = tree.parents[body]
    return columns


def effector_pose(tree: TreeModel, q: np.ndarray, effector: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rotation (3, 3) and position (3,) [m] of an effector in the world."""
    rotation, origin = poses(tree, q)[tree.effector_bodies[effector]]
    return rotation @ tree.effector_rotation[effector], origin + rotation @ tree.effector_translation[effector]


def effector_jacobian(tree: TreeModel, q: np.ndarray, effector: int) -> np.ndarray:
    """Return the Jacobian of an effector, shape (6, dof): rows 0-2 its velocity, rows 3-5 its angular velocity, world axes."""
    jacobian = body_jacobian(tree, q, tree.effector_bodies[effector])
    return np.concatenate([jacobian[:3] - skew(effector_pose(tree, q, effector)[1]) @ jacobian[3:], jacobian[3:]])


def spatial_inertias(tree: TreeModel, q: np.ndarray) -> np.ndarray:
    """Return the inertia of every body about the world origin (RBDA eq. 2.63), shape (bodies, 6, 6)."""
    result = np.zeros((tree.bodies, 6, 6))
    for body, (rotation, origin) in enumerate(poses(tree, q)):
        mass, cross = tree.mass[body], skew(origin + rotation @ tree.center_of_mass[body])
        turned = rotation @ tree.inertia[body] @ rotation.T
        result[body] = np.block([[mass * np.eye(3), mass * cross.T], [mass * cross, turned + mass * cross @ cross.T]])
    return result


def mass_matrix(tree: TreeModel, q: np.ndarray) -> np.ndarray:
    """Return the joint-space inertia sum_b J_b' I_b J_b, shape (dof, dof)."""
    inertias = spatial_inertias(tree, q)
    jacobians = [body_jacobian(tree, q, body) for body in range(tree.bodies)]
    return np.sum([j.T @ i @ j for j, i in zip(jacobians, inertias, strict=True)], axis=0)


def retract(tree: TreeModel, q: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return the configuration moved along a tangent, shape (coordinates,)."""
    moved = np.zeros(tree.coordinates)
    for body, kind in enumerate(tree.joint_types):
        i, j = tree.coordinate_start[body], tree.dof_start[body]
        if kind != "free":
            moved[i] = q[i] + step[j]
            continue
        moved[i : i + 3] = q[i : i + 3] + step[j : j + 3]
        half = 0.5 * np.linalg.norm(step[j + 3 : j + 6])
        a, w = np.array([*(0.5 * np.sinc(half / np.pi) * step[j + 3 : j + 6]), np.cos(half)]), q[i + 3 : i + 7]
        product = np.array([*(a[3] * w[:3] + w[3] * a[:3] + np.cross(a[:3], w[:3])), a[3] * w[3] - a[:3] @ w[:3]])
        moved[i + 3 : i + 7] = product / np.linalg.norm(product)
    return moved


def joint_numbers(tree: TreeModel, q: np.ndarray) -> np.ndarray:
    """Return q in tangent coordinates, shape (dof,): joints by their numbers, position and rotation vector of a free base."""
    numbers = np.zeros(tree.dof)
    for body, kind in enumerate(tree.joint_types):
        i, j = tree.coordinate_start[body], tree.dof_start[body]
        if kind != "free":
            numbers[j] = q[i]
            continue
        sign = -1.0 if q[i + 6] < 0.0 else 1.0
        sine = np.linalg.norm(q[i + 3 : i + 6])
        turn = 2.0 * np.arctan2(sine, sign * q[i + 6])
        numbers[j : j + 3], numbers[j + 3 : j + 6] = q[i : i + 3], sign * q[i + 3 : i + 6] * (turn / sine if sine > 0.0 else 2.0)
    return numbers


def random_configuration(tree: TreeModel, rng: np.random.Generator, spread: float = 1.0) -> np.ndarray:
    """Return a configuration uniform within the limits ([-pi, pi] where there is none), a free base within 0.3 m and 0.5 rad.

    Args:
        tree: The robot.
        rng: Seeded source of randomness.
        spread: Part of the range around its middle.
    """
    lower, upper = (np.where(np.isfinite(limit), limit, side * np.pi) for limit, side in ((tree.lower, -1.0), (tree.upper, 1.0)))
    step = 0.5 * (lower + upper) + 0.5 * spread * (upper - lower) * rng.uniform(-1.0, 1.0, tree.dof)
    q = tree.nominal.copy()
    for body, kind in enumerate(tree.joint_types):
        i, j = tree.coordinate_start[body], tree.dof_start[body]
        if kind == "free":
            step[j : j + 3], step[j + 3 : j + 6] = 0.3 * spread * rng.uniform(-1, 1, 3), 0.5 * spread * rng.uniform(-1, 1, 3)
        else:
            q[i] = 0.0
    return retract(tree, q, step)


def random_tree(rng: np.random.Generator, joints: int, free: bool = False, effectors: int = 2) -> TreeModel:
    """Return a random robot: a branched tree of single-axis joints, on a free base if asked for.

    Args:
        rng: Seeded source of randomness; equal seeds give equal robots.
        joints: Number of joints beside the free one.
        free: Hang the robot on a free base of 8 kg instead of the world.
        effectors: Number of effectors, on random bodies.
    """
    tree = tree_of_articulation(random_articulation(rng, joints))
    head = 1 if free else 0
    carriers = tuple(int(body) + head for body in rng.integers(0, joints, effectors))
    lead = {
        "rotation": np.eye(3)[None],
        "translation": np.zeros((1, 3)),
        "axis": np.zeros((1, 3)),
        "mass": np.array([8.0]),
        "center_of_mass": np.array([[0.02, -0.01, 0.03]]),
        "inertia": np.diag([0.2, 0.15, 0.1])[None],
    }
    arrays = {name: np.concatenate([value, getattr(tree, name)]) if free else getattr(tree, name) for name, value in lead.items()}
    bound, pose = (np.full(6, np.inf), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])) if free else (np.zeros(0), np.zeros(0))
    return checked_tree(
        TreeModel(
            name=tree.name,
            body_names=("base",) * head + tree.body_names,
            joint_types=("free",) * head + tree.joint_types,
            parents=(-1,) * head + tuple(parent + head for parent in tree.parents),
            lower=np.concatenate([-bound, tree.lower]),
            upper=np.concatenate([bound, tree.upper]),
            nominal=np.concatenate([pose, tree.nominal]),
            effector_names=tuple(f"effector{index}" for index in range(effectors)),
            effector_bodies=carriers,
            effector_rotation=np.repeat(np.eye(3)[None], effectors, axis=0),
            effector_translation=rng.uniform(-0.1, 0.1, (effectors, 3)),
            **arrays,
        )
    )
