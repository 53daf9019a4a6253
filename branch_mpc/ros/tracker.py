"""One control tick: newest state in, plan, guard, command out. No ROS in here."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from branch_mpc.errors import BranchMpcError
from branch_mpc.guard import Command, Guard, Mode
from branch_mpc.mpc.plan import JointSample, Plan
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.ros.latency import Latency
from branch_mpc.ros.references import References


class Planner(Protocol):
    """The part of `branch_mpc.mpc.controller.Controller` that a tick uses."""

    settings: MpcSettings

    def reset(self, sample: JointSample) -> None:
        """Start anew from a measured state."""

    def step(self, sample: JointSample, start: float, targets: np.ndarray) -> Plan:
        """Solve a tick whose command takes effect at `start` [s]; targets [m], shape (N, 3)."""

    def sent(self, time: float, torque: np.ndarray) -> None:
        """Take note of the torque, shape (n,), that takes effect at `time` [s]."""

    def set_weights(self, weights: CostWeights) -> None:
        """Change the weights of the objective."""


@dataclass(frozen=True)
class Tick:
    """What a tick did."""

    begun: float
    """When it began, controller clock [s]."""
    command: Command
    """What was sent, or kept back (`publish` False)."""
    plan: Plan | None
    """The plan made in this tick, whether the guard accepted it or not."""
    tool: np.ndarray | None
    """Measured tool position, shape (3,) [m]; None without a fresh state."""
    target: np.ndarray
    """Where the reference was at the time of that measurement, shape (3,) [m]."""

    @property
    def tracking_error(self) -> float:
        """Distance of the tool from its target [m]; NaN without a fresh state."""
        return float("nan") if self.tool is None else float(np.linalg.norm(self.tool - self.target))


class Tracker:
    """Owns the order of a tick; the control thread is its only caller.

    Other threads `ask`: what they want is done at the beginning of the next tick, in order.

    State: that of the planner, guard, references and latency it was given; the requests that wait.
    """

    def __init__(
        self,
        planner: Planner,
        guard: Guard,
        references: References,
        tool: Callable[[np.ndarray], np.ndarray],
        latency: Latency,
        clock: Callable[[], float],
        send: Callable[[Command], None],
    ) -> None:
        """Put a tick together.

        Args:
            planner: The controller.
            guard: The guard, which has the last word.
            references: Where the tool should go.
            tool: Tool position at joint positions, (n,) -> (3,) [m].
            latency: Estimate of when a command takes effect.
            clock: Controller clock [s].
            send: Publishes a command.
        """
        self._planner, self.guard, self.references, self.latency = planner, guard, references, latency
        self._tool, self._clock, self._send = tool, clock, send
        self._requests: deque[Callable[[float], None]] = deque()
        self._seen: JointSample | None = None
        self._tracked_since: float | None = None
        self.plan: Plan | None = None
        """The newest plan."""

    @property
    def tracked(self) -> float:
        """Time since the reference in force began [s]; 0 while it has not."""
        return 0.0 if self._tracked_since is None else max(0.0, self._clock() - self._tracked_since)

    def ask(self, request: Callable[[float], None]) -> None:
        """Have something done in the control thread, at the beginning of its next tick.

        Args:
            request: Called with the controller clock [s]; must not raise.
        """
        self._requests.append(request)

    def set_weights(self, weights: CostWeights) -> None:
        """Change the weights of the objective from the next tick on."""
        self.ask(lambda now: self._planner.set_weights(weights))

    def tick(self, sample: JointSample | None) -> Tick:
        """Run a tick.

        Args:
            sample: The newest joint state, None before the first.
        """
        begun = self._clock()
        while self._requests:
            self._requests.popleft()(begun)
        if sample is not None and sample is not self._seen:
            self._seen = sample
            self.guard.observe(sample, begun)
        plan = self._plan(begun)
        now = self._clock()
        effect = now + self.latency.transport
        # A solve that took less than expected is sent at once: its first torque holds from then on.
        command = self.guard.command(now, effect)
        if command.publish:
            self._send(command)
            self._planner.sent(effect, command.torque)
            self.latency.tick(self._clock() - begun)
        if command.mode not in (Mode.TRACKING, Mode.DEGRADED):
            self._tracked_since = None
        elif self._tracked_since is None:
            self._tracked_since = self.references.start
        return self._done(begun, command, plan)

    def _plan(self, now: float) -> Plan | None:
        """Make this tick's plan and offer it to the guard; None when none is wanted or there is nothing to start from."""
        sample = self.guard.states.sample
        if sample is None or not self.guard.wants_plan or self.guard.states.age(now) > self.guard.settings.state_timeout:
            return None
        start = now + self.latency.value
        try:
            if self.guard.cold:
                self.references.begin(self._tool(sample.position), start)
                self._planner.reset(sample)
            settings = self._planner.settings
            targets = self.references.window(start, settings.knots, settings.step)
            plan = self._planner.step(sample, start, targets)
        except (BranchMpcError, ArithmeticError, RuntimeError, ValueError) as error:
            # The device is gone, or something worse: the guard goes on without it, from host memory.
            self.guard.fault(f"solver raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no text'}")
            return None
        self.guard.plan(plan, self._clock())
        self.plan = plan
        return plan

    def _done(self, begun: float, command: Command, plan: Plan | None) -> Tick:
        sample = self.guard.states.sample
        if sample is None or command.age > self.guard.settings.state_timeout:
            return Tick(begun, command, plan, None, self.references.at(begun))
        return Tick(begun, command, plan, self._tool(sample.position), self.references.at(sample.time))
