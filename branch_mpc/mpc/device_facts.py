"""What the launch policy asks of a device, and how it is found out: Jetson modules have no nvidia-smi."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from branch_mpc.errors import DeviceError

JETSON_ARCHITECTURES = (53, 62, 72, 87)
"""SM architectures that exist on Jetson modules alone: Nano, TX2, Xavier, Orin."""
MODEL_FILE = "/proc/device-tree/model"
DRIVER_FOLDER = "/sys/module/nvgpu"


@dataclass(frozen=True)
class DeviceFacts:
    """One device."""

    name: str
    """Name for people."""
    is_cpu: bool
    """True for Warp's CPU device."""
    architecture: int = 0
    """SM architecture, for example 87; 0 on the CPU."""
    jetson: bool = False
    """True on a Jetson module, where CPU and GPU share memory and few SMs run slowly clocked."""
    multiprocessors: int = 0
    """Number of SMs; 0 when unknown."""
    shared_memory: int = 0
    """Bytes of shared memory a block may use; 0 when unknown."""


def detect_jetson(read: Callable[[str], str | None], exists: Callable[[str], bool]) -> bool:
    """Return True on a Jetson module.

    The device tree names the board; a carrier board of another maker may not say Jetson, but the GPU of every module is driven by
    nvgpu, which no desktop GPU is.

    Args:
        read: Text of a file, or None when it cannot be read.
        exists: Whether a path exists.
    """
    model = (read(MODEL_FILE) or "").replace("\0", " ").lower()
    return "jetson" in model or "tegra" in model or exists(DRIVER_FOLDER)


def this_machine_is_jetson() -> bool:
    """Return True when this process runs on a Jetson module."""

    def read(path: str) -> str | None:
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return None

    return detect_jetson(read, lambda path: Path(path).exists())


def facts_of(device: Any) -> DeviceFacts:
    """Return the facts of a Warp device of this machine."""
    if device.is_cpu:
        return DeviceFacts("CPU", True)
    return DeviceFacts(
        name=device.name,
        is_cpu=False,
        architecture=int(device.arch),
        jetson=this_machine_is_jetson(),
        multiprocessors=int(getattr(device, "sm_count", 0) or 0),
        shared_memory=int(getattr(device, "max_shared_memory_per_block", 0) or 0),
    )


def facts_named(name: str) -> DeviceFacts | None:
    """Return the facts of a device that need not be here: 'cpu' or an architecture such as 'sm_87'; None for other names.

    Raises:
        DeviceError: An architecture that is not a number.
    """
    if name == "cpu":
        return DeviceFacts("CPU", True)
    if not name.startswith("sm"):
        return None
    match = re.fullmatch(r"sm_?(\d{2,3})[af]?", name)
    if match is None:
        raise DeviceError(f"device '{name}' does not exist", "give cpu, cuda:0, or an architecture such as sm_87")
    architecture = int(match[1])
    return DeviceFacts(f"sm_{architecture}", False, architecture, jetson=architecture in JETSON_ARCHITECTURES)
