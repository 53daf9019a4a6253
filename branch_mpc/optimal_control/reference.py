"""Where the tool should be: figures, the approach to them, and the window of a horizon.

Times are seconds since the start of the reference, positions metres in the base frame.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from branch_mpc.errors import TargetError

Vector = tuple[float, float, float]


class Reference(Protocol):
    """A tool path in time."""

    def position(self, time: np.ndarray) -> np.ndarray:
        """Return positions [m], shape (K, 3), at times [s], shape (K,)."""

    def velocity(self, time: np.ndarray) -> np.ndarray:
        """Return velocities [m/s], shape (K, 3), at times [s], shape (K,)."""


@dataclass(frozen=True)
class Lissajous:
    """The closed curve p(t) = R_z(yaw) (center + first sin(w t) + second sin(2 w t)), w = 2 pi / period.

    Raises:
        TargetError: A number that is not finite, or a period that is not positive.
    """

    period: float = 6.0
    """Time of one loop [s]."""
    center: Vector = (0.0, 0.0, 0.0)
    """Crossing point of the figure before the rotation [m]."""
    first: Vector = (0.0, 0.0, 0.0)
    """Amplitudes at the loop's frequency [m]."""
    second: Vector = (0.0, 0.0, 0.0)
    """Amplitudes at twice the loop's frequency [m]."""
    yaw: float = 0.0
    """Rotation about the vertical axis of the base [rad]."""

    def __post_init__(self) -> None:
        for name in ("period", "center", "first", "second", "yaw"):
            if not np.isfinite(getattr(self, name)).all():
                raise TargetError(f"target figure has {name} {getattr(self, name)}", "give finite numbers")
        if self.period <= 0.0:
            raise TargetError(f"target figure has period {self.period:g} s", "give a positive period")

    def position(self, time: np.ndarray) -> np.ndarray:
        """Return positions [m], shape (K, 3), at times [s], shape (K,)."""
        s = np.asarray(time, dtype=float)[:, None] * (2.0 * math.pi / self.period)
        flat = np.array(self.center) + np.sin(s) * np.array(self.first) + np.sin(2.0 * s) * np.array(self.second)
        return flat @ self._rotation().T

    def velocity(self, time: np.ndarray) -> np.ndarray:
        """Return velocities [m/s], shape (K, 3), at times [s], shape (K,)."""
        w = 2.0 * math.pi / self.period
        s = np.asarray(time, dtype=float)[:, None] * w
        return w * (np.cos(s) * np.array(self.first) + 2.0 * np.cos(2.0 * s) * np.array(self.second)) @ self._rotation().T

    def _rotation(self) -> np.ndarray:
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class Figure8(Lissajous):
    """The upright figure-8 of GATO's Indy7 study: 0.8 m wide, 0.4 m high, 0.5 m in front of the base, turned by 45 degrees.

    p(s) = R_z(45 deg) [0.4 sin s, 0.5, 0.6 + 0.4 sin(2 s) / 2 + 0.2] with s = 2 pi t / period.
    """

    center: Vector = (0.0, 0.5, 0.8)
    first: Vector = (0.4, 0.0, 0.0)
    second: Vector = (0.0, 0.0, 0.2)
    yaw: float = math.pi / 4.0


def figure8_for(robot_name: str, tool: np.ndarray | None = None, period: float = 6.0, reach: float = 0.8) -> Lissajous:
    """Return the figure-8 that a robot can draw.

    The Indy7 draws GATO's figure. The iiwa14 draws the smaller loop of GATO's comparison of solvers
    (0.15 m and 0.075 m about its start pose); any other robot the same loop about where its tool is,
    scaled down when its reach is under 0.8 m.

    Args:
        robot_name: Name of the robot.
        tool: Tool position at the start [m], shape (3,); the two named robots do without.
        period: Time of one loop [s].
        reach: Distance from the base that the tool can reach [m].

    Raises:
        TargetError: A number that is not finite, a period that is not positive, or another robot without `tool`.
    """
    if robot_name == "indy7":
        return Figure8(period=period)
    if robot_name == "iiwa14":
        return Lissajous(period=period, center=(0.5077, 0.0, 0.511), first=(0.15, 0.0, 0.0), second=(0.0, 0.0, 0.075))
    if tool is None:
        raise TargetError(f"robot '{robot_name}' has no figure of its own", "give the tool position about which it draws")
    size = min(1.0, reach / 0.8)
    x, y, z = (float(value) for value in _point(tool))
    return Lissajous(period=period, center=(x, y, z), first=(0.15 * size, 0.0, 0.0), second=(0.0, 0.0, 0.075 * size))


@dataclass(frozen=True)
class Hold:
    """One point for ever.

    Raises:
        TargetError: A position that is not three finite numbers.
    """

    point: np.ndarray
    """Tool position [m], shape (3,)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", _point(self.point))

    def position(self, time: np.ndarray) -> np.ndarray:
        """Return positions [m], shape (K, 3), at times [s], shape (K,)."""
        return np.tile(self.point, (len(time), 1))

    def velocity(self, time: np.ndarray) -> np.ndarray:
        """Return zeros, shape (K, 3)."""
        return np.zeros((len(time), 3))


@dataclass(frozen=True)
class Approach:
    """From rest at `start` to the first point of `reference` in `duration`, then `reference`, that long ago.

    The minimum-jerk polynomial 10 s^3 - 15 s^4 + 6 s^5 (Flash and Hogan 1985, for rest at both ends).

    Raises:
        TargetError: A start that is not three finite numbers, or a duration that is not positive.
    """

    start: np.ndarray
    """Tool position at time 0 [m], shape (3,)."""
    reference: Reference
    """What follows."""
    duration: float = 2.0
    """Length of the approach [s]."""
    _end: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _point(self.start))
        if not (math.isfinite(self.duration) and self.duration > 0.0):
            raise TargetError(f"the approach lasts {self.duration} s", "give a positive duration")
        object.__setattr__(self, "_end", _point(self.reference.position(np.zeros(1))[0]))

    def position(self, time: np.ndarray) -> np.ndarray:
        """Return positions [m], shape (K, 3), at times [s], shape (K,)."""
        time = np.asarray(time, dtype=float)
        s = np.clip(time / self.duration, 0.0, 1.0)[:, None]
        bridge = self.start + (self._end - self.start) * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
        return np.where(time[:, None] < self.duration, bridge, self.reference.position(np.maximum(time - self.duration, 0.0)))

    def velocity(self, time: np.ndarray) -> np.ndarray:
        """Return velocities [m/s], shape (K, 3), at times [s], shape (K,)."""
        time = np.asarray(time, dtype=float)
        s = np.clip(time / self.duration, 0.0, 1.0)[:, None]
        bridge = (self._end - self.start) * 30.0 * s**2 * (1.0 - s) ** 2 / self.duration
        return np.where(time[:, None] < self.duration, bridge, self.reference.velocity(np.maximum(time - self.duration, 0.0)))


def window(reference: Reference, start: float, knots: int, step: float) -> np.ndarray:
    """Return the targets of a horizon: positions [m], shape (knots, 3), at start + k step [s]."""
    return reference.position(start + step * np.arange(knots))


def _point(values: np.ndarray) -> np.ndarray:
    point = np.asarray(values, dtype=float)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise TargetError(f"target position is {np.array2string(point, precision=4)}", "give three finite numbers [m]")
    return point
