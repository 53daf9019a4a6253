"""`branch_mpc figure8`: the arm draws a figure-8 in closed loop; a table, a JSON object and a picture come out."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from branch_mpc.bench.figure import check_picture, save_picture
from branch_mpc.bench.plain_run import FigureRun, run_lockstep
from branch_mpc.bench.progress import Progress
from branch_mpc.bench.record import Recording, metrics
from branch_mpc.bench.table import format_table, to_json
from branch_mpc.cli_options import add_settings, settings_of
from branch_mpc.errors import SettingError
from branch_mpc.settings import replace

LONGEST = 3600.0
"""Longest run [s]: the recording is kept in memory."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "figure8",
        help="draw a figure-8 in closed loop",
        description="The arm approaches a figure-8 for 2 s and draws it, as ROS 2 nodes over DDS, or in one process with --no-ros.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    add_settings(parser)
    parser.add_argument("--batch", type=int, metavar="M", help="disturbance hypotheses (default 8)")
    group = parser.add_argument_group("run")
    group.add_argument("--no-ros", action="store_true", help="one process, in lockstep: the plant waits for every command")
    group.add_argument("--no-plant", action="store_true", help="use the robot that publishes joint_states instead of the simulated one")
    group.add_argument("--duration", type=float, metavar="S", help="time on the figure, after the approach (default: one period)")
    group.add_argument("--period", type=float, metavar="S", help="time of one figure (default 6)")
    group.add_argument("--approach", type=float, metavar="S", help="time from the start pose to the figure (default 2)")
    group.add_argument("--target", metavar='"X Y Z"', help="approach this point and hold it, instead of the figure [m]")
    group.add_argument("--push", metavar='"FX FY FZ"', help="unmodelled world force on the tool [N], such as '0 0 -50'")
    group.add_argument("--push-at", type=float, metavar="S", help="when the push begins (default 0, the start of the approach)")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON object as the last line instead of the table")
    output.add_argument("--out", type=Path, default=Path("out/figure8.png"), metavar="FILE", help="picture (default out/figure8.png)")
    output.add_argument("--no-picture", action="store_true", help="draw no picture")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    what = figure_run(options)
    if not options.no_picture:
        check_picture(options.out)
    progress = Progress()
    try:
        recording = record(options, what, progress)
        progress.close()
        report(recording, options)
    finally:
        progress.close()
    return 0


def record(options: argparse.Namespace, what: FigureRun, progress: Progress) -> Recording:
    """Run the closed loop, with ROS or without."""
    if options.no_ros:
        if options.no_plant:
            raise SettingError("--no-plant was given with --no-ros", "leave one of them out: without ROS only the simulated robot exists")
        return run_lockstep(what, progress)
    from branch_mpc.bench.ros_run import run_ros

    return run_ros(what, not options.no_plant, progress)


def report(recording: Recording, options: argparse.Namespace) -> None:
    """Write the picture, then the table or the JSON object."""
    results = metrics(recording)
    if not options.no_picture:
        results["picture"] = str(save_picture(recording, options.out))
        print(f"picture: {results['picture']}", file=sys.stderr)
    print(to_json(results) if options.json else format_table(results), flush=True)


def figure_run(options: argparse.Namespace) -> FigureRun:
    """Return what the options ask for.

    Raises:
        SettingError: A parameter or an option that is wrong.
    """
    node, plant = settings_of(options)
    duration = node.reference.period if options.duration is None else options.duration
    if not (math.isfinite(duration) and 0.0 < duration <= LONGEST):
        raise SettingError(f"--duration is {duration:g}", f"give a number of seconds over 0 and at most {LONGEST:g}")
    if options.push is not None:
        plant = replace(plant, {"push": numbers("push", options.push)})
    if options.push_at is not None:
        plant = replace(plant, {"push_at": options.push_at})
    if len(plant.push) not in (0, 3):
        raise SettingError(f"parameter 'push' has {len(plant.push)} numbers", "give three (a world force [N]) or none")
    target = None if options.target is None else numbers("target", options.target)
    return FigureRun(node, plant, duration, target)


def numbers(option: str, text: str) -> tuple[float, float, float]:
    """Return the three numbers of an option, finite or not.

    Raises:
        SettingError: Not three numbers.
    """
    try:
        values = tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        values = ()
    if len(values) != 3:
        raise SettingError(f"--{option} is '{text}'", f"give three finite numbers, for example --{option} '0.4 0 -0.5'")
    return values[0], values[1], values[2]
