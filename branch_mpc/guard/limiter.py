"""The last step before a torque leaves: limits in amount and in rate."""

import numpy as np

from branch_mpc.guard.limits import Limits
from branch_mpc.guard.settings import GuardSettings

STANDSTILL = 1e-3
"""Fraction of the velocity limit under which a joint at its position limit does not count as moving outwards."""


class Limiter:
    """Bounds torques; stateless, the last sent torque is an argument."""

    def __init__(self, limits: Limits, settings: GuardSettings, period: float) -> None:
        self._limits, self._settings, self._period = limits, settings, period
        self.torque_limit = limits.effort * (1.0 - settings.torque_margin)
        """Largest torque that leaves, shape (n,) [Nm | N]."""
        self.rate = limits.effort * settings.torque_rate
        """Fastest torque change, shape (n,) [Nm/s | N/s]."""

    def clip(self, torque: np.ndarray) -> np.ndarray:
        """Return the torque within the torque limits."""
        return np.clip(torque, -self.torque_limit, self.torque_limit)

    def within_state(self, torque: np.ndarray, q: np.ndarray, v: np.ndarray, gravity: np.ndarray) -> np.ndarray:
        """Apply the limits of position and velocity at a measured state.

        At a position limit and moving outwards, and above the velocity limit, the torque that would push on becomes 0
        (the rule of ros2_control's effort limiter), or the gravity torque where that is stricter: letting a joint
        fall is no braking. Beyond a position limit the torque in excess of gravity may only push inwards.

        Args:
            torque: Desired torque, shape (n,) [Nm | N].
            q: Measured positions, shape (n,) [rad | m].
            v: Measured velocities, shape (n,) [rad/s | m/s].
            gravity: Gravity torque at q, shape (n,) [Nm | N].
        """
        limits, margin = self._limits, self._settings.position_margin
        fast, still = limits.velocity * (1.0 - self._settings.velocity_margin), limits.velocity * STANDSTILL
        up = (v > fast) | ((q >= limits.upper - margin) & (v > still))
        down = (v < -fast) | ((q <= limits.lower + margin) & (v < -still))
        torque = np.where(q > limits.upper, np.minimum(torque, gravity), torque)
        torque = np.where(q < limits.lower, np.maximum(torque, gravity), torque)
        torque = np.where(up, np.minimum(torque, np.minimum(gravity, 0.0)), torque)
        return np.where(down, np.maximum(torque, np.maximum(gravity, 0.0)), torque)

    def rated(self, torque: np.ndarray, last: np.ndarray, elapsed: float) -> np.ndarray:
        """Return the torque no further from the last sent one than the rate allows.

        A gap longer than a control period earns no larger step: the actuator held the last torque all along, and
        a step is a step for it.
        """
        step = self.rate * min(max(0.0, elapsed), self._period)
        return np.clip(torque, last - step, last + step)

    def within(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and velocities within their limits, for a sink that takes them."""
        limits = self._limits
        return np.clip(position, limits.lower, limits.upper), np.clip(velocity, -limits.velocity, limits.velocity)
