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
        self._brake = (-np.inf, np.zeros(n), np.zeros(n))

    def unlatch(self) -> None:
        """Forget the held posture: the next `hold` latches what is measured then."""
        self._posture = None

    def forget(self) -> None:
        """Forget the held posture and the stop, after a jump of the clock or at activation."""
        self.unlatch()
        self._brake = (-np.inf, self._brake[1], self._brake[2])

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

    def brake_from(self, time: float, q: np.ndarray, v: np.ndarray) -> None:
        """Set the state from which the stop is predicted; one older than the present one is passed over.

        Args:
            time: When the arm was, or is believed to have been, in that state, controller clock [s].
            q: Positions, shape (n,) [rad | m].
            v: Velocities, shape (n,) [rad/s | m/s].
        """
        if time > self._brake[0]:
            self._brake = (time, np.array(q, dtype=float), np.array(v, dtype=float))

    def braking_state(self, now: float) -> tuple[np.ndarray, np.ndarray]:
        """Return (q, v) at `now` on the way to rest: v0 exp(-damping t) and its integral.

        With states coming in this bridges their age; without them it is the whole stop. Feeding back the last velocity
        unchanged for as long as a state counts as fresh would brake the arm past rest.
        """
        time, q, v = self._brake
        damping = self._settings.hold_damping
        velocity = v * np.exp(-damping * max(0.0, now - time))
        return q + (v - velocity) / damping, velocity

    def stop(self, now: float) -> Targets:
        """Return the deceleration at `now` [s]."""
        position, velocity = self.braking_state(now)
        return self._torque(position, -self._settings.hold_damping * velocity), position, np.zeros_like(position)

    def _torque(self, q: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
        mass = self._default_mass if self._mass_matrix is None else self._mass_matrix(q)
        return self.gravity(q) + mass @ acceleration
