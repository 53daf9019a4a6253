"""The files of config/ are what both ROS 2 and the command line read."""

from pathlib import Path
from typing import Any

import pytest

from branch_mpc.ros.settings import NodeSettings, PlantSettings, parameters, with_values
from branch_mpc.settings import load_yaml

NAMES = ("gato_weights", "iiwa14", "indy7")


@pytest.fixture(params=NAMES)
def values(request: pytest.FixtureRequest, root: Path) -> dict[str, Any]:
    """Dotted names and values of one parameter file."""
    return load_yaml(root / "config" / f"{request.param}.yaml")


def test_every_file_is_tested(root: Path) -> None:
    """The list above holds every file of config/."""
    assert sorted(path.stem for path in (root / "config").iterdir()) == sorted(NAMES)


def test_parameters_exist_and_are_in_range(values: dict[str, Any]) -> None:
    """Every parameter is one of mpc_node's or of plant_node's, within its range in both."""
    with_values(NodeSettings(), values, foreign=parameters(PlantSettings()))
    with_values(PlantSettings(), values, foreign=parameters(NodeSettings()))


def test_types_are_the_ones_ros_wants(values: dict[str, Any]) -> None:
    """ROS refuses 1 for a float parameter, and PyYAML reads 2e-6 as text: both files and settings hold one type."""
    types = {name: type(value) for name, (value, _) in (parameters(PlantSettings()) | parameters(NodeSettings())).items()}
    assert {name: type(value) for name, value in values.items()} == {name: types[name] for name in values}


@pytest.mark.parametrize(
    ("name", "robot", "running", "terminal"),
    [("indy7", "indy7", 200, 200), ("iiwa14", "iiwa14", 200, 200), ("gato_weights", "indy7", 2, 50)],
)
def test_weights_are_the_measured_ones(root: Path, name: str, robot: str, running: float, terminal: float) -> None:
    """200 tracks to 0.3 mm, GATO's 2 and 50 to 15 mm; all else is GATO's in every file."""
    values = load_yaml(root / "config" / f"{name}.yaml")
    assert values["robot"] == robot and values["rate"] == 100.0
    assert (values["weights.tool_position"], values["weights.tool_position_terminal"]) == (running, terminal)
    others = {"weights.velocity": 0.01, "weights.torque": 2e-6, "weights.position_barrier": 0.01, "knots": 32, "step": 0.01}
    assert {key: values[key] for key in others} == others


@pytest.mark.ros
@pytest.mark.parametrize("name", NAMES)
def test_ros_reads_the_same_values(root: Path, name: str) -> None:
    """rcl's parser and load_yaml agree on every name, type and value, for a node of any name."""
    import rclpy

    path = root / "config" / f"{name}.yaml"
    rclpy.init(args=["--ros-args", "--params-file", str(path)])
    try:
        node = rclpy.create_node("anybody", automatically_declare_parameters_from_overrides=True)
        read = {key: node.get_parameter(key).value for key in load_yaml(path)}
        node.destroy_node()
    finally:
        rclpy.shutdown()
    assert read == load_yaml(path)
    assert {key: type(value) for key, value in read.items()} == {key: type(value) for key, value in load_yaml(path).items()}
