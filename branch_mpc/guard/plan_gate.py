"""Which plans are followed, and what they say at a time."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from branch_mpc.guard.limits import Limits
from branch_mpc.guard.settings import GuardSettings

if TYPE_CHECKING:  # at run time a plan is anything with these attributes: the guard imports no room with kernels
    from branch_mpc.mpc.plan import Plan

FAILED = frozenset({"NOT_FINITE", "PIVOT_FAILED"})
"""Names of the solve outcomes whose plan is not used."""


class PlanGate:
    """Accepts or rejects plans; stateful: the plan in force, counts in a row, the lowest epoch that is accepted."""

    def __init__(self, limits: Limits, settings: GuardSettings, period: float) -> None:
        self._limits, self._settings, self._period = limits, settings, period
        self.rejections: Counter[str] = Counter()
        """Rejected plans by reason, since construction."""
        self.last_rejection = ""
        """Reason of the newest rejection, or of the drop."""
        self.plan: Plan | None = None
        """The plan in force."""
        self.in_a_row = 0
        """Rejected plans since the last accepted one."""
        self.stalled = 0
        """Accepted plans in a row that made no progress."""
        self._newest = (-1, -1)
        self._floor = -1

    def drop(self, reason: str) -> None:
        """Forget the plan for a reason; only plans of a newer epoch than any seen are accepted from now on."""
        self.plan, self.in_a_row, self.stalled, self.last_rejection = None, 0, 0, reason
        self._floor = self._newest[0] + 1

    def offer(self, plan: "Plan", now: float) -> bool:
        """Judge a plan; a rejected one leaves the plan in force, which ages.

        Args:
            plan: The plan of this tick.
            now: Controller clock [s].

        Returns:
            Whether it was accepted.
        """
        if plan.epoch < self._floor or (plan.epoch, plan.tick) <= self._newest:
            # Not counted in a row: a solve begun before a reset ends after it, and says nothing about the solver.
            return self._reject("stale", f"epoch {plan.epoch} tick {plan.tick}", 0)
        self._newest = (plan.epoch, plan.tick)
        for reason, test in (
            ("solver failed", self._failed),
            ("malformed", self._malformed),
            ("not finite", self._not_finite),
            ("torque", self._torque),
            ("out of time", self._out_of_time),
        ):
            if problem := test(plan, now):
                return self._reject(reason, problem, 1)
        self.stalled = self.stalled + 1 if plan.status.name == "STALLED" else 0
        self.plan, self.in_a_row = plan, 0
        return True

    def age(self, time: float) -> float:
        """Return the age of the plan in force [s], inf without one; 0 until its start."""
        return np.inf if self.plan is None else max(0.0, time - self.plan.start)

    def expired(self, time: float) -> bool:
        """Whether there is no plan that may be followed at `time`."""
        if self.plan is None or self.in_a_row >= self._settings.plan_rejections:
            return True
        horizon = (len(self.plan.position) - 1) * self.plan.step
        return self.age(time) > min(self._settings.plan_timeout, max(horizon, 2.0 * self._period))

    def late(self, time: float) -> bool:
        """Whether the newest plan is not of this tick, was rejected, or makes no progress."""
        return self.in_a_row > 0 or self.stall_limit_reached or self.age(time) > 1.5 * self._period

    @property
    def stall_limit_reached(self) -> bool:
        """Whether the solver accepted no step for too many plans in a row."""
        return self.stalled >= self._settings.stall_ticks

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (torque, position, velocity) of the plan in force at `time`: torque held over a knot, states linear.

        Before the start and after the end the nearest knot counts.
        """
        assert self.plan is not None
        plan = self.plan
        last = len(plan.position) - 1
        knot = min(max(0.0, (time - plan.start) / plan.step), float(last))
        # A command made a rounding error before a knot belongs to that knot.
        low = min(int(knot + 1e-6), last - 1)
        part = min(max(0.0, knot - low), 1.0)
        position = (1.0 - part) * plan.position[low] + part * plan.position[low + 1]
        velocity = (1.0 - part) * plan.velocity[low] + part * plan.velocity[low + 1]
        return np.array(plan.torque[low], dtype=float), np.asarray(position, dtype=float), np.asarray(velocity, dtype=float)

    def _reject(self, reason: str, problem: str, count: int) -> bool:
        self.rejections[reason] += 1
        self.in_a_row += count
        self.last_rejection = f"{reason}: {problem}"
        return False

    def _failed(self, plan: "Plan", now: float) -> str:
        return plan.status.value if plan.status.name in FAILED else ""

    def _malformed(self, plan: "Plan", now: float) -> str:
        knots, n = len(plan.position), self._limits.effort.size
        shapes = {"position": (knots, n), "velocity": (knots, n), "torque": (knots - 1, n)}
        for name, shape in shapes.items():
            if np.shape(getattr(plan, name)) != shape:
                return f"{name} has shape {np.shape(getattr(plan, name))}, expected {shape}"
        return "" if knots >= 2 else f"{knots} knots"

    def _not_finite(self, plan: "Plan", now: float) -> str:
        if not (np.isfinite(plan.start) and np.isfinite(plan.step) and plan.step > 0.0):
            return f"start {plan.start}, step {plan.step}"
        return next((name for name in ("torque", "position", "velocity") if not np.isfinite(getattr(plan, name)).all()), "")

    def _torque(self, plan: "Plan", now: float) -> str:
        worst = np.abs(plan.torque).max(axis=0) / self._limits.effort
        joint = int(np.argmax(worst))
        if worst[joint] <= self._settings.plan_torque:
            return ""
        return f"joint '{self._limits.names[joint]}' at {worst[joint]:.1f} times its limit"

    def _out_of_time(self, plan: "Plan", now: float) -> str:
        lead = plan.start - now
        if abs(lead) <= self._settings.plan_timeout:
            return ""
        return f"starts {abs(lead):.3f} s {'ahead' if lead > 0.0 else 'ago'}"
