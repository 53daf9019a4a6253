"""What the guard lets out."""

from dataclasses import dataclass

import numpy as np

from branch_mpc.guard.modes import Mode


@dataclass(frozen=True)
class Command:
    """One command; every number in it is finite and within the limits, in every mode."""

    time: float
    """When it was made, controller clock [s]."""
    torque: np.ndarray
    """Joint torques, shape (n,) [Nm | N]."""
    position: np.ndarray
    """Joint positions that go with it, for a trajectory sink, shape (n,) [rad | m]."""
    velocity: np.ndarray
    """Joint velocities that go with it, shape (n,) [rad/s | m/s]."""
    mode: Mode
    """Mode that made it."""
    reason: str
    """Why the guard is in this mode; empty while it tracks undisturbed."""
    limited: np.ndarray
    """True where a limit or the rate changed the torque, shape (n,)."""
    age: float
    """Age of the state behind it [s]; inf without one."""
    publish: bool
    """False: stay silent (no state to act on, or not active)."""

    @property
    def limited_count(self) -> int:
        """Number of joints whose torque a limit or the rate changed."""
        return int(np.count_nonzero(self.limited))
