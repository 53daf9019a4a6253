"""The part of a URDF that dynamics needs, read without guessing: what is missing is an error, not a default.

URDF parsers fill in what a file does not say (no `<limit>`: zero effort; no `<inertial>`: no mass) and drop what they
do not know (`<mimic>`). A torque controller must not run on such numbers, so they are found here, before Pinocchio.
Visuals, collisions, meshes, transmissions and simulator tags are never looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from branch_mpc.errors import RobotError
from branch_mpc.robot.checks import JOINT_TYPES, inertia_fault
from branch_mpc.robot.urdf_elements import UrdfJoint, UrdfLink, read_joint, read_link
from branch_mpc.robot.urdf_text import urdf_root

LIMITS = ("lower", "upper", "velocity", "effort")
OVERRIDES = (*LIMITS, "locked")


@dataclass(frozen=True)
class UrdfTree:
    """Links and joints of one URDF, checked to be a tree."""

    source: str
    """What to call the file in messages."""
    name: str
    """Name of the robot."""
    base: str
    """The link that is no joint's child."""
    links: dict[str, UrdfLink]
    """Links by name."""
    joints: dict[str, UrdfJoint]
    """Joints by name, in the order of the file."""

    @property
    def moving_joints(self) -> list[UrdfJoint]:
        """Joints that are neither fixed nor locked."""
        return [joint for joint in self.joints.values() if joint.moves]

    def joint_above(self, link: str) -> UrdfJoint | None:
        """Return the joint whose child is `link`, None for the base."""
        return next((joint for joint in self.joints.values() if joint.child == link), None)

    def carrier(self, link: str) -> str | None:
        """Return the moving joint that carries `link`, None when it is fixed to the base."""
        joint = self.joint_above(link)
        while joint is not None and not joint.moves:
            joint = self.joint_above(joint.parent)
        return joint.name if joint else None

    def to_xml(self) -> str:
        """Return a URDF of the dynamics alone; continuous joints become revolute, so that each is one number."""
        robot = Element("robot", name=self.name)
        for link in self.links.values():
            _write_link(SubElement(robot, "link", name=link.name), link)
        for joint in self.joints.values():
            _write_joint(SubElement(robot, "joint", name=joint.name, type=_pinocchio_kind(joint)), joint)
        return tostring(robot, encoding="unicode")


def read_tree(source: str | Path, overrides: Mapping[str, Mapping[str, float]] | None = None) -> UrdfTree:
    """Read and check a URDF.

    Args:
        source: URDF text or the path of a URDF file.
        overrides: By joint name, limits that replace those of the file (lower, upper, velocity, effort) or the position at
            which the joint is locked (locked).

    Raises:
        RobotError: Anything that would have to be guessed or cannot be controlled; it names the joint or link.
    """
    label, root = urdf_root(source)
    links = _by_name([read_link(element, label) for element in root.findall("link")], "links", label)
    elements = root.findall("joint")
    check_overrides(overrides or {}, [element.get("name", "") for element in elements if element.get("type") != "fixed"], label)
    joints = _by_name([read_joint(element, label, overrides or {}) for element in elements], "joints", label)
    base = _base(links, joints, label)
    tree = UrdfTree(label, root.get("name") or "robot", base, links, joints)
    _check_bodies(tree)
    return tree


def check_overrides(overrides: Mapping[str, Any], joints: list[str], source: str, keys: tuple[str, ...] = OVERRIDES) -> None:
    """Raise unless every override names a joint of the robot and something that can be overridden.

    Args:
        overrides: Values by key by joint name.
        joints: Names of the joints that can move.
        source: What to call the robot in messages.
        keys: What can be overridden.

    Raises:
        RobotError: Unknown joint (with the known ones) or unknown key.
    """
    for joint, limits in overrides.items():
        if joint not in joints:
            raise RobotError(f"{source}: override of unknown joint '{joint}'", f"known joints: {', '.join(joints)}")
        unknown = [str(key) for key in limits if key not in keys] if isinstance(limits, Mapping) else [repr(limits)]
        if unknown:
            raise RobotError(f"{source}: override of joint '{joint}' sets {', '.join(unknown)}", f"set some of {', '.join(keys)}")


