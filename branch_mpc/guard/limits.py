"""Joint limits as the guard holds them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from branch_mpc.errors import RobotError


@dataclass(frozen=True)
class Limits:
    """Limits of n joints, in command order; validated, nothing guessed."""

    names: tuple[str, ...]
    """Joint names."""
    lower: np.ndarray
    """Lower positions, -inf where there is none, shape (n,) [rad | m]."""
    upper: np.ndarray
    """Upper positions, inf where there is none, shape (n,) [rad | m]."""
    velocity: np.ndarray
    """Largest speeds, shape (n,) [rad/s | m/s]."""
    effort: np.ndarray
    """Largest torques or forces, shape (n,) [Nm | N]."""

    @classmethod
    def of(cls, robot: Any) -> "Limits":
        """Copy the limits out of an Articulation, or of anything with the same attributes.

        Raises:
            RobotError: A joint without a finite positive effort or velocity limit, or with crossed position limits.
        """
        names = tuple(robot.joint_names)
        fields = ("position_lower", "position_upper", "velocity_limit", "effort_limit")
        arrays = [np.array(getattr(robot, name), dtype=float) for name in fields]
        lower, upper, velocity, effort = arrays
        for joint, name in enumerate(names):
            for value, tag in ((effort[joint], "effort"), (velocity[joint], "velocity")):
                if not (np.isfinite(value) and value > 0.0):
                    remedy = f"give a finite positive {tag} in its <limit> or in the overrides"
                    raise RobotError(f"joint '{name}' has {tag} limit {value}", remedy)
            if not lower[joint] < upper[joint]:
                problem = f"joint '{name}' has position limits [{lower[joint]}, {upper[joint]}]"
                raise RobotError(problem, "give lower < upper in its <limit>")
        for array in arrays:
            array.setflags(write=False)
        return cls(names, lower, upper, velocity, effort)
