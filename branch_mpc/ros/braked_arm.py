"""A simulated arm with brakes, moved on by commands that have a time."""

from collections.abc import Callable
from typing import Protocol

import numpy as np


class Arm(Protocol):
    """The part of `branch_mpc.plant.SimulatedArm` that is used."""

    wrench: np.ndarray
    """World wrench on the tool (force, moment), shape (6,) [N, Nm]."""

    @property
    def position(self) -> np.ndarray:
        """Joint positions, shape (n,) [rad | m]."""

    @property
    def velocity(self) -> np.ndarray:
        """Joint velocities, shape (n,) [rad/s | m/s]."""

    def apply(self, torque: np.ndarray) -> None:
        """Hold a torque, shape (n,) [Nm | N], from now on."""

    def advance(self, duration: float) -> None:
        """Move on by `duration` [s]."""


class BrakedArm:
    """Stands on its brakes until the first command, and again when commands stop for longer than a timeout.

    As a real arm does; a torque that is held for ever would throw it (that is what effort controllers do when their
    commander dies, ros2_controllers #95).

    Attributes:
        time: Simulated time [s].
        rejected: Commands of wrong length or with numbers that are not finite.
    """

    def __init__(self, make: Callable[[np.ndarray], Arm], q0: np.ndarray, timeout: float, push: np.ndarray, push_at: float) -> None:
        """Stand at rest.

        Args:
            make: Makes an arm at rest at positions, shape (n,).
            q0: Start configuration, shape (n,) [rad | m].
            timeout: The brakes close so long after the last command [s].
            push: World wrench on the tool, shape (6,) [N, Nm].
            push_at: When the push begins, counted from the first command [s].
        """
        self._make, self._timeout, self._push, self._push_at = make, timeout, push, push_at
        self._arm = make(q0)
        self._torque = np.zeros(len(q0))
        self._first: float | None = None
        self._last: float | None = None
        self.time, self.rejected = 0.0, 0

    @property
    def braked(self) -> bool:
        """Whether the brakes are closed."""
        return self._last is None

    @property
    def position(self) -> np.ndarray:
        """Joint positions, shape (n,) [rad | m]."""
        return np.array(self._arm.position)

    @property
    def velocity(self) -> np.ndarray:
        """Joint velocities, shape (n,) [rad/s | m/s]."""
        return np.zeros_like(self._torque) if self.braked else np.array(self._arm.velocity)

    @property
    def torque(self) -> np.ndarray:
        """Torque that the motors hold, shape (n,) [Nm | N]; zero on the brakes."""
        return np.zeros_like(self._torque) if self.braked else self._torque.copy()

    def command(self, torque: np.ndarray, time: float) -> bool:
        """Move on to a time and hold a torque from then on; the brakes open.

        Args:
            torque: Joint torques [Nm | N]; of the wrong length or not finite, they are counted and change nothing.
            time: When the command arrives [s].

        Returns:
            Whether it was taken.
        """
        torque = np.asarray(torque, dtype=float)
        if torque.shape != self._torque.shape or not np.isfinite(torque).all():
            self.rejected += 1
            return False
        self.advance(time)
        self._last = self.time
        self._first = self.time if self._first is None else self._first
        self._torque = torque
        self._arm.apply(torque)
        return True

    def advance(self, time: float) -> None:
        """Move on to a time [s]; one in the past changes nothing."""
        if self._last is not None and time > self._last + self._timeout:
            self._move(self._last + self._timeout)
            self._last = None
            self._arm = self._make(self.position)
        self._move(time)

    def _move(self, time: float) -> None:
        if time <= self.time:
            return
        if not self.braked:
            pushed = self._first is not None and self.time >= self._first + self._push_at
            self._arm.wrench = self._push if pushed else np.zeros(6)
            self._arm.advance(time - self.time)
        self.time = time
