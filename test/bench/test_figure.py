"""The picture: complete or absent, and refused before the run when it could not be written."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from branch_mpc.bench import figure
from branch_mpc.bench.record import Motion, Recording, Solves
from branch_mpc.errors import SettingError
from branch_mpc.robot.articulation import Articulation


def recording(count: int) -> Recording:
    """A one-joint arm whose tool is 1 mm behind a circle."""
    time = 0.01 * np.arange(count)
    target = np.stack([0.3 * np.cos(time), 0.3 * np.sin(time), 0.5 + 0.0 * time], axis=1).reshape(-1, 3)
    joints = np.stack([np.sin(time)], axis=1).reshape(-1, 1)
    one, row = np.ones((1, 3)), np.zeros((1, 3))
    arm = Articulation(
        "one", ("hinge",), ("revolute",), (-1,), np.eye(3)[None], row, one / np.sqrt(3.0), np.ones(1), row, np.eye(3)[None],
        -np.ones(1), np.ones(1), np.ones(1), np.ones(1), "tool", 0, np.eye(3), np.zeros(3),
    )  # fmt: skip
    words = (("solved",) * count, ("hold",) * count)
    solves = Solves(time, 1e-3 + 0.0 * time, time, time, time, time.astype(int), np.zeros((count, 6)), *words)
    return Recording(arm, Motion(time, joints, joints, joints, target + 1e-3, target), solves, approach=0.2, period=0.01)


@pytest.mark.parametrize("count", [0, 1, 60])
def test_a_run_of_any_length_is_drawn(count: int, tmp_path: Path) -> None:
    """An empty, a one-tick and an ordinary run each give a PNG file, in a folder made for it."""
    path = figure.save_picture(recording(count), tmp_path / "new" / "figure8.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_solve_over_the_period_is_drawn(tmp_path: Path) -> None:
    """Late ticks do not break the picture."""
    run = recording(60)
    late = dataclasses.replace(run.solves, solve_time=np.full(60, 0.02))
    assert figure.save_picture(dataclasses.replace(run, solves=late), tmp_path / "late.svg").stat().st_size > 1000


def test_a_failed_picture_leaves_the_old_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When drawing fails the old file is unchanged and no temporary file stays."""
    path = tmp_path / "figure8.png"
    path.write_bytes(b"old")

    def broken(_: Recording) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr(figure, "draw", broken)
    with pytest.raises(RuntimeError, match="no ink"):
        figure.save_picture(recording(10), path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["figure8.png"]


@pytest.mark.parametrize("name", ["figure8", "figure8.txt", "file/figure8.png", "folder.png"])
def test_an_impossible_picture_is_refused_before_the_run(name: str, tmp_path: Path) -> None:
    """A wrong suffix, a folder that is a file, and a file that is a folder are refused."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(SettingError, match="--out"):
        figure.check_picture(tmp_path / name)
