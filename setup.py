"""The pip build of the package; colcon uses CMakeLists.txt instead.

The message types are built by that same CMakeLists.txt when a ROS 2 prefix with rosidl is found
(AMENT_PREFIX_PATH, or the ROS wheels in this environment). Without one the package is installed
without branch_mpc.msg, and works without ROS. BRANCH_MPC_INTERFACES=on|off|auto overrides the search
(on: fail when there is none).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.build_py import build_py

NAME = "branch_mpc"
ROOT = Path(__file__).resolve().parent
SITE_PACKAGES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
SHARE = f"share/{NAME}"


def version() -> str:
    """Return the version written in the package's __init__.py."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / NAME / "__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{NAME}/__init__.py holds no __version__")
    return found[1]


def requirements(name: str) -> list[str]:
    """Return the requirements listed in requirements/<name>.txt."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def tool(name: str) -> str | None:
    """Return the path of a build tool: the one of this environment (not always on PATH), else from PATH."""
    return shutil.which(name, path=str(Path(sys.prefix) / "bin")) or shutil.which(name)


def ros_prefixes() -> list[Path]:
    """Return the prefixes that hold ROS packages, a sourced ROS first, then this environment."""
    sourced = [Path(entry) for entry in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if entry]
    candidates = dict.fromkeys([*sourced, Path(sys.prefix)])
    return [prefix for prefix in candidates if (prefix / "share/ament_index/resource_index/packages").is_dir()]


def interfaces_wanted() -> bool:
    """Return whether the message types are built."""
    mode = os.environ.get("BRANCH_MPC_INTERFACES", "auto")
    if mode not in ("on", "off", "auto"):
        raise SystemExit(f"BRANCH_MPC_INTERFACES is '{mode}'; choose on, off or auto")
    rosidl = any((prefix / "share/rosidl_default_generators/cmake").is_dir() for prefix in ros_prefixes())
    if mode == "on" and not (rosidl and tool("cmake")):
        missing = "no cmake" if rosidl else "no ROS 2 prefix with rosidl_default_generators"
        raise SystemExit(f"BRANCH_MPC_INTERFACES=on, but {missing}; pip install -r requirements/ros-build.txt, or source ROS 2")
    return mode != "off" and rosidl and tool("cmake") is not None


def interface_key() -> str:
    """Return a hash of everything the built message types depend on."""
    digest = hashlib.sha256(repr((sys.version, sys.prefix)).encode())
    for path in [*sorted(ROOT.glob("msg/*.msg")), ROOT / "CMakeLists.txt", *sorted(ROOT.glob("cmake/*"))]:
        digest.update(path.name.encode() + path.read_bytes())
    for prefix in ros_prefixes():
        # A package.xml names its version: another ROS at the same place gives another key.
        manifests = sorted(path for path in prefix.glob("share/*/package.xml") if path.parent.name != NAME)
        digest.update(b"".join(str(path).encode() + path.read_bytes() for path in manifests))
    return digest.hexdigest()[:16]


def build_interfaces() -> Path:
    """Build the message types unless an earlier run has done it, and return where they are staged."""
    base = ROOT / "build" / f"interfaces-{interface_key()}"
    stage = base / "stage"
    if (base / "complete").exists():
        return stage
    shutil.rmtree(base, ignore_errors=True)
    prefixes = [str(prefix) for prefix in ros_prefixes()]
    # pip's build isolation hides the site-packages through PYTHONPATH; the rosidl generators live there.
    sites = [str(site) for prefix in prefixes for pattern in SITE_PACKAGES for site in Path(prefix).glob(pattern)]
    joined = os.pathsep.join(prefixes)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sites), "AMENT_PREFIX_PATH": joined, "CMAKE_PREFIX_PATH": joined}
    cmake, ninja = str(tool("cmake")), tool("ninja")
    configure = [cmake, "-S", str(ROOT), "-B", str(base / "cmake"), "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF"]
    configure += ["-DBRANCH_MPC_INTERFACES_ONLY=ON", "-DPYTHON_INSTALL_DIR=python", f"-DCMAKE_INSTALL_PREFIX={stage}"]
    configure += [f"-DPython3_EXECUTABLE={sys.executable}", *(["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else [])]
    build = [cmake, "--build", str(base / "cmake"), "--parallel", str(os.cpu_count() or 1), "--target", "install"]
    for command in (configure, build):
        subprocess.run(command, check=True, env=env)
    (base / "complete").touch()
    return stage


class BuildPy(build_py):
    """build_py that also builds the message types and lays them beside the Python code."""

    def run(self) -> None:
        """Copy the package afresh, then add the message types."""
        # pip builds in the tree: what an earlier run left must not get into this wheel.
        shutil.rmtree(Path(self.build_lib) / NAME, ignore_errors=True)
        super().run()
        if interfaces_wanted():
            self._add(build_interfaces())
        else:
            self.warn("no ROS 2 with rosidl found: installing without the message types (branch_mpc works, its ROS nodes do not)")

    def _add(self, stage: Path) -> None:
        """Put generated Python beside ours, and libraries, headers and share files among the data files."""
        taken = {os.path.join(folder, os.path.basename(file)) for folder, files in self.distribution.data_files for file in files}
        for source in sorted(path for path in stage.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            place = source.relative_to(stage)
            if place.parts[:2] == ("python", NAME):
                target = Path(self.build_lib, *place.parts[1:])
                if place.parts[2] != "__init__.py":  # ours stays
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
            elif place.parts[0] != "python" and str(place) not in taken:
                self.distribution.data_files.append((str(place.parent), [str(source)]))


class PlatformDistribution(Distribution):
    """A distribution whose wheel is for one platform when it holds the message types."""

    def has_ext_modules(self) -> bool:
        """Return True when the wheel holds compiled message types."""
        return interfaces_wanted()


setup(
    name=NAME,
    version=version(),
    description="Model-predictive control of torque-controlled robot arms on ROS 2",
    long_description=(ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: ["**/*.urdf", "**/*.json"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (SHARE, ["package.xml"]),
        (f"{SHARE}/launch", sorted(glob("launch/*.launch.py"))),
        (f"{SHARE}/config", sorted(glob("config/*.yaml"))),
        (f"{SHARE}/rviz", sorted(glob("rviz/*.rviz"))),
        (f"{SHARE}/urdf", sorted(glob(f"{NAME}/robot/urdf/*.urdf"))),
        # ros2 launch and ros2 run look here for executables; the console scripts lie in bin.
        (f"lib/{NAME}", sorted(glob("scripts/*"))),
    ],
    install_requires=requirements("core"),
    extras_require={name: requirements(name) for name in ("ros", "test", "plot", "robots", "peers")},
    entry_points={
        "console_scripts": [
            "branch_mpc = branch_mpc.cli:main",
            "mpc_node = branch_mpc.ros.mpc_node:main",
            "plant_node = branch_mpc.ros.plant_node:main",
        ]
    },
    cmdclass={"build_py": BuildPy},
    distclass=PlatformDistribution,
    zip_safe=False,
)
