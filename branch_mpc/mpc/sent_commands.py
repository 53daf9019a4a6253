"""The torques that were really sent, as a step function of time."""

from collections import deque

import numpy as np

SEGMENTS = 12  # longest replay, in commands; older parts of a window merge into its first segment


class SentCommands:
    """History of sent torques; torque i holds from its time until the next one's."""

    def __init__(self, dof: int) -> None:
        self._dof = dof
        self._history: deque[tuple[float, np.ndarray]] = deque(maxlen=64)

    def clear(self, torque: np.ndarray) -> None:
        """Forget everything; `torque`, shape (n,), has been acting for ever."""
        self._history.clear()
        self._history.append((-np.inf, np.array(torque, dtype=float)))

    def add(self, time: float, torque: np.ndarray) -> None:
        """Record that `torque`, shape (n,), acts from `time` [s] on; later entries from that time on are replaced."""
        while len(self._history) > 1 and self._history[-1][0] >= time:
            self._history.pop()
        self._history.append((time, np.array(torque, dtype=float)))

    def fill(self, begin: float, end: float, durations: np.ndarray, torques: np.ndarray) -> None:
        """Write the torques acting from `begin` to `end` into fixed arrays.

        Args:
            begin: Start of the window [s].
            end: End of the window [s]; nothing acts when it is not after `begin`.
            durations: Filled with segment lengths [s], shape (SEGMENTS,); unused segments get 0.
            torques: Filled with torques, shape (SEGMENTS, n).
        """
        durations[:], torques[:] = 0.0, 0.0
        parts: list[tuple[float, np.ndarray]] = []
        stop = end
        for start, torque in reversed(self._history):  # newest first: a window is short, the history is not
            if start < stop:
                parts.append((stop - max(start, begin), torque))
                stop = start
            if start <= begin:
                break
        parts = [part for part in reversed(parts) if part[0] > 0.0]
        if len(parts) > SEGMENTS:
            merged = sum(length for length, _ in parts[: len(parts) - SEGMENTS + 1])
            parts = [(merged, parts[len(parts) - SEGMENTS][1]), *parts[len(parts) - SEGMENTS + 1 :]]
        for i, (length, torque) in enumerate(parts):
            durations[i], torques[i] = length, torque
