"""URDF to `Articulation`, through Pinocchio.

The text is read and checked first (`urdf_tree`), because URDF parsers guess what a file does not say. Pinocchio then
gives the joint order, lumps the links behind fixed joints and turns roll-pitch-yaw into frames.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from branch_mpc.errors import RobotError
from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.checks import check_dof, checked_articulation
from branch_mpc.robot.urdf_tree import UrdfTree, read_tree

# Angles in a URDF are rounded (1.57079633 for pi/2, eight digits and worse). Entries this close to zero are meant to be
# zero, and generated dynamics drops them.
ROTATION_SNAP = 1e-7
TRANSLATION_SNAP = 1e-12
# Lumping a frame without mass leaves rounding of this size, relative to the largest entry, where the file says zero.
INERTIA_SNAP = 1e-15


def articulation_from_urdf(
    text_or_path: str | Path,
    tool: str | None = None,
    name: str | None = None,
    overrides: Mapping[str, Mapping[str, float]] | None = None,
) -> Articulation:
    """Build an articulation from a URDF.

    Args:
        text_or_path: URDF text (for example the `robot_description` of ROS) or the path of a URDF file.
        tool: Link or joint that names the tool frame (a joint means its child link); default the only moving leaf link.
        name: Name of the articulation; default the robot's name in the file.
        overrides: By joint name, limits that replace those of the file, `{"joint3": {"effort": 50.0, "velocity": 2.0}}`
            (keys lower, upper [rad | m], velocity [rad/s | m/s], effort [Nm | N]), or `{"finger": {"locked": 0.02}}` for a
            joint that is held at a position [rad | m] and is no degree of freedom.

    Raises:
        RobotError: The description is not URDF, misses a mass, inertia or limit, has a joint or number that cannot be used,
            or the tool is unknown or ambiguous. The message names the joint or link and the remedy.
    """
    tree = read_tree(text_or_path, overrides)
    check_dof(len(tree.moving_joints), tree.source)
    tool_link = _tool_link(tree, tool)
    return checked_articulation(_converted(tree, tool_link, name or tree.name), tree.source)


def snapped_rotation(rotation: np.ndarray) -> np.ndarray:
    """Return the rotation with entries of rounded angles made exact zeros and ones.

    Small entries become zero and the nearest orthonormal matrix (polar factor) is taken, which keeps that
    zero pattern: a rotation by 1.57079633 becomes the exact permutation, any other one stays orthonormal.

    Args:
        rotation: Rotation matrix, shape (3, 3).
    """
    left, _, right = np.linalg.svd(np.where(np.abs(rotation) < ROTATION_SNAP, 0.0, rotation))
    polar = left @ right
    nearest = np.round(polar)
    return np.where(np.abs(polar - nearest) < 1e-14, nearest, polar) + 0.0  # + 0.0 turns -0.0 into 0.0


def _snapped(values: np.ndarray, least: float = TRANSLATION_SNAP) -> np.ndarray:
    return np.where(np.abs(values) < least, 0.0, values)


def _tool_link(tree: UrdfTree, tool: str | None) -> str:
    parents = {joint.parent for joint in tree.joints.values()}
    moving = [link for link in tree.links if tree.carrier(link)]
    leaves = [link for link in moving if link not in parents]
    if tool is None:
        if len(leaves) > 1:
            raise RobotError(f"{tree.source}: the robot has several ends and no tool was named", f"name one of {', '.join(leaves)}")
        return leaves[0]
    link = tool if tool in tree.links else tree.joints[tool].child if tool in tree.joints else None
    if link is None:
        raise RobotError(f"{tree.source}: tool '{tool}' is unknown", f"name one of {', '.join(moving)}")
    if tree.carrier(link) is None:
        raise RobotError(f"{tree.source}: tool '{tool}' is fixed to the base", f"name one of {', '.join(moving)}")
    return link


def _pinocchio(tree: UrdfTree) -> tuple[Any, Any]:
    try:
        import pinocchio as pin
    except ImportError as error:
        raise RobotError(
            f"{tree.source}: reading a URDF needs Pinocchio, which is not installed ({error})",
            "install it (pip install pin) or load a robot saved with Articulation.save",
        ) from error
    locked = {joint.name: joint.locked for joint in tree.joints.values() if joint.locked is not None}
    try:
        model = pin.buildModelFromXML(tree.to_xml())
        position = np.zeros(model.nq)
        for name, value in locked.items():
            position[model.joints[model.getJointId(name)].idx_q] = value
        return pin.buildReducedModel(model, [model.getJointId(name) for name in locked], position), pin.FrameType.BODY
    except (RuntimeError, ValueError) as error:
        raise RobotError(f"{tree.source}: Pinocchio cannot read it ({error})", "correct the file") from error


def _converted(tree: UrdfTree, tool_link: str, name: str) -> Articulation:
    model, body = _pinocchio(tree)
    joints = [tree.joints[joint] for joint in model.names[1:]]
    placements, inertias = list(model.jointPlacements)[1:], list(model.inertias)[1:]
    frame = model.frames[model.getFrameId(tool_link, body)]
    return Articulation(
        name=name,
        joint_names=tuple(joint.name for joint in joints),
        joint_types=tuple(joint.kind for joint in joints),
        parents=tuple(int(parent) - 1 for parent in list(model.parents)[1:]),
        rotation=np.array([snapped_rotation(placement.rotation) for placement in placements]),
        translation=np.array([_snapped(placement.translation) for placement in placements]),
        axis=np.array([_snapped(joint.axis) for joint in joints]),
        mass=np.array([inertia.mass for inertia in inertias]),
        center_of_mass=np.array([_snapped(inertia.lever) for inertia in inertias]),
        inertia=np.array([_snapped(inertia.inertia, INERTIA_SNAP * np.abs(inertia.inertia).max()) for inertia in inertias]),
        position_lower=np.array([joint.lower for joint in joints]),
        position_upper=np.array([joint.upper for joint in joints]),
        velocity_limit=np.array([joint.velocity for joint in joints]),
        effort_limit=np.array([joint.effort for joint in joints]),
        tool_name=tool_link,
        tool_link=int(frame.parentJoint) - 1,
        tool_rotation=snapped_rotation(frame.placement.rotation),
        tool_translation=_snapped(frame.placement.translation),
        base_name=tree.base,
        gravity=np.array(model.gravity.linear),
    )
