"""The robot as data: a fixed-base tree of revolute and prismatic joints with one tool frame."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from branch_mpc.errors import RobotError

FORMAT = "branch_mpc/articulation/1"


@dataclass(frozen=True, eq=False)
class Articulation:
    """A fixed-base tree of n joints, one degree of freedom each; joint i moves link i.

    Joint frame i sits at `translation[i]`, `rotation[i]` in the frame of its parent link (at zero joint
    position); the link frame coincides with the joint frame. The base frame is the world frame.
    """

    name: str
    """Name of the robot."""
    joint_names: tuple[str, ...]
    """Names of the joints, in the order of every array below."""
    joint_types: tuple[str, ...]
    """'revolute', 'continuous' or 'prismatic', per joint."""
    parents: tuple[int, ...]
    """Index of the parent link, -1 for the base; parents[i] < i."""
    rotation: np.ndarray
    """Joint frame in the parent link frame, shape (n, 3, 3)."""
    translation: np.ndarray
    """Joint origin in the parent link frame [m], shape (n, 3)."""
    axis: np.ndarray
    """Unit joint axis in the joint frame, shape (n, 3)."""
    mass: np.ndarray
    """Link masses [kg], shape (n,)."""
    center_of_mass: np.ndarray
    """Link centres of mass in the link frame [m], shape (n, 3)."""
    inertia: np.ndarray
    """Link inertias about the centre of mass, link axes [kg m^2], shape (n, 3, 3)."""
    position_lower: np.ndarray
    """Lower joint positions [rad | m], shape (n,); -inf for continuous joints."""
    position_upper: np.ndarray
    """Upper joint positions [rad | m], shape (n,); inf for continuous joints."""
    velocity_limit: np.ndarray
    """Largest joint speeds [rad/s | m/s], shape (n,)."""
    effort_limit: np.ndarray
    """Largest joint torques or forces [Nm | N], shape (n,)."""
    tool_name: str
    """Name of the tool (end-effector) frame."""
    tool_link: int
    """Index of the link that carries the tool frame."""
    tool_rotation: np.ndarray
    """Tool frame in the frame of its link, shape (3, 3)."""
    tool_translation: np.ndarray
    """Tool origin in the frame of its link [m], shape (3,)."""
    base_name: str = "base_link"
    """Name of the fixed base link."""
    gravity: np.ndarray = dataclasses.field(default_factory=lambda: np.array([0.0, 0.0, -9.81]))
    """Gravitational acceleration in the base frame [m/s^2], shape (3,)."""

    @property
    def dof(self) -> int:
        """Number of joints n."""
        return len(self.joint_names)

    def to_json(self) -> str:
        """Return the articulation as JSON text; floats keep every bit."""
        values = {
            field.name: value.tolist() if isinstance(value := getattr(self, field.name), np.ndarray) else value
            for field in dataclasses.fields(self)
        }
        return json.dumps({"format": FORMAT, **values}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Articulation":
        """Rebuild an articulation from `to_json`.

        Raises:
            RobotError: The text is not an articulation of this format.
        """
        try:
            values: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise RobotError(f"articulation is not JSON ({error})", "write it with Articulation.to_json") from error
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT or set(values) != names:
            raise RobotError("JSON text is not an articulation", f"write it with Articulation.to_json (format {FORMAT})")
        tuples = {"joint_names", "joint_types", "parents"}
        arrays = {field.name for field in dataclasses.fields(cls) if field.type is np.ndarray}
        fields: dict[str, Any] = {
            name: tuple(value) if name in tuples else np.array(value, dtype=float) if name in arrays else value
            for name, value in values.items()
        }
        return cls(**fields)

    def save(self, path: str | Path) -> None:
        """Write the articulation to a JSON file."""
        Path(path).write_text(self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Articulation":
        """Read an articulation from a JSON file.

        Raises:
            RobotError: The file is missing or holds no articulation.
        """
        path = Path(path)
        if not path.is_file():
            raise RobotError(f"articulation file '{path}' does not exist", "write it with Articulation.save")
        return cls.from_json(path.read_text())

    @property
    def fingerprint(self) -> str:
        """Content hash, equal for equal robots."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]
