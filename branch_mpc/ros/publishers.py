"""What the node says about itself: ~/status, ~/plan and ~/markers."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Vector3, Wrench
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from branch_mpc.guard import Mode
from branch_mpc.mpc.plan import Plan
from branch_mpc.msg import MpcPlan, MpcStatus
from branch_mpc.ros.clocks import NANO, LoopClock
from branch_mpc.ros.references import References
from branch_mpc.ros.tracker import Tick

RELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
MODES = {mode: getattr(MpcStatus, mode.name) for mode in Mode}
PATH_POINTS = 120
"""Points of the target path in a picture."""


def stamp(nanoseconds: int) -> Time:
    """Return a ROS time [ns] as a message."""
    return Time(sec=nanoseconds // NANO, nanosec=nanoseconds % NANO)


class StatusPublisher:
    """Publishes the status and the plan of a tick, from the control thread."""

    def __init__(self, node: Any, joints: Sequence[str], frame: str, device: str, policy: str, clock: LoopClock) -> None:
        self._clock = clock
        self._status = node.create_publisher(MpcStatus, "~/status", RELIABLE)
        self._plan = node.create_publisher(MpcPlan, "~/plan", RELIABLE)
        self.publishers = (self._status, self._plan)
        self._joints, self._frame, self._device, self._policy = list(joints), frame, device, policy

    def publish(self, tick: Tick, plan: Plan | None, ticks: int, overruns: int) -> None:
        """Publish the status of a tick, and the plan made in it.

        Args:
            tick: The tick.
            plan: The newest plan, which the status describes; None before the first.
            ticks: Ticks since activation.
            overruns: Ticks skipped since activation.
        """
        command = tick.command
        message = MpcStatus(mode=MODES[command.mode], reason=command.reason, ticks=ticks, overruns=overruns)
        message.header.stamp, message.header.frame_id = stamp(self._clock.to_nanoseconds(tick.begun)), self._frame
        message.tracking_error, message.state_age = tick.tracking_error, float(command.age)
        message.limited = command.limited.tolist()
        message.device, message.policy = self._device, self._policy
        if plan is not None:
            message.epoch, message.tick, message.row = plan.epoch, plan.tick, plan.row
            message.solve_status, message.converged, message.iterations = plan.status.value, plan.converged, plan.iterations
            message.solve_time, message.merit, message.kkt_residual = plan.solve_time, plan.merit, plan.kkt_residual
            message.step_size, message.regularisation = plan.step_size, plan.regularisation
            message.scores, message.wrench = array("d", plan.scores), wrench_message(plan.wrench)
        self._status.publish(message)
        if tick.plan is not None:
            self._plan.publish(self._plan_message(tick.plan))

    def _plan_message(self, plan: Plan) -> MpcPlan:
        message = MpcPlan(epoch=plan.epoch, tick=plan.tick, step=plan.step, knots=len(plan.position), joint_names=self._joints)
        message.header.stamp, message.header.frame_id = stamp(self._clock.to_nanoseconds(self._clock.now())), self._frame
        message.start = stamp(self._clock.to_nanoseconds(plan.start))
        for name in ("position", "velocity", "torque"):
            setattr(message, name, array("d", getattr(plan, name).ravel()))
        message.tool, message.wrench = points(plan.tool), wrench_message(plan.wrench)
        return message


class MarkerPublisher:
    """Publishes the target, the path it runs on and the planned path of the tool for RViz, from an executor's timer."""

    def __init__(self, node: Any, frame: str, references: References) -> None:
        self.publisher = node.create_publisher(MarkerArray, "~/markers", 1)
        self._node, self._frame, self._references = node, frame, references

    def publish(self, tick: Tick, plan: Plan | None) -> None:
        """Publish the markers of a tick, if anybody listens."""
        if self.publisher.get_subscription_count() == 0:
            return
        markers = [
            self._marker(0, "target", Marker.SPHERE, (1.0, 0.3, 0.1), 0.03, tick.target[None]),
            self._marker(1, "target_path", Marker.LINE_STRIP, (0.6, 0.6, 0.6), 0.004, self._references.path(PATH_POINTS)),
        ]
        if tick.tool is not None:
            markers.append(self._marker(2, "tool", Marker.SPHERE, (0.1, 0.5, 1.0), 0.02, tick.tool[None]))
        if plan is not None and np.isfinite(plan.tool).all():
            markers.append(self._marker(3, "planned_path", Marker.LINE_STRIP, (0.1, 0.8, 0.3), 0.008, plan.tool))
        self.publisher.publish(MarkerArray(markers=markers))

    def _marker(self, number: int, name: str, kind: int, color: tuple[float, float, float], size: float, places: np.ndarray) -> Marker:
        marker = Marker(ns=name, id=number, type=kind, action=Marker.ADD, scale=Vector3(x=size, y=size, z=size))
        marker.header.frame_id, marker.header.stamp = self._frame, self._node.get_clock().now().to_msg()
        marker.color = ColorRGBA(r=color[0], g=color[1], b=color[2], a=0.9)
        marker.pose.orientation.w = 1.0
        if kind == Marker.SPHERE:
            marker.pose.position = points(places)[0]
        else:
            marker.points = points(places)
        return marker


def points(places: np.ndarray) -> list[Point]:
    """Return positions, shape (K, 3) [m], as messages."""
    return [Point(x=x, y=y, z=z) for x, y, z in places.tolist()]


def wrench_message(wrench: np.ndarray) -> Wrench:
    """Return a wrench (force, moment), shape (6,) [N, Nm], as a message."""
    x, y, z, a, b, c = wrench.tolist()
    return Wrench(force=Vector3(x=x, y=y, z=z), torque=Vector3(x=a, y=b, z=c))
