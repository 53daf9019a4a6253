"""The figure-8 in closed loop: mpc_node, and plant_node where there is no real robot; one process a node.

Runs until Ctrl-C, or for `duration` seconds when that is given. An argument left empty leaves the
parameter file as it is.
"""

import os
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {
    "robot": ("", "robot: indy7, iiwa14, or the path of a URDF file; empty: the one of the parameter file"),
    "device": ("", "compute device: cpu, cuda:0 or auto; empty: the one of the parameter file"),
    "config": ("", "parameter file: a path, or a name in the package's config folder; empty: the one named after the robot"),
    "rate": ("", "control rate [Hz]; empty: the one of the parameter file"),
    "batch": ("", "problems in a batch; empty: the one of the parameter file"),
    "duration": ("", "seconds of tracking, approach included, after which the run ends; empty: the one of the parameter file (0: never)"),
    "namespace": ("", "namespace of every node"),
    "log_level": ("info", "debug, info, warn, error or fatal"),
}
SWITCHES = {
    "use_sim_time": ("false", "follow the /clock of a simulator (with plant:=false)"),
    "plant": ("true", "start the simulated robot; false: a real one publishes joint_states and takes the commands"),
    "rviz": ("false", "start robot_state_publisher and RViz"),
    "autostart": ("true", "configure and activate mpc_node at once; false: leave that to a lifecycle manager"),
}
OVERRIDES: dict[str, Callable[[str], object]] = {"robot": str, "device": str, "rate": float, "batch": int, "duration": float}


def generate_launch_description() -> LaunchDescription:
    """Return the launch description: the arguments, then the nodes they ask for."""
    arguments = [DeclareLaunchArgument(name, default_value=default, description=text) for name, (default, text) in ARGUMENTS.items()]
    switches = [
        DeclareLaunchArgument(name, default_value=default, choices=["true", "false"], description=text)
        for name, (default, text) in SWITCHES.items()
    ]
    return LaunchDescription([*arguments, *switches, OpaqueFunction(function=nodes)])


def nodes(context: LaunchContext) -> list[Node]:
    """Return the nodes that the launch arguments ask for.

    Raises:
        ValueError: A value that is not of the argument's type, or two that do not go together.
        FileNotFoundError: A file that is not there.
    """
    given = {name: LaunchConfiguration(name).perform(context).strip() for name in [*ARGUMENTS, *SWITCHES]}
    if given["use_sim_time"] == given["plant"] == "true":
        raise ValueError("use_sim_time:=true needs plant:=false: the simulated robot runs in real time and publishes no /clock")
    share = Path(FindPackageShare("branch_mpc").perform(context))
    values = overrides(given)
    common = [parameter_file(given, share), {"use_sim_time": given["use_sim_time"] == "true"}]
    shared = {name: values[name] for name in ("robot", "rate") if name in values}
    # First: where RViz is not installed, launch stops here and nothing is left running.
    started = viewer(given, share) if given["rviz"] == "true" else []
    started.append(our_node("mpc_node", given, [*common, values, {"autostart": given["autostart"] == "true"}]))
    if given["plant"] == "true":
        started.append(our_node("plant_node", given, [*common, shared]))
    return started


def our_node(executable: str, given: dict[str, str], parameters: list[object]) -> Node:
    """Return one of this package's nodes.

    With the simulated robot, or in a run of limited length, the end of one node ends the whole launch. With a
    real robot it does not: the launch may hold the robot's driver as well, which must go on.
    """
    ends = given["plant"] == "true" or bool(given["duration"])
    return Node(
        package="branch_mpc",
        executable=executable,
        name=executable,
        namespace=given["namespace"],
        output="screen",
        emulate_tty=True,
        parameters=[values for values in parameters if values],
        arguments=["--ros-args", "--log-level", f"{executable}:={given['log_level']}"],
        on_exit=end_of_run if ends else None,
    )


def end_of_run(event: ProcessExited, context: LaunchContext) -> list[Shutdown] | None:
    """End the launch with one of its nodes.

    Raises:
        RuntimeError: The node has failed; ros2 launch reports it and its own exit code is 1.
    """
    if context.is_shutdown:  # the node was told to end
        return None
    if event.returncode != 0:
        raise RuntimeError(f"{event.process_name} has failed with exit code {event.returncode}; its last lines say why")
    return [Shutdown(reason=f"{event.process_name} has finished")]


def overrides(given: dict[str, str]) -> dict[str, object]:
    """Return the parameters given on the launch line, each in its type.

    Raises:
        ValueError: A value that is not of the parameter's type.
    """
    values: dict[str, object] = {}
    for name, kind in OVERRIDES.items():
        if given[name]:
            try:
                values[name] = kind(given[name])
            except ValueError:
                expected = "a number" if kind is float else "a whole number"
                raise ValueError(f"launch argument {name}:={given[name]} is not {expected}") from None
    return values


def parameter_file(given: dict[str, str], share: Path) -> str:
    """Return the parameter file that is asked for.

    Raises:
        FileNotFoundError: There is no such file.
    """
    shipped = share / "config"
    if not given["config"]:
        named = shipped / f"{given['robot'] or 'indy7'}.yaml"
        return str(named if named.is_file() else shipped / "indy7.yaml")
    for path in (Path(given["config"]), shipped / given["config"], shipped / f"{given['config']}.yaml"):
        if path.is_file():
            return str(path)
    names = ", ".join(sorted(path.stem for path in shipped.glob("*.yaml")))
    raise FileNotFoundError(f"launch argument config:={given['config']} is no file; give a path or one of {names}")


def viewer(given: dict[str, str], share: Path) -> list[Node]:
    """Return robot_state_publisher and RViz, showing the robot's own URDF.

    Raises:
        FileNotFoundError: There is no URDF of this robot.
    """
    robot = given["robot"] or "indy7"
    urdf = Path(robot) if os.sep in robot or robot.endswith(".urdf") else share / "urdf" / f"{robot}.urdf"
    if not urdf.is_file():
        raise FileNotFoundError(f"there is no URDF '{urdf}' for rviz:=true; give robot:=indy7, iiwa14 or the path of a URDF file")
    text = urdf.read_text()
    tree = xml.etree.ElementTree.fromstring(text)
    children = {joint.find("child").get("link") for joint in tree.findall("joint")}
    base = next(link.get("name") for link in tree.findall("link") if link.get("name") not in children)
    publisher = Node(
        package="robot_state_publisher",
        executable="robot_state_publisher",
        namespace=given["namespace"],
        output="screen",
        parameters=[{"robot_description": text, "use_sim_time": given["use_sim_time"] == "true"}],
    )
    rviz = Node(
        package="rviz2",
        executable="rviz2",
        namespace=given["namespace"],
        output="log",
        arguments=["-d", str(share / "rviz" / "mpc.rviz"), "-f", base],
        parameters=[{"use_sim_time": given["use_sim_time"] == "true"}],
    )
    return [publisher, rviz]
