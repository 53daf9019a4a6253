"""Which linear solver, elimination order, kernel schedule and merit block a device, horizon and batch get, and why."""

import dataclasses
from dataclasses import dataclass

from branch_mpc.errors import SettingError
from branch_mpc.mpc.settings import PolicySettings

# Published by GATO (field measurements on Orin AGX and RTX 5090): 32 threads a merit block win on the few-SM Jetsons,
# the direct solve overtakes PCG at 256 knots, and a state more than 0.1 off its prediction makes PCG's warm start useless.
SMALL_BLOCK_ARCHITECTURES = (72, 87)
DIRECT_HORIZON = 256
COLD_PREDICTION_ERROR = 0.1


@dataclass(frozen=True)
class DeviceFacts:
    """What the policy asks of a device."""

    name: str
    """Name for people."""
    is_cpu: bool
    """True for Warp's CPU device."""
    architecture: int = 0
    """SM architecture, for example 87; 0 on the CPU."""


@dataclass(frozen=True)
class LaunchPolicy:
    """The choices of one configuration."""

    linear_solver: str
    """'direct', or on the torque form also 'pcg'."""
    cold_linear_solver: str
    """The same on a cold tick: prediction error above COLD_PREDICTION_ERROR."""
    order: str
    """Elimination order: 'chronological' or 'dense'."""
    schedule: str
    """Kernel schedule: 'serial', 'cooperative' or 'fused'."""
    merit_block: int
    """Threads in a block of the merit kernel."""
    reason: str
    """Every choice with its reason, one line."""


def choose(
    device: DeviceFacts, *, knots: int, batch: int, formulation: str = "acceleration", forced: PolicySettings | None = None
) -> LaunchPolicy:
    """Choose for one configuration.

    Args:
        device: The device.
        knots: Horizon N.
        batch: Problems M.
        formulation: 'acceleration' or 'torque'.
        forced: Choices that override the table.

    Raises:
        SettingError: A forced merit block that is not a multiple of 32.
    """
    small = device.architecture in SMALL_BLOCK_ARCHITECTURES
    where = "the CPU" if device.is_cpu else f"sm_{device.architecture}"
    table = {
        "linear_solver": _linear_solver(knots, formulation),
        "order": ("chronological", "a sweep over the knots costs N small factorisations, the dense order one of (N-1)n unknowns"),
        "schedule": ("serial", f"one thread an instance on {where}") if device.is_cpu else ("fused", f"fronts stay on chip on {where}"),
        "merit_block": (32 if small else 64, f"{where} has few SMs" if small else f"default on {where}"),
    }
    for name, automatic in (("linear_solver", "auto"), ("order", "auto"), ("schedule", "auto"), ("merit_block", 0)):
        value = getattr(forced, name) if forced else automatic
        if value != automatic:
            table[name] = (value, "forced by parameter")
    block = table["merit_block"][0]
    if not isinstance(block, int) or block % 32:
        raise SettingError(f"parameter 'policy.merit_block' is {block}", "give a multiple of 32, or 0 for the policy's choice")
    values = {name: value for name, (value, _) in table.items()}
    cold = "direct" if formulation == "torque" else values["linear_solver"]
    reason = f"{formulation} form, N {knots}, M {batch}: " + "; ".join(f"{name} {value} ({why})" for name, (value, why) in table.items())
    return LaunchPolicy(**values, cold_linear_solver=cold, reason=reason)  # type: ignore[arg-type]


def _linear_solver(knots: int, formulation: str) -> tuple[str, str]:
    if formulation == "acceleration":
        return "direct", "the acceleration form has no Schur complement to iterate on"
    if knots >= DIRECT_HORIZON:
        return "direct", f"from {DIRECT_HORIZON} knots"
    return "pcg", f"below {DIRECT_HORIZON} knots; direct on ticks with a prediction error above {COLD_PREDICTION_ERROR}"


def field_names() -> tuple[str, ...]:
    """Names of the choices, for tables."""
    return tuple(field.name for field in dataclasses.fields(LaunchPolicy) if field.name != "reason")
