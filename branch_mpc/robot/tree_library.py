"""Hands, quadrupeds and humanoids by name, read from the packages of the extra [robots], through Pinocchio.

`example-robot-data` (BSD 3-clause) ships URDF files; `mujoco-menagerie` ships an index and fetches a robot's MJCF file on
first use, or reads the checkout that MENAGERIE_ROOT names. Nothing of either is in this package.
"""

import importlib
import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from branch_mpc.errors import RobotError
from branch_mpc.robot.from_urdf import snapped_rotation
from branch_mpc.robot.library import load_robot, ready_configuration, robot_names
from branch_mpc.robot.tree_checks import checked_tree
from branch_mpc.robot.tree_model import TreeModel, tree_of_articulation

REMEDY = "install the optional packages: pip install 'branch_mpc[robots]'"
# A limit wider than this turns more than a full revolution either way: it is no limit for a pose.
_TURNS = 1e3


class MissingRobotError(RobotError):
    """A known robot whose optional package is not here, or cannot reach its files."""


@dataclass(frozen=True)
class _Source:
    """Where a robot comes from and what it reaches with."""

    package: str
    file: str
    effectors: tuple[str, ...]
    free: bool = False
    start: tuple[float, ...] = ()


_DATA, _MENAGERIE = "example-robot-data", "mujoco-menagerie"
_HANDS = ("left_wrist_yaw_link", "right_wrist_yaw_link")
_FEET = ("left_ankle_roll_link", "right_ankle_roll_link")
_PANDA = (0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398, 0.02, 0.02)
_UR10 = (0.0, -1.2, 1.6, -1.9, -1.5708, 0.0)
_SOURCES = {
    "ur10": _Source(_DATA, "ur_description/urdf/ur10_robot.urdf", ("ee_link",), start=_UR10),
    "panda": _Source(_DATA, "panda_description/urdf/panda.urdf", ("panda_hand_tcp",), start=_PANDA),
    "allegro": _Source(
        _DATA,
        "allegro_hand_description/urdf/allegro_right_hand.urdf",
        ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip"),
    ),
    "anymal_c": _Source(_DATA, "anymal_c_simple_description/urdf/anymal.urdf", ("LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"), True),
    "g1": _Source(_DATA, "g1_description/urdf/g1_29dof_rev_1_0.urdf", (*_HANDS, *_FEET), True),
    "g1_hands": _Source(
        _DATA, "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf", ("left_hand_palm_link", "right_hand_palm_link", *_FEET), True
    ),
    "h1": _Source(_MENAGERIE, "unitree_h1/h1", ("left_elbow_link", "right_elbow_link", "left_ankle_link", "right_ankle_link"), True),
}


def tree_names() -> tuple[str, ...]:
    """Return the names that `load_tree` knows: the shipped arms, then the robots of the extra [robots]."""
    return (*robot_names(), *_SOURCES)


def load_tree(name_or_path: str | Path) -> TreeModel:
    """Load a robot of any size.

    Args:
        name_or_path: A name of `tree_names`, the path of a JSON file written by `TreeModel.save`, or anything that
            `load_robot` reads.

    Raises:
        MissingRobotError: The optional package of the robot is not installed, or its files cannot be had.
        RobotError: Unknown robot, missing file, or a robot that cannot be used.
    """
    name = str(name_or_path)
    if name in robot_names():
        return tree_of_articulation(load_robot(name), ready_configuration(name))
    if name in _SOURCES:
        return _from_package(name, _SOURCES[name])
    path = Path(name_or_path)
    if path.suffix == ".json" and path.is_file() and '"branch_mpc/tree/' in path.read_text()[:200]:
        return TreeModel.load(path)
    if not path.suffix:
        raise RobotError(f"robot '{name}' is unknown", f"use one of {', '.join(tree_names())} or the path of a file")
    return tree_of_articulation(load_robot(path))


