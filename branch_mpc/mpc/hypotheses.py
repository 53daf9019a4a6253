"""Hypotheses about the disturbance: world forces at the tool on a sphere around the estimate.

Row 0 is the estimate, row 1 nothing, the rest a Fibonacci sphere, freshly rotated every tick, whose radius grows
while its points win and shrinks while the estimate explains the motion. The force is fixed in the world.
"""

import numpy as np

from branch_mpc.mpc.settings import HypothesisSettings

GROWTH, SHRINKAGE = 1.3, 0.7  # per tick; growth from 0.5 N to 100 N takes 21 ticks
FORGETTING = 0.5  # the estimate halves on each tick that the empty hypothesis wins


def fibonacci_sphere(count: int) -> np.ndarray:
    """Return `count` nearly uniform unit vectors, shape (count, 3) (Gonzalez 2010, golden-angle spiral)."""
    i = np.arange(count)
    y = 1.0 - 2.0 * (i + 0.5) / max(count, 1)
    angle = np.pi * (3.0 - np.sqrt(5.0)) * i
    r = np.sqrt(1.0 - y * y)
    return np.stack([r * np.cos(angle), y, r * np.sin(angle)], axis=1)


class ForceSphere:
    """M hypotheses (force, moment) on the tool. State: estimate, radius, random stream; cleared by `reset`."""

    def __init__(self, batch: int, settings: HypothesisSettings) -> None:
        self._settings, self._batch = settings, batch
        self._directions = fibonacci_sphere(max(batch - 2, 0))
        self.reset()

    def reset(self) -> None:
        """Forget the estimate and restart the random stream."""
        self.estimate = np.zeros(6)
        self.radius = self._settings.radius
        self._random = np.random.default_rng(self._settings.seed)
        self._rows = np.zeros((self._batch, 6))

    def propose(self) -> np.ndarray:
        """Return the rows of the next tick, shape (M, 6), base frame [N, Nm]."""
        self._rows[0] = self.estimate
        if self._batch > 1:
            self._rows[1:] = 0.0
        if self._batch > 2:
            turned = self._directions @ self._rotation().T
            self._rows[2:, :3] = self.estimate[:3] + self.radius * turned
        return self._rows

    def update(self, winner: int) -> None:
        """Move the estimate to the row that explained the last tick."""
        if self._batch == 1:
            return
        self.estimate = FORGETTING * self.estimate if winner == 1 else self._rows[winner].copy()
        factor = GROWTH if winner > 1 else SHRINKAGE
        self.radius = float(np.clip(factor * self.radius, self._settings.radius_min, self._settings.radius_max))

    def _rotation(self) -> np.ndarray:
        """Uniform random rotation from a random unit quaternion (Shoemake 1992)."""
        w, x, y, z = (lambda q: q / np.linalg.norm(q))(self._random.standard_normal(4))
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
