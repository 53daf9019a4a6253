"""Which measured states are believed."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from branch_mpc.guard.limits import Limits
from branch_mpc.guard.settings import GuardSettings

if TYPE_CHECKING:  # at run time a sample is anything with time, position, velocity: the guard imports no room with kernels
    from branch_mpc.mpc.plan import JointSample

ENCODER_STEP = 1e-3
"""Elapsed time added in the jump test [s]: two samples a microsecond apart may differ by the encoder's resolution."""


class StateGate:
    """Accepts or rejects measured states; stateful: the last accepted sample, the suspect series, the stream's start.

    `clear` forgets all of it.
    """

    def __init__(self, limits: Limits, settings: GuardSettings) -> None:
        self._limits, self._settings = limits, settings
        self.rejections: Counter[str] = Counter()
        """Rejected samples by reason, since construction."""
        self.future_stamps = 0
        """Accepted samples whose stamp was in the future (clock skew within the tolerance)."""
        self.last_rejection = ""
        """Reason of the newest rejection, with the joint and the numbers."""
        self.clear()

    def clear(self) -> None:
        """Forget the samples: the next finite one is believed."""
        self.sample: JointSample | None = None
        self._suspect: JointSample | None = None
        self._suspects = 0
        self._stream_start = -np.inf
        self.restarted = False
        """True when the last call of `observe` accepted a jump: the robot is elsewhere now."""

    def observe(self, sample: "JointSample", now: float) -> bool:
        """Judge a sample.

        Args:
            sample: The measured state.
            now: Controller clock [s].

        Returns:
            Whether it was accepted.
        """
        self.restarted = False
        for reason, test in (("malformed", self._malformed), ("not finite", self._not_finite), ("out of time", self._out_of_time)):
            if problem := test(sample, now):
                return self._reject(reason, problem)
        if problem := self._jump(sample):
            if not self._believed_after_all(sample):
                return self._reject("position jump", problem)
            self.restarted = True
        last = self.sample
        if last is None or self.restarted or now - last.time > self._settings.state_timeout:
            self._stream_start = now
        self.future_stamps += sample.time > now
        self.sample, self._suspect, self._suspects = sample, None, 0
        return True

    def age(self, now: float) -> float:
        """Return the age of the newest accepted state [s], inf without one; a stamp in the future has age 0."""
        return np.inf if self.sample is None else max(0.0, now - self.sample.time)

    def settled(self, now: float) -> bool:
        """Whether states have arrived without a gap for the prestream time."""
        return self.sample is not None and now - self._stream_start >= self._settings.prestream

    def _reject(self, reason: str, problem: str) -> bool:
        self.rejections[reason] += 1
        self.last_rejection = f"{reason}: {problem}"
        return False

    def _malformed(self, sample: "JointSample", now: float) -> str:
        shape = self._limits.effort.shape
        for name in ("position", "velocity"):
            if np.shape(getattr(sample, name)) != shape:
                return f"{name} has shape {np.shape(getattr(sample, name))}, expected {shape}"
        return ""

    def _not_finite(self, sample: "JointSample", now: float) -> str:
        # Bits, not norms: fmax-based norms let NaN pass (acados #806).
        for name in ("position", "velocity"):
            bad = ~np.isfinite(getattr(sample, name))
            if bad.any():
                return f"{name} of joint '{self._limits.names[int(np.argmax(bad))]}'"
        return "" if np.isfinite(sample.time) else "time stamp"

    def _out_of_time(self, sample: "JointSample", now: float) -> str:
        if sample.time > now + self._settings.future_tolerance:
            return f"stamp {sample.time - now:.3f} s in the future"
        if self.sample is not None and sample.time <= self.sample.time:
            return f"stamp {self.sample.time - sample.time:.6f} s before the last one"
        return ""

    def _jump(self, sample: "JointSample") -> str:
        return "" if self.sample is None else self._distance_problem(self.sample, sample)

    def _distance_problem(self, before: "JointSample", after: "JointSample") -> str:
        elapsed = max(0.0, after.time - before.time) + ENCODER_STEP
        moved = np.abs(np.asarray(after.position) - before.position)
        excess = moved - self._settings.position_jump * self._limits.velocity * elapsed
        worst = int(np.argmax(excess))
        if excess[worst] <= 0.0:
            return ""
        return f"joint '{self._limits.names[worst]}' moved {moved[worst]:.3f} in {elapsed:.4f} s"

    def _believed_after_all(self, sample: "JointSample") -> bool:
        """Count suspects that agree with each other: a robot elsewhere, not a glitch or a second publisher."""
        agrees = self._suspect is not None and not self._distance_problem(self._suspect, sample)
        self._suspects = self._suspects + 1 if agrees else 1
        self._suspect = sample
        return self._suspects > self._settings.jump_samples
