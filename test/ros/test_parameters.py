"""ROS parameters of a real rclpy node: descriptors, start-up values, live changes."""

import pytest

from branch_mpc.errors import SettingError
from branch_mpc.ros.settings import NodeSettings, PlantSettings, parameters

pytestmark = pytest.mark.ros


@pytest.fixture
def make():
    """Return a function that makes a node with LiveParameters from overrides; everything is torn down at the end."""
    import rclpy
    from rclpy.parameter import Parameter

    from branch_mpc.ros.parameters import LiveParameters, names_of

    rclpy.init(args=[])
    nodes = []

    def made(settings=None, changed=lambda settings: None, **overrides):
        values = [Parameter(name.replace("__", "."), value=value) for name, value in overrides.items()]
        node = rclpy.create_node("parameters", parameter_overrides=values)
        nodes.append(node)
        return node, LiveParameters(node, settings or NodeSettings(), changed, names_of(PlantSettings()))

    yield made
    for node in nodes:
        node.destroy_node()
    rclpy.shutdown()


def test_every_parameter_is_declared_with_its_meaning_and_range(make):
    """The description holds the unit, the range is the dataclass's, and what is not live is read-only."""
    node, _ = make()
    for name, (value, field) in parameters(NodeSettings()).items():
        descriptor = node.describe_parameter(name)
        assert node.get_parameter(name).value == value and field.metadata["doc"] in descriptor.description
        assert descriptor.read_only is not field.metadata["live"]
    assert node.describe_parameter("rate").floating_point_range[0].to_value == 1000.0
    assert "[Hz]" in node.describe_parameter("rate").description
    assert node.describe_parameter("knots").integer_range[0].from_value == 2
    assert "effort, trajectory" in node.describe_parameter("sink").additional_constraints


def test_start_up_values_may_be_whole_numbers(make):
    """`rate: 50` is taken as 50.0, where ROS alone would refuse it."""
    node, live = make(rate=50, weights__tool_position=3)
    assert live.settings.rate == 50.0 and live.settings.mpc.weights.tool_position == 3.0
    assert node.get_parameter("rate").value == 50.0


def test_arrays_may_be_empty_or_whole_numbers(make):
    """Empty arrays keep their type; `[0, 0, -50]` is taken as floats."""
    _, live = make(PlantSettings(), push=[0, 0, -50])
    assert live.settings.push == (0.0, 0.0, -50.0) and live.settings.start == ()


@pytest.mark.parametrize("overrides", [{"knotz": 3}, {"knots": 1}, {"sink": "none"}, {"guard__state_timeout": -1.0}, {"robot": 3}])
def test_wrong_start_up_values_stop_the_node(make, overrides):
    """A key that does not exist or a bad value is an error that names it: ROS alone passes unknown keys over."""
    with pytest.raises(SettingError, match=next(iter(overrides)).replace("__", ".")):
        make(**overrides)


def test_fault_43_live_changes_are_all_or_nothing(make):
    """T54: a valid change replaces the settings as a whole, an invalid one among valid ones changes nothing."""
    from rclpy.parameter import Parameter

    seen = []
    node, live = make(changed=seen.append)
    good = [Parameter("weights.tool_position", value=50.0), Parameter("weights.torque", value=1e-5)]
    assert node.set_parameters_atomically(good).successful
    assert (live.settings.mpc.weights.tool_position, live.settings.mpc.weights.torque) == (50.0, 1e-5) and len(seen) == 1
    mixed = [Parameter("weights.tool_position", value=60.0), Parameter("weights.torque", value=-1.0)]
    assert not node.set_parameters_atomically(mixed).successful
    assert live.settings.mpc.weights.tool_position == 50.0 and len(seen) == 1


def test_fault_43_structural_parameters_are_refused(make):
    """Robot, knots, batch and rate cannot change while the node lives; the answer says why."""
    from rclpy.parameter import Parameter

    node, live = make()
    for name, value in (("knots", 64), ("batch", 1), ("rate", 50.0), ("robot", "iiwa14")):
        result = node.set_parameters([Parameter(name, value=value)])[0]
        assert not result.successful and "read-only" in result.reason
    assert live.settings == NodeSettings()
