"""From the arrays of a joint state message to the joints of the robot, by name."""

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np

from branch_mpc.mpc.plan import JointSample

WINDOW = 5e-3
"""Shortest time over which a velocity is estimated by difference [s]: encoder steps over one millisecond are noise."""
KEPT = 0.05
"""Positions older than this do not serve for a difference [s]."""
MOVING = 0.02
"""Estimated speed from which an all-zero velocity is not believed [rad/s | m/s]."""


class JointMap:
    """Picks the controlled joints out of joint states whose order, length and content are the publisher's affair.

    State: the index of the last name list, the recent positions for the difference, the counters.
    """

    def __init__(self, joints: Sequence[str]) -> None:
        """Prepare for joints, in the order that samples shall have."""
        self._joints = tuple(joints)
        self._names: list[str] | None = None
        self._index = np.zeros(0, dtype=int)
        self._fault = ""
        self._recent: deque[tuple[float, np.ndarray]] = deque()
        self.rejections: Counter[str] = Counter()
        """Messages that gave no sample, by reason."""
        self.estimated = 0
        """Samples whose velocity is an estimate by difference."""
        self.problem = ""
        """What was wrong with the last message; empty if nothing."""

    def sample(self, time: float, names: Sequence[str], position: Sequence[float], velocity: Sequence[float]) -> JointSample | None:
        """Return the sample of a message, or None with `problem` saying why not.

        Args:
            time: When it was measured, controller clock [s].
            names: Joint names of the message.
            position: Positions in that order [rad | m].
            velocity: Velocities in that order [rad/s | m/s]; empty, NaN, or zero while moving: estimated.
        """
        if names != self._names:
            self._learn(list(names))
        self.problem = self._fault or self._lengths(names, position, velocity)
        if self.problem:
            self.rejections[self.problem.split(":")[0]] += 1
            return None
        q = np.array(position, dtype=float)[self._index]
        v = np.array(velocity, dtype=float)[self._index] if len(velocity) else np.full(len(q), np.nan)
        return JointSample(time, q, self._with_estimate(time, q, v))

    def _learn(self, names: list[str]) -> None:
        places = {name: place for place, name in enumerate(names)}
        missing = [name for name in self._joints if name not in places]
        twice = [name for name, count in Counter(names).items() if count > 1]
        self._names, self._fault = names, ""
        if missing:
            self._fault = f"missing joints: {', '.join(missing)} (the message has {', '.join(names) or 'none'})"
        elif twice:
            self._fault = f"duplicate joints: {', '.join(twice)}"
        else:
            self._index = np.array([places[name] for name in self._joints])

    def _lengths(self, names: Sequence[str], position: Sequence[float], velocity: Sequence[float]) -> str:
        if len(position) != len(names):
            return f"wrong length: {len(position)} positions for {len(names)} names"
        if len(velocity) not in (0, len(names)):
            return f"wrong length: {len(velocity)} velocities for {len(names)} names"
        return ""

    def _with_estimate(self, time: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Fill missing velocities: NaN means 'not measured' (a driver's empty interface), infinity stays a fault."""
        if not np.isfinite(q).all():
            return v
        while self._recent and not time - KEPT <= self._recent[0][0] < time:
            self._recent.popleft()
        # The newest of the positions that are old enough, else the oldest there is.
        before = next((entry for entry in reversed(self._recent) if time - entry[0] >= WINDOW), self._recent[0] if self._recent else None)
        self._recent.append((time, q))
        missing = np.isnan(v)
        if not missing.any() and v.any():
            return v
        estimate = np.zeros_like(q) if before is None else (q - before[1]) / (time - before[0])
        if not missing.any():
            if (np.abs(estimate) < MOVING).all():
                return v
            missing = np.ones_like(missing)
        self.estimated += 1
        return np.where(missing, estimate, v)
