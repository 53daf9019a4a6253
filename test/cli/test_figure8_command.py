"""`branch_mpc figure8 --no-ros`: what it prints, what it writes, and how it ends."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import branch_mpc
from branch_mpc.cli import main

SHORT = ["figure8", "--no-ros", "--device", "cpu", "--approach", "1", "--duration", "0.2", "--batch", "2"]
KEYS = {
    "tracking_rms_mm", "tracking_max_mm", "ticks", "overruns", "solve_ms_p50", "solve_ms_p95", "solve_ms_p99", "merit",
    "kkt_residual", "limit_violations", "device", "policy", "formulation", "knots", "batch", "iterations", "step", "boundary",
    "versions", "date", "picture",
}  # fmt: skip


def test_json_is_the_last_line_and_progress_is_elsewhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Standard output holds one JSON object with the numbers, their boundary and the picture; progress goes to standard error."""
    assert main([*SHORT, "--json", "--out", str(tmp_path / "new" / "run.png")]) == 0
    said = capsys.readouterr()
    results = json.loads(said.out.splitlines()[-1])
    assert said.out.count("\n") == 1
    assert set(results) >= KEYS
    assert (results["ticks"], results["batch"], results["limit_violations"]) == (120, 2, 0)
    assert Path(results["picture"]).read_bytes().startswith(b"\x89PNG")
    assert "lockstep" in said.err
    assert "Warp" not in said.err


def test_the_table_names_the_policy_and_no_picture_is_drawn_when_none_is_wanted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --json a table is printed; with --no-picture the folder stays empty."""
    monkeypatch.chdir(tmp_path)
    assert main([*SHORT, "--no-picture"]) == 0
    table = capsys.readouterr().out
    for words in ("tracking RMS after the approach", "solve time p99", "launch policy", "acceleration form", "host to host"):
        assert words in table
    assert list(tmp_path.iterdir()) == []


def test_options_win_over_assignments_and_assignments_over_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--batch beats --set batch, which beats the file; what only the file says stays."""
    config = tmp_path / "mine.yaml"
    config.write_text("/**:\n  ros__parameters:\n    batch: 7\n    knots: 20\n    sink: effort\n    weights:\n      torque: 1.0e-5\n")
    words = [*SHORT, "--json", "--no-picture", "--config", str(config), "--set", "batch=5", "--set", "weights.velocity=2e-2"]
    assert main(words) == 0
    results = json.loads(capsys.readouterr().out)
    assert (results["batch"], results["knots"]) == (2, 20)
    assert (results["weights"]["torque"], results["weights"]["velocity"]) == (1e-5, 2e-2)


def test_a_point_can_be_held_instead(capsys: pytest.CaptureFixture[str]) -> None:
    """--target approaches a point: after one second the tool is within 5 mm of it."""
    words = ["figure8", "--no-ros", "--device", "cpu", "--batch", "1", "--approach", "1", "--duration", "0.5", "--json", "--no-picture"]
    assert main([*words, "--target", "-0.3 0.45 0.75"]) == 0
    assert json.loads(capsys.readouterr().out)["tracking_max_mm"] < 5.0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the package's version."""
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"branch_mpc {branch_mpc.__version__}\n"


def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    """SIGINT in the middle of a run: code 130, one last line, no trace, no picture."""
    command = [sys.executable, "-m", "branch_mpc.cli", "figure8", "--no-ros", "--device", "cpu", "--batch", "2", "--duration", "600"]
    # A process started by a shell's `&` ignores SIGINT, and so would this one.
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "run.png")], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, restore_signals=True
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("lockstep"):
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=30)
    assert process.returncode == 130, "".join(lines) + rest
    assert rest.splitlines()[-1] == "branch_mpc: stopped by Ctrl-C"
    assert "Traceback" not in rest
    assert out == ""
    assert list(tmp_path.iterdir()) == []
