"""What setup.py installs exists and is complete."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest


def installed(declared: dict[str, Any]) -> dict[str, str]:
    """Return installed path: source path, of every data file."""
    return {f"{folder}/{Path(file).name}": file for folder, files in declared["data_files"] for file in files}


def test_every_data_file_exists(declared: dict[str, Any], root: Path) -> None:
    """setup.py names no file that is not there, and no folder without files."""
    assert all(files for _, files in declared["data_files"])
    assert all((root / file).is_file() for file in installed(declared).values())


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("launch/*.launch.py", "share/branch_mpc/launch"),
        ("config/*.yaml", "share/branch_mpc/config"),
        ("rviz/*.rviz", "share/branch_mpc/rviz"),
        ("branch_mpc/robot/urdf/*.urdf", "share/branch_mpc/urdf"),
        ("scripts/*", "lib/branch_mpc"),
        ("package.xml", "share/branch_mpc"),
        ("resource/branch_mpc", "share/ament_index/resource_index/packages"),
    ],
)
def test_every_shared_file_is_installed(declared: dict[str, Any], root: Path, source: str, target: str) -> None:
    """A file added to one of these folders is installed where ROS looks for it."""
    found = sorted(root.glob(source))
    assert found and {f"{target}/{path.name}" for path in found} <= set(installed(declared))


def test_urdf_files_are_in_the_package_as_well(declared: dict[str, Any], root: Path) -> None:
    """load_robot finds the shipped robots inside the installed package."""
    assert "**/*.urdf" in declared["package_data"]["branch_mpc"]
    assert sorted(root.glob("branch_mpc/robot/urdf/*.urdf"))


def test_every_folder_of_python_code_is_a_package(declared: dict[str, Any], root: Path) -> None:
    """No room lacks the __init__.py without which it would not be installed."""
    folders = {path.parent for path in (root / "branch_mpc").rglob("*.py")}
    assert {".".join(folder.relative_to(root).parts) for folder in folders} == set(declared["packages"])


def test_executables_can_be_executed(root: Path) -> None:
    """The files of scripts/ carry the x bit, which pip and CMake keep."""
    assert all(path.stat().st_mode & stat.S_IXUSR for path in root.glob("scripts/*"))


def test_every_console_script_has_its_shim_and_its_module(declared: dict[str, Any], root: Path) -> None:
    """An executable exists as console script, in scripts/ for ros2 run, and in the package as a module with main()."""
    scripts = dict(entry.split(" = ") for entry in declared["entry_points"]["console_scripts"])
    assert set(scripts) == {path.name for path in root.glob("scripts/*")}
    for name, target in scripts.items():
        module, function = target.split(":")
        assert f"from {module} import {function}\n" in (root / "scripts" / name).read_text()
        assert f"def {function}(" in root.joinpath(*module.split(".")).with_suffix(".py").read_text()


def test_shim_runs_with_the_python_of_its_prefix(root: Path, tmp_path: Path) -> None:
    """lib/branch_mpc/NAME starts ../../bin/python3 where there is one, so a virtual environment is used without activation."""
    (tmp_path / "lib/branch_mpc").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "lib/branch_mpc/mpc_node"
    shim.write_bytes((root / "scripts/mpc_node").read_bytes())
    python = tmp_path / "bin/python3"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for path in (shim, python):
        path.chmod(0o755)
    with os.popen(f"'{shim}' --ros-args 'two words'") as output:
        assert output.read().splitlines() == [str(shim), "--ros-args", "two words"]


def test_interfaces_can_be_demanded(declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """BRANCH_MPC_INTERFACES=off builds a pure wheel, and a word it does not know is refused."""
    distribution = declared["distclass"]()
    monkeypatch.setenv("BRANCH_MPC_INTERFACES", "off")
    assert not distribution.has_ext_modules()
    monkeypatch.setenv("BRANCH_MPC_INTERFACES", "yes")
    with pytest.raises(SystemExit, match="BRANCH_MPC_INTERFACES is 'yes'; choose on, off or auto"):
        distribution.has_ext_modules()
