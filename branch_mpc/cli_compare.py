"""`branch_mpc compare`: ours and OSQP on the same recorded ticks, side by side."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from branch_mpc.bench.figure import check_picture
from branch_mpc.bench.progress import Progress
from branch_mpc.bench.start import start_configuration
from branch_mpc.bench.table import to_json
from branch_mpc.cli_options import add_settings, settings_of
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import SettingError
from branch_mpc.robot import load_robot

SHORTEST, LONGEST = 0.1, 600.0
"""Range of the closed loops' length [s]."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare",
        help="compare with OSQP on the same ticks",
        description="Runs the figure-8 with branch_mpc and with OSQP, then gives both the same recorded ticks and compares time and merit.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    add_settings(parser)
    parser.add_argument("--batch", default="1,8", metavar="M[,M...]", help="batch sizes to compare at (default 1,8)")
    parser.add_argument("--ticks", type=int, default=200, help="recorded ticks that both solve (default 200)")
    parser.add_argument(
        "--duration", type=float, default=8.0, metavar="S", help="length of the closed loops, approach included (default 8)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/compare.png"), metavar="FILE", help="picture (default out/compare.png)")
    parser.add_argument("--no-picture", action="store_true", help="draw no picture")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line instead of the table")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    batches = batch_sizes(options.batch)
    if not SHORTEST <= options.duration <= LONGEST or math.isnan(options.duration):
        raise SettingError(f"--duration is {options.duration:g}", f"give a number of seconds from {SHORTEST:g} to {LONGEST:g}")
    settings, plant = settings_of(argparse.Namespace(**{**vars(options), "batch": max(batches)}))
    arm = load_robot(settings.robot, settings.tool or None)
    start = start_configuration(arm.name, HostDynamics(arm), plant.start)
    if not options.no_picture:
        check_picture(options.out)
    # Imported late: OSQP and the kernels take a second that a wrong argument need not wait for.
    from branch_mpc.bench.compare import print_table, run_compare
    from branch_mpc.bench.compare_figure import save_compare_picture
    from branch_mpc.sqp.quiet import start_warp_quietly

    start_warp_quietly()
    progress = Progress()
    try:
        results = run_compare(settings.mpc, arm, batches, options.ticks, progress, duration=options.duration, start=start)
    finally:
        progress.close()
    if not options.no_picture:
        results["picture"] = str(save_compare_picture(results, options.out))
        print(f"picture: {results['picture']}", file=sys.stderr)
    if options.json:
        print(to_json(results), flush=True)
    else:
        print_table(results)
    return 0


def batch_sizes(text: str) -> tuple[int, ...]:
    """Return the batch sizes of --batch.

    Raises:
        SettingError: A word that is not a whole number, or none at all.
    """
    words = [word for word in text.replace(",", " ").split() if word]
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise SettingError(f"--batch is '{text}'", "give whole numbers over 0 with commas between, for example 1,8")
    return tuple(int(word) for word in words)
