"""The picture of the comparison with OSQP: time, merit and tracking error side by side."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branch_mpc.bench.figure import ACTUAL, INK, QUIET, STYLE, TARGET, check_picture
from branch_mpc.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"ours": ACTUAL, "osqp": TARGET}
NAMES = {"ours": "branch_mpc", "osqp": "OSQP"}


def save_compare_picture(result: dict[str, Any], path: Path) -> Path:
    """Draw a comparison into a file; the file appears complete or not at all.

    Args:
        result: What `branch_mpc.bench.compare.run_compare` returned.
        path: A .png, .svg or .pdf file; missing folders are made.

    Returns:
        The absolute path of the picture.

    Raises:
        SettingError: matplotlib is missing, or the file cannot be written.
    """
    path = path.absolute()
    check_picture(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise SettingError(f"picture '{path}' cannot be written ({error.strerror})", "give --out another path") from error
    try:
        draw_compare(result).savefig(name, dpi=150)
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def draw_compare(result: dict[str, Any]) -> "Figure":
    """Return the figure of a comparison; needs matplotlib, no display and no global state."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = [(batch, side) for batch in result["ours"] for side in ("ours", "osqp")]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13.0, 2.2 + 0.55 * len(rows)), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # type: ignore[union-attr, call-arg]
        grid = figure.add_gridspec(1, 3, width_ratios=(1.6, 1.0, 1.0))
        time = figure.add_subplot(grid[0, 0])
        merit, error = (figure.add_subplot(grid[0, column], sharey=time) for column in (1, 2))
        _time(time, result, rows)
        _merit(merit, result, rows)
        _tracking(error, result, rows)
        time.set_yticks(range(len(rows)), [f"M = {batch}  {NAMES[side]}" for batch, side in rows])
        time.set_ylim(len(rows) - 0.4, -0.6)
        for axes in (time, merit, error):
            axes.set_axisbelow(True)
            axes.grid(axis="y", visible=False)
            axes.tick_params(axis="y", length=0, labelleft=axes is time)
        figure.suptitle(_title(result), x=0.012, ha="left", fontsize=12, fontweight="bold")
        figure.draw_without_rendering()
    return figure


def _title(result: dict[str, Any]) -> str:
    problem = f"{result['robot']}, N = {result['knots']}, one SQP iteration on {result['ticks']} recorded ticks"
    return f"{problem}; branch_mpc on {result['device']}"


def _time(axes: "Axes", result: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    """Median to 99th percentile, and for OSQP its own run time without the terms that Python makes."""
    for y, (batch, side) in enumerate(rows):
        numbers = result[side][batch]
        p50, p99 = numbers["solve_ms_p50"], numbers["solve_ms_p99"]
        axes.plot([p50, p99], [y, y], color=COLORS[side], linewidth=2.0, alpha=0.5, solid_capstyle="round")
        axes.plot(p50, y, "o", color=COLORS[side], markersize=9)
        axes.annotate(f"{p50:.3g} ms", (p50, y), (0, 9), textcoords="offset points", ha="center", color=INK)
        if "osqp_ms_p50" in numbers:
            alone = numbers["osqp_ms_p50"]
            axes.plot(alone, y, "o", markerfacecolor="white", markeredgecolor=COLORS[side], markersize=7, markeredgewidth=1.6)
            axes.annotate(f"{alone:.3g} ms", (alone, y), (0, 9), textcoords="offset points", ha="center", color=QUIET)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title("Time of a solve, host to host")
    axes.set_xlabel("ms; dot: median, line: to the 99th percentile, ring: OSQP's own run time alone")


def _merit(axes: "Axes", result: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    """Mean cost after the iteration; the axis spans at least 0.1 %, so that equal merits look equal."""
    values = [result[side][batch]["merit"] for batch, side in rows]
    for y, ((_, side), value) in enumerate(zip(rows, values, strict=True)):
        axes.plot(value, y, "o", color=COLORS[side], markersize=9)
        axes.annotate(f"{value:.7g}", (value, y), (0, 9), textcoords="offset points", ha="center", color=INK)
    middle = 0.5 * (min(values) + max(values))
    half = max(0.75 * (max(values) - min(values)), 1e-3 * abs(middle), 1e-9)
    axes.set_xlim(middle - half, middle + half)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="x", nbins=3)
    axes.set_title("Merit after the iteration")
    axes.set_xlabel("mean cost in float64; lower is better")


def _tracking(axes: "Axes", result: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    for y, (batch, side) in enumerate(rows):
        value = result[side][batch]["tracking_rms_mm"]
        if value is None:
            continue
        axes.barh(y, value, height=0.45, color=COLORS[side])
        axes.annotate(f"{value:.3g} mm", (value, y), (4, 0), textcoords="offset points", va="center", color=INK)
    axes.margins(x=0.25)
    axes.set_xlim(left=0.0)
    axes.set_title("Tracking error, closed loop")
    axes.set_xlabel("RMS [mm]")