def tree_from_pinocchio(
    model: Any, name: str, effectors: Sequence[str], start: Sequence[float] = (), placement: Callable[[str], str] = str
) -> TreeModel:
    """Return the tree of a Pinocchio model.

    Args:
        model: `pinocchio.Model` of joints with one axis, and at most a free base.
        name: Name of the robot.
        effectors: Names of the frames to reach with.
        start: Joint positions to start from [rad | m], one per joint that is not free; default those nearest zero.
        placement: Translates the name of a joint to that of its body.

    Raises:
        RobotError: A joint of another kind, or an effector that is not a frame of the model.
    """
    import pinocchio as pin

    if model.njoints < 2:
        raise RobotError(f"robot '{name}' has no joint that moves", "give a robot with joints")
    shift = 1  # Pinocchio keeps joint 0 for the world
    joints = range(shift, model.njoints)
    kinds, axes = zip(*(_joint(model, joint, name) for joint in joints), strict=True)
    moving = [joint for joint, kind in zip(joints, kinds, strict=True) if kind != "free"]
    lower, upper = _limits(model, moving)
    places = [model.joints[joint].idx_v for joint in moving]
    nominal = np.clip(start or [0.0] * len(moving), lower[places], upper[places])
    frames = [_frame(model, effector, name) for effector in effectors]
    bodies = list(model.inertias)[shift:]
    tree = TreeModel(
        name=name,
        body_names=tuple(placement(model.names[joint]) for joint in joints),
        joint_types=kinds,
        parents=tuple(int(model.parents[joint]) - shift if model.parents[joint] >= shift else -1 for joint in joints),
        rotation=np.array([snapped_rotation(model.jointPlacements[joint].rotation) for joint in joints]),
        translation=np.array([model.jointPlacements[joint].translation for joint in joints]),
        axis=np.array(axes),
        mass=np.array([body.mass for body in bodies]),
        center_of_mass=np.array([body.lever for body in bodies]),
        inertia=np.array([body.inertia for body in bodies]),
        lower=lower,
        upper=upper,
        nominal=np.array([*(pin.neutral(model)[:7] if "free" in kinds else []), *nominal]),
        effector_names=tuple(effectors),
        effector_bodies=tuple(int(frame.parentJoint) - shift for frame in frames),
        effector_rotation=np.array([snapped_rotation(frame.placement.rotation) for frame in frames]).reshape(-1, 3, 3),
        effector_translation=np.array([frame.placement.translation for frame in frames]).reshape(-1, 3),
    )
    return checked_tree(tree)


def _limits(model: Any, moving: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper joint positions in tangent coordinates; infinite where there is none or it is no limit for a pose."""
    lower, upper = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    for joint in moving:
        low, high = model.lowerPositionLimit[model.joints[joint].idx_q], model.upperPositionLimit[model.joints[joint].idx_q]
        if high - low < _TURNS and "RUB" not in model.joints[joint].shortname():
            lower[model.joints[joint].idx_v], upper[model.joints[joint].idx_v] = low, high
    return lower, upper


def _joint(model: Any, joint: int, name: str) -> tuple[str, np.ndarray]:
    """Kind and axis of a Pinocchio joint, read from its motion subspace at the neutral configuration."""
    import pinocchio as pin

    kind = model.joints[joint].shortname()
    if kind == "JointModelFreeFlyer":
        return "free", np.zeros(3)
    if model.joints[joint].nv != 1:
        raise RobotError(f"robot '{name}': joint '{model.names[joint]}' is a {kind}", "write it as a chain of joints with one axis each")
    data = model.createData()
    pin.forwardKinematics(model, data, pin.neutral(model))
    subspace = np.asarray(data.joints[joint].S).reshape(6)
    linear, angular = subspace[:3], subspace[3:]
    if np.linalg.norm(linear) > 0.5:
        return "prismatic", linear / np.linalg.norm(linear)
    return "continuous" if "RUB" in kind else "revolute", angular / np.linalg.norm(angular)


def _frame(model: Any, effector: str, name: str) -> Any:
    if not model.existFrame(effector):
        raise RobotError(f"robot '{name}': there is no frame '{effector}'", "name a link or a frame of the robot")
    return model.frames[model.getFrameId(effector)]


def _from_package(name: str, source: _Source) -> TreeModel:
    import pinocchio as pin

    path = _data_file(name, source.file) if source.package == _DATA else _menagerie_file(name, source.file)
    try:
        if source.package == _MENAGERIE:
            model = pin.buildModelFromMJCF(str(path))
        elif source.free:
            model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
        else:
            model = pin.buildModelFromUrdf(str(path))
    except (RuntimeError, ValueError) as error:
        raise RobotError(f"robot '{name}': Pinocchio cannot read {path.name} ({error})", "reinstall the package it came with") from error
    return tree_from_pinocchio(model, name, source.effectors, source.start)


def _data_file(name: str, file: str) -> Path:
    """Path of a file of example-robot-data, wherever pip put it."""
    try:
        files = importlib.metadata.files(_DATA) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingRobotError(f"robot '{name}' comes with {_DATA}, which is not installed", REMEDY) from error
    found = next((entry for entry in files if str(entry).endswith(f"robots/{file}")), None)
    if found is None:
        raise RobotError(f"robot '{name}': {_DATA} {importlib.metadata.version(_DATA)} has no {file}", "install version 6 or newer")
    return Path(str(found.locate()))


def _menagerie_file(name: str, entry: str) -> Path:
    """Path of an MJCF file of mujoco-menagerie; fetches it on first use."""
    robot, model = entry.split("/")
    try:
        menagerie = importlib.import_module("mujoco_menagerie")
    except ImportError as error:
        raise MissingRobotError(f"robot '{name}' comes with {_MENAGERIE}, which is not installed", REMEDY) from error
    try:
        return Path(menagerie.get(robot).xml(model))
    except (menagerie.MenagerieError, OSError) as error:
        remedy = "let it reach the network once, or set MENAGERIE_ROOT to a checkout of MuJoCo Menagerie"
        raise MissingRobotError(f"robot '{name}': {_MENAGERIE} cannot give {entry} ({error})", remedy) from error
