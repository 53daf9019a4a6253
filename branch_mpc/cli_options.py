"""Options that several commands share, and the settings made from them."""

import argparse
from typing import Any

import yaml

from branch_mpc.errors import SettingError
from branch_mpc.robot import robot_names
from branch_mpc.ros.settings import NodeSettings, PlantSettings, parameters, with_values
from branch_mpc.settings import load_yaml

FLAGS = {
    "robot": "robot",
    "tool": "tool",
    "device": "device",
    "formulation": "formulation",
    "seed": "hypotheses.seed",
    "knots": "knots",
    "batch": "batch",
    "iterations": "iterations",
    "period": "reference.period",
    "approach": "reference.approach",
}
"""Options that are parameters, with the parameter's name."""


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


def settings_of(options: argparse.Namespace) -> tuple[NodeSettings, PlantSettings]:
    """Return the settings of a command: the file's, then those of --set, then the options'.

    Names are those of the nodes' ROS parameters, whether a node will run or not.

    Raises:
        SettingError: A parameter that does not exist, a value of the wrong type or out of range, a missing file.
    """
    values = dict(load_yaml(options.config)) if options.config else {}
    values |= dict(assignment(text) for text in options.settings)
    given = {name: getattr(options, option, None) for option, name in FLAGS.items()}
    values |= {name: value for name, value in given.items() if value is not None}
    ours, plants = set(parameters(NodeSettings())), set(parameters(PlantSettings()))
    return with_values(NodeSettings(robot="indy7"), values, plants), with_values(PlantSettings(), values, ours)


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


def number(value: Any) -> Any:
    """Return a text such as 2e-6 as a float: YAML 1.1 wants 2.0e-6."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
