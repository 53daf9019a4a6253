"""A ROS node in the process of the command line: it listens to a run and moves mpc_node through its lifecycle."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import ChangeState
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from branch_mpc.bench.streams import State, Status, Streams
from branch_mpc.errors import BranchMpcError
from branch_mpc.msg import MpcPlan, MpcStatus
from branch_mpc.robot import Articulation
from branch_mpc.ros.compat import make_executor
from branch_mpc.ros.joint_map import JointMap

CONFIGURE, ACTIVATE = 1, 3
"""Transitions of lifecycle_msgs/Transition."""
STATES = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
MODES = {
    getattr(MpcStatus, name): name.lower()
    for name in ("UNCONFIGURED", "INACTIVE", "WAITING", "HOLD", "TRACKING", "DEGRADED", "STOPPING", "FAULT")
}


class Recorder:
    """Keeps everything that comes; every wait spins, so nothing is missed meanwhile.

    Attributes:
        streams: The messages so far.
        device: Compute device that mpc_node names; empty before its first status.
        policy: Launch policy that it names.
    """

    def __init__(self, robot: Articulation, name: str = "mpc_node") -> None:
        """Join the ROS graph; `close` leaves it."""
        # Python's own SIGINT handler stays: Ctrl-C is a KeyboardInterrupt here, and nothing tears the context down before.
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node("figure8_recorder")
        self._executor = make_executor()
        self._executor.add_node(self._node)
        self.streams, self.device, self.policy = Streams(), "", ""
        self._joints, self._name = JointMap(robot.joint_names), name
        self._names = robot.joint_names
        self._node.create_subscription(JointState, "joint_states", self._on_state, STATES)
        self._node.create_subscription(Float64MultiArray, f"{name}/commands", self._on_command, RELIABLE)
        self._node.create_subscription(MpcStatus, f"{name}/status", self._on_status, RELIABLE)
        self._node.create_subscription(MpcPlan, f"{name}/plan", self._on_plan, RELIABLE)
        self._lifecycle = self._node.create_client(ChangeState, f"{name}/change_state")

    def close(self) -> None:
        """Leave the ROS graph."""
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown()

    def wait(self, condition: Callable[[], Any], seconds: float, watch: Callable[[], None] = lambda: None) -> bool:
        """Spin until a condition holds.

        Args:
            condition: Looked at after every spin.
            seconds: Longest wait [s].
            watch: Called about ten times a second; may raise.

        Returns:
            Whether it held in time.
        """
        end, look = time.monotonic() + seconds, 0.0
        while not condition():
            now = time.monotonic()
            if now > end:
                return False
            if now > look:
                watch()
                look = now + 0.1
            self._executor.spin_once(timeout_sec=0.05)
        return True

    def reachable(self) -> bool:
        """Whether mpc_node's lifecycle service is there."""
        return bool(self._lifecycle.service_is_ready())

    def change(self, transition: int, seconds: float, watch: Callable[[], None]) -> bool | None:
        """Ask mpc_node for a transition.

        Args:
            transition: CONFIGURE or ACTIVATE.
            seconds: Longest wait for the answer [s].
            watch: Called meanwhile; may raise.

        Returns:
            Whether it succeeded; None without an answer in time.
        """
        request = ChangeState.Request()
        request.transition.id = transition
        future = self._lifecycle.call_async(request)
        return bool(future.result().success) if self.wait(future.done, seconds, watch) else None

    def connected(self) -> bool:
        """Whether every topic of mpc_node that is listened to has a publisher."""
        return all(self._node.count_publishers(f"{self._name}/{topic}") > 0 for topic in ("status", "plan"))

    def send_target(self, target: tuple[float, ...], frame: str, watch: Callable[[], None]) -> None:
        """Send a target pose once mpc_node listens.

        Raises:
            BranchMpcError: It does not.
        """
        publisher = self._node.create_publisher(PoseStamped, f"{self._name}/target_pose", 1)
        if not self.wait(lambda: publisher.get_subscription_count() > 0, 10.0, watch):
            raise BranchMpcError("mpc_node does not listen to ~/target_pose", "see what it says, with ros2 launch")
        message = PoseStamped()
        message.header.frame_id = frame
        message.pose.position.x, message.pose.position.y, message.pose.position.z = target
        message.pose.orientation.w = 1.0
        publisher.publish(message)
        # Delivered in milliseconds; the arm does not move before it is activated.
        self.wait(lambda: False, 0.3, watch)

    def _on_state(self, message: JointState) -> None:
        stamp = nanoseconds(message.header.stamp)
        sample = self._joints.sample(stamp * 1e-9, message.name, message.position, message.velocity)
        if sample is None:
            return
        effort = dict(zip(message.name, message.effort, strict=False))
        torque = np.array([effort[name] for name in self._names]) if set(self._names) <= set(effort) else None
        self.streams.states.append(State(stamp, sample.position, sample.velocity, torque))

    def _on_command(self, message: Float64MultiArray) -> None:
        if len(message.data) == len(self._names):
            self.streams.commands.append((int(self._node.get_clock().now().nanoseconds), np.array(message.data)))

    def _on_status(self, message: MpcStatus) -> None:
        self.device, self.policy = message.device, message.policy
        solve = {name: getattr(message, name) for name in ("solve_time", "merit", "kkt_residual", "step_size", "row")}
        force, moment = message.wrench.force, message.wrench.torque
        solve |= {"status": message.solve_status, "wrench": [force.x, force.y, force.z, moment.x, moment.y, moment.z]}
        stamp = nanoseconds(message.header.stamp)
        self.streams.statuses.append(
            Status(stamp, MODES.get(message.mode, "unknown"), message.reason, message.epoch, message.overruns, solve)
        )

    def _on_plan(self, message: MpcPlan) -> None:
        if message.tick == 1:
            self.streams.starts[message.epoch] = nanoseconds(message.start)


def nanoseconds(stamp: Any) -> int:
    """Return a message stamp as ROS time [ns]."""
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
