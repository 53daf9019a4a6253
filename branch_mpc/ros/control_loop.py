"""The control thread: absolute deadlines, overruns counted, never a burst."""

import threading
from collections import deque
from collections.abc import Callable

from branch_mpc.ros.clocks import LoopClock

KEPT = 1000
"""Ticks whose lateness is kept for the statistics."""


class ControlLoop:
    """Calls `tick` at the multiples of a period in a thread of its own.

    A tick that ends after the next deadline makes the loop skip what it missed: `overruns` counts every skipped tick,
    and the next one is at the next multiple of the period. A clock that jumps starts a new grid.

    Attributes:
        ticks: Calls of `tick`.
        overruns: Ticks that were skipped.
        lateness: How late the last ticks began [s].
    """

    def __init__(self, period: float, tick: Callable[[], None], clock: LoopClock, failed: Callable[[Exception], bool]) -> None:
        """Prepare the thread.

        Args:
            period: Control period [s].
            tick: Called once a period.
            clock: Clock of the deadlines.
            failed: Called with what `tick` raised; returns whether to go on.
        """
        self._period, self._tick, self._clock, self._failed = period, tick, clock, failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self.ticks = self.overruns = 0
        self.lateness: deque[float] = deque(maxlen=KEPT)

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
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = self._clock.now()
        while not self._stop.is_set():
            due += self._period
            late = self._clock.sleep_until(due, self._stop)
            if self._stop.is_set():
                return
            if abs(late) > 1.0:  # a jump of the clock, or a suspended machine: nothing was missed that could be made up
                due, late = self._clock.now(), 0.0
            due += self._skip(late)
            self.lateness.append(late)
            self.ticks += 1
            try:
                self._tick()
            except Exception as error:  # whatever it was, the guard must go on holding the arm
                if not self._failed(error):
                    return
            due += self._skip(self._clock.now() - due)

    def _skip(self, late: float) -> float:
        """Count the whole periods in a delay; return their length [s]."""
        missed = max(0, int(late / self._period))
        self.overruns += missed
        return missed * self._period
