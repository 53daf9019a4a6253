"""The comparison with OSQP as a table for people."""

from typing import Any

COLUMNS = (
    ("solve p50", "solve_ms_p50", "{:.3f} ms"),
    ("solve p99", "solve_ms_p99", "{:.3f} ms"),
    ("whole tick p50", "tick_ms_p50", "{:.3f} ms"),
    ("merit", "merit", "{:.6f}"),
    ("KKT residual", "kkt_residual", "{:.1e}"),
    ("tracking RMS", "tracking_rms_mm", "{:.3f} mm"),
)


def format_compare(result: dict[str, Any]) -> str:
    """Return the comparison as a table, the conditions above and the speed-ups below it.

    Args:
        result: What `branch_mpc.bench.compare.run_compare` returned.
    """
    horizon = f"N = {result['knots']}, h = {result['step']:g} s"
    conditions = f"{horizon}, one SQP iteration, {result['ticks']} recorded ticks, {result['boundary']}"
    lines = [
        f"{result['robot']}, {conditions}",
        f"ours on {result['device']}, float32; OSQP with Pinocchio terms on one CPU core, float64, rows one after the other",
        "",
        f"{'':<14}" + "".join(f"{title:>16}" for title, _, _ in COLUMNS),
    ]
    for batch in result["ours"]:
        for side in ("ours", "osqp"):
            cells = (_cell(result[side][batch].get(key), form) for _, key, form in COLUMNS)
            lines.append(f"{'M = ' + batch + ', ' + side:<14}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join([*lines, "", *(_speedup(result, batch) for batch in result["speedup"])])


def print_table(result: dict[str, Any]) -> None:
    """Print the comparison as a table for people."""
    print(format_compare(result))


def _speedup(result: dict[str, Any], batch: str) -> str:
    osqp, alone = result["osqp"][batch], result["speedup_over_osqp_alone"][batch]
    return (
        f"M = {batch}: {_times(result['speedup'][batch])} OSQP with its terms; {_times(alone)} OSQP's own run time without any Python "
        f"({osqp['osqp_ms_p50']:.3f} ms, {osqp['osqp_iterations_p50']:g} ADMM iterations). "
        f"The terms take {osqp['linearisation_ms_p50']:.3f} ms, the line search {osqp['line_search_ms_p50']:.3f} ms, through Python."
    )


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times faster than" if ratio >= 1.0 else f"{1.0 / ratio:.1f} times slower than"


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
