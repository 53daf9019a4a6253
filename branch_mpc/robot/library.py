"""Robots by name or by file."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from branch_mpc.errors import RobotError
from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.checks import checked_articulation
from branch_mpc.robot.from_urdf import articulation_from_urdf
from branch_mpc.robot.urdf_tree import LIMITS, check_overrides

_URDF_FOLDER = Path(__file__).parent / "urdf"
# Start configurations [rad]: those of GATO, so that runs can be compared.
_READY = {
    "indy7": (-1.096711, -0.09903229, 0.83125766, -0.10907673, 0.49704404, 0.01499449),
    "iiwa14": (0.0, 0.3, 0.0, -1.6, 0.0, 1.2, 0.0),
}
_FIELDS = {"lower": "position_lower", "upper": "position_upper", "velocity": "velocity_limit", "effort": "effort_limit"}


def robot_names() -> tuple[str, ...]:
    """Return the names of the robots that ship with the package."""
    return tuple(_READY)


def robot_urdf(name: str) -> Path:
    """Return the URDF file of a robot that ships with the package.

    Raises:
        RobotError: Unknown robot; the message lists the known ones.
    """
    _check_name(name)
    return _URDF_FOLDER / f"{name}.urdf"


def ready_configuration(name: str) -> np.ndarray:
    """Return the start configuration of a robot that ships with the package [rad], shape (n,).

    Raises:
        RobotError: Unknown robot; the message lists the known ones.
    """
    _check_name(name)
    return np.array(_READY[name])


def load_robot(
    name_or_path: str | Path, tool: str | None = None, overrides: Mapping[str, Mapping[str, float]] | None = None
) -> Articulation:
    """Load a robot by name, from a URDF file or from a JSON file written by `Articulation.save`.

    Args:
        name_or_path: "indy7", "iiwa14", or a path that ends in .urdf, .xml or .json.
        tool: Link that names the tool frame; default the only moving leaf link. A JSON file holds one tool.
        overrides: By joint name, limits that replace those of the file, `{"joint3": {"effort": 50.0, "velocity": 2.0}}`
            (keys lower, upper [rad | m], velocity [rad/s | m/s], effort [Nm | N]), or `{"finger": {"locked": 0.02}}` for a
            joint of a URDF that is held at a position [rad | m] and is no degree of freedom.

    Raises:
        RobotError: Unknown robot, missing file, or a robot that cannot be used; the message names what and the remedy.
    """
    text = str(name_or_path)
    if text in _READY:
        return articulation_from_urdf(robot_urdf(text), tool, overrides=overrides)
    path = Path(name_or_path)
    if path.suffix not in (".urdf", ".xml", ".json", ".xacro") and not path.is_file():
        raise RobotError(f"robot '{text}' is unknown", f"use one of {', '.join(_READY)} or the path of a .urdf or .json file")
    if not path.is_file():
        raise RobotError(f"robot file '{path}' does not exist", f"give the path of a file that exists, or one of {', '.join(_READY)}")
    if path.suffix == ".json":
        return _from_json(path, tool, overrides or {})
    return articulation_from_urdf(path, tool, overrides=overrides)


def _from_json(path: Path, tool: str | None, overrides: Mapping[str, Mapping[str, float]]) -> Articulation:
    try:
        robot = Articulation.load(path)
    except RobotError as error:
        raise RobotError(f"'{path}': {error.problem}", error.remedy) from error
    except (OSError, TypeError, ValueError) as error:
        raise RobotError(f"'{path}': it holds no articulation ({error})", "write it with Articulation.save") from error
    if tool not in (None, robot.tool_name):
        raise RobotError(f"'{path}': tool '{tool}' is unknown", f"use '{robot.tool_name}', or load the URDF to choose another tool")
    check_overrides(overrides, list(robot.joint_names), f"'{path}'", LIMITS)
    limits: dict[str, Any] = {field: np.array(getattr(robot, field), dtype=float) for field in _FIELDS.values()}
    for joint, values in overrides.items():
        for key, value in values.items():
            limits[_FIELDS[key]][robot.joint_names.index(joint)] = value
    return checked_articulation(dataclasses.replace(robot, **limits), f"'{path}'")


def _check_name(name: str) -> None:
    if name not in _READY:
        raise RobotError(f"robot '{name}' is unknown", f"known robots: {', '.join(_READY)}")
