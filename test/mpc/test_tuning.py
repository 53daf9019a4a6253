"""Tuning: candidates, the accuracy gate, and one measured case through to the policy."""

import json

import numpy as np
import pytest

from branch_mpc.cli import main
from branch_mpc.errors import SettingError
from branch_mpc.mpc.device_facts import DeviceFacts
from branch_mpc.mpc.launch_policy import choose
from branch_mpc.mpc.tuning import Choice, Measured, candidates, refinements, winner
from branch_mpc.mpc.tuning_table import load_table

START = Choice("pcg", "chronological", "fused", 64, "float64")


def test_the_gate_keeps_a_fast_but_wrong_candidate_out():
    """The fastest candidate within the gate wins; a faster one with a worse or no merit does not."""
    right, slow, wrong, poisoned = (
        Measured(START, time, merit) for time, merit in ((50.0, -3.240), (80.0, -3.241), (10.0, 1.0), (1.0, np.nan))
    )
    assert winner([slow, wrong, poisoned, right]) is right
    with pytest.raises(SettingError, match="no candidate"):
        winner([poisoned])


def test_candidates_of_a_gpu_and_of_the_cpu():
    """The policy's choice comes first; a GPU compares schedules and linear solvers, then merit blocks; the CPU has one schedule."""
    gpu = list(candidates("torque", False, START, 2))
    assert gpu[0] == START and len(set(gpu)) == len(gpu)
    assert {(c.linear_solver, c.schedule) for c in gpu} >= {("direct", "fused"), ("direct", "cooperative"), ("direct_first", "fused")}
    assert {c.merit_block for c in refinements("torque", False, START)} == {32, 64, 128}
    start = Choice("direct", "chronological", "serial", 64, "float64")
    assert {c.schedule for c in candidates("acceleration", True, start, 1)} == {"serial"}
    assert list(refinements("torque", True, start)) == []


def test_tune_command_measures_and_the_policy_follows(tmp_path, capsys):
    """`branch_mpc tune` writes rows of both forms for this device, and the policy then chooses them with their time."""
    path = tmp_path / "tuning.json"
    words = ["tune", "--device", "cpu", "--knots", "8", "--batch", "1", "--budget", "0.02", "--out", str(path), "--json"]
    assert main(words) == 0
    printed = json.loads(capsys.readouterr().out)["rows"]
    table = load_table(path)
    assert [row.formulation for row in table.rows] == ["acceleration", "torque"] == [row["formulation"] for row in printed]
    assert all(row.time_us > 0 and np.isfinite(row.merit) for row in table.rows)
    for row in table.rows:
        policy = choose(DeviceFacts("CPU", True), knots=8, batch=1, formulation=row.formulation, robot="indy7", table=table)
        assert policy.linear_solver == row.linear_solver and "measured on this device" in policy.reason
