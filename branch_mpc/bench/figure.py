"""The picture of a run: paths in 3D, tracking error, torques against limits, solve time per tick."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from branch_mpc.bench.record import Recording, metrics, tracking_error
from branch_mpc.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, TARGET, ACTUAL, LATE = "#1f2933", "#9aa5b1", "#f0a202", "#0b6e99", "#c0392b"
JOINT_COLORS = tuple("#0b6e99 #e07a1f #3c9d5b #b83b5e #7b5ea7 #8c6d46 #4aa6a6 #6b7280 #c2a300 #d36fa4 #3f51b5 #111111".split())
LEGEND = {"columnspacing": 0.9, "handlelength": 1.0, "handletextpad": 0.4, "fontsize": 7.5}
STYLE = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e7eb",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def check_picture(path: Path) -> None:
    """Find out before a run whether its picture can be written.

    Raises:
        SettingError: matplotlib is missing, or the folder cannot be written.
    """
    try:
        import matplotlib  # noqa: F401 (an extra: only pictures need it)
    except ImportError as error:
        raise SettingError(
            "matplotlib is not installed, so no picture can be drawn", "pip install 'branch_mpc[plot]' or add --no-picture"
        ) from error
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise SettingError(f"picture '{path}' is not a .png, .svg or .pdf file", "give --out such a name")
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or path.is_dir():
        raise SettingError(f"picture '{path}' cannot be written", "give --out a file in a folder you may write to")


def save_picture(recording: Recording, path: Path) -> Path:
    """Draw a run into a file; the file appears complete or not at all.

    Args:
        recording: The run.
        path: A .png, .svg or .pdf file; missing folders are made.

    Returns:
        The absolute path of the picture.

    Raises:
        SettingError: The file cannot be written.
    """
    path = path.absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise SettingError(f"picture '{path}' cannot be written ({error.strerror})", "give --out another path") from error
    try:
        draw(recording).savefig(name, dpi=150)
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def draw(recording: Recording) -> "Figure":
    """Return the figure of a run; needs matplotlib, no display and no global state."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13.0, 7.6), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
        grid = figure.add_gridspec(3, 2, width_ratios=(1.2, 1.0))
        _paths(figure.add_subplot(grid[:, 0], projection="3d"), recording)
        error = figure.add_subplot(grid[0, 1])
        torque, solve = (figure.add_subplot(grid[row, 1], sharex=error) for row in (1, 2))
        _error(error, recording)
        _torque(torque, recording)
        _solve(solve, recording)
        solve.set_xlabel("time [s]")
        for axes in (error, torque):
            axes.tick_params(labelbottom=False)
        for axes in (error, solve):
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        figure.suptitle(_title(recording), x=0.012, ha="left", fontsize=13, fontweight="bold")
        figure.draw_without_rendering()
    return figure


def _title(recording: Recording) -> str:
    numbers, facts = metrics(recording), recording.facts
    rms = numbers["tracking_rms_mm"]
    result = "approach only" if rms is None else f"{rms:.3g} mm RMS after the approach"
    settings = [f"{label} = {facts[key]}" for label, key in (("N", "knots"), ("M", "batch")) if key in facts]
    return ", ".join([f"{recording.articulation.name}: {result}", *settings, *([str(facts["device"])] if "device" in facts else [])])


def _paths(axes: Any, recording: Recording) -> None:
    motion = recording.motion
    figure = motion.time >= recording.approach
    axes.plot(*motion.target[figure].T, color=TARGET, linewidth=5.0, alpha=0.55, solid_capstyle="round", label="target")
    axes.plot(*motion.tool[~figure].T, color=QUIET, linewidth=1.4, linestyle=(0, (4, 2)), label="approach")
    axes.plot(*motion.tool[figure].T, color=ACTUAL, linewidth=1.4, label="tool")
    if len(motion.tool):
        axes.scatter(*motion.tool[0], color=INK, s=26, label="start", depthshade=False)
        _equal(axes, np.vstack([motion.tool, motion.target]))
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
    axes.view_init(elev=18.0, azim=_facing(motion.target[figure]))
    axes.xaxis.pane.fill = axes.yaxis.pane.fill = axes.zaxis.pane.fill = False
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_locator(_ticks())
        axis.pane.set_edgecolor("#e4e7eb")
    axes.zaxis.labelpad = 1.0
    axes.figure.text(0.012, 0.905, "Path of the tool, base frame", fontsize=10, fontweight="bold")
    axes.figure.legend(
        *axes.get_legend_handles_labels(), loc="upper left", bbox_to_anchor=(0.004, 0.9), ncols=4, columnspacing=1.2, handlelength=1.6
    )


