"""Names, ranges and files of the nodes' parameters, without ROS."""

import dataclasses

import pytest

from branch_mpc.errors import SettingError
from branch_mpc.ros.settings import NodeSettings, PlantSettings, parameters, with_values
from branch_mpc.settings import flatten, load_yaml


def test_the_controllers_parameters_have_plain_names():
    """`knots`, `weights.tool_position`, `guard.state_timeout`: no prefix for the controller, and no name twice."""
    names = parameters(NodeSettings())
    assert {"knots", "weights.tool_position", "guard.state_timeout", "reference.period", "rate"} <= set(names)
    assert len(names) == len(list(flatten(NodeSettings())))


@pytest.mark.parametrize("settings", [NodeSettings(), PlantSettings()])
def test_every_default_is_in_its_range_and_explained(settings):
    """Every default passes its own check, and every parameter says what it means."""
    assert with_values(settings, {name: value for name, (value, _) in parameters(settings).items()}) == settings
    assert all(field.metadata["doc"] for _, field in parameters(settings).values())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"knotz": 8}, ("'knotz'", "'knots'")),
        ({"weights.tool_posittion": 1.0}, ("'weights.tool_posittion'", "'weights.tool_position'")),
        ({"guard.state_timeuot": 1.0}, ("'guard.state_timeout'",)),
        ({"knots": 1}, ("'knots' is 1", "[2, 512]")),
        ({"knots": 8.5}, ("'knots'", "int")),
        ({"rate": 5000.0}, ("'rate' is 5000", "[1, 1000]")),
        ({"sink": "efort"}, ("'sink'", "effort, trajectory")),
        ({"guard.torque_rate": float("nan")}, ("'guard.torque_rate'",)),
    ],
)
def test_wrong_parameters_are_one_clear_line(values, words):
    """The message names the parameter as the user wrote it, and the remedy; `mpc.` never shows."""
    with pytest.raises(SettingError) as caught:
        with_values(NodeSettings(), values)
    text = str(caught.value)
    assert all(word in text for word in words) and "\n" not in text and "mpc." not in text


def test_a_file_for_every_node_may_hold_the_other_nodes_parameters():
    """Names of the other node are passed over, misspelt ones are not."""
    assert with_values(PlantSettings(), {"knots": 8, "rate": 50}, parameters(NodeSettings())).rate == 50.0
    with pytest.raises(SettingError, match="knotz"):
        with_values(PlantSettings(), {"knotz": 8}, parameters(NodeSettings()))


@pytest.mark.parametrize("name", ["indy7", "iiwa14", "gato_weights"])
def test_shipped_files_hold_only_known_parameters(root, name):
    """Both nodes accept every shipped file as it is."""
    values = load_yaml(root / "config" / f"{name}.yaml")
    settings = with_values(NodeSettings(), values, parameters(PlantSettings()))
    assert settings.mpc.weights.tool_position == values["weights.tool_position"]
    with_values(PlantSettings(), values, parameters(NodeSettings()))


def test_settings_cannot_be_changed_in_place():
    """A thread that holds the settings sees one state of them."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        NodeSettings().rate = 5.0  # type: ignore[misc]
