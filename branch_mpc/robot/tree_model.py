"""A robot as a tree of bodies of any size, with a fixed or a free base: what kinematics and contact response need.

`Articulation` is the robot of the controller: one fixed base, at most twelve joints, one tool, torque limits. A hand, a
quadruped or a humanoid is a `TreeModel`: any number of joints, a free base, several frames to reach with.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from branch_mpc.errors import RobotError
from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.tree_checks import checked_tree

FORMAT = "branch_mpc/tree/1"
_TUPLES = {"body_names", "joint_types", "parents", "effector_names", "effector_bodies"}


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A tree of bodies; joint b moves body b and has 1 degree of freedom, or 6 when it is free.

    Joint frame b sits at `translation[b]`, `rotation[b]` in the frame of its parent body; the body frame coincides with it.
    A configuration q holds one number a joint, and seven for a free one: position [m], then the unit quaternion (x, y, z, w).
    A tangent v has `widths[b]` numbers a body: rad or m along the joint axis; for a free joint (linear, angular), in
    world axes at the origin of the body.
    """

    name: str
    """Name of the robot."""
    body_names: tuple[str, ...]
    """Names of the bodies, parents before children; the order of every array below."""
    joint_types: tuple[str, ...]
    """'free' (only for a body without a parent), 'revolute', 'continuous' or 'prismatic', per body."""
    parents: tuple[int, ...]
    """Parent body, -1 for the world; parents[b] < b."""
    rotation: np.ndarray
    """Joint frame in the parent frame, shape (bodies, 3, 3)."""
    translation: np.ndarray
    """Joint origin in the parent frame [m], shape (bodies, 3)."""
    axis: np.ndarray
    """Unit joint axis in the joint frame, zero for a free joint, shape (bodies, 3)."""
    mass: np.ndarray
    """Body masses [kg], shape (bodies,)."""
    center_of_mass: np.ndarray
    """Centres of mass in the body frame [m], shape (bodies, 3)."""
    inertia: np.ndarray
    """Inertias about the centre of mass, body axes [kg m^2], shape (bodies, 3, 3)."""
    lower: np.ndarray
    """Lower joint positions [rad | m], shape (dof,); -inf where there is none."""
    upper: np.ndarray
    """Upper joint positions [rad | m], shape (dof,); inf where there is none."""
    nominal: np.ndarray
    """A configuration inside the limits to start from, shape (coordinates,)."""
    effector_names: tuple[str, ...]
    """Frames that the robot reaches or stands with."""
    effector_bodies: tuple[int, ...]
    """Body that carries each effector."""
    effector_rotation: np.ndarray
    """Effector frames in their body frames, shape (effectors, 3, 3)."""
    effector_translation: np.ndarray
    """Effector origins in their body frames [m], shape (effectors, 3)."""

    @property
    def bodies(self) -> int:
        """Number of bodies."""
        return len(self.body_names)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Degrees of freedom per body: 1, or 6 for a free joint."""
        return tuple(6 if kind == "free" else 1 for kind in self.joint_types)

    @cached_property
    def dof_start(self) -> np.ndarray:
        """First tangent index of each body, shape (bodies,) int32."""
        return np.concatenate([[0], np.cumsum(self.widths)[:-1]]).astype(np.int32)

    @cached_property
    def coordinate_start(self) -> np.ndarray:
        """First configuration index of each body, shape (bodies,) int32."""
        sizes = [7 if kind == "free" else 1 for kind in self.joint_types]
        return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)

    @property
    def dof(self) -> int:
        """Number of tangent coordinates."""
        return sum(self.widths)

    @property
    def coordinates(self) -> int:
        """Number of configuration coordinates."""
        return self.dof + self.joint_types.count("free")

    @cached_property
    def depth(self) -> int:
        """Bodies on the longest path from the world."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else 1 + depths[parent])
        return max(depths)

    def to_json(self) -> str:
        """Return the model as JSON text; floats keep every bit, limits without a value are null."""
        values = {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return json.dumps({"format": FORMAT, **values})

    @classmethod
    def from_json(cls, text: str) -> "TreeModel":
        """Rebuild a model from `to_json`.

        Raises:
            RobotError: The text is not a model of this format, or not one that can be used.
        """
        try:
            values: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise RobotError(f"tree model is not JSON ({error})", "write it with TreeModel.to_json") from error
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT or set(values) != names:
            raise RobotError("JSON text is not a tree model", f"write it with TreeModel.to_json (format {FORMAT})")
        fields: dict[str, Any] = {
            name: value if name == "name" else tuple(value) if name in _TUPLES else np.array(value, dtype=float)
            for name, value in values.items()
        }
        fields["lower"], fields["upper"] = (np.where(_absent(values[key]), sign, fields[key]) for key, sign in _INFINITE.items())
        return checked_tree(cls(**fields))

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file."""
        Path(path).write_text(self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "TreeModel":
        """Read a model from a JSON file.

        Raises:
            RobotError: The file is missing or holds no usable model.
        """
        path = Path(path)
        if not path.is_file():
            raise RobotError(f"tree model file '{path}' does not exist", "write it with TreeModel.save")
        return cls.from_json(path.read_text())

    @cached_property
    def fingerprint(self) -> str:
        """Content hash, equal for equal robots."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]


def _absent(limits: Any) -> list[bool]:
    """Which entries of a list of limits from JSON are null."""
    return [limit is None for limit in limits]


_INFINITE = {"lower": -np.inf, "upper": np.inf}


def tree_of_articulation(robot: Articulation, nominal: np.ndarray | None = None) -> TreeModel:
    """Return the tree of a robot of the controller; its one effector is the tool.

    Args:
        robot: The robot.
        nominal: Configuration to start from [rad | m], shape (n,); default the one nearest zero inside the limits.
    """
    start = np.clip(np.zeros(robot.dof), robot.position_lower, robot.position_upper) if nominal is None else np.array(nominal, dtype=float)
    tree = TreeModel(
        name=robot.name,
        body_names=robot.joint_names,
        joint_types=robot.joint_types,
        parents=robot.parents,
        rotation=robot.rotation,
        translation=robot.translation,
        axis=robot.axis,
        mass=robot.mass,
        center_of_mass=robot.center_of_mass,
        inertia=robot.inertia,
        lower=robot.position_lower,
        upper=robot.position_upper,
        nominal=start,
        effector_names=(robot.tool_name,),
        effector_bodies=(robot.tool_link,),
        effector_rotation=robot.tool_rotation[None],
        effector_translation=robot.tool_translation[None],
    )
    return checked_tree(tree)


def _plain(value: Any) -> Any:
    """A field for JSON: lists for arrays, None for a limit that is not there."""
    if not isinstance(value, np.ndarray):
        return value
    return [None if np.isinf(entry) else entry for entry in value.tolist()] if value.ndim == 1 else value.tolist()
