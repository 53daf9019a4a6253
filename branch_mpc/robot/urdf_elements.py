"""One `<link>` and one `<joint>` of a URDF, as numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from branch_mpc.errors import RobotError
from branch_mpc.robot.checks import JOINT_TYPES
from branch_mpc.robot.urdf_text import number, vector

_ZERO = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class UrdfLink:
    """Mass properties of a link; mass 0 for a link that is only a frame."""

    name: str
    mass: float
    """Mass [kg]."""
    center_of_mass: np.ndarray
    """Centre of mass in the link frame [m], shape (3,)."""
    inertia_rpy: np.ndarray
    """Roll, pitch, yaw of the inertia axes in the link frame [rad], shape (3,)."""
    inertia: np.ndarray
    """Inertia about the centre of mass in its own axes [kg m^2], shape (3, 3)."""


@dataclass(frozen=True, eq=False)
class UrdfJoint:
    """Placement, axis and limits of a joint."""

    name: str
    kind: str
    """'fixed', 'revolute', 'continuous' or 'prismatic'."""
    parent: str
    child: str
    xyz: np.ndarray
    """Origin in the parent link frame [m], shape (3,)."""
    rpy: np.ndarray
    """Roll, pitch, yaw in the parent link frame [rad], shape (3,)."""
    axis: np.ndarray
    """Unit axis in the joint frame, shape (3,)."""
    lower: float = -np.inf
    """Lowest position [rad | m]."""
    upper: float = np.inf
    """Highest position [rad | m]."""
    velocity: float = np.inf
    """Largest speed [rad/s | m/s]."""
    effort: float = np.inf
    """Largest torque or force [Nm | N]."""
    locked: float | None = None
    """Where the joint is held [rad | m], None when it moves."""

    @property
    def moves(self) -> bool:
        """True when the joint is a degree of freedom."""
        return self.kind != "fixed" and self.locked is None


def read_link(element: Element, source: str) -> UrdfLink:
    """Read a `<link>`.

    Raises:
        RobotError: It has no name, or an `<inertial>` that is not the inertia of a body.
    """
    name = _name(element, "link", source)
    where = f"{source}: link '{name}'"
    inertial = element.find("inertial")
    if inertial is None:
        return UrdfLink(name, 0.0, np.zeros(3), np.zeros(3), np.zeros((3, 3)))
    mass_element, inertia_element = inertial.find("mass"), inertial.find("inertia")
    if mass_element is None:
        raise RobotError(f"{where} has <inertial> without <mass>", 'add <mass value="..."/> in kg')
    if inertia_element is None:
        raise RobotError(f"{where} has a mass but no <inertia>", 'add <inertia ixx="..." .../> about the centre of mass, in kg m^2')
    mass = number(mass_element.attrib, "value", f"{where}: <mass>")
    i = {key: number(inertia_element.attrib, key, f"{where}: <inertia>") for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
    inertia = np.array([[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]])
    origin = inertial.find("origin")
    com, rpy = (vector(origin, key, _ZERO, f"{where}: <inertial>") for key in ("xyz", "rpy"))
    if mass < 0 or (mass == 0 and inertia.any()):
        raise RobotError(f"{where} has mass {mass:g} kg", "give it a positive mass, or no <inertial> if it is only a frame")
    return UrdfLink(name, mass, com, rpy, inertia)


def read_joint(element: Element, source: str, overrides: Mapping[str, Mapping[str, float]]) -> UrdfJoint:
    """Read a `<joint>`.

    Args:
        element: The `<joint>` element.
        source: What to call the file in messages.
        overrides: By joint name, limits that replace those of the element, or where the joint is locked.

    Raises:
        RobotError: It has no name, parent, child or limits, a zero axis, more than one degree of freedom, or mimics another.
    """
    name = _name(element, "joint", source)
    where = f"{source}: joint '{name}'"
    kind = element.get("type", "")
    if kind not in (*JOINT_TYPES, "fixed"):
        remedy = f"use fixed, {', '.join(JOINT_TYPES)}; write a joint with several axes as a chain of single ones"
        raise RobotError(f"{where} is of type '{kind}'" if kind else f"{where} has no type", remedy)
    ends = {key: _linked(element, key, where) for key in ("parent", "child")}
    origin = element.find("origin")
    xyz, rpy = (vector(origin, key, _ZERO, f"{where}: <origin>") for key in ("xyz", "rpy"))
    if kind == "fixed":
        return UrdfJoint(name, kind, ends["parent"], ends["child"], xyz, rpy, np.zeros(3))
    axis = vector(element.find("axis"), "xyz", (1.0, 0.0, 0.0), f"{where}: <axis>")
    if not np.linalg.norm(axis) > 1e-6:
        raise RobotError(f"{where} has a zero axis", 'give <axis xyz="0 0 1"/> or another unit vector')
    axis, override = axis / np.linalg.norm(axis), overrides.get(name, {})
    if "locked" in override:
        locked = number(override, "locked", f"{where}: the override")
        return UrdfJoint(name, kind, ends["parent"], ends["child"], xyz, rpy, axis, locked=locked)
    mimic = element.find("mimic")
    if mimic is not None:
        raise RobotError(
            f"{where} mimics joint '{mimic.get('joint')}' and is not moved by a motor of its own",
            f'lock it with overrides={{"{name}": {{"locked": 0.0}}}}, set it to type="fixed", or remove <mimic> if it has a motor',
        )
    limits = _limits(element, kind, where, name, override)
    return UrdfJoint(name, kind, ends["parent"], ends["child"], xyz, rpy, axis, **limits)


def _limits(element: Element, kind: str, where: str, name: str, overrides: Mapping[str, float]) -> dict[str, float]:
    limit = element.find("limit")
    given: dict[str, object] = {**(limit.attrib if limit is not None else {}), **overrides}
    wanted = ("velocity", "effort") if kind == "continuous" else ("lower", "upper", "velocity", "effort")
    if extra := [key for key in overrides if key not in wanted]:
        raise RobotError(f"{where} is continuous, override '{extra[0]}' has no meaning", "override velocity and effort only")
    values: dict[str, float] = {}
    for key in wanted:
        remedy = f'add {key}="..." to its <limit>, or load the robot with overrides={{"{name}": {{"{key}": ...}}}}'
        if key not in given:
            raise RobotError(f"{where} has no {key} limit", remedy)
        values[key] = number(given, key, f"{where}: <limit>")
        if key in ("velocity", "effort") and values[key] <= 0:
            raise RobotError(f"{where} has {key} limit {values[key]:g}", remedy.replace("add", "set").replace(" to its", " in its"))
    if kind != "continuous" and values["lower"] >= values["upper"]:
        raise RobotError(f"{where} has lower limit {values['lower']:g} and upper limit {values['upper']:g}", "give lower < upper")
    return values


def _name(element: Element, what: str, source: str) -> str:
    name = element.get("name", "").strip()
    if not name:
        raise RobotError(f"{source}: a <{what}> has no name", f'give every <{what}> a name="..."')
    return name


def _linked(element: Element, key: str, where: str) -> str:
    end = element.find(key)
    link = "" if end is None else end.get("link", "")
    if not link:
        raise RobotError(f"{where} has no {key} link", f'add <{key} link="..."/>')
    return link
