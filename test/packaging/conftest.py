"""What setup.py declares, and what the source imports."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def declared(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Arguments that setup.py gives to setuptools.setup."""
    import setuptools

    arguments: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: arguments.update(given))
    monkeypatch.chdir(root)
    path = root / "setup.py"
    exec(compile(path.read_text(), str(path), "exec"), {"__file__": str(path), "__name__": "setup"})
    return arguments


def imports(path: Path, package: str) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted module) of every import in a file, those inside functions too.

    Args:
        path: Python file.
        package: Dotted name of the package that holds it, for relative imports.
    """
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


@pytest.fixture(scope="session")
def imported(root: Path) -> dict[Path, list[tuple[int, str]]]:
    """Imports of every module of the package: path below the package, then (line, dotted module)."""
    package = root / "branch_mpc"
    paths = sorted(path for path in package.rglob("*.py"))
    return {path.relative_to(package): list(imports(path, ".".join(path.parent.relative_to(root).parts))) for path in paths}


def is_peer(path: Path) -> bool:
    """Whether a file drives another library for a comparison: nobody else imports it, and it reports what is not installed."""
    return path.name.startswith("peers_")


@pytest.fixture(scope="session")
def peer_imports(imported: dict[Path, list[tuple[int, str]]]) -> set[str]:
    """Top-level names that only comparisons with peers import."""
    names = {name.split(".")[0] for path, found in imported.items() if is_peer(path) for _, name in found}
    return names - set(sys.stdlib_module_names) - {"branch_mpc"}


@pytest.fixture(scope="session")
def third_party(root: Path, imported: dict[Path, list[tuple[int, str]]]) -> set[str]:
    """Top-level names of what the package and the launch files import from elsewhere; not what only a comparison with a peer needs."""
    needed = {path: found for path, found in imported.items() if not is_peer(path)}
    names = {name.split(".")[0] for found in needed.values() for _, name in found}
    names |= {name.split(".")[0] for path in root.glob("launch/*.py") for _, name in imports(path, "")}
    return names - set(sys.stdlib_module_names) - {"branch_mpc"}
