"""What states the boundary of a measurement: settings, device, policy, versions, date."""

import datetime
import importlib.metadata
import platform
from typing import Any

import branch_mpc
from branch_mpc.mpc.settings import MpcSettings

PACKAGES = ("numpy", "warp-lang", "pin", "osqp")


def run_facts(settings: MpcSettings, *, device: str, policy: str, boundary: str, transport: str, period: float) -> dict[str, Any]:
    """Return the facts of a run, for the same JSON object as its numbers.

    Args:
        settings: Settings of the controller.
        device: Name of the compute device.
        policy: Launch policy chosen, with its reason.
        boundary: From where to where the solve time was taken.
        transport: How states and commands travelled.
        period: Control period [s].
    """
    return {
        "device": device,
        "policy": policy,
        "formulation": settings.formulation,
        "knots": settings.knots,
        "batch": settings.batch,
        "iterations": settings.iterations,
        "step": settings.step,
        "period": period,
        "boundary": boundary,
        "transport": transport,
        "weights": {name: getattr(settings.weights, name) for name in ("tool_position", "tool_position_terminal", "velocity", "torque")},
        **provenance(),
    }


def provenance() -> dict[str, Any]:
    """Return where, when and with which versions something was measured."""
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"host": f"{platform.machine()}, {platform.system()}", "versions": versions(), "date": date}


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python and of the numerical libraries that are installed."""
    found = {"branch_mpc": branch_mpc.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
