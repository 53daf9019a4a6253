"""The lifecycle node: joint states in, commands out, the control loop in a thread of its own."""

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import State
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.lifecycle import TransitionCallbackReturn as Result
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from branch_mpc.errors import BranchMpcError, InputTimeout, RobotError
from branch_mpc.robot import Articulation, articulation_from_urdf, load_robot
from branch_mpc.ros.assembly import Assembly, MakePlanner, make_controller
from branch_mpc.ros.parameters import LiveParameters, names_of
from branch_mpc.ros.process import Interrupted, run, use_priority
from branch_mpc.ros.settings import NodeSettings, PlantSettings

LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Best effort takes states from reliable and best-effort publishers alike."""
LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
STEADY = Clock(clock_type=ClockType.STEADY_TIME)
"""Supervision goes on when /clock stands still."""
PATIENCE = 3.0
"""Silence of an input after which it is reported [s]."""


class MpcNode(LifecycleNode):
    """Configure compiles, activate takes charge of the arm, deactivate stops it first.

    The executor's thread fills the mailbox and passes requests on; everything else happens in the control thread.

    Attributes:
        exit_code: Exit code for the process: 0, or 1 after a failure.
        failure: The error that ended the node or kept it from starting.
    """

    def __init__(self, stop: threading.Event, planner: MakePlanner = make_controller, **options: Any) -> None:
        """Declare the parameters.

        Args:
            stop: Set by the node when it has finished, or by a signal.
            planner: Makes the controller.
            options: Of rclpy's LifecycleNode.

        Raises:
            SettingError: A parameter that does not exist or has a wrong value.
        """
        super().__init__("mpc_node", **options)
        self._stop_event, self._make_planner = stop, planner
        self.exit_code, self.failure = 0, None  # type: int, BranchMpcError | None
        self._live = LiveParameters(self, NodeSettings(), self._on_settings, names_of(PlantSettings()))
        self._parts: Assembly | None = None
        self._urdf = ""
        if problem := use_priority(self.settings.rt_priority):
            self.get_logger().warning(problem)
        self._description = self.create_subscription(String, "robot_description", self._on_description, LATCHED)
        self._heard = self._begun = time.monotonic()
        self._latched_since: float | None = None
        self._ticked = 0, self._begun

    @property
    def settings(self) -> NodeSettings:
        """The parameters in force."""
        return self._live.settings

    # the process ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Configure and activate, unless a lifecycle manager does."""
        self._watch = self.create_timer(1.0, self._on_watch, clock=STEADY)
        if self.settings.autostart and self.settings.robot:
            self.start()

    def start(self) -> None:
        """Configure and activate; a failure ends the run."""
        if self.trigger_configure() != Result.SUCCESS or self.trigger_activate() != Result.SUCCESS:
            self._fail(self.failure or BranchMpcError("the node could not be activated", "see its log"))

    def end(self) -> None:
        """Leave in order: the arm is stopped and the last command sent while messages still travel."""
        if self._state_machine.current_state[0] == State.PRIMARY_STATE_ACTIVE:
            self.trigger_deactivate()

    # lifecycle --------------------------------------------------------------------------------------------------

    def on_configure(self, state: Any) -> Result:
        """Load the robot, compile the kernels, create topics and services."""
        self.failure = None
        try:
            articulation = self._articulation()
            self._parts = Assembly(self, articulation, self.settings, self._make_planner, self._progress, self._finished)
        except Interrupted as error:
            self.failure = error
            return Result.FAILURE
        except BranchMpcError as error:
            self.failure = error
            return Result.FAILURE
        except Exception as error:  # rclpy would swallow it
            self.get_logger().error(traceback.format_exc())
            self.failure = BranchMpcError(f"configuring raised {type(error).__name__}: {error}", "report the trace above")
            return Result.FAILURE
        parts = self._parts
        parts.entities += [
            self.create_subscription(JointState, "joint_states", self._on_joint_state, LATEST),
            self.create_subscription(PoseStamped, "~/target_pose", self._on_target, 1),
            self.create_service(Trigger, "~/reset", self._on_reset),
            self.create_service(SetBool, "~/hold", self._on_hold),
            self.create_timer(1.0, parts.publish_diagnostics, clock=STEADY),
        ]
        if self.settings.marker_rate > 0.0:
            parts.entities.append(self.create_timer(1.0 / self.settings.marker_rate, parts.publish_markers, clock=STEADY))
        self.get_logger().info(f"configured: {articulation.name}, {articulation.dof} joints, {parts.device}, {parts.policy}")
        return Result.SUCCESS

    def on_activate(self, state: Any) -> Result:
        """Start the control thread; the arm is held as soon as states have streamed."""
        assert self._parts is not None
        gc.collect()
        gc.freeze()  # what lives now lives long: no collection looks at it again
        self._heard, self._latched_since = time.monotonic(), None
        self._ticked = 0, self._heard
        self._parts.start()
        return Result(super().on_activate(state))

    def on_deactivate(self, state: Any) -> Result:
        """Stop the arm, then the control thread; takes at most the guard's stop time and a little."""
        assert self._parts is not None
        self._parts.stop(self._take_joint_state)
        return Result(super().on_deactivate(state))

    def on_cleanup(self, state: Any) -> Result:
        """Give back what configure made."""
        self._release()
        return Result.SUCCESS

    def on_shutdown(self, state: Any) -> Result:
        """Stop the arm and give everything back."""
        self.on_error(state)
        self._stop_event.set()
        return Result.SUCCESS

    def on_error(self, state: Any) -> Result:
        """Stop the arm, give everything back, and be configurable again."""
        if self._parts is not None:
            self._parts.stop(self._take_joint_state)
        self._release()
        return Result.SUCCESS

    def _release(self) -> None:
        if self._parts is not None:
            self._parts.release()
            self._parts = None

    # inputs, in the executor's thread -----------------------------------------------------------------------------

    def _on_joint_state(self, message: JointState) -> None:
        if self._parts is None:
            return
        self._heard = time.monotonic()
        if problem := self._parts.take_state(message):
            self.get_logger().error(f"joint state rejected, {problem}", throttle_duration_sec=5.0)

    def _take_joint_state(self) -> None:
        """Take a waiting joint state past the executor, which is busy with the transition that wants it."""
        subscription = next(item for item in self._parts.entities if getattr(item, "msg_type", None) is JointState)  # type: ignore[union-attr]
        with subscription.handle:
            taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
        if taken is not None:
            self._on_joint_state(taken[0])

    def _on_target(self, message: PoseStamped) -> None:
        if self._parts is not None and (problem := self._parts.take_target(message)):
            self.get_logger().warning(f"target rejected, {problem}; the previous one stays", throttle_duration_sec=1.0)

    def _on_description(self, message: String) -> None:
        if self._urdf and message.data != self._urdf and not self.settings.robot and self._parts is not None:
            self.get_logger().warning("robot_description has changed; deactivate, clean up and configure to use the new one")
        self._urdf = message.data
        if not self.settings.robot and self.settings.autostart and self._parts is None and self.failure is None:
            self.start()

    def _on_settings(self, settings: NodeSettings) -> None:
        if self._parts is not None:
            self._parts.tracker.set_weights(settings.mpc.weights)

    def _on_reset(self, request: Any, response: Any) -> Any:
        return self._ask(response, lambda parts, now: parts.guard.reset(now))

    def _on_hold(self, request: Any, response: Any) -> Any:
        return self._ask(response, lambda parts, now: parts.guard.hold(request.data, now))

    def _ask(self, response: Any, request: Callable[[Assembly, float], None]) -> Any:
        parts = self._parts
        response.success = parts is not None and parts.running
        response.message = "at the next tick" if response.success else "the node is not active"
        if parts is not None and response.success:
            parts.tracker.ask(lambda now: request(parts, now))
        return response

    # supervision ----------------------------------------------------------------------------------------------------

    def _on_watch(self) -> None:
        """Once a second: is anything missing, and is a run of limited length still going anywhere?"""
        now, settings = time.monotonic(), self.settings
        if self._parts is None:
            if settings.autostart and not settings.robot and not self._urdf:
                self._missing("robot_description", now - self._begun, "start a robot_state_publisher or set the parameter robot")
        elif self._parts.running:
            self._missing("joint_states", now - self._heard, "start the robot's driver or plant:=true")
            self._watch_ticks(now, self._parts.ticks)
            latched = self._parts.guard.latched if settings.duration > 0.0 else ""
            self._latched_since = (self._latched_since or now) if latched else None
            if self._latched_since is not None and now - self._latched_since > PATIENCE:
                self._fail(BranchMpcError(f"the run ended before its time: {latched}", "see the node's log and /diagnostics"))

    def _watch_ticks(self, now: float, ticks: int) -> None:
        """Report a control loop that does not tick, on a clock that does not stand still."""
        if ticks != self._ticked[0]:
            self._ticked = ticks, now
        elif now - self._ticked[1] > PATIENCE:
            why = "is /clock published?" if self.get_parameter("use_sim_time").value else "is a tick stuck in the solver?"
            self.get_logger().warning(f"no control tick for {now - self._ticked[1]:.0f} s; {why}", throttle_duration_sec=5.0)

    def _missing(self, topic: str, silence: float, remedy: str) -> None:
        if silence < PATIENCE:
            return
        name, publishers = self.resolve_topic_name(topic), self.get_publishers_info_by_topic(self.resolve_topic_name(topic))
        seen = ", ".join(f"{info.node_name} ({info.qos_profile.reliability.name})" for info in publishers) or "no publisher"
        error = InputTimeout(f"nothing has come on {name} for {silence:.0f} s ({seen})", remedy)
        if 0.0 < self.settings.input_timeout <= silence:
            self._fail(error)
        else:
            self.get_logger().warning(str(error), throttle_duration_sec=5.0)

    def _fail(self, error: BranchMpcError) -> None:
        if self.exit_code == 0 and not isinstance(error, Interrupted):
            self.get_logger().fatal(str(error))
        self.failure, self.exit_code = error, 130 if isinstance(error, Interrupted) else 1
        self._stop_event.set()

    def _finished(self) -> None:
        """Called by the control thread when the run's duration is over."""
        self.get_logger().info(f"tracked for {self.settings.duration:g} s: done")
        self._stop_event.set()

    def _progress(self, text: str) -> None:
        if self._stop_event.is_set():
            raise Interrupted("told to end while compiling", "start again")
        self.get_logger().info(text)

    def _articulation(self) -> Articulation:
        tool = self.settings.tool or None
        if self.settings.robot:
            return load_robot(self.settings.robot, tool)
        if not self._urdf:
            raise RobotError("the parameter robot is empty and no robot_description has come", "set robot or publish it")
        return articulation_from_urdf(self._urdf, tool)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; returns the exit code."""
    return run("mpc_node", args, MpcNode)


if __name__ == "__main__":
    sys.exit(main())