def _ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10])


def _facing(points: np.ndarray) -> float:
    """Return the azimuth [deg] from which an upright figure is seen nearly face on, from the side away from the base."""
    if len(points) < 2:
        return -60.0
    middle = points.mean(axis=0)[:2]
    _, _, axes = np.linalg.svd(points[:, :2] - middle, full_matrices=False)
    outward = np.array([-axes[0, 1], axes[0, 0]])
    outward *= 1.0 if outward @ middle >= 0.0 else -1.0
    return float(np.degrees(np.arctan2(outward[1], outward[0]))) + 22.0


def _equal(axes: Any, points: np.ndarray) -> None:
    """Give the three axes one scale, in a box that just holds the points."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 0.25 * max(1e-3, float((high - low).max())))
    middle = 0.5 * (low + high)
    axes.set(xlim=_ends(middle[0], span[0]), ylim=_ends(middle[1], span[1]), zlim=_ends(middle[2], span[2]))
    axes.set_box_aspect(span, zoom=1.0)


def _ends(middle: float, span: float) -> tuple[float, float]:
    return middle - 0.55 * span, middle + 0.55 * span


def _shade_approach(axes: "Axes", recording: Recording) -> None:
    axes.axvspan(0.0, recording.approach, color="#f1f3f5", zorder=0)
    axes.margins(x=0.0)


def _error(axes: "Axes", recording: Recording) -> None:
    motion, numbers = recording.motion, metrics(recording)
    error = 1e3 * tracking_error(motion)
    # The tool starts on its target: the decades below the errors of the motion would only show that.
    error = np.maximum(error, 0.5 * np.percentile(error, 2.0) + 1e-6 if error.size else 0.0)
    axes.semilogy(motion.time, error, color=ACTUAL, linewidth=1.3)
    _shade_approach(axes, recording)
    if numbers["tracking_rms_mm"] is not None:
        axes.hlines(numbers["tracking_rms_mm"], recording.approach, motion.time[-1], color=INK, linewidth=0.9, linestyle=(0, (5, 3)))
        axes.set_title(f"Tracking error: RMS {numbers['tracking_rms_mm']:.3g} mm, maximum {numbers['tracking_max_mm']:.3g} mm")
    axes.set_ylabel("error [mm]")
    if recording.approach > 0.0:
        axes.text(0.5 * recording.approach, 0.94, "approach", transform=axes.get_xaxis_transform(), ha="center", va="top", color=QUIET)


def _torque(axes: "Axes", recording: Recording) -> None:
    motion, robot = recording.motion, recording.articulation
    use = 100.0 * motion.torque / robot.effort_limit
    for joint, name in enumerate(robot.joint_names):
        axes.step(motion.time, use[:, joint], where="post", color=JOINT_COLORS[joint % len(JOINT_COLORS)], linewidth=1.1, label=name)
    for sign in (-100.0, 100.0):
        axes.axhline(sign, color=LATE, linewidth=1.0)
    _shade_approach(axes, recording)
    axes.set(ylabel="torque [% of limit]", ylim=(-112.0, 112.0), yticks=(-100, -50, 0, 50, 100))
    axes.set_title("Torques" if use.size == 0 else f"Torques: at most {np.abs(use).max():.0f} % of the limits")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.04), ncols=min(7, robot.dof), **LEGEND)


def _solve(axes: "Axes", recording: Recording) -> None:
    solves, numbers, period = recording.solves, metrics(recording), 1e3 * recording.period
    milliseconds = 1e3 * solves.solve_time
    late = milliseconds > period
    axes.plot(solves.time[~late], milliseconds[~late], ".", color=ACTUAL, markersize=3.0)
    axes.plot(solves.time[late], milliseconds[late], ".", color=LATE, markersize=5.0)
    axes.axhline(period, color=LATE, linewidth=1.0)
    _shade_approach(axes, recording)
    axes.set_yscale("log")
    if len(milliseconds) and milliseconds.min() > 0.0:
        axes.set_ylim(0.6 * milliseconds.min(), 1.8 * max(period, milliseconds.max()))
        p50, p99 = numbers["solve_ms_p50"], numbers["solve_ms_p99"]
        axes.set_title(f"Solve time: p50 {p50:.2f} ms, p99 {p99:.2f} ms, overruns {numbers['overruns']}")
    place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "bottom"}
    axes.text(0.995, period * 1.08, f"period {period:g} ms", color=LATE, fontsize=8, **place)
    axes.set_ylabel("solve [ms]")
