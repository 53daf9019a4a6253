"""What must not be in the repository."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def tracked(root: Path) -> list[Path]:
    """Files tracked by git that exist in the work tree."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git work tree (an unpacked archive), or there is no git")
    # A colcon workspace links to the tree, which git would call of dubious ownership elsewhere.
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def test_no_file_names_a_place_of_one_machine(tracked: list[Path], root: Path) -> None:
    """No tracked file holds an absolute path of somebody's home or workplace."""
    # In pieces, since this file is tracked as well.
    place = re.compile(rb"(?<![\w.~-])/(?:" + b"|".join([b"wo" + b"rk", b"ho" + b"me", b"ro" + b"ot", b"Us" + b"ers"]) + rb")/[\w.]")
    offenders = [str(path.relative_to(root)) for path in tracked if place.search(path.read_bytes())]
    assert tracked and offenders == []


def test_no_build_product_is_tracked(tracked: list[Path], root: Path) -> None:
    """Neither builds nor caches nor virtual environments are in git."""
    products = re.compile(r"^(build|install|log|out|dist|\.venv[^/]*)/|__pycache__|\.(so|pyc|o|egg-info)(/|$)")
    assert [name for path in tracked if products.search(name := path.relative_to(root).as_posix())] == []
