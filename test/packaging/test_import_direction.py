"""Data flows one way through the rooms, and so do imports (the first two lists below are the rule)."""

import subprocess
import sys
from pathlib import Path

import pytest

# Room: how far down the flow it is. A room imports only rooms that are further up.
ROOMS = {"robot": 0, "dynamics": 1, "kinematics": 2, "optimal_control": 2, "branch": 2, "sqp": 3, "mpc": 4, "guard": 5, "ros": 6}
# Beside the rooms; imported by no room, except that the node of the simulated robot needs the plant.
BESIDE = {"oracle", "plant", "baseline", "examples", "bench", "cli"}
EXCEPTIONS = {("ros/plant_node.py", "plant")}
# Of everybody.
COMMON = {"errors", "settings", "expression", "derivative", "emit_text", "warp_text", "__version__", "msg"}

Imports = dict[Path, list[tuple[int, str]]]


def room(path: Path) -> str:
    """Return the room a file is in; cli_*.py are the command line's."""
    return "cli" if path.name.startswith("cli") else path.parts[0].removesuffix(".py")


def ours(imported: Imports) -> list[tuple[Path, int, str]]:
    """Return (file, line, room) of every import from one room of the package to another."""
    found = [(path, line, name.split(".")[1]) for path, names in imported.items() for line, name in names if name.startswith("branch_mpc.")]
    return [(path, line, target) for path, line, target in found if target != room(path) and target not in COMMON]


def listed(offenders: list[tuple[Path, int, str]]) -> list[str]:
    return [f"branch_mpc/{path}:{line} imports {target}" for path, line, target in offenders]


def test_every_room_is_known(root: Path) -> None:
    """A new folder or module of the package is given its place in the flow here."""
    paths = [path for path in (root / "branch_mpc").iterdir() if path.suffix == ".py" or next(path.glob("*.py"), None)]
    assert {room(path.relative_to(root / "branch_mpc")) for path in paths} <= set(ROOMS) | BESIDE | COMMON | {"__init__"}


def test_rooms_import_only_what_is_further_up(imported: Imports) -> None:
    """robot, dynamics, kinematics and optimal_control and branch, sqp, mpc, guard, ros: none imports one to its right or at its side."""
    pairs = [(path, line, target) for path, line, target in ours(imported) if room(path) in ROOMS and target in ROOMS]
    assert pairs and listed([(path, line, target) for path, line, target in pairs if ROOMS[target] >= ROOMS[room(path)]]) == []


def test_branch_knows_no_robot(imported: Imports) -> None:
    """The library of the Branch page is usable alone: it imports no other room."""
    assert listed([entry for entry in ours(imported) if room(entry[0]) == "branch"]) == []


def test_nobody_above_imports_what_stands_beside(imported: Imports) -> None:
    """Twins, plant, baseline, measurements and command line use the rooms, never the other way round."""
    offenders = [entry for entry in ours(imported) if room(entry[0]) in ROOMS and entry[2] in BESIDE]
    assert listed([entry for entry in offenders if (entry[0].as_posix(), entry[2]) not in EXCEPTIONS]) == []


def test_common_modules_import_no_room(imported: Imports) -> None:
    """errors.py and settings.py can be imported by everybody."""
    assert listed([entry for entry in ours(imported) if room(entry[0]) in COMMON | {"__init__"}]) == []


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("pinocchio", {"robot", "plant", "baseline", "oracle"}),
        ("osqp", {"baseline"}),
        ("scipy", {"baseline", "oracle", "bench"}),
        ("rclpy", {"ros", "bench"}),
        ("sensor_msgs", {"ros", "bench"}),
        ("std_msgs", {"ros", "bench"}),
        ("launch", set()),
        ("matplotlib", {"bench", "cli"}),
        ("warp", {"dynamics", "kinematics", "branch", "optimal_control", "sqp", "mpc", "examples", "bench", "cli"}),
    ],
)
def test_libraries_stay_in_their_rooms(imported: Imports, library: str, allowed: set[str]) -> None:
    """A library is imported only where the design has put it."""
    found = [(path, line, name) for path, names in imported.items() for line, name in names if name.split(".")[0] == library]
    assert listed([entry for entry in found if room(entry[0]) not in allowed]) == []


PROBE = """
import importlib, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {refused!r}:
            raise ImportError(f"{{name}} is refused")
sys.meta_path.insert(0, Refuse())
for module in {modules!r}:
    importlib.import_module(module)
"""
NOT_NUMPY = {"pinocchio", "osqp", "scipy", "matplotlib", "rclpy", "launch"}


@pytest.mark.parametrize(
    ("rooms", "refused"),
    [(["guard"], NOT_NUMPY | {"warp"}), (["dynamics", "kinematics", "optimal_control", "branch", "sqp", "mpc"], NOT_NUMPY)],
    ids=["guard", "solver"],
)
def test_rooms_load_without(root: Path, imported: Imports, rooms: list[str], refused: set[str]) -> None:
    """Everything in guard loads where there is only NumPy, the solver's rooms where there are only NumPy and Warp."""
    paths = [path.with_suffix("") for path in imported if room(path) in rooms]
    modules = [".".join(["branch_mpc", *path.parts]).removesuffix(".__init__") for path in paths]
    program = PROBE.format(refused=refused, modules=sorted(modules))
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr.splitlines()[-1]
