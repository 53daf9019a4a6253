"""The picture of a map: one panel a robot, batch by horizon; the colour is the plan and the letter the schedule."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branch_mpc.bench.figure import INK, QUIET, STYLE, check_picture
from branch_mpc.bench.map import summary
from branch_mpc.errors import SettingError
from branch_mpc.examples.choices import LETTERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"tree": "#5fa777", "dense": "#e0a458", "chronological": "#7fa7d9", "cyclic": "#a57fc4"}
NONE = "#eef0f2"
TITLES = {"ik": "single-frame inverse kinematics", "trajectory": "trajectory inverse kinematics", "contact": "contact response"}


def save_map(rows: Sequence[dict[str, Any]], path: Path, device: str) -> Path:
    """Draw the rows of one application into a file; the file appears complete or not at all.

    Args:
        rows: Rows of `branch_mpc.bench.map.map_rows`.
        path: A .png, .svg or .pdf file; missing folders are made.
        device: Name of the device, for the title.

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
        draw_map(rows, device).savefig(name, dpi=150)
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def draw_map(rows: Sequence[dict[str, Any]], device: str) -> "Figure":
    """Return the figure of a map; needs matplotlib, no display and no global state."""
    import matplotlib
    from matplotlib.figure import Figure

    cells, robots = summary(rows)["cells"], list(dict.fromkeys(row["robot"] for row in rows))
    sizes = {row["robot"]: row["dof"] for row in rows}
    frames, batches = (sorted({cell[key] for cell in cells}) for key in ("frames", "batch"))
    across = min(4, len(robots))
    down = -(-len(robots) // across)
    with matplotlib.rc_context(STYLE):
        width, height = 1.5 + across * (0.9 + 0.75 * len(batches)), 1.6 + down * (0.9 + 0.55 * len(frames))
        figure = Figure(figsize=(max(width, 7.5), height), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False)
        for axes, robot in zip(grid.flat, robots, strict=False):
            _panel(axes, [cell for cell in cells if cell["robot"] == robot], frames, batches)
            axes.set_title(f"{robot} ({sizes[robot]})")
        for axes in list(grid.flat)[len(robots) :]:
            axes.set_visible(False)
        figure.suptitle(f"Fastest plan and schedule, {TITLES[rows[0]['application']]}, {device}", x=0.01, ha="left", fontweight="bold")
        _legend(figure)
        figure.draw_without_rendering()
    return figure


def _panel(axes: "Axes", cells: list[dict[str, Any]], frames: list[int], batches: list[int]) -> None:
    from matplotlib.patches import Rectangle

    for cell in cells:
        x, y = batches.index(cell["batch"]), frames.index(cell["frames"])
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=COLORS.get(cell["plan"] or "", NONE), edgecolor="white", linewidth=2))
        if cell["letter"] is None:
            axes.text(x, y, "none", ha="center", va="center", color=QUIET, fontsize=7)
            continue
        axes.text(x, y + 0.1, cell["letter"], ha="center", va="center", fontweight="bold", fontsize=11)
        axes.text(x, y - 0.28, _duration(cell["us"]), ha="center", va="center", fontsize=6, color=INK)
    axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    axes.set_yticks(range(len(frames)), [f"T={count}" if count > 1 else "" for count in frames])
    axes.set_xlim(-0.5, len(batches) - 0.5)
    axes.set_ylim(-0.5, len(frames) - 0.5)
    axes.set_xlabel("batch")
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _legend(figure: "Figure") -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=color, label=plan) for plan, color in COLORS.items()]
    handles += [Patch(facecolor="none", label=f"{letter}: {name}") for name, letter in LETTERS.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=5, fontsize=7.5, handlelength=1.0, columnspacing=1.0)


def _duration(microseconds: float) -> str:
    if microseconds < 1e3:
        return f"{microseconds:.3g} us"
    return f"{1e-3 * microseconds:.3g} ms" if microseconds < 1e6 else f"{1e-6 * microseconds:.3g} s"
