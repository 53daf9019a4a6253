"""`branch_mpc bench map`: every plan under every schedule; `branch_mpc report`: what one of them would be, uncompiled."""

import argparse
import time
from pathlib import Path
from typing import Any

from branch_mpc.bench.facts import versions
from branch_mpc.bench.progress import Progress
from branch_mpc.bench.table import to_json
from branch_mpc.errors import SettingError

GRIDS: dict[str, tuple[str, str, str]] = {
    "ik": ("indy7,iiwa14,ur10,panda,allegro,anymal_c,g1,g1_hands,h1", "1,16,64,256", "1"),
    "trajectory": ("iiwa14,ur10,panda,allegro", "1,4", "8,32,128"),
    "contact": ("iiwa14,allegro,anymal_c,g1,g1_hands,h1", "1,16,64,256", "1"),
}
"""Robots, batches and horizons of a map, by application."""
QUICK: dict[str, tuple[str, str, str]] = {"ik": ("iiwa14", "8", "1"), "trajectory": ("iiwa14", "1", "8"), "contact": ("iiwa14", "8", "1")}


def add_parser(commands: Any) -> None:
    """Add both commands to the parser."""
    bench = commands.add_parser("bench", help="measure the library", description="Measurements of branch_mpc.branch.", allow_abbrev=False)
    kinds = bench.add_subparsers(title="measurements", required=True, metavar="MEASUREMENT")
    _add_map(kinds)
    _add_report(commands)


def _add_map(commands: Any) -> None:
    parser = commands.add_parser(
        "map",
        help="every plan under every schedule over robots, batches and horizons",
        description="Measures every elimination plan under every schedule and tells which is fastest where, at matched accuracy.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run_map)
    parser.add_argument("--application", default="trajectory", choices=("ik", "trajectory", "contact"), help="default trajectory")
    parser.add_argument("--quick", action="store_true", help="one small cell")
    parser.add_argument("--robots", metavar="NAME[,...]", help="robots by name or file")
    parser.add_argument("--batches", metavar="B[,...]", help="problems, trajectories or worlds")
    parser.add_argument("--horizons", metavar="T[,...]", help="frames of a trajectory")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0 (default cpu)")
    parser.add_argument("--seconds", type=float, metavar="S", help="time to spend on the timing of a row (default 0.3, 0.05 with --quick)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line instead of the table")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write rows and summary to this JSON file")
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw the map into this picture")


def _add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="elimination plan and schedule of a configuration",
        description="Prints the plan and the schedule of a configuration: fronts, widths, depth, fill, launches. Compiles nothing.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run_report)
    parser.add_argument("--robot", default="indy7", metavar="NAME|FILE", help="default indy7")
    parser.add_argument("--application", default="mpc", choices=("mpc", "ik", "trajectory", "contact"), help="default mpc")
    parser.add_argument("--knots", type=int, default=32, metavar="N", help="knots of the horizon, or frames (default 32)")
    parser.add_argument("--batch", type=int, default=8, metavar="M", help="problems at once (default 8)")
    parser.add_argument("--order", default="chronological", help="tree, dense, chronological or cyclic (default chronological)")
    parser.add_argument(
        "--schedule", default="serial", help="serial, levels, paths, instance_blocks, cooperative or fused (default serial)"
    )
    parser.add_argument("--block-dim", type=int, default=64, metavar="D", help="threads of a block (default 64)")


def run_map(options: argparse.Namespace) -> int:
    """Measure a map, print it and return the exit code: 1 when a cell has no row that passes."""
    # Imported late: Warp takes a second that a wrong argument need not wait for.
    from branch_mpc.bench.figure import check_picture
    from branch_mpc.bench.map import map_rows, summary, workloads_of
    from branch_mpc.bench.map_table import print_map
    from branch_mpc.sqp.quiet import start_warp_quietly
    from branch_mpc.sqp.solver import check_device

    defaults = (QUICK if options.quick else GRIDS)[options.application]
    robots = [name for name in (options.robots or defaults[0]).replace(",", " ").split() if name]
    batches, horizons = numbers("--batches", options.batches or defaults[1]), numbers("--horizons", options.horizons or defaults[2])
    budget = (0.05 if options.quick else 0.3) if options.seconds is None else options.seconds
    if not 0.0 < budget <= 60.0:
        raise SettingError(f"--seconds is {budget:g}", "give a number from 0 to 60")
    if options.out:
        check_picture(options.out)
    start_warp_quietly()
    check_device(options.device)
    progress, begun = Progress(), time.perf_counter()
    try:
        workloads = workloads_of(options.application, robots, batches, horizons, progress)
        rows = map_rows(workloads, options.device, budget=budget, tell=lambda text: progress(text, "map"))
    finally:
        progress.close()
    name = device_name(options.device)
    result = {"rows": rows, "summary": summary(rows), "device": name, "seconds": time.perf_counter() - begun, "versions": versions()}
    if options.rows:
        options.rows.parent.mkdir(parents=True, exist_ok=True)
        options.rows.write_text(to_json(result) + "\n")
    if options.out:
        from branch_mpc.bench.map_figure import save_map

        save_map(rows, options.out, name)
    if options.json:
        print(to_json(result), flush=True)
    else:
        print_map(rows, result["summary"], name)
    return 0 if all(cell["passed"] for cell in result["summary"]["cells"]) else 1


def run_report(options: argparse.Namespace) -> int:
    """Print plan and schedule of a configuration."""
    from branch_mpc.bench.plan_report import report_of
    from branch_mpc.examples.choices import Choice
    from branch_mpc.sqp.quiet import start_warp_quietly

    start_warp_quietly()
    choice = Choice(options.order, options.schedule, block_dim=options.block_dim)
    print(report_of(options.robot, options.application, options.batch, options.knots, choice))
    return 0


def numbers(option: str, text: str) -> list[int]:
    """Return whole numbers of an option, separated by commas.

    Raises:
        SettingError: A word that is not a whole number over 0, or none at all.
    """
    words = [word for word in text.replace(",", " ").split() if word]
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise SettingError(f"{option} is '{text}'", "give whole numbers over 0 with commas between, for example 1,16,64")
    return [int(word) for word in words]


def device_name(device: str) -> str:
    """Return what to call a device in titles: the GPU's name, or the kind of the processor."""
    import platform

    import warp as wp

    found = wp.get_device(device)
    return f"{platform.machine()} CPU" if found.is_cpu else str(found.name)
