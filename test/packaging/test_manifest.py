"""package.xml, setup.py and __init__.py say the same, and name everything that is needed."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import branch_mpc

catkin_package = pytest.importorskip("catkin_pkg.package", reason="catkin-pkg is not installed (requirements/test.txt)")

# Import name: (rosdep key or None where rosdistro has none, name on PyPI).
LIBRARIES = {
    "matplotlib": ("python3-matplotlib", "matplotlib"),
    "numpy": ("python3-numpy", "numpy"),
    "osqp": (None, "osqp"),
    "pinocchio": ("pinocchio", "pin"),
    "scipy": ("python3-scipy", "scipy"),
    "warp": (None, "warp-lang"),
    "yaml": ("python3-yaml", "PyYAML"),
}
# Come with rclpy's or std_msgs' wheels as their dependencies, or are not on PyPI.
NOT_REQUIRED_BY_NAME = {"ament_index_python", "builtin_interfaces", "launch", "launch_ros"}
NOT_REQUIRED_BY_NAME |= {"lifecycle_msgs", "rcl_interfaces", "rosgraph_msgs"}


@pytest.fixture
def manifest(root: Path) -> Any:
    """The parsed package.xml."""
    return catkin_package.parse_package(str(root / "package.xml"))


def run_time(manifest: Any) -> set[str]:
    return {dependency.name for dependency in manifest.exec_depends}


def test_manifest_is_valid(manifest: Any) -> None:
    """catkin_pkg accepts package.xml without a warning: format 3, an ament_cmake package that holds messages."""
    warnings: list[str] = []
    manifest.validate(warnings=warnings)
    assert warnings == []
    assert manifest.package_format == 3
    assert manifest.get_build_type() == "ament_cmake"
    assert [group.name for group in manifest.member_of_groups] == ["rosidl_interface_packages"]


def test_versions_agree(manifest: Any, declared: dict[str, Any]) -> None:
    """One version in package.xml, setup.py and branch_mpc.__version__."""
    assert manifest.version == declared["version"] == branch_mpc.__version__
    assert manifest.name == declared["name"] == "branch_mpc"


def test_licences_agree(manifest: Any, declared: dict[str, Any], root: Path) -> None:
    """Apache-2.0 everywhere, with its full text in LICENSE."""
    assert manifest.licenses == [declared["license"]] == ["Apache-2.0"]
    text = (root / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def test_every_import_is_a_dependency_of_the_manifest(manifest: Any, third_party: set[str]) -> None:
    """Whatever the package or a launch file imports is in package.xml, unless rosdep has no key for it."""
    needed = {LIBRARIES[name][0] if name in LIBRARIES else name for name in third_party} - {None}
    assert needed - run_time(manifest) == set()


def test_every_package_a_launch_file_starts_is_a_dependency(manifest: Any, root: Path) -> None:
    """Node(package=...) of the launch files names this package or a dependency of it."""
    calls = [node for path in root.glob("launch/*.py") for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    packages = {ast.literal_eval(word.value) for call in calls for word in call.keywords if word.arg == "package"}
    assert packages and packages - run_time(manifest) == {"branch_mpc"}


def test_every_message_dependency_is_found_by_cmake(manifest: Any, root: Path) -> None:
    """The packages of the types in msg/ are build dependencies, and CMakeLists.txt hands them to rosidl."""
    fields = "\n".join(path.read_text() for path in root.glob("msg/*.msg"))
    used = set(re.findall(r"^(\w+)/\w+", fields, re.MULTILINE))
    cmake = (root / "CMakeLists.txt").read_text()
    assert used == set(re.search(r"DEPENDENCIES ([\w\s]+)\)", cmake)[1].split())
    assert used <= set(re.findall(r"find_package\((\w+) REQUIRED\)", cmake))
    assert used <= {dependency.name for dependency in manifest.build_depends}


def test_every_import_can_be_installed_by_pip(declared: dict[str, Any], third_party: set[str]) -> None:
    """Libraries are in install_requires or [plot], ROS packages in [ros], under their names on PyPI."""
    extras = declared["extras_require"]
    listed = [*declared["install_requires"], *extras["plot"], *extras["ros"]]
    available = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in listed}
    pypi = {LIBRARIES[name][1] if name in LIBRARIES else f"ros-{name.replace('_', '-')}" for name in third_party - NOT_REQUIRED_BY_NAME}
    assert {name.lower() for name in pypi} - available == set()


def test_every_peer_is_in_its_extra_or_known_to_be_elsewhere(declared: dict[str, Any], peer_imports: set[str]) -> None:
    """What comparisons import is in the extra [peers], comes with one of its packages, or is not on PyPI."""
    listed = {re.match(r"[\w.-]+", requirement)[0].lower().replace("-", "_") for requirement in declared["extras_require"]["peers"]}
    elsewhere = {"pyroki", "jaxls"}  # public repositories
    with_others = {"torch", "numpy", "warp"}  # of pytorch-kinematics; of this package
    assert peer_imports - listed - elsewhere - with_others == set()


def test_no_ros_wheel_is_forced_on_anybody(declared: dict[str, Any], root: Path) -> None:
    """ROS wheels are in the extra [ros] only: a Jetson has none, and a sourced ROS must not be covered by them."""
    assert not [name for name in declared["install_requires"] if name.startswith("ros-")]
    build_system = re.search(r"^requires = (\[.*\])$", (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert not [name for name in ast.literal_eval(build_system[1]) if name.startswith("ros-")]
