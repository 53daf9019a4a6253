"""Is this a tree that kinematics and contact response can use? Checks of a `TreeModel`, whatever it was made from."""

from typing import TYPE_CHECKING

import numpy as np

from branch_mpc.errors import RobotError

if TYPE_CHECKING:
    from branch_mpc.robot.tree_model import TreeModel

JOINT_TYPES = ("free", "revolute", "continuous", "prismatic")
MAX_BODIES = 256
_UNIT_TOLERANCE = 1e-9


def checked_tree(tree: "TreeModel") -> "TreeModel":
    """Return the model when every number of it can be used.

    Raises:
        RobotError: Wrong shapes, a loop, a free joint that has a parent, frames that are not rotations, numbers that are
            not finite, bodies without mass, limits that leave no room, a nominal configuration outside them.
    """
    name, count = tree.name, tree.bodies
    if not 1 <= count <= MAX_BODIES:
        raise RobotError(f"robot '{name}' has {count} moving bodies", f"1 to {MAX_BODIES} are supported")
    if not len(tree.joint_types) == len(tree.parents) == len(set(tree.body_names)) == count:
        raise RobotError(f"robot '{name}': names, joint types and parents do not match", "give each body its own name, a type and a parent")
    for body, (kind, parent) in enumerate(zip(tree.joint_types, tree.parents, strict=True)):
        where = f"robot '{name}': body '{tree.body_names[body]}'"
        if kind not in JOINT_TYPES:
            raise RobotError(f"{where} has a joint of type '{kind}'", f"use one of {', '.join(JOINT_TYPES)}")
        if not -1 <= parent < body:
            raise RobotError(f"{where} has parent {parent}", f"number parents before children (-1 to {body - 1}); loops are cut")
        if kind == "free" and parent >= 0:
            raise RobotError(f"{where} has a free joint and a parent", "let only the base be free")
        if kind == "free" and (np.any(tree.rotation[body] != np.eye(3)) or np.any(tree.translation[body] != 0.0)):
            raise RobotError(f"{where} has a free joint that is placed somewhere", "put the place of the robot into its configuration")
    _check_numbers(tree)
    _check_limits(tree)
    return tree


def _check_numbers(tree: "TreeModel") -> None:
    n, e = tree.bodies, len(tree.effector_names)
    shapes: dict[str, tuple[int, ...]] = {"rotation": (n, 3, 3), "translation": (n, 3), "axis": (n, 3), "mass": (n,)}
    shapes |= {"center_of_mass": (n, 3), "inertia": (n, 3, 3), "nominal": (tree.coordinates,)}
    shapes |= {"effector_rotation": (e, 3, 3), "effector_translation": (e, 3)}
    for field, shape in shapes.items():
        value = np.asarray(getattr(tree, field))
        if value.shape != shape:
            raise RobotError(f"robot '{tree.name}': '{field}' has shape {value.shape}", f"give shape {shape}")
        if not np.isfinite(value).all():
            raise RobotError(f"robot '{tree.name}': '{field}' holds a number that is not finite", "give finite numbers")
    for label, frame in zip([*tree.body_names, *tree.effector_names], [*tree.rotation, *tree.effector_rotation], strict=True):
        if np.abs(frame @ frame.T - np.eye(3)).max() > _UNIT_TOLERANCE or np.linalg.det(frame) < 0:
            raise RobotError(f"robot '{tree.name}': the frame of '{label}' is not a rotation", "give an orthonormal right-handed matrix")
    for body, (label, kind, axis) in enumerate(zip(tree.body_names, tree.joint_types, tree.axis, strict=True)):
        if kind != "free" and abs(np.linalg.norm(axis) - 1.0) > _UNIT_TOLERANCE:
            raise RobotError(f"robot '{tree.name}': the axis of '{label}' has length {np.linalg.norm(axis):.6g}", "give a unit vector")
        if tree.mass[body] <= 0.0:
            raise RobotError(f"robot '{tree.name}': body '{label}' has mass {tree.mass[body]:g} kg", "give it a positive mass")
    if any(not 0 <= body < n for body in tree.effector_bodies) or len(tree.effector_bodies) != e:
        raise RobotError(f"robot '{tree.name}': effectors sit on bodies {tree.effector_bodies}", f"use bodies of 0 to {n - 1}")


def _check_limits(tree: "TreeModel") -> None:
    for field in ("lower", "upper"):
        if getattr(tree, field).shape != (tree.dof,):
            raise RobotError(f"robot '{tree.name}': '{field}' has shape {getattr(tree, field).shape}", f"give shape ({tree.dof},)")
    for body, kind in enumerate(tree.joint_types):
        if kind == "free":
            continue
        dof, where = tree.dof_start[body], f"robot '{tree.name}': the joint of '{tree.body_names[body]}'"
        lower, upper, start = tree.lower[dof], tree.upper[dof], tree.nominal[tree.coordinate_start[body]]
        if not lower < upper:
            raise RobotError(f"{where} has lower limit {lower:g} and upper limit {upper:g}", "give lower < upper")
        if not lower <= start <= upper:
            raise RobotError(f"{where} starts at {start:g}, outside [{lower:g}, {upper:g}]", "start inside the limits")
