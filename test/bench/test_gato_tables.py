"""GATO's tables: the published rows as shipped, the verdict, and one run of the command."""

import json

import pytest

from branch_mpc.bench.gato_format import format_tables
from branch_mpc.bench.gato_tables import published, verdict
from branch_mpc.cli import main


def test_published_rows_are_those_of_the_page():
    """The shipped rows have their source, and spot values of every table are the page's."""
    tables = published("gato_timing")
    assert "Merit launch timing" in tables["source"]
    sizes = {name: len(tables[name]["rows"]) for name in tables if isinstance(tables[name], dict)}
    assert sizes == {
        "merit_rtx5090": 45, "stages_orin": 24, "merit_orin": 12, "pcg_iterations": 5, "golden": 6,
        "direct_against_pcg": 15, "final_merit": 5,
    }  # fmt: skip
    assert tables["pcg_iterations"]["rows"][0]["cold"] == [27, 29, 32, 34, 50, 50, 56, 54]
    assert tables["direct_against_pcg"]["rows"][-1]["warm_ratio"] == 0.30
    assert tables["final_merit"]["rows"][2] == {
        "knots": 128, "cold_pcg": 84.69, "cold_direct": 72.53, "cold_direct_first": 81.01,
        "warm_pcg": 58.75, "warm_direct": 39.18, "warm_direct_first": 60.02,
    }  # fmt: skip
    assert published("gato_quality")["rows"][0]["merit"] == 45.146


@pytest.mark.parametrize(
    ("merit", "us", "wins", "why"),
    [(-2.0, 1000.0, True, ""), (-5.0, 1000.0, False, "above -5.0000 of pcg"), (-2.0, 50.0, False, "100 us to the merit of pcg")],
)
def test_the_verdict_says_where_we_lose(merit, us, wins, why):
    """Lower merit after equal iterations and less time to the other's merit win; either one missed is named."""
    ours = {"merit": -3.0, "us": 800.0, "merits": [-2.5, -2.8, -2.9, -3.0, -3.0, -3.0, -3.0, -3.0]}
    found = verdict(ours, {"pcg": {"merit": merit, "us": us}})
    assert found["wins"] is wins and why in found["why_not"]


def test_quick_tables(capsys):
    """`branch_mpc bench gato-tables --quick --json` measures every table on the CPU: the acceleration form ends at or below both
    linear solvers, PCG's first counts on GATO's problem are gato-mpc's within 10 %, and the same object prints as text."""
    assert main(["bench", "gato-tables", "--quick", "--device", "cpu", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    for name in ("merit_launch", "stages", "pcg_iterations", "direct_against_pcg", "quality"):
        assert tables[name]
    assert [abs(row["cold"][0] - count) <= 0.1 * count for row, count in zip(tables["pcg_iterations"], (45, 52), strict=True)]
    for row in tables["quality"]:
        assert row["acceleration"]["merit"] <= min(row["pcg"]["merit"], row["direct"]["merit"]) + 1e-4
        theirs = next(r["merit"] for r in row["published"] if r["iterations"] == 1)
        assert abs(row["pcg"]["merits"][0] - theirs) <= 0.1 * theirs
    text = format_tables(tables)
    assert "gato-mpc 0.1.6" in text and "Orin, example 15" in text
