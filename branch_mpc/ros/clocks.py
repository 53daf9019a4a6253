"""The controller's clock: monotonic, or the simulated time of /clock; and the stamps of messages on it.

Joint states are stamped in ROS time by a driver on the same machine. The control loop must not jump when that
clock is stepped (NTP), so it runs on the monotonic clock, and a stamp is carried over by the difference of the
two clocks at the moment the message is handled. A driver on another machine needs a synchronised clock (PTP); a
constant offset shows as state age in the status.
"""

import threading
import time
from typing import Any, Protocol

NANO = 1_000_000_000


class LoopClock(Protocol):
    """What the control loop needs of a clock."""

    def now(self) -> float:
        """Return the time [s]."""

    def from_stamp(self, stamp: Any) -> float:
        """Return the time [s] of a message stamp (sec, nanosec)."""

    def to_nanoseconds(self, time: float) -> int:
        """Return a time [s] as ROS time [ns]."""

    def sleep_until(self, deadline: float, stop: threading.Event) -> float:
        """Sleep until `deadline` [s] or until `stop` is set; return how late it woke [s]."""


class MonotonicClock:
    """`time.monotonic`, beside a ROS clock that is the system's time."""

    def __init__(self, ros_clock: Any) -> None:
        """Take stamps from `ros_clock` (an rclpy Clock)."""
        self._ros = ros_clock

    def now(self) -> float:
        """Return the time [s]."""
        return time.monotonic_ns() / NANO

    def from_stamp(self, stamp: Any) -> float:
        """Return the time [s] of a message stamp; without one (zero) the present, when it arrived."""
        nanoseconds = stamp.sec * NANO + stamp.nanosec
        return self.now() if nanoseconds == 0 else (nanoseconds - self._offset()) / NANO

    def to_nanoseconds(self, time: float) -> int:
        """Return a time [s] as ROS time [ns]."""
        return int(time * NANO) + self._offset()

    def sleep_until(self, deadline: float, stop: threading.Event) -> float:
        """Sleep until `deadline` [s]; return how late it woke [s]."""
        left = deadline - self.now()
        if left > 0.0:
            time.sleep(left)
        return self.now() - deadline

    def _offset(self) -> int:
        return int(self._ros.now().nanoseconds) - time.monotonic_ns()


class SimulatedClock:
    """ROS time from /clock: it may stand still, run at any speed and jump."""

    POLL = 5e-4
    """Time between looks at the clock [s]."""

    def __init__(self, ros_clock: Any) -> None:
        """Follow `ros_clock` (an rclpy Clock with use_sim_time)."""
        self._ros = ros_clock

    def now(self) -> float:
        """Return the time [s]; 0 before the first /clock message."""
        return int(self._ros.now().nanoseconds) / NANO

    def from_stamp(self, stamp: Any) -> float:
        """Return the time [s] of a message stamp."""
        return stamp.sec + stamp.nanosec / NANO

    def to_nanoseconds(self, time: float) -> int:
        """Return a time [s] as ROS time [ns]."""
        return int(time * NANO)

    def sleep_until(self, deadline: float, stop: threading.Event) -> float:
        """Wait until the simulated time is `deadline` [s], it jumped back by a second, or `stop` is set."""
        begun = self.now()
        while (now := self.now()) < deadline and now > begun - 1.0 and not stop.is_set():
            time.sleep(self.POLL)
        return now - deadline
