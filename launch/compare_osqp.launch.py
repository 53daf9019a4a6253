"""Solves the same recorded ticks with branch_mpc and with OSQP, and shows both side by side.

An argument left empty leaves the command's own default.
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackagePrefix

ARGUMENTS = {
    "robot": "robot: indy7, iiwa14, or the path of a URDF file",
    "device": "compute device of branch_mpc: cpu, cuda:0 or auto",
    "config": "parameter file",
    "knots": "knots in the horizon",
    "batch": "problems in a batch, or several sizes separated by commas",
    "duration": "length of the closed loops, approach included [s]",
    "ticks": "recorded ticks that both solve",
}


def generate_launch_description() -> LaunchDescription:
    """Return the launch description: the arguments, then `branch_mpc compare` with those that are given."""
    arguments = [
        DeclareLaunchArgument(name, default_value="", description=f"{text}; empty: the default of branch_mpc compare")
        for name, text in ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=comparison)])


def comparison(context: LaunchContext) -> list[ExecuteProcess]:
    """Return the process that compares."""
    given = {name: LaunchConfiguration(name).perform(context).strip() for name in ARGUMENTS}
    options = [word for name, value in given.items() if value for word in (f"--{name}", value)]
    program = PathJoinSubstitution([FindPackagePrefix("branch_mpc"), "lib", "branch_mpc", "branch_mpc"])
    return [ExecuteProcess(cmd=[program, "compare", *options], output="screen", on_exit=end_of_run)]


def end_of_run(event: ProcessExited, context: LaunchContext) -> None:
    """Give a failure on.

    Raises:
        RuntimeError: The comparison has failed; ros2 launch reports it and its own exit code is 1.
    """
    if event.returncode != 0 and not context.is_shutdown:
        raise RuntimeError(f"branch_mpc compare has failed with exit code {event.returncode}; its last line says why")
