"""The gate between the solver and the arm: what may leave, in every mode, with or without a GPU."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from branch_mpc.guard.command import Command
from branch_mpc.guard.laws import Laws
from branch_mpc.guard.limiter import Limiter
from branch_mpc.guard.limits import Limits
from branch_mpc.guard.modes import SILENT, Flags, Mode, next_mode
from branch_mpc.guard.plan_gate import PlanGate
from branch_mpc.guard.preview import preview
from branch_mpc.guard.reasons import explain
from branch_mpc.guard.settings import GuardSettings
from branch_mpc.guard.state_gate import StateGate

if TYPE_CHECKING:
    from branch_mpc.mpc.plan import JointSample, Plan


class Guard:
    """Turns plans and states into commands that are finite, within limits and within rate, whatever comes in.

    Once a tick: `observe` the newest state, offer the `plan` if there is one, take the `command` and send it. The
    node configures (constructor), `activate`s, `deactivate`s; an operator `hold`s and `reset`s. One thread only.

    State: the mode, the gates' last state and plan, the last sent torque, the latched posture. `activate` clears all.

    Attributes:
        states: The gate of the measured states, with its counters.
        plans: The gate of the plans, with its counters.
        cold: True when the controller must be reset before its next plan is accepted.
    """

    cold: bool
    _now: float
    _effect: float
    _sent_at: float
    _stop_start: float
    _measured: tuple[np.ndarray, np.ndarray] | None
    _last: np.ndarray | None

    def __init__(
        self,
        robot: Any,
        settings: GuardSettings,
        gravity: Callable[[np.ndarray], np.ndarray],
        mass_matrix: Callable[[np.ndarray], np.ndarray] | None = None,
        period: float = 0.01,
    ) -> None:
        """Prepare a guard; it starts INACTIVE.

        Args:
            robot: An Articulation, or anything with its joint_names and limit arrays.
            settings: Timeouts, margins, rates and gains.
            gravity: Gravity torque at positions (n,) -> (n,) [Nm | N]; NumPy only.
            mass_matrix: Mass matrix at positions (n,) -> (n, n); without it the hold's gains follow the effort limits.
            period: Control period [s]; the largest time that the torque rate is granted for one command.

        Raises:
            RobotError: A joint without a finite effort or velocity limit, or with crossed position limits.
        """
        self.limits, self.settings, self.period = Limits.of(robot), settings, period
        self.states = StateGate(self.limits, settings)
        self.plans = PlanGate(self.limits, settings, period)
        self._limiter = Limiter(self.limits, settings, period)
        self._laws = Laws(self.limits, settings, gravity, mass_matrix)
        self.mode = Mode.INACTIVE
        self._clear(-np.inf)

    def activate(self, now: float) -> None:
        """Take charge: WAITING until states have streamed for the prestream time, then HOLD, then TRACKING."""
        self.states.clear()
        self.plans.drop("activated")
        self._clear(now)
        self.mode = Mode.WAITING

    def deactivate(self, now: float) -> None:
        """Ask to leave: a moving arm is stopped first, within `stop_time`; INACTIVE is reached by calling `command`."""
        self._leaving = True

    def hold(self, on: bool, now: float) -> None:
        """Stop and hold the reached posture, or allow tracking again."""
        self._hold = "hold requested" if on else ""

    def reset(self, now: float) -> None:
        """Leave FAULT, or a hold after a stop; a moving arm is stopped first. Only newer plans count from now on."""
        if self.mode in (Mode.TRACKING, Mode.DEGRADED):
            self._begin_stop(self.mode, self._now)
            self.mode, self._reason = Mode.STOPPING, "reset requested"
        self._fault, self._hold = "", ""
        self._forget_plan("reset requested")
        self._laws.unlatch()

    def fault(self, reason: str) -> None:
        """Latch a fault (device lost, solver raised): the arm is stopped and held until `reset`."""
        self._fault = self._fault or reason

    def observe(self, sample: "JointSample", now: float) -> bool:
        """Judge a measured state; see `states` for the counters.

        Returns:
            Whether it was accepted.
        """
        accepted = self.states.observe(sample, now)
        if self.states.restarted and self.mode not in SILENT:
            self._restart("position jumped")
        return accepted

    def plan(self, plan: "Plan", now: float) -> bool:
        """Judge a plan; see `plans` for the counters.

        Returns:
            Whether it was accepted and is now the plan in force.
        """
        accepted = self.states.age(now) <= self.settings.state_timeout and self.plans.offer(plan, now)
        self.cold = self.cold and not accepted
        return accepted

    @property
    def wants_plan(self) -> bool:
        """Whether the node should solve: holding is not asked for and there is a state to start from."""
        return self.mode in (Mode.HOLD, Mode.TRACKING, Mode.DEGRADED) and not (self._hold or self._leaving or self._fault)

    @property
    def reason(self) -> str:
        """Why the guard is in its mode; empty while it tracks undisturbed."""
        return self._reason

    @property
    def latched(self) -> str:
        """Why only a reset, or the end of a requested hold, leads back to tracking; empty if it needs neither."""
        return self._fault or self._hold

    def command(self, now: float, effect: float | None = None) -> Command:
        """Make the command to send now; it counts as sent.

        Args:
            now: Controller clock [s].
            effect: When it will take effect, for the interpolation of the plan [s]; default now.
        """
        if now < self._now - self.settings.state_timeout:
            self._clock_jumped(now)
        self._now = max(self._now, now)
        self._effect = self._now if effect is None else max(effect, self._now)
        self._step_mode(self._effect)
        if self.mode in SILENT or (self.mode is Mode.FAULT and self._stale()):
            return self._silent()
        return self._limited(*self._desired(self._effect))

    def horizon(self, command: Command, count: int, spacing: float) -> list[Command]:
        """Return what follows a command for a trajectory sink, each point limited as if it were sent.

        Args:
            command: The command just made.
            count: Number of further points.
            spacing: Time between points [s].
        """
        return preview(command, self._effect, self.plans, self._limiter, count, spacing)

    def _clear(self, now: float) -> None:
        self._now, self._effect, self._sent_at, self._stop_start = now, now, -np.inf, now
        self._measured, self._last = None, None
        self._fault, self._hold, self._reason = "", "", ""
        self._leaving, self.cold = False, True
        self._laws.forget()

    def _stale(self) -> bool:
        return self.states.age(self._now) > self.settings.state_timeout

    def _flags(self, effect: float) -> Flags:
        return Flags(
            no_state=self._stale(),
            unsettled=not self.states.settled(self._now),
            no_plan=self.plans.expired(effect),
            late_plan=self.plans.late(effect),
            holding=bool(self._hold),
            unfinished=self.mode is Mode.STOPPING and self._unfinished(),
            leaving=self._leaving,
            fault=bool(self._fault),
        )

    def _unfinished(self) -> bool:
        if self._now - self._stop_start >= self.settings.stop_time:
            return False
        sample = self.states.sample
        speed = self._laws.braking_state(self._now)[1] if sample is None or self._stale() else np.asarray(sample.velocity)
        return bool((np.abs(speed) > self.settings.rest_speed * self.limits.velocity).any())

    def _step_mode(self, effect: float) -> None:
        flags, before = self._flags(effect), self.mode
        self.mode = next_mode(before, flags)
        if self.mode is before:
            if self.mode is Mode.TRACKING:
                self._reason = ""
            return
        self._reason = explain(self.mode, flags, self._fault, self._hold, self.states, self.plans, self._now)
        if self.mode is Mode.STOPPING:
            self._begin_stop(before, effect)
        elif self.mode in (Mode.WAITING, Mode.HOLD, Mode.FAULT):
            self._laws.unlatch()

    def _begin_stop(self, before: Mode, effect: float) -> None:
        self._stop_start = self._now
        sample = self.states.sample
        if self._stale() and self.plans.plan is not None and before in (Mode.TRACKING, Mode.DEGRADED):
            _, position, velocity = self.plans.at(effect)  # the best belief without a measurement: what was being executed
            self._laws.brake_from(self._now, *self._limiter.within(position, velocity))
        elif sample is not None:
            self._laws.brake_from(self._now, np.asarray(sample.position), np.asarray(sample.velocity))
        self._hold = self._hold or ("" if self.settings.auto_resume else f"stopped: {self._reason}")
        self._forget_plan(self._reason)

    def _forget_plan(self, reason: str) -> None:
        self.plans.drop(reason)
        self.cold = True

    def _restart(self, reason: str) -> None:
        self._forget_plan(reason)
        self._laws.unlatch()
        self._hold = self._hold or ("" if self.settings.auto_resume else f"restarted: {reason}")
        self._reason = reason

    def _clock_jumped(self, now: float) -> None:
        self._now, self._sent_at, self._stop_start = now, now, now
        self.states.clear()
        self._laws.forget()
        if self.mode not in SILENT:
            self._restart("clock jumped back")
            self.mode = Mode.FAULT if self.mode is Mode.FAULT else Mode.WAITING

    def _desired(self, effect: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (torque, position, velocity) that the mode asks for, before limits."""
        sample = self.states.sample
        self._measured = None
        if sample is not None and not self._stale():
            self._measured = np.array(sample.position, dtype=float), np.array(sample.velocity, dtype=float)
        if self.mode in (Mode.TRACKING, Mode.DEGRADED):
            return self.plans.at(effect)
        if self.mode is Mode.STOPPING:
            if sample is not None:
                self._laws.brake_from(sample.time, np.asarray(sample.position), np.asarray(sample.velocity))
            return self._laws.stop(self._now)
        assert self._measured is not None  # HOLD and FAULT speak only with a fresh state
        return self._laws.hold(*self._measured)

    def _limited(self, torque: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> Command:
        desired = torque
        if self._measured is not None:
            gravity = self._laws.gravity(self._measured[0])
            if self._last is None:
                self._last = self._limiter.clip(np.where(np.isfinite(gravity), gravity, 0.0))
            torque = self._limiter.within_state(torque, *self._measured, gravity)
        last = np.zeros(self.limits.effort.size) if self._last is None else self._last
        if not np.isfinite(torque).all():
            # Nothing above may do this; if a model does, the arm keeps its last torque and the fault is latched.
            self.fault("the guard's own law is not finite")
            torque = last
        torque = self._limiter.rated(self._limiter.clip(torque), last, self._now - self._sent_at)
        self._last, self._sent_at = torque, self._now
        limited = np.abs(torque - desired) > 1e-9
        position, velocity = self._limiter.within(position, velocity)
        return Command(self._now, torque, position, velocity, self.mode, self._reason, limited, self.states.age(self._now), True)

    def _silent(self) -> Command:
        zero = np.zeros(self.limits.effort.size)
        torque = zero if self._last is None else self._last
        self._laws.unlatch()
        return Command(self._now, torque, zero, zero, self.mode, self._reason, zero.astype(bool), self.states.age(self._now), False)
