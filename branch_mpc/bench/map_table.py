"""A map as text: every row, then what wins."""

from collections.abc import Sequence
from typing import Any


def print_map(rows: Sequence[dict[str, Any]], summary: dict[str, Any], device: str) -> None:
    """Print the rows of a map and its summary."""
    print(f"{'application':11s} {'robot':10s} {'B':>6s} {'T':>5s}  {'plan':13s} {'schedule':15s} {'us':>10s} {'residual':>9s}  gate")
    for row in rows:
        cell = f"{row['application']:11s} {row['robot']:10s} {row['batch']:6d} {row['frames']:5d}  {row['plan']:13s} {row['schedule']:15s}"
        if row["refused"]:
            print(f"{cell} {row['refused']}")
            continue
        residual = "-" if row["residual"] is None else f"{row['residual']:.1e}"
        print(f"{cell} {row['us']:10.1f} {residual:>9s}  {'passed' if row['passed'] else 'FAILED'}")
    print(f"\non {device}; time of the application's whole work, captured and replayed, median")
    for cell in summary["cells"]:
        print(winner_line(cell))
    if summary["runner_up"]:
        print(f"runner-up slower by {gap(summary['runner_up']['median'])} (median), {gap(summary['runner_up']['worst'])} (worst)")
    if fixed := summary["fixed"]:
        where = ", ".join(f"{key} {value}" for key, value in fixed["worst_cell"].items())
        print(f"one choice for the whole map, {fixed['choice']}: {fixed['worst_ratio']:.2f} times the winner at worst ({where})")


def winner_line(cell: dict[str, Any]) -> str:
    """Return one line about a cell of the summary."""
    place = f"{cell['robot']}, B {cell['batch']}, T {cell['frames']}"
    if cell["plan"] is None:
        return f"{place}: none of {cell['tried']} passes the gate"
    line = f"{place}: {cell['plan']} / {cell['schedule']} ({cell['letter']}) {cell['us']:.1f} us"
    ratio = cell["runner_up_ratio"]
    return line if ratio is None else f"{line}, then {cell['runner_up']} {gap(ratio)} slower"


def gap(ratio: float) -> str:
    """Return how much slower a ratio of times is."""
    return f"{100.0 * (ratio - 1.0):.1f} %" if ratio < 2.0 else f"{ratio:.1f} times"
