"""Where commands go: torques for an effort controller, or short trajectories for the joint trajectory controller."""

from array import array
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Float64MultiArray, MultiArrayDimension
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from branch_mpc.guard import Command, Guard

RELIABLE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)


class Sink(Protocol):
    """A publisher of commands."""

    publisher: Any
    """The rclpy publisher."""
    refused: int
    """Commands with numbers that are not finite: none, or the guard has a hole."""

    def send(self, command: Command) -> None:
        """Publish a command."""


class EffortSink:
    """Float64MultiArray with one torque a joint, for JointGroupEffortController or forward_command_controller.

    That controller holds the last torque for ever (ros2_controllers #95): the last one sent is therefore always one
    that holds the arm against gravity.

    In lockstep the label of the layout's dimension is the stamp [ns] of the state that is answered; an empty array
    says that there is no command for it. Controllers read neither.
    """

    def __init__(self, node: Any, joints: Sequence[str]) -> None:
        self.publisher = node.create_publisher(Float64MultiArray, "~/commands", RELIABLE)
        self.refused = 0
        self._message = Float64MultiArray()
        self._message.layout.dim = [MultiArrayDimension(label="joint", size=len(joints), stride=len(joints))]
        self._silence = Float64MultiArray()
        self._silence.layout.dim = [MultiArrayDimension(label="joint", size=0, stride=0)]

    def send(self, command: Command) -> None:
        """Publish a command's torques."""
        if not np.isfinite(command.torque).all():
            self.refused += 1
            return
        self._message.data = array("d", command.torque)
        self.publisher.publish(self._message)

    def answer(self, stamp: int) -> None:
        """Say which state the next messages answer: its stamp [ns]."""
        self._message.layout.dim[0].label = self._silence.layout.dim[0].label = str(stamp)

    def send_silence(self) -> None:
        """Publish an empty array: no command for this state."""
        self.publisher.publish(self._silence)

    def repeat(self) -> None:
        """Publish the last torques once more."""
        self.publisher.publish(self._message)


class TrajectorySink:
    """JointTrajectory with positions, velocities and efforts of the next few periods, to be started at once.

    The controller's `cmd_timeout` counts from the last point: with few points the arm stops soon after a silence.
    """

    def __init__(self, node: Any, joints: Sequence[str], guard: Guard, points: int, period: float) -> None:
        self.publisher = node.create_publisher(JointTrajectory, "~/joint_trajectory", RELIABLE)
        self.refused = 0
        self._guard, self._points, self._period = guard, points, period
        self._message = JointTrajectory(joint_names=list(joints))  # stamp zero: start at once

    def send(self, command: Command) -> None:
        """Publish a command and what follows it."""
        series = [command, *self._guard.horizon(command, self._points, self._period)]
        if not all(np.isfinite(array).all() for item in series for array in (item.torque, item.position, item.velocity)):
            self.refused += 1
            return
        self._message.points = [self._point(item, index) for index, item in enumerate(series)]
        self.publisher.publish(self._message)

    def _point(self, command: Command, index: int) -> JointTrajectoryPoint:
        fields = {"positions": command.position, "velocities": command.velocity, "effort": command.torque}
        point = JointTrajectoryPoint(**{name: array("d", values) for name, values in fields.items()})
        nanoseconds = round(index * self._period * 1e9)
        point.time_from_start.sec, point.time_from_start.nanosec = divmod(nanoseconds, 1_000_000_000)
        return point
