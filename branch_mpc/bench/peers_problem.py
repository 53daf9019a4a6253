"""What a peer is given, what it gives back, and a robot as URDF text for those that read nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from branch_mpc.errors import ProblemError
from branch_mpc.examples.targets import EffectorPoses
from branch_mpc.robot.tree_model import TreeModel


@dataclass(frozen=True)
class PeerProblem:
    """Inverse kinematics as every solver gets it."""

    tree: TreeModel
    """The robot."""
    targets: EffectorPoses
    """Targets, (batch, effectors, ...), or (batch, frames, effectors, ...)."""
    starts: np.ndarray
    """Start configurations of every problem, (starts, coordinates)."""
    iterations: int
    """Steps that a solver may try."""
    device: str
    """cpu or cuda:0."""
    frames: int
    """Frames of a trajectory; 1 for single poses."""

    @property
    def batch(self) -> int:
        """Problems or trajectories."""
        return len(self.targets.position)


@dataclass(frozen=True)
class PeerSolve:
    """A prepared solver."""

    run: Callable[[], Any]
    """Solve once from the starts."""
    wait: Callable[[], Any]
    """Wait for the device."""
    answer: Callable[[], np.ndarray]
    """Best configurations of the last run, (batch, coordinates) or (batch, frames, coordinates)."""
    boundary: str
    """From where to where the time is taken."""


def arm_only(problem: PeerProblem, name: str) -> None:
    """Raise unless the robot has a fixed base and one effector.

    Raises:
        ProblemError: Another robot.
    """
    if "free" in problem.tree.joint_types or len(problem.tree.effector_names) != 1:
        raise ProblemError(f"{name} is compared on arms with one effector, '{problem.tree.name}' is none", "choose an arm")


def urdf_of(tree: TreeModel) -> str:
    """Return the kinematics of a fixed-base tree as URDF text; effectors are links of their names.

    Links are named by their bodies with '_body' behind, so that effectors may have the names of bodies.
    """
    robot = Element("robot", name=tree.name)
    SubElement(robot, "link", name="world_body")
    for body in tree.body_names:
        SubElement(robot, "link", name=f"{body}_body")
    for index, name in enumerate(tree.body_names):
        parent = "world" if tree.parents[index] < 0 else tree.body_names[tree.parents[index]]
        joint = SubElement(robot, "joint", name=name, type=tree.joint_types[index])
        _place(joint, f"{parent}_body", f"{name}_body", tree.translation[index], tree.rotation[index])
        SubElement(joint, "axis", xyz=_text(tree.axis[index]))
        dof = tree.dof_start[index]
        bounds = {"lower": repr(float(tree.lower[dof])), "upper": repr(float(tree.upper[dof]))} if np.isfinite(tree.upper[dof]) else {}
        SubElement(joint, "limit", {**bounds, "effort": "1000", "velocity": "10"})
    for index, name in enumerate(tree.effector_names):
        SubElement(robot, "link", name=name)
        joint = SubElement(robot, "joint", name=f"{name}_fixed", type="fixed")
        body = tree.body_names[tree.effector_bodies[index]]
        _place(joint, f"{body}_body", name, tree.effector_translation[index], tree.effector_rotation[index])
    return tostring(robot, encoding="unicode")


def _place(joint: Element, parent: str, child: str, translation: np.ndarray, rotation: np.ndarray) -> None:
    SubElement(joint, "parent", link=parent)
    SubElement(joint, "child", link=child)
    pitch = np.arctan2(-rotation[2, 0], np.hypot(rotation[0, 0], rotation[1, 0]))
    if abs(np.cos(pitch)) > 1e-9:
        roll, yaw = np.arctan2(rotation[2, 1], rotation[2, 2]), np.arctan2(rotation[1, 0], rotation[0, 0])
    else:  # roll and yaw turn about one axis: roll does it all
        roll, yaw = np.arctan2(-rotation[1, 2], rotation[1, 1]), 0.0
    SubElement(joint, "origin", xyz=_text(translation), rpy=_text(np.array([roll, pitch, yaw])))


def _text(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)
