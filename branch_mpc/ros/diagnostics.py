"""/diagnostics, once a second: the loop, the solver, the inputs."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from branch_mpc.guard import Guard, Mode
from branch_mpc.mpc.plan import Plan
from branch_mpc.ros.control_loop import ControlLoop
from branch_mpc.ros.joint_map import JointMap
from branch_mpc.ros.lockstep import LockstepLoop

OK, WARN, ERROR, STALE = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE
LEVELS = {Mode.HOLD: OK, Mode.TRACKING: OK, Mode.DEGRADED: WARN, Mode.STOPPING: WARN, Mode.WAITING: WARN, Mode.FAULT: ERROR}


@dataclass
class SolveStatistics:
    """The solves of the last seconds; filled by the control thread, read by the executor's."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    """Solve times [s]."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Solves by outcome, since activation."""
    last: Plan | None = None
    """The newest plan."""

    def add(self, plan: Plan) -> None:
        """Take note of a plan."""
        self.times.append(plan.solve_time)
        self.outcomes[plan.status.value] += 1
        self.last = plan


class Diagnostics:
    """Publishes the node's health; counts that rose since the last message raise the level to WARN."""

    def __init__(self, node: Any, guard: Guard, joints: JointMap, device: str, policy: str) -> None:
        self._node, self._guard, self._joints, self._device, self._policy = node, guard, joints, device, policy
        self.publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 1)
        self._before: Counter[str] = Counter()

    def publish(self, loop: ControlLoop | LockstepLoop | None, solves: SolveStatistics, states_rate: float, publishers: int) -> None:
        """Publish one message.

        Args:
            loop: The control loop; None while inactive.
            solves: Statistics of the solver.
            states_rate: Joint states a second, measured.
            publishers: Publishers on the joint states' topic.
        """
        message = DiagnosticArray(status=[self._loop(loop), self._solver(solves), self._inputs(states_rate, publishers)])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self.publisher.publish(message)

    def _loop(self, loop: ControlLoop | LockstepLoop | None) -> DiagnosticStatus:
        mode = self._guard.mode
        if loop is None:
            return self._status("control loop", STALE, "inactive", {})
        late = list(loop.lateness)
        level = max(LEVELS.get(mode, OK), WARN if self._rose("overruns", loop.overruns) else OK)
        values = {"ticks": loop.ticks, "overruns": loop.overruns, **percentiles("lateness", late)}
        return self._status("control loop", level, f"{mode.value} {self._guard.reason}".strip(), values)

    def _solver(self, solves: SolveStatistics) -> DiagnosticStatus:
        plan = solves.last
        if plan is None:
            return self._status("solver", OK, "no solve yet", {"policy": self._policy})
        rejected = sum(self._guard.plans.rejections.values())
        level = WARN if self._rose("rejected plans", rejected) or self._guard.plans.stall_limit_reached else OK
        values = {
            "policy": self._policy,
            **percentiles("solve", list(solves.times)),
            "merit": f"{plan.merit:.5g}",
            "KKT residual": f"{plan.kkt_residual:.3g}",
            **{f"solves {name}": count for name, count in solves.outcomes.items()},
            "rejected plans": rejected,
            "last rejection": self._guard.plans.last_rejection if rejected else "",
        }
        return self._status("solver", level, plan.status.value, values)

    def _inputs(self, rate: float, publishers: int) -> DiagnosticStatus:
        rejections = self._joints.rejections + self._guard.states.rejections
        problem = self._joints.problem
        if rate == 0.0:
            problem = problem or "no joint states"
        if publishers > 1:
            problem = problem or f"{publishers} publishers on joint_states"
        level = ERROR if rate == 0.0 or self._joints.problem else WARN if problem or self._rose("states", sum(rejections.values())) else OK
        values = {
            "joint states (Hz)": f"{rate:.1f}",
            "publishers": publishers,
            "velocities estimated": self._joints.estimated,
            "stamps in the future": self._guard.states.future_stamps,
            **{f"rejected, {reason}": count for reason, count in rejections.items()},
            "last rejection": self._guard.states.last_rejection,
        }
        return self._status("inputs", level, problem or "ok", values)

    def _rose(self, name: str, count: int) -> bool:
        rose = count > self._before[name]
        self._before[name] = count
        return rose

    def _status(self, name: str, level: bytes, message: str, values: dict[str, Any]) -> DiagnosticStatus:
        pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        full = f"{self._node.get_name()}: {name}"
        return DiagnosticStatus(level=level, name=full, message=message, hardware_id=self._device, values=pairs)


def percentiles(name: str, seconds: Iterable[float]) -> dict[str, str]:
    """Return median, 99th percentile and maximum in milliseconds, by name; empty without values."""
    values = 1e3 * np.array(list(seconds))
    if not values.size:
        return {}
    marks = {"p50": 50, "p99": 99, "max": 100}
    return {f"{name} {mark} (ms)": f"{np.percentile(values, percent):.3f}" for mark, percent in marks.items()}
