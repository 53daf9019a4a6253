"""`branch_mpc policy`, `branch_mpc tune` and `branch_mpc bench gato-tables`: what runs how on a device, and what that costs."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from branch_mpc.bench.progress import Progress
from branch_mpc.bench.table import to_json
from branch_mpc.cli_options import add_settings, settings_of
from branch_mpc.errors import DeviceError, SettingError
from branch_mpc.mpc.device_facts import DeviceFacts, facts_named
from branch_mpc.mpc.launch_policy import choose
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.mpc.tuning_table import TuningTable, default_path, load_table, table_for
from branch_mpc.robot.library import load_robot
from branch_mpc.settings import replace


def add_parser(commands: Any) -> None:
    """Add the three commands to the parser."""
    policy = commands.add_parser(
        "policy",
        help="show the launch choices of a device and a problem size",
        description="Shows linear solver, plan, schedule and merit block for a device that need not be here, with the reason of each.",
        allow_abbrev=False,
    )
    policy.set_defaults(run=run_policy)
    add_settings(policy)
    policy.add_argument("--batch", type=int, metavar="M", help="problems in a batch (default 8)")
    policy.add_argument("--json", action="store_true", help="print one JSON object")
    tune = commands.add_parser(
        "tune",
        help="measure the launch choices on this device",
        description="Measures the candidates of each case behind an accuracy gate and writes the winners to a file that the node reads.",
        allow_abbrev=False,
    )
    tune.set_defaults(run=run_tune)
    add_settings(tune)
    tune.add_argument("--batch", default="8", metavar="M[,M...]", help="batch sizes (default 8)")
    tune.add_argument("--horizons", metavar="N[,N...]", help="horizons (default: that of --knots)")
    tune.add_argument("--forms", default="acceleration,torque", metavar="FORM[,FORM]", help="forms to measure (default both)")
    tune.add_argument("--budget", type=float, default=0.5, metavar="S", help="time for timing each candidate (default 0.5)")
    tune.add_argument("--out", type=Path, metavar="FILE", help=f"tuning table (default {default_path()})")
    tune.add_argument("--json", action="store_true", help="print the new rows as one JSON object")
    _add_bench(commands)


def _add_bench(commands: Any) -> None:
    """Add the tables to `bench`, which another module may have made."""
    bench = commands.choices.get("bench")
    if bench is None:
        bench = commands.add_parser("bench", help="measurements", description="Measurements on the device at hand.", allow_abbrev=False)
        kinds = bench.add_subparsers(title="measurements", required=True, metavar="MEASUREMENT")
    else:
        kinds = next(action for action in bench._actions if isinstance(action, argparse._SubParsersAction))
    tables = kinds.add_parser(
        "gato-tables",
        help="the rows of GATO's timing page on this device, beside the published ones",
        description="Merit time by block and batch, PCG iterations, direct against PCG by horizon, merits after eight iterations.",
        allow_abbrev=False,
    )
    tables.set_defaults(run=run_tables)
    tables.add_argument("--device", default="auto", help="cpu, cuda:0, or auto (default auto)")
    tables.add_argument("--quick", action="store_true", help="a few rows of each table")
    tables.add_argument("--json", action="store_true", help="print one JSON object as the last line instead of the tables")


def run_policy(options: argparse.Namespace) -> int:
    """Print the policy and return the exit code."""
    device, options.device = options.device or "auto", None
    settings, _ = settings_of(options)
    mpc = settings.mpc
    table = table_for(mpc.policy.tuning)
    policy = choose(
        _facts(device),
        knots=mpc.knots,
        batch=mpc.batch,
        formulation=mpc.formulation,
        forced=mpc.policy,
        robot=load_robot(settings.robot, settings.tool or None).name if table else settings.robot,
        table=table,
    )
    if options.json:
        print(to_json(policy.as_json()), flush=True)
        return 0
    values = {key: value for key, value in policy.as_json().items() if key != "reason"}
    width = max(len(key) for key in values)
    print("\n".join(f"{key.replace('_', ' '):<{width}}  {value}" for key, value in values.items()))
    print("\n".join(["", *policy.reason.split("; ")]), flush=True)
    return 0


def _facts(device: str) -> DeviceFacts:
    """Facts of a device by name; only those of this machine need Warp."""
    facts = facts_named(device)
    if facts is not None:
        return facts
    _start_warp()
    from branch_mpc.mpc.device_facts import facts_of
    from branch_mpc.sqp.solver import check_device

    try:
        return facts_of(check_device(device))
    except DeviceError as error:
        raise DeviceError(error.problem, f"{error.remedy}, or an architecture such as sm_87") from error


def run_tune(options: argparse.Namespace) -> int:
    """Measure, print, write the table and return the exit code."""
    batches = _counts("batch", options.batch)
    options.batch = batches[0]
    settings, _ = settings_of(options)
    horizons = _counts("horizons", options.horizons) if options.horizons else [settings.mpc.knots]
    forms = [word for word in options.forms.split(",") if word]
    cases = [_case(settings.mpc, N, M, form) for form in forms for N in horizons for M in batches]
    if not options.budget > 0.0:
        raise SettingError(f"--budget is {options.budget:g}", "give a number of seconds over 0")
    path = options.out or default_path()
    table = load_table(path) if path.is_file() else TuningTable()
    _start_warp()
    from branch_mpc.bench.gato_tables import tick_of
    from branch_mpc.mpc.tuning import tune

    tick, progress = tick_of(settings.robot, settings.tool or None, settings.mpc.step), Progress()
    rows = []
    try:
        for index, case in enumerate(cases):
            where = f"{index + 1} of {len(cases)}: {case.formulation} form, N {case.knots}, M {case.batch}"
            progress(where)
            rows.append(tune(tick, case, lambda text, where=where: progress(f"{where}: {text}"), options.budget))  # type: ignore[misc]
            table = table.merged(rows)
            table.save(path)  # after every case: a long run that is stopped keeps what it has
    finally:
        progress.close()
    print(f"tuning table: {path}", file=sys.stderr)
    if options.json:
        print(to_json({"file": str(path), "rows": [dataclasses.asdict(row) for row in rows]}), flush=True)
        return 0
    for row in rows:
        print(
            f"{row.formulation:12s} N {row.knots:<4d} M {row.batch:<5d} {row.time_us:10.1f} us  {row.linear_solver}, {row.order}, "
            f"{row.schedule}, merit block {row.merit_block}, {row.reduction}  merit {row.merit:.4f}"
        )
    return 0


def _case(settings: MpcSettings, knots: int, batch: int, formulation: str) -> MpcSettings:
    return replace(settings, {"knots": knots, "batch": batch, "formulation": formulation})


def run_tables(options: argparse.Namespace) -> int:
    """Measure GATO's tables here, print them beside the published rows, and return the exit code."""
    _start_warp()
    from branch_mpc.bench.gato_format import format_tables
    from branch_mpc.bench.gato_tables import measure_tables

    progress = Progress()
    try:
        results = measure_tables(options.device, quick=options.quick, progress=progress)
    finally:
        progress.close()
    print(to_json(results) if options.json else format_tables(results), flush=True)
    return 0


def _counts(option: str, text: str) -> list[int]:
    words = [word for word in text.replace(",", " ").split() if word]
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise SettingError(f"--{option} is '{text}'", f"give whole numbers over 0 with commas between, for example --{option} 1,8")
    return [int(word) for word in words]


def _start_warp() -> None:
    from branch_mpc.sqp.quiet import start_warp_quietly

    start_warp_quietly()
