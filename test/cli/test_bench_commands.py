"""`branch_mpc report` and `branch_mpc bench map` as a user calls them."""

import json
from pathlib import Path

import pytest

from branch_mpc import cli
from branch_mpc.examples import choices

SMALL = ["bench", "map", "--application", "ik", "--robots", "indy7", "--batches", "2", "--seconds", "0.01"]


@pytest.mark.parametrize("application", ["mpc", "ik", "trajectory", "contact"])
def test_report_tells_plan_and_schedule_without_compiling(
    application: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reports of a configuration come from symbols alone: no kernel is generated for them."""
    import branch_mpc.branch as br

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a report compiled something")

    monkeypatch.setattr(br, "compile", refuse)
    order = "tree" if application in ("ik", "contact") else "cyclic"
    assert cli.main(["report", "--application", application, "--knots", "16", "--batch", "4", "--order", order, "--schedule", "fused"]) == 0
    text = capsys.readouterr().out
    assert f"plan {order}" in text and "schedule fused" in text and "fill" in text and "launches" in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["report", "--order", "sideways"], "choose one of tree, dense"),
        (["report", "--schedule", "later"], "choose one of serial"),
        (["report", "--batch", "0"], "batch is 0"),
        (["report", "--robot", "nobody"], "nobody"),
        (["bench", "map", "--batches", "many"], "--batches"),
        (["bench", "map", "--seconds", "-1"], "--seconds"),
        (["bench", "map", "--application", "trajectory", "--horizons", "1"], "single pose"),
        (["bench", "map", "--out", "map.txt"], "picture"),
        (["bench", "map", "--quick", "--device", "cuda:9"], "cuda:9"),
    ],
)
def test_wrong_words_are_one_line_with_a_remedy(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong value ends with exit code 2 and one line on standard error."""
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("branch_mpc: error: ") and part in error and error.rstrip().count("\n") == 0


def test_a_small_map_in_json_rows_and_picture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A map prints one JSON object whose rows hold time, residual and verdict, and writes the same rows and the picture."""
    monkeypatch.setattr("branch_mpc.bench.map.candidates", lambda workload: choices.choices(("tree", "dense"), ("serial",)))
    rows, picture = tmp_path / "rows.json", tmp_path / "map.png"
    assert cli.main([*SMALL, "--json", "--rows", str(rows), "--out", str(picture)]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["plan"] for row in result["rows"]] == ["tree", "dense"] and picture.stat().st_size > 1000
    for row in result["rows"]:
        assert row["passed"] and row["us"] > 0.0 and row["residual"] < row["gate"] and row["reference"] == "float64 twin"
    assert json.loads(rows.read_text())["rows"] == result["rows"]
    assert result["summary"]["cells"][0]["plan"] in ("tree", "dense")


def test_the_controller_has_a_report_for_every_choice(capsys: pytest.CaptureFixture[str]) -> None:
    """Schedules and orders that a chain of states does not have report on the controller's problem as coupled frames."""
    for order in choices.PLANS:
        for schedule in choices.SCHEDULES:
            assert cli.main(["report", "--knots", "12", "--batch", "2", "--order", order, "--schedule", schedule]) == 0
            text = capsys.readouterr().out
            assert f"schedule {schedule}" in text and ("chain of 12 states" in text or "coupled frames" in text)
