"""One tick for every joint state, on the clock of the states: two runs give identical commands."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from branch_mpc.mpc.plan import JointSample
from branch_mpc.ros.clocks import NANO
from branch_mpc.ros.mailbox import Mailbox


class StampClock:
    """A clock that shows the stamp of the state being answered, and stands still in between."""

    def __init__(self) -> None:
        self._now = 0.0

    def set(self, time: float) -> None:
        """Move on to a time [s]."""
        self._now = time

    def now(self) -> float:
        """Return the time [s]."""
        return self._now

    def from_stamp(self, stamp: Any) -> float:
        """Return the time [s] of a message stamp."""
        return float(stamp.sec + stamp.nanosec / NANO)

    def to_nanoseconds(self, time: float) -> int:
        """Return a time [s] as ROS time [ns]."""
        return round(time * NANO)

    def sleep_until(self, deadline: float, stop: threading.Event) -> float:
        """Return at once: this clock is moved by states only."""
        return 0.0


class LockstepLoop:
    """Calls `tick` once for every new state in the mailbox, in a thread of its own; has the face of a ControlLoop.

    A state that is put in again was not answered, as far as its publisher knows: `tick` is called for it again, and
    the clock has not moved.

    Attributes:
        ticks: Calls of `tick`.
        overruns: Always 0: the plant waits.
        lateness: Always empty.
    """

    def __init__(
        self, mailbox: Mailbox[JointSample], clock: StampClock, tick: Callable[[], None], failed: Callable[[Exception], bool]
    ) -> None:
        self._mailbox, self._clock, self._tick, self._failed = mailbox, clock, tick, failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lockstep", daemon=True)
        self.ticks = self.overruns = 0
        self.lateness: deque[float] = deque()

    @property
    def running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after the tick it is in."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread to end; return whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._mailbox.wait(0.05):
                continue
            sample = self._mailbox.get()
            if sample is None:
                continue
            self._clock.set(sample.time)
            self.ticks += 1
            try:
                self._tick()
            except Exception as error:  # as in ControlLoop
                if not self._failed(error):
                    return
