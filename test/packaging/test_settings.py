"""Settings: ranges, types, names and files, each refusal with its remedy."""

import dataclasses

import pytest

from branch_mpc.errors import SettingError
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.settings import flatten, load_yaml, replace


def test_dotted_names_reach_nested_settings_and_leave_the_rest():
    """A dotted name changes one field of a nested group; every other value stays."""
    changed = replace(MpcSettings(), {"weights.torque": 1e-5, "knots": 64})
    assert changed == dataclasses.replace(MpcSettings(), knots=64, weights=dataclasses.replace(MpcSettings().weights, torque=1e-5))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"knots": 1}, r"'knots' is 1; give a value in \[2, 512\]"),
        ({"step": float("nan")}, r"'step' is nan; give a finite number"),
        ({"weights.torque": "much"}, r"'weights.torque' is 'much'; give a float"),
        ({"knots": 32.5}, r"'knots' is 32.5; give a int"),
        ({"knots": True}, r"'knots' is True; give a int"),
        ({"formulation": "jerk"}, r"'formulation' is 'jerk'; choose one of acceleration"),
        ({"weight.torque": 1.0}, r"'weight.torque' does not exist; did you mean 'weights.torque'\?"),
        ({"qqq": 1.0}, r"'qqq' does not exist; known parameters: knots"),
    ],
)
def test_bad_values_name_the_parameter_and_the_remedy(values, words):
    """Out of range, wrong type, unknown choice and unknown name each say what and what to do."""
    with pytest.raises(SettingError, match=words):
        replace(MpcSettings(), values)


def test_every_default_is_in_its_own_range():
    """Validation accepts the defaults."""
    settings = MpcSettings()
    assert replace(settings, {name: value for name, value, _ in flatten(settings)}) == settings


def test_floats_may_be_written_as_ros_reads_them(tmp_path):
    """2e-6 is text to YAML 1.1 and a number to ROS: here it is a number; a whole number is a float where one is wanted."""
    path = tmp_path / "parameters.yaml"
    path.write_text("/**:\n  ros__parameters:\n    weights: {torque: 2e-6, tool_position: 20}\n")
    assert replace(MpcSettings(), load_yaml(path)).weights.torque == 2e-6
    assert replace(MpcSettings(), load_yaml(path)).weights.tool_position == 20.0


@pytest.mark.parametrize(
    ("text", "words"), [(None, "does not exist"), ("a: [", "is not YAML"), ("- 1", "holds no 'ros__parameters'"), ("", "holds no")]
)
def test_unusable_files_are_named(tmp_path, text, words):
    """A missing file, broken YAML and a file without parameters are each one line with the path."""
    path = tmp_path / "parameters.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingError, match=words) as caught:
        load_yaml(path)
    assert str(path) in str(caught.value)