def _by_name(items: list[Any], what: str, source: str) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for item in items:
        if item.name in table:
            raise RobotError(f"{source}: two {what} are named '{item.name}'", "give each its own name")
        table[item.name] = item
    return table


def _base(links: dict[str, UrdfLink], joints: dict[str, UrdfJoint], source: str) -> str:
    """Return the root link; raise unless the joints make one tree of all links."""
    parent_of: dict[str, UrdfJoint] = {}
    for joint in joints.values():
        for link in (joint.parent, joint.child):
            if link not in links:
                raise RobotError(f"{source}: joint '{joint.name}' joins unknown link '{link}'", f"known links: {', '.join(links)}")
        if other := parent_of.get(joint.child):
            raise RobotError(
                f"{source}: link '{joint.child}' has two parents, joints '{other.name}' and '{joint.name}'",
                "a fixed-base tree is supported: cut the loop",
            )
        parent_of[joint.child] = joint
    roots = [link for link in links if link not in parent_of]
    if len(roots) > 1:
        raise RobotError(f"{source}: several links have no parent: {', '.join(roots)}", "join them to one base link")
    reached = set(roots)
    while new := {joint.child for joint in joints.values() if joint.parent in reached} - reached:
        reached |= new
    if loop := [link for link in links if link not in reached]:
        raise RobotError(f"{source}: links {', '.join(loop)} form a loop", "a fixed-base tree is supported: cut the loop")
    if not roots:
        raise RobotError(f"{source}: it has no links", "give a URDF with links and joints")
    return roots[0]


def _check_bodies(tree: UrdfTree) -> None:
    """Every moving joint must move some mass (its child link or one fixed to it), and its own link must be a body.

    Links fixed to the base or to another link may have sloppy inertias, as covers and sensors do in published files:
    what counts is the lumped body, which `checked_articulation` looks at.
    """
    for joint in tree.moving_joints:
        link = tree.links[joint.child]
        if link.mass > 0 and (fault := inertia_fault(link.inertia, definite=False)):
            remedy = "give its inertia about its centre of mass, in kg m^2"
            raise RobotError(f"{tree.source}: link '{link.name}' has an {fault}", remedy)
    heavy = {tree.carrier(link.name) for link in tree.links.values() if link.mass > 0}
    massless = [joint.child for joint in tree.moving_joints if joint.name not in heavy]
    if massless:
        names = ", ".join(f"'{link}'" for link in massless)
        raise RobotError(
            f"{tree.source}: no mass or inertia for moving link{'s' if len(massless) > 1 else ''} {names}",
            'add <inertial> with <mass> and <inertia> (or set its joint to type="fixed")',
        )


def _pinocchio_kind(joint: UrdfJoint) -> str:
    return "revolute" if joint.kind == "continuous" else joint.kind


def _write_link(element: Element, link: UrdfLink) -> None:
    if link.mass == 0:
        return
    inertial = SubElement(element, "inertial")
    SubElement(inertial, "origin", xyz=_text(link.center_of_mass), rpy=_text(link.inertia_rpy))
    SubElement(inertial, "mass", value=repr(link.mass))
    entries = {f"i{a}{b}": repr(float(link.inertia["xyz".index(a), "xyz".index(b)])) for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")}
    SubElement(inertial, "inertia", entries)


def _write_joint(element: Element, joint: UrdfJoint) -> None:
    SubElement(element, "parent", link=joint.parent)
    SubElement(element, "child", link=joint.child)
    SubElement(element, "origin", xyz=_text(joint.xyz), rpy=_text(joint.rpy))
    if joint.kind in JOINT_TYPES:
        SubElement(element, "axis", xyz=_text(joint.axis))
        # Pinocchio's own limits are not read back; a pair that any parser accepts is enough.
        SubElement(element, "limit", lower="-1", upper="1", velocity="1", effort="1")


def _text(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)
