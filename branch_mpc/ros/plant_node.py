"""The simulated robot as a node: joint states out, torques in, in real time or in lockstep."""

import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from branch_mpc.errors import SettingError
from branch_mpc.robot import Articulation, load_robot, ready_configuration, robot_names, robot_urdf
from branch_mpc.ros.braked_arm import BrakedArm
from branch_mpc.ros.clocks import MonotonicClock
from branch_mpc.ros.control_loop import ControlLoop
from branch_mpc.ros.parameters import LiveParameters, names_of
from branch_mpc.ros.process import run, use_priority
from branch_mpc.ros.publishers import stamp
from branch_mpc.ros.settings import NodeSettings, PlantSettings

RELIABLE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
STEADY = Clock(clock_type=ClockType.STEADY_TIME)
REPEAT = 0.2
"""In lockstep an unanswered state is published again after this time [s]: nobody may have listened yet."""
SLIP = 0.25
"""Delay of the real-time thread beyond which simulated time is given up instead of being made up [s]."""


class PlantNode(Node):
    """Publishes joint states, stamped with the time they belong to, and holds the torques it is sent.

    In real time a thread of its own moves the arm on to every multiple of the state period, and to the arrival of every
    command in between, as a drive does. In lockstep the arm moves on by one control period when the command for the
    last state has come (`EffortSink` says for which state a command is), and not before.
    """

    def __init__(self, stop: threading.Event, **options: Any) -> None:
        """Load the robot and put the arm on its brakes.

        Raises:
            SettingError: A parameter that does not exist or has a wrong value.
            RobotError: A robot that cannot be used.
        """
        super().__init__("plant_node", **options)
        self.exit_code, self._stop_event = 0, stop
        settings = self._settings = LiveParameters(self, PlantSettings(), lambda settings: None, names_of(NodeSettings())).settings
        if problem := use_priority(settings.rt_priority):
            self.get_logger().warning(problem)
        robot = load_robot(settings.robot, settings.tool or None)
        self.arm = make_arm(robot, settings)
        self._joints = robot.joint_names
        self._message = JointState(name=list(robot.joint_names))
        self._publisher = self.create_publisher(JointState, "joint_states", RELIABLE)
        self._publish_description(settings.robot)
        self._commands: deque[tuple[float, np.ndarray]] = deque()
        self._time = MonotonicClock(self.get_clock())
        self._start = self._time.now()
        self._loop: ControlLoop | None = None
        self.create_subscription(Float64MultiArray, settings.command_topic, self._on_command, RELIABLE)
        if not settings.lockstep:
            trajectories = settings.command_topic.rsplit("/", 1)[0] + "/joint_trajectory"
            self.create_subscription(JointTrajectory, trajectories, self._on_trajectory, RELIABLE)

    def begin(self) -> None:
        """Start publishing."""
        if self._settings.lockstep:
            self._answered = time.monotonic()
            self._publish(0.0, round(self.arm.time * 1e9))
            self.create_timer(REPEAT / 2, self._repeat, clock=STEADY)
            return
        self._loop = ControlLoop(1.0 / self._settings.state_rate, self._tick, self._time, self._failed)
        self._loop.start()

    def end(self) -> None:
        """Stop the thread."""
        if self._loop is not None:
            self._loop.stop()
            self._loop.join(2.0)

    def _on_command(self, message: Float64MultiArray) -> None:
        if not self._settings.lockstep:
            self._commands.append((self._time.now(), np.array(message.data)))
        elif message.layout.dim and message.layout.dim[0].label == str(round(self.arm.time * 1e9)):
            # The command for the present state; an empty one says that there is none and leaves the brakes as they are.
            if len(message.data):
                self.arm.command(np.array(message.data), self.arm.time)
            period = 1.0 / self._settings.rate
            self.arm.advance(round(self.arm.time / period + 1.0) * period)
            self._publish(self.arm.time, round(self.arm.time * 1e9))

    def _on_trajectory(self, message: JointTrajectory) -> None:
        """Hold the first point's torques: what joint_trajectory_controller feeds forward at once."""
        if message.points and list(message.joint_names) == list(self._joints):
            self._commands.append((self._time.now(), np.array(message.points[0].effort)))

    def _repeat(self) -> None:
        if time.monotonic() - self._answered > REPEAT:
            self._publish(self.arm.time, round(self.arm.time * 1e9))

    def _tick(self) -> None:
        """Move on to the present, by way of the commands that have arrived; in the thread."""
        now = self._time.now()
        behind = now - self._start - self.arm.time
        if behind > SLIP:
            self._start += behind - SLIP
        while self._commands:
            arrived, torque = self._commands.popleft()
            if not self.arm.command(torque, arrived - self._start):
                self.get_logger().warning(f"command rejected: {torque.tolist()}", throttle_duration_sec=5.0)
        self.arm.advance(now - self._start)
        self._publish(now, self._time.to_nanoseconds(now))

    def _publish(self, now: float, nanoseconds: int) -> None:
        message = self._message
        message.header.stamp = stamp(nanoseconds)
        message.position, message.velocity = array("d", self.arm.position), array("d", self.arm.velocity)
        message.effort = array("d", self.arm.torque)
        self._answered = time.monotonic()
        self._publisher.publish(message)

    def _failed(self, error: Exception) -> bool:
        if self.context.ok():
            self.get_logger().fatal(f"the simulation ended: {error}")
            self.exit_code = 1
            self._stop_event.set()
        return False

    def _publish_description(self, robot: str) -> None:
        path = robot_urdf(robot) if robot in robot_names() else Path(robot)
        if path.suffix != ".json":
            self._description = self.create_publisher(String, "robot_description", LATCHED)
            self._description.publish(String(data=path.read_text()))


