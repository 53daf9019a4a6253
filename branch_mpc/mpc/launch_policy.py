"""Which linear solver, elimination order, kernel schedule and merit block a device, robot, horizon and batch get, and why.

Three sources in this order: a parameter that forces a choice, a row that `branch_mpc tune` measured for exactly this case, the
built-in rules, which are the published measurements of GATO on RTX 5090 and Orin AGX (bench/published/gato_timing.json).
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from branch_mpc.errors import SettingError
from branch_mpc.mpc.device_facts import DeviceFacts
from branch_mpc.mpc.settings import PolicySettings
from branch_mpc.mpc.tuning_table import TuningRow, TuningTable

__all__ = ["BDSV_HORIZON", "COLD_PREDICTION_ERROR", "DeviceFacts", "LaunchPolicy", "choose", "field_names", "is_cold"]

SMALL_BLOCK_ARCHITECTURES = (72, 87)
"""Where 32 threads a merit block beat 64: all 24 cells measured on Orin."""
BDSV_HORIZON = 256
"""Knots from which the direct solve of the torque form is faster than PCG at every batch."""
COLD_PREDICTION_ERROR = 0.1
"""State error [rad, rad/s] against the previous plan from which the costates are no warm start."""


@dataclass(frozen=True)
class LaunchPolicy:
    """The choices of one configuration."""

    linear_solver: str
    """'direct', or on the torque form also 'pcg' or 'direct_first'."""
    cold_linear_solver: str
    """The same on a cold tick: prediction error above COLD_PREDICTION_ERROR, PCG at its cap, or no previous plan."""
    order: str
    """Elimination order: 'chronological' or 'dense'."""
    schedule: str
    """Kernel schedule: 'serial', 'cooperative' or 'fused'."""
    merit_block: int
    """Threads in a block of the merit kernel."""
    reduction: str
    """Precision of the sums of the merit: 'float64' or 'float32'."""
    reason: str
    """Every choice with its reason, one line."""

    def as_json(self) -> dict[str, Any]:
        """Return the choices for programs; `plan` is the elimination order."""
        values = dataclasses.asdict(self)
        return {("plan" if name == "order" else name): value for name, value in values.items()}


def choose(
    device: DeviceFacts,
    *,
    knots: int,
    batch: int,
    formulation: str = "acceleration",
    forced: PolicySettings | None = None,
    robot: str = "",
    table: TuningTable | None = None,
) -> LaunchPolicy:
    """Choose for one configuration.

    Args:
        device: The device.
        knots: Horizon N.
        batch: Problems M.
        formulation: 'acceleration' or 'torque'.
        forced: Choices that override everything.
        robot: Name of the robot, for the measured rows.
        table: Measured rows.

    Raises:
        SettingError: A forced choice that does not apply: a merit block that is not a multiple of 32, PCG on the acceleration form.
    """
    choices = _published(device, knots, formulation)
    row = None if table is None else table.find(device, robot=robot, knots=knots, batch=batch, formulation=formulation)
    if row is not None:
        choices |= {name: (getattr(row, name), _measured(row)) for name in choices}
    for name, automatic in (("linear_solver", "auto"), ("order", "auto"), ("schedule", "auto"), ("merit_block", 0), ("reduction", "auto")):
        value = getattr(forced, name) if forced else automatic
        if value != automatic:
            choices[name] = (value, "forced by parameter")
    _check(choices, formulation)
    values = {name: value for name, (value, _) in choices.items()}
    cold = values["linear_solver"]
    if formulation == "torque" and cold == "pcg" and choices["linear_solver"][1] != "forced by parameter":
        cold = "direct_first"
    reason = f"{formulation} form, N {knots}, M {batch}: " + "; ".join(f"{name} {value} ({why})" for name, (value, why) in choices.items())
    return LaunchPolicy(**values, cold_linear_solver=cold, reason=reason)


def _published(device: DeviceFacts, knots: int, formulation: str) -> dict[str, tuple[Any, str]]:
    """The built-in rules: choice and reason by name."""
    small = device.architecture in SMALL_BLOCK_ARCHITECTURES or device.jetson
    where = "the CPU" if device.is_cpu else f"sm_{device.architecture}{', a Jetson' if device.jetson else ''}"
    return {
        "linear_solver": _linear_solver(knots, formulation),
        "order": ("chronological", "a sweep over the knots costs N small factorisations, the dense order one of (N-1)n unknowns"),
        "schedule": ("serial", f"one thread an instance on {where}") if device.is_cpu else ("fused", f"fronts stay on chip on {where}"),
        "merit_block": (32 if small else 64, f"{where} has few SMs" if small else f"default on {where}"),
        "reduction": ("float64", "two additions a knot, below the rounding of float32 sums"),
    }


def _linear_solver(knots: int, formulation: str) -> tuple[str, str]:
    if formulation == "acceleration":
        return "direct", "the acceleration form has no Schur complement to iterate on"
    if knots >= BDSV_HORIZON:
        return "direct", f"from {BDSV_HORIZON} knots"
    return "pcg", f"below {BDSV_HORIZON} knots; direct first on ticks with a prediction error above {COLD_PREDICTION_ERROR}"


def _measured(row: TuningRow) -> str:
    return f"measured on this device, {row.time_us:.0f} us"


def _check(choices: dict[str, tuple[Any, str]], formulation: str) -> None:
    block, solver = choices["merit_block"][0], choices["linear_solver"][0]
    if not isinstance(block, int) or block % 32 or block == 0:
        raise SettingError(f"parameter 'policy.merit_block' is {block}", "give a multiple of 32, or 0 for the policy's choice")
    if formulation == "acceleration" and solver != "direct":
        raise SettingError(f"parameter 'policy.linear_solver' is '{solver}'", "give auto or direct: only the torque form has another")
    if formulation == "torque" and choices["order"][0] == "dense":
        raise SettingError("parameter 'policy.order' is 'dense'", "give auto or chronological: the torque form eliminates costates")


def is_cold(prediction_error: float | None, linear_iterations: int, cap: int) -> bool:
    """Return True when the costates of the last tick are no warm start.

    Args:
        prediction_error: Norm of measured minus planned state [rad, rad/s]; None without a previous plan.
        linear_iterations: Most PCG iterations of the last tick.
        cap: Cap of PCG.
    """
    return prediction_error is None or not prediction_error <= COLD_PREDICTION_ERROR or linear_iterations >= cap


def field_names() -> tuple[str, ...]:
    """Names of the choices, for tables."""
    return tuple(field.name for field in dataclasses.fields(LaunchPolicy) if field.name != "reason")
