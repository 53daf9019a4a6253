"""The map: what wins, what a fixed choice costs, what is drawn; and small maps through the library."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from branch_mpc.bench import map as bench_map
from branch_mpc.bench.map_cases import Case, Workload
from branch_mpc.bench.map_figure import draw_map, save_map
from branch_mpc.bench.map_table import print_map
from branch_mpc.errors import ScheduleError, SettingError
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_library import MissingRobotError
from branch_mpc.robot.tree_model import TreeModel


def row(robot: str, batch: int, plan: str, schedule: str, us: float, passed: bool = True, frames: int = 8) -> dict[str, Any]:
    return {
        "application": "trajectory",
        "robot": robot,
        "dof": 7,
        "batch": batch,
        "frames": frames,
        "plan": plan,
        "schedule": schedule,
        "us": us,
        "passed": passed,
        "residual": 1e-6,
        "refused": None,
    }


ROWS = [
    row("arm", 1, "cyclic", "fused", 10.0),
    row("arm", 1, "chronological", "fused", 15.0),
    row("arm", 1, "dense", "serial", 1.0, passed=False),  # fast and wrong: wins nothing
    row("arm", 64, "cyclic", "fused", 40.0),
    row("arm", 64, "chronological", "fused", 20.0),
    row("hand", 1, "cyclic", "fused", 30.0),
    row("hand", 1, "tree", "levels", 29.0),
]


def test_winners_runner_up_and_fixed_choice() -> None:
    """The winner is the fastest row that passes; the fixed choice is the best one that passes nearly everywhere."""
    found = bench_map.summary(ROWS)
    winners = {(cell["robot"], cell["batch"]): (cell["plan"], cell["letter"]) for cell in found["cells"]}
    assert winners == {("arm", 1): ("cyclic", "F"), ("arm", 64): ("chronological", "F"), ("hand", 1): ("tree", "L")}
    assert found["runner_up"] == {"median": pytest.approx(1.5), "worst": pytest.approx(2.0)}
    fixed = found["fixed"]
    assert fixed["choice"] == "cyclic / fused" and fixed["worst_ratio"] == pytest.approx(2.0)
    assert fixed["worst_cell"]["batch"] == 64 and fixed["without_passing_row"] == 0


def test_cells_without_a_passing_row_are_shown() -> None:
    """A cell in which nothing passes has no winner, and is counted, not dropped."""
    found = bench_map.summary([row("arm", 1, "tree", "serial", 5.0, passed=False)])
    assert found["cells"][0]["plan"] is None and found["cells"][0]["tried"] == 1 and found["fixed"] is None


def test_table_tells_every_row_and_the_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has a line a row, the reason of a refused one, a line a cell, and the price of a fixed choice."""
    refused = row("arm", 1, "tree", "fused", 0.0, passed=False) | {"us": None, "refused": "a front is too wide"}
    rows = [*ROWS, refused]
    print_map(rows, bench_map.summary(rows), "a device")
    text = capsys.readouterr().out
    assert "a front is too wide" in text and "FAILED" in text and "cyclic / fused: 2.00 times" in text and "50.0 % slower" in text


def test_picture_shows_every_cell(tmp_path: Path) -> None:
    """A panel a robot with a letter for every cell that has a winner; the file appears whole."""
    figure = draw_map(ROWS, "a device")
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["arm (7)", "hand (7)"]
    assert sorted(text for text in texts if len(text) == 1) == ["F", "F", "L"]
    assert save_map(ROWS, tmp_path / "new" / "map.png", "a device").stat().st_size > 1000


def test_candidates_leave_out_what_has_no_meaning() -> None:
    """Single poses have no order in time; one front over all frames of a long trajectory is not tried."""
    tree = twin.random_tree(np.random.default_rng(0), 6)
    short, long = Workload("trajectory", tree, 1, 8), Workload("trajectory", tree, 1, 512)
    assert {choice.plan for choice in bench_map.candidates(Workload("ik", tree, 4))} == {"tree", "dense"}
    assert len(bench_map.candidates(short)) == 24
    assert {choice.plan for choice in bench_map.candidates(long)} == {"chronological", "cyclic"}


@pytest.mark.parametrize(
    ("robots", "batches", "horizons", "remedy"),
    [(["indy7"], [0], [8], "at least 1"), (["indy7"], [1], [1], "ik"), (["nobody"], [1], [8], "indy7")],
)
def test_wrong_grids_are_refused(robots: list[str], batches: list[int], horizons: list[int], remedy: str) -> None:
    """A grid that cannot be measured is refused with what to give instead."""
    with pytest.raises(Exception, match=remedy):
        bench_map.workloads_of("trajectory", robots, batches, horizons)
    with pytest.raises(SettingError, match="choose one of"):
        Case(Workload("welding", twin.random_tree(np.random.default_rng(0), 3), 1))


def test_robots_that_are_not_installed_are_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing optional package costs its robots their cells, with a word about it; without any robot the map is refused."""

    def load(name: str) -> TreeModel:
        if name == "g1":
            raise MissingRobotError("robot 'g1' comes with a package, which is not installed", "install it")
        return twin.random_tree(np.random.default_rng(0), 3)

    monkeypatch.setattr(bench_map, "load_tree", load)
    told: list[str] = []
    assert len(bench_map.workloads_of("ik", ["indy7", "g1"], [1, 2], [1], told.append)) == 2
    assert len(told) == 1 and "g1" in told[0]
    with pytest.raises(SettingError, match="no robot"):
        bench_map.workloads_of("ik", ["g1"], [1], [1])


def test_every_choice_answers_alike_on_a_small_robot() -> None:
    """Every plan under every schedule passes the gate against the float64 twin, on a free base with two contacts."""
    rng = np.random.default_rng(31)
    tree = twin.random_tree(rng, 5, free=True)
    rows = bench_map.map_rows([Workload("contact", tree, 3)], "cpu", budget=0.01)
    assert [row["refused"] for row in rows] == [None] * 12
    assert all(row["passed"] and row["reference"] == "float64 twin" for row in rows)


def test_refused_choices_are_rows_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice that does not apply is a row that says why, and the map goes on."""

    def refuse(*_: object, **__: object) -> None:
        raise ScheduleError("a front does not fit", "choose another")

    monkeypatch.setattr(bench_map, "measure", refuse)
    tree = twin.random_tree(np.random.default_rng(31), 3)
    rows = bench_map.map_rows([Workload("contact", tree, 1)], "cpu")
    assert len(rows) == 12 and all(not row["passed"] and "does not fit" in row["refused"] for row in rows)
