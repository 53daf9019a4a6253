"""Options that several commands share, and the settings made from them."""

import argparse
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from branch_mpc.errors import SettingError
from branch_mpc.guard import GuardSettings
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.robot.library import robot_names
from branch_mpc.settings import flatten, load_yaml, param, replace

FLAGS = {"robot": "robot", "tool": "tool", "device": "device", "formulation": "formulation", "seed": "hypotheses.seed"}
COUNTS = {"knots": "knots", "batch": "batch", "iterations": "iterations"}


@dataclass(frozen=True)
class RunSettings:
    """The parameters of a configuration file that a command without ROS needs."""

    robot: str = param("indy7", doc="robot: indy7, iiwa14 or the path of a .urdf or .json file")
    tool: str = param("", doc="link of the tool; empty: the only leaf of the robot")
    rate: float = param(100.0, low=1.0, high=2000.0, unit="Hz", doc="control ticks a second")
    mpc: MpcSettings = field(default_factory=MpcSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a robot and its settings."""
    group = parser.add_argument_group("robot and controller")
    group.add_argument("--robot", metavar="NAME|FILE", help=f"{', '.join(robot_names())}, or a .urdf or .json file (default indy7)")
    group.add_argument("--tool", metavar="LINK", help="link of the tool frame (default: the robot's only leaf)")
    group.add_argument("--knots", type=int, metavar="N", help="knots in the horizon (default 32)")
    group.add_argument("--device", metavar="DEVICE", help="cpu, cuda:0, or auto: the first CUDA device if there is one (default auto)")
    group.add_argument("--formulation", metavar="FORM", help="form of the optimal control problem (default acceleration)")
    group.add_argument("--iterations", type=int, metavar="K", help="SQP iterations a tick (default 1)")
    group.add_argument("--seed", type=int, help="seed of the disturbance hypotheses (default 0)")
    group.add_argument("--config", metavar="FILE", help="ROS 2 parameter file, such as config/gato_weights.yaml")
    group.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other parameter, such as weights.tool_position=50",
    )


def settings_of(options: argparse.Namespace) -> RunSettings:
    """Return the settings of a command: the file's, then those of --set, then the options'.

    Raises:
        SettingError: A parameter that does not exist, a value of the wrong type or out of range, a missing file.
    """
    values = dict(load_yaml(options.config)) if options.config else {}
    values |= dict(assignment(text) for text in options.settings)
    given = {name: getattr(options, option, None) for option, name in {**FLAGS, **COUNTS}.items()}
    values |= {name: value for name, value in given.items() if value is not None}
    return run_settings(values)


def assignment(text: str) -> tuple[str, Any]:
    """Return (name, value) of a text NAME=VALUE; the value is read as YAML.

    Raises:
        SettingError: No name, or a value that is not YAML.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError(f"--set '{text}' assigns nothing", "write it as NAME=VALUE, for example weights.torque=1.0e-5")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise SettingError(f"--set '{text}' has a value that cannot be read", "write it as in YAML") from error
    return name.strip(), number(parsed)


def node_only() -> frozenset[str]:
    """Return the names of the parameters that only the ROS nodes have."""
    return frozenset()


def number(value: Any) -> Any:
    """Return a text such as 2e-6 as a float: YAML 1.1 wants 2.0e-6."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def run_settings(values: Mapping[str, Any]) -> RunSettings:
    """Return settings with the parameters in `values`, named as in a parameter file of the node.

    Parameters that only the ROS nodes have (topics, sinks) are checked by name and left alone.

    Raises:
        SettingError: A parameter that does not exist, a value of the wrong type or out of range.
    """
    own = {name: name.removeprefix("mpc.") for name, _, _ in flatten(RunSettings())}
    inner = {public: name for name, public in own.items()}
    for name in values:
        if name not in inner and name not in node_only():
            raise SettingError(f"parameter '{name}' does not exist", nearest(name, [*inner, *node_only()]))
    try:
        return replace(RunSettings(), {inner[name]: value for name, value in values.items() if name in inner})
    except SettingError as error:
        raise SettingError(error.problem.replace("'mpc.", "'"), error.remedy) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the parameter that was meant."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean '{near[0]}'?" if near else f"known parameters: {', '.join(known)}"
