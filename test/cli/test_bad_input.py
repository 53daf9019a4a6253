"""Bad input at the command line: one clear line that says what and the remedy, exit code 2, nothing written."""

import re
import sys
from pathlib import Path

import pytest

from branch_mpc.cli import main
from branch_mpc.robot import robot_urdf


def refuse(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    """Run `figure8 --no-ros` with more words, check how it refuses, and return the one line it says."""
    before = sorted(folder.rglob("*"))
    try:
        code = main(["figure8", "--no-ros", "--out", str(folder / "out" / "figure8.png"), *words])
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("branch_mpc: error: ")
    assert ";" in lines[0], "an error names its remedy"
    assert sorted(folder.rglob("*")) == before, "nothing may be left behind"
    return lines[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--robot", "indy77"], "robot 'indy77' is unknown; use one of indy7, iiwa14"),
        (["--robot", "nowhere/arm.urdf"], "robot file 'nowhere/arm.urdf' does not exist"),
        (["--tool", "link99"], "link99"),
        (["--knots", "1"], "parameter 'knots' is 1; give a value in [2, 512]"),
        (["--knots", "100000"], "parameter 'knots' is 100000"),
        (["--batch", "0"], "parameter 'batch' is 0; give a value in [1, 4096]"),
        (["--batch", "5000"], "parameter 'batch' is 5000"),
        (["--knots", "many"], "invalid int value: 'many'; see branch_mpc figure8 --help"),
        (["--iterations", "0"], "parameter 'iterations' is 0"),
        (["--formulation", "magic"], "parameter 'formulation' is 'magic'; choose one of acceleration"),
        (["--set", "weights.tool_positon=3"], "parameter 'weights.tool_positon' does not exist; did you mean 'weights.tool_position'?"),
        (["--set", "guard.torque_marign=0.1"], "did you mean 'guard.torque_margin'?"),
        (["--set", "weights.torque=heavy"], "parameter 'weights.torque' is 'heavy'; give a float"),
        (["--set", "weights.torque=.nan"], "parameter 'weights.torque' is nan; give a finite number"),
        (["--set", "step=0"], "parameter 'step' is 0"),
        (["--set", "rate"], "--set 'rate' assigns nothing; write it as NAME=VALUE"),
        (["--config", "missing.yaml"], "parameter file 'missing.yaml' does not exist"),
        (["--duration", "-1"], "--duration is -1"),
        (["--duration", "nan"], "--duration is nan"),
        (["--period", "0"], "parameter 'reference.period' is 0"),
        (["--approach", "nan"], "parameter 'reference.approach' is nan"),
        (["--set", "start=[0.0, 1.0]"], "parameter 'start' has 2 numbers; give one for each of the 6 joints"),
        (["--set", "start=[9.0, 0.0, 0.0, 0.0, 0.0, 0.0]"], "parameter 'start' is outside the limits of joint"),
        (["--push", "1 2"], "--push is '1 2'; give three finite numbers"),
        (["--push", "0 0 nan"], "parameter 'push' is nan"),
        (["--push", "0 0 -50", "--push-at", "inf"], "parameter 'push_at' is inf"),
        (["--target", "0.3 nan 0.5"], "target position is [0.3 nan 0.5]; give three finite numbers"),
        (["--target", "0.3 0.5"], "--target is '0.3 0.5'"),
        (["--no-plant"], "--no-plant was given with --no-ros"),
        (["--out", "figure8.docx"], "picture 'figure8.docx' is not a .png, .svg or .pdf file"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_a_bad_option_is_one_clear_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Every option out of its range or of the wrong kind is refused before anything runs, by name and with the remedy."""
    assert said in refuse(capsys, tmp_path, *words)


def test_an_unknown_key_in_a_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A key that does not exist is refused with the nearest one that does."""
    config = tmp_path / "mine.yaml"
    config.write_text("/**:\n  ros__parameters:\n    robot: indy7\n    knobs: 32\n")
    assert "parameter 'knobs' does not exist; did you mean 'knots'?" in refuse(capsys, tmp_path, "--config", str(config))


def test_a_file_that_is_no_parameter_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """YAML without ros__parameters, and text that is not YAML, are refused by name."""
    config = tmp_path / "mine.yaml"
    config.write_text("knots: 32\n")
    assert "holds no 'ros__parameters'" in refuse(capsys, tmp_path, "--config", str(config))
    config.write_text("knots: [32\n")
    assert "is not YAML" in refuse(capsys, tmp_path, "--config", str(config))


@pytest.mark.parametrize(("pattern", "said"), [(r"<inertial>.*?</inertial>", "inert"), (r"<limit [^>]*/>", "limit")])
def test_a_urdf_without_inertia_or_limits_is_refused(pattern: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing is guessed about a robot: what its file lacks is named, with the file."""
    text = robot_urdf("indy7").read_text()
    file = tmp_path / "bare.urdf"
    file.write_text(re.sub(pattern, "", text, flags=re.DOTALL))
    assert file.read_text() != text
    line = refuse(capsys, tmp_path, "--robot", str(file))
    assert said in line
    assert "bare.urdf" in line


def test_a_device_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A device that this machine does not have is named; nothing falls back to another one."""
    assert "cuda:97" in refuse(capsys, tmp_path, "--device", "cuda:97")


def test_a_picture_that_cannot_be_written_is_found_before_the_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file where a folder should be is reported at once and not after the run."""
    (tmp_path / "out").write_text("")
    assert "cannot be written" in refuse(capsys, tmp_path)


def test_a_missing_ros_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rclpy the command says so and names the way round it."""
    monkeypatch.setitem(sys.modules, "rclpy", None)
    assert main(["figure8", "--out", str(tmp_path / "run.png")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("branch_mpc: error: ROS 2 was not found")
    assert "use --no-ros" in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["compare", "--batch", "0,8"], ["compare", "--batch", "x"], ["compare", "--duration", "nan"]])
def test_compare_refuses_in_the_same_way(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The other command speaks with the same voice."""
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("branch_mpc: error: --")
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["figure9"]])
def test_a_missing_or_unknown_command_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """No command, or one that does not exist, ends with code 2 and one line."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
