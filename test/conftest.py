"""What every test may rely on: DDS confined to this machine, and skips that say why."""

import functools
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import pytest

# Before any import of rclpy. Humble knows only the second variable, Kilted only the first.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_LOCALHOST_ONLY"] = "1"
# Processes of an earlier session linger in the graph. Domains over 101 use ephemeral ports.
os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 101)
# Off by default in Kilted, always on in Humble and Jazzy.
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"
os.environ.setdefault("ROS_LOG_DIR", tempfile.mkdtemp(prefix="branch_mpc_ros_log_"))
if (Path(sys.prefix) / "share/ament_index").is_dir():
    # The ROS wheels do not set it, and the ament index cannot be read without.
    os.environ["AMENT_PREFIX_PATH"] = os.pathsep.join(filter(None, [sys.prefix, os.environ.get("AMENT_PREFIX_PATH", "")]))


@functools.cache
def _no_cuda() -> str:
    """Return why there is no CUDA device, or nothing when there is one."""
    import warp

    return "" if warp.get_cuda_devices() else "Warp finds no CUDA device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here: `ros` without rclpy, `cuda` without a CUDA device."""
    no_ros = "" if importlib.util.find_spec("rclpy") else f"rclpy cannot be imported by {sys.executable}"
    for item in items:
        if no_ros and item.get_closest_marker("ros"):
            item.add_marker(pytest.mark.skip(reason=no_ros))
        if item.get_closest_marker("cuda") and _no_cuda():
            item.add_marker(pytest.mark.skip(reason=_no_cuda()))


@pytest.fixture(scope="session")
def root() -> Path:
    """Root folder of the repository."""
    return Path(__file__).resolve().parent.parent
