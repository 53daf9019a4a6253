"""Torques of the guard's own: the posture hold and the stop, from the rigid-body model in NumPy."""

from collections.abc import Callable

import numpy as np

from branch_mpc.guard.limits import Limits
from branch_mpc.guard.settings import GuardSettings

FREE_ACCELERATION = 50.0
"""Acceleration that the effort limit is taken to give a joint when no mass matrix is known [rad/s^2 | m/s^2]."""

Targets = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(torque, position, velocity), each of shape (n,)."""


class Laws:
    """tau = g(q) + M(q) a with a = stiffness (q_hold - q) - damping v, or a = -damping v to stop.

    With the whole mass matrix every joint sees the same second-order system, so one pair of gains holds any arm
    at any posture; per-joint gains on the diagonal of M ring where links in a row are strongly coupled.

    State: the latched posture and where the braking began; `unlatch` clears the posture.
    """

    def __init__(
        self,
        limits: Limits,
        settings: GuardSettings,
        gravity: Callable[[np.ndarray], np.ndarray],
        mass_matrix: Callable[[np.ndarray], np.ndarray] | None,
    ) -> None:
        self._settings, self._mass_matrix = settings, mass_matrix
        self._default_mass = np.diag(limits.effort / FREE_ACCELERATION)
        self.gravity = gravity
        self._posture: np.ndarray | None = None
        n = limits.effort.size
        self._brake = (0.0, np.zeros(n), np.zeros(n))

    def unlatch(self) -> None:
        """Forget the held posture: the next `hold` latches what is measured then."""
        self._posture = None

    def hold(self, q: np.ndarray, v: np.ndarray) -> Targets:
        """Return the damped hold of the posture measured when it began.

        Args:
            q: Measured positions, shape (n,) [rad | m].
            v: Measured velocities, shape (n,) [rad/s | m/s].
        """
        if self._posture is None:
            self._posture = np.array(q)
        acceleration = self._settings.hold_stiffness * (self._posture - q) - self._settings.hold_damping * v
        return self._torque(q, acceleration), self._posture, np.zeros_like(self._posture)

    def begin_braking(self, now: float, q: np.ndarray, v: np.ndarray) -> None:
        """Set where a stop begins, for a stop that has to go on without measurements."""
        self._brake = (now, np.array(q, dtype=float), np.array(v, dtype=float))

    def braking_velocity(self, now: float) -> np.ndarray:
        """Return the velocity that the stop predicts at `now`: v0 exp(-damping t), shape (n,)."""
        start, _, velocity = self._brake
        return velocity * np.exp(-self._settings.hold_damping * max(0.0, now - start))

    def stop(self, now: float, measured: tuple[np.ndarray, np.ndarray] | None) -> Targets:
        """Return the deceleration; without a measurement along the exponential that the model predicts.

        Args:
            now: Controller clock [s].
            measured: Positions and velocities, or None.
        """
        if measured is None:
            velocity = self.braking_velocity(now)
            position = self._brake[1] + (self._brake[2] - velocity) / self._settings.hold_damping
        else:
            position, velocity = measured
            self.begin_braking(now, position, velocity)
        return self._torque(position, -self._settings.hold_damping * velocity), position, np.zeros_like(position)

    def _torque(self, q: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
        mass = self._default_mass if self._mass_matrix is None else self._mass_matrix(q)
        return self.gravity(q) + mass @ acceleration
