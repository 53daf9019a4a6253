"""Where the tool should be, on the controller's clock: the figure, a point, or the target that was sent last."""

import numpy as np

from branch_mpc.errors import TargetError
from branch_mpc.optimal_control.reference import Approach, Hold, Reference, figure8_for, window
from branch_mpc.robot.articulation import Articulation
from branch_mpc.ros.settings import ReferenceSettings


class References:
    """The reference in force and the time it began; `begin` starts it anew from where the tool is."""

    def __init__(self, articulation: Articulation, settings: ReferenceSettings) -> None:
        self._robot, self._settings = articulation, settings
        self._reference: Reference = Hold(np.zeros(3))
        self._target: np.ndarray | None = None
        self.start = 0.0
        """When the reference in force began, controller clock [s]."""

    def begin(self, tool: np.ndarray, start: float) -> None:
        """Start the reference from rest at a tool position.

        Args:
            tool: Tool position, shape (3,) [m].
            start: Controller clock [s].
        """
        self.start = start
        self._reference = self._made(np.asarray(tool, dtype=float))

    def aim(self, target: np.ndarray, now: float) -> None:
        """Go to a target from where the reference is now.

        Args:
            target: Tool position, shape (3,) [m].
            now: Controller clock [s].

        Raises:
            TargetError: Not three finite numbers; the target before stays.
        """
        self._target = Hold(target).point
        if self._settings.kind == "target":
            here = self.at(now)
            self.start, self._reference = now, Approach(here, Hold(self._target), self._settings.approach)

    def forget_target(self) -> None:
        """Stay where the tool is at the next `begin`: a target from before a restart is not resumed."""
        self._target = None

    def at(self, time: float) -> np.ndarray:
        """Return the tool target at a time of the controller's clock [s], shape (3,) [m]."""
        return np.asarray(self._reference.position(np.array([time - self.start]))[0])

    def window(self, start: float, knots: int, step: float) -> np.ndarray:
        """Return the targets of a horizon that begins at `start` [s], shape (knots, 3) [m]."""
        return window(self._reference, start - self.start, knots, step)

    def path(self, count: int) -> np.ndarray:
        """Return points along the reference for a picture, shape (count, 3) [m]."""
        length = self._settings.approach + (self._settings.period if self._settings.kind == "figure8" else 0.0)
        begin = self._settings.approach if self._settings.kind == "figure8" else 0.0
        return np.asarray(self._reference.position(np.linspace(begin, length, count)))

    def _made(self, tool: np.ndarray) -> Reference:
        if self._settings.kind == "figure8":
            # How far the first joint lets the tool reach is at least how far it is now.
            reach = float(np.linalg.norm(tool - self._robot.translation[0]))
            return Approach(tool, figure8_for(self._robot.name, tool, self._settings.period, reach), self._settings.approach)
        if self._settings.kind == "target" and self._target is not None:
            return Approach(tool, Hold(self._target), self._settings.approach)
        if not np.isfinite(tool).all():
            raise TargetError("the tool position is not finite", "check the joint states")
        return Hold(tool)
