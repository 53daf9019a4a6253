"""What indy7_figure8.launch.py starts, recorded by stand-ins: no launch is needed for these."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from branch_mpc.cli import build_parser
from branch_mpc.ros.settings import NodeSettings, PlantSettings, parameters

FILE = "indy7_figure8.launch.py"
Launch = Callable[..., Any]


def ended(code: int) -> types.SimpleNamespace:
    """Return the event of a process that has exited."""
    return types.SimpleNamespace(returncode=code, process_name="node-1")


def test_closed_loop_by_default(launched: Launch, prefix: Path) -> None:
    """Without arguments: the simulated robot and the controller, one process each, both installed."""
    launch = launched(FILE)
    assert set(launch.nodes()) == {"mpc_node", "plant_node"}
    for executable, node in launch.nodes().items():
        assert node["package"] == "branch_mpc"
        assert (prefix / "lib/branch_mpc" / executable).is_file()


@pytest.mark.parametrize("name", [FILE, "compare_osqp.launch.py"])
def test_every_argument_is_explained(launched: Launch, name: str) -> None:
    """`ros2 launch --show-args` has a line for each argument, and a switch has two choices."""
    for argument in launched(name).arguments.values():
        assert argument.kwargs["description"]
        if argument.kwargs["default_value"] in ("true", "false"):
            assert argument.kwargs["choices"] == ["true", "false"]


def test_arguments_of_the_issue_are_there(launched: Launch) -> None:
    """The promised arguments exist."""
    promised = "robot device config rate batch use_sim_time plant rviz namespace log_level autostart duration"
    assert set(launched(FILE).arguments) == set(promised.split())


def test_empty_argument_leaves_the_parameter_file_alone(launched: Launch) -> None:
    """What is not given on the launch line overrides nothing in the parameter file."""
    launch = launched(FILE)
    assert set(launch.parameters("mpc_node")) == {"use_sim_time", "autostart"}
    assert set(launch.parameters("plant_node")) == {"use_sim_time"}


def test_given_argument_overrides_in_its_type(launched: Launch) -> None:
    """ROS refuses an integer for a float parameter, so rate:=250 becomes 250.0, and the file comes first."""
    launch = launched(FILE, robot="iiwa14", device="cpu", rate="250", batch="4", duration="8")
    values = launch.parameters("mpc_node")
    expected = {"robot": "iiwa14", "device": "cpu", "rate": 250.0, "batch": 4, "duration": 8.0}
    assert {name: values[name] for name in expected} == expected
    assert all(type(values[name]) is type(value) for name, value in expected.items())
    assert isinstance(launch.nodes()["mpc_node"]["parameters"][0], str)


def test_every_override_is_a_parameter_of_its_node(launched: Launch) -> None:
    """The launch file sets no parameter that its node does not declare, and each in the declared type."""
    launch = launched(FILE, robot="iiwa14", device="cpu", rate="250", batch="4", duration="8")
    for executable, settings in (("mpc_node", NodeSettings()), ("plant_node", PlantSettings())):
        known = {name: type(value) for name, (value, _) in parameters(settings).items()} | {"use_sim_time": bool}
        given = launch.parameters(executable)
        assert {name: type(value) for name, value in given.items()} == {name: known.get(name) for name in given}


def test_both_nodes_have_the_same_robot_and_clock(launched: Launch) -> None:
    """Robot, control rate, parameter file and clock are those of both nodes."""
    launch = launched(FILE, robot="iiwa14", rate="200")
    for name in ("robot", "rate", "use_sim_time"):
        assert launch.parameters("mpc_node")[name] == launch.parameters("plant_node")[name]
    assert launch.parameter_file("mpc_node") == launch.parameter_file("plant_node")


@pytest.mark.parametrize(
    ("arguments", "stem"),
    [
        ({}, "indy7"),
        ({"robot": "iiwa14"}, "iiwa14"),
        ({"robot": "mine.urdf"}, "indy7"),
        ({"config": "gato_weights"}, "gato_weights"),
        ({"config": "gato_weights.yaml", "robot": "indy7"}, "gato_weights"),
    ],
)
def test_parameter_file_is_found(launched: Launch, arguments: dict[str, str], stem: str) -> None:
    """The file named after the robot, or the one asked for by its name in the package."""
    path = launched(FILE, **arguments).parameter_file("mpc_node")
    assert path.is_file() and path.stem == stem


def test_parameter_file_by_path(launched: Launch, tmp_path: Path) -> None:
    """A path is taken as it is."""
    path = tmp_path / "mine.yaml"
    path.write_text("/**: {ros__parameters: {rate: 50.0}}")
    assert launched(FILE, config=str(path)).parameter_file("mpc_node") == path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": "nowhere"}, "config:=nowhere is no file; give a path or one of gato_weights, iiwa14, indy7"),
        ({"rate": "fast"}, "rate:=fast is not a number"),
        ({"batch": "2.5"}, "batch:=2.5 is not a whole number"),
        ({"use_sim_time": "true"}, "use_sim_time:=true needs plant:=false"),
        ({"rviz": "true", "robot": "nobody"}, "for rviz:=true; give robot:=indy7, iiwa14 or the path of a URDF file"),
    ],
)
def test_bad_argument_is_named(launched: Launch, arguments: dict[str, str], message: str) -> None:
    """A launch line that cannot be followed starts nothing and says why."""
    with pytest.raises((ValueError, FileNotFoundError), match=message.replace(".", r"\.")):
        launched(FILE, **arguments)


def test_real_robot_gets_no_simulated_one_and_no_shutdown(launched: Launch) -> None:
    """plant:=false starts the controller alone, and its end leaves the rest of the launch (a driver) running."""
    launch = launched(FILE, plant="false")
    assert set(launch.nodes()) == {"mpc_node"}
    assert launch.nodes()["mpc_node"]["on_exit"] is None
    assert launched(FILE, plant="false", use_sim_time="true").parameters("mpc_node")["use_sim_time"] is True


@pytest.mark.parametrize("arguments", [{}, {"plant": "false", "duration": "5"}])
def test_run_ends_with_its_node(launched: Launch, arguments: dict[str, str]) -> None:
    """In a simulation, and in a run of limited length, the end of a node ends the launch: it never hangs half alive."""
    launch = launched(FILE, **arguments)
    for node in launch.nodes().values():
        actions = node["on_exit"](ended(0), launch.context)
        assert [type(action).__name__ for action in actions] == ["Shutdown"]


@pytest.mark.parametrize("name", [FILE, "compare_osqp.launch.py"])
def test_failed_process_fails_the_launch(launched: Launch, name: str) -> None:
    """A process that fails raises inside launch, whose exit code is 1 then; one that was told to end does not."""
    launch = launched(name)
    for action in launch.actions:
        with pytest.raises(RuntimeError, match="has failed with exit code 3"):
            action.kwargs["on_exit"](ended(3), launch.context)
    launch.context.is_shutdown = True
    assert [action.kwargs["on_exit"](ended(130), launch.context) for action in launch.actions] == [None] * len(launch.actions)


def test_namespace_and_log_level_reach_every_node(launched: Launch) -> None:
    """Two arms run side by side under two namespaces."""
    for executable, node in launched(FILE, namespace="left", log_level="debug", rviz="true").nodes().items():
        assert node["namespace"] == "left"
        if node["package"] == "branch_mpc":
            assert node["arguments"][-1] == f"{executable}:=debug"


@pytest.mark.parametrize(("robot", "base"), [("", "link0"), ("iiwa14", "iiwa_base")])
def test_rviz_shows_the_robot_in_its_base_frame(launched: Launch, robot: str, base: str) -> None:
    """rviz:=true publishes the URDF for RViz, whose fixed frame is the robot's root link and whose file is installed."""
    nodes = launched(FILE, rviz="true", robot=robot).nodes()
    # Where they are not installed launch stops at them, and must not have started ours.
    assert list(nodes) == ["robot_state_publisher", "rviz2", "mpc_node", "plant_node"]
    assert "<robot" in nodes["robot_state_publisher"]["parameters"][0]["robot_description"]
    options = dict(zip(nodes["rviz2"]["arguments"][::2], nodes["rviz2"]["arguments"][1::2], strict=True))
    assert Path(options["-d"]).is_file() and options["-f"] == base


def test_comparison_gets_only_what_is_given(launched: Launch, prefix: Path) -> None:
    """compare_osqp.launch.py runs `branch_mpc compare` of this installation with the given options."""
    program = prefix / "lib/branch_mpc/branch_mpc"
    assert program.is_file()
    assert launched("compare_osqp.launch.py").command() == [str(program), "compare"]
    command = launched("compare_osqp.launch.py", robot="iiwa14", batch="1,8").command()
    assert command[1:] == ["compare", "--robot", "iiwa14", "--batch", "1,8"]


def test_comparison_options_are_the_commands(launched: Launch) -> None:
    """Every argument of compare_osqp.launch.py is an option that `branch_mpc compare` takes."""
    values = {name: "2" for name in launched("compare_osqp.launch.py").arguments}
    build_parser().parse_args(launched("compare_osqp.launch.py", **values).command()[1:])