def make_arm(robot: Articulation, settings: PlantSettings) -> BrakedArm:
    """Return the simulated arm at its start, on its brakes.

    Raises:
        SettingError: A start or a push of the wrong length, or a start outside the limits.
    """
    from branch_mpc.plant import SimulatedArm

    q0 = start_configuration(robot, settings)
    if len(settings.push) not in (0, 3):
        raise SettingError(f"parameter 'push' has {len(settings.push)} numbers", "give three (a world force [N]) or none")
    push = np.array([*(settings.push or (0.0, 0.0, 0.0)), 0.0, 0.0, 0.0])

    def make(q: np.ndarray) -> SimulatedArm:
        return SimulatedArm(robot, q, substep=settings.substep, friction=settings.friction, payload=settings.payload)

    # In lockstep commands come a period apart, however long that is.
    timeout = max(settings.command_timeout, 2.0 / settings.rate) if settings.lockstep else settings.command_timeout
    return BrakedArm(make, q0, timeout, push, settings.push_at)


def start_configuration(robot: Articulation, settings: PlantSettings) -> np.ndarray:
    """Return where the arm starts, shape (n,) [rad | m]: as asked, the robot's own start, or the middle of its limits."""
    if settings.start:
        q = np.array(settings.start)
        if q.shape != (robot.dof,):
            raise SettingError(f"parameter 'start' has {q.size} numbers", f"give one for each of the {robot.dof} joints")
        outside = (q < robot.position_lower) | (q > robot.position_upper)
        if outside.any():
            name = robot.joint_names[int(np.argmax(outside))]
            raise SettingError(f"parameter 'start' is outside the limits of joint '{name}'", "give positions within the limits")
        return q
    if robot.name in robot_names():
        return ready_configuration(robot.name)
    middle = 0.5 * (robot.position_lower + robot.position_upper)
    return np.where(np.isfinite(middle), middle, 0.0)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; returns the exit code."""
    return run("plant_node", args, PlantNode)


if __name__ == "__main__":
    sys.exit(main())
