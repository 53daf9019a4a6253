"""What configure makes and cleanup gives back: controller, guard, tracker, loop, and the topics out."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import SettingError, TargetError
from branch_mpc.guard import Guard, Mode
from branch_mpc.mpc.plan import JointSample
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.robot import Articulation, ready_configuration, robot_names
from branch_mpc.ros.clocks import LoopClock, MonotonicClock, SimulatedClock
from branch_mpc.ros.control_loop import ControlLoop
from branch_mpc.ros.diagnostics import Diagnostics, SolveStatistics
from branch_mpc.ros.joint_map import JointMap
from branch_mpc.ros.latency import Latency
from branch_mpc.ros.lockstep import LockstepLoop, StampClock
from branch_mpc.ros.mailbox import Mailbox
from branch_mpc.ros.publishers import MarkerPublisher, StatusPublisher
from branch_mpc.ros.references import References
from branch_mpc.ros.settings import NodeSettings
from branch_mpc.ros.sinks import EffortSink, TrajectorySink
from branch_mpc.ros.tracker import Planner, Tick, Tracker


class MakePlanner(Protocol):
    """Makes the controller of a robot; `device_name` and `policy.reason` describe it."""

    def __call__(self, robot: Articulation, settings: MpcSettings, nominal: np.ndarray | None, progress: Callable[[str], None]) -> Planner:
        """Make it; `progress` is called with a line before each slow stage."""


def make_controller(robot: Articulation, settings: MpcSettings, nominal: np.ndarray | None, progress: Callable[[str], None]) -> Planner:
    """Make the real controller; Warp is imported here, when it is known that the rest of the input is good."""
    progress("loading Warp")
    from branch_mpc.mpc.controller import Controller
    from branch_mpc.sqp.quiet import start_warp_quietly

    start_warp_quietly()  # a node's log is for its operator: the device in use is said when it is configured
    return Controller(robot, settings, nominal, progress=progress)


class Assembly:
    """The parts of a configured node, and how they are started, stopped and given back.

    Attributes:
        guard: The guard.
        tracker: The tick.
        entities: ROS entities to destroy at cleanup.
        device: Name of the compute device.
        policy: Launch policy chosen, with its reason.
    """

    def __init__(
        self,
        node: Any,
        robot: Articulation,
        settings: NodeSettings,
        planner: MakePlanner,
        progress: Callable[[str], None],
        finished: Callable[[], None],
    ) -> None:
        """Make everything; compiles.

        Args:
            node: The rclpy node.
            robot: The robot.
            settings: The node's parameters.
            planner: Makes the controller.
            progress: Called with a line before each slow stage; may raise to interrupt.
            finished: Called by the control thread when `duration` is over.

        Raises:
            BranchMpcError: A robot, setting or device that cannot be used.
        """
        if settings.lockstep and settings.sink != "effort":
            raise SettingError(f"lockstep with sink '{settings.sink}'", "use the effort sink: its messages say which state they answer")
        self._node, self._settings, self._finished = node, settings, finished
        self._period = 1.0 / settings.rate
        dynamics = HostDynamics(robot)
        self._frame = settings.base_frame or robot.base_name
        self.guard = Guard(robot, settings.guard, dynamics.gravity, dynamics.mass_matrix, self._period)
        controller: Any = planner(robot, settings.mpc, ready_configuration(robot.name) if robot.name in robot_names() else None, progress)
        self.device, self.policy = controller.device_name, controller.policy.reason
        self.clock = self._clock()
        self._joints, self._mailbox = JointMap(robot.joint_names), Mailbox[JointSample]()
        self._references = References(robot, settings.reference)
        # In lockstep the clock stands still during a tick, so nothing has a duration.
        self._latency = Latency(0.0 if settings.lockstep else settings.latency, 0.0 if settings.lockstep else self._period)
        self._sink = self._make_sink(robot.joint_names)
        self.tracker = Tracker(
            controller, self.guard, self._references, lambda q: dynamics.tool(q)[0], self._latency, self.clock.now, self._sink.send
        )
        self._status = StatusPublisher(node, robot.joint_names, self._frame, self.device, self.policy, self.clock)
        self._markers = MarkerPublisher(node, self._frame, self._references)
        self._diagnostics = Diagnostics(node, self.guard, self._joints, self.device, self.policy)
        publishers = (self._sink.publisher, *self._status.publishers, self._markers.publisher, self._diagnostics.publisher)
        self.entities: list[Any] = list(publishers)
        self._solves = SolveStatistics()
        self._loop: ControlLoop | LockstepLoop | None = None
        self._last: Tick | None = None
        self._answered: float | None = None
        self._states, self._states_before, self._counted_at = 0, 0, time.monotonic()
        self._ended = False

    @property
    def running(self) -> bool:
        """Whether the control thread runs."""
        return self._loop is not None and self._loop.running

    @property
    def ticks(self) -> int:
        """Control ticks since activation."""
        return 0 if self._loop is None else self._loop.ticks

    def start(self) -> None:
        """Take charge of the arm."""
        self._solves, self._ended, self._answered = SolveStatistics(), False, None
        self._every = max(1, round(self._settings.rate / self._settings.status_rate))
        self.tracker.ask(self.guard.activate)
        if isinstance(self.clock, StampClock):
            self._loop = LockstepLoop(self._mailbox, self.clock, self._tick, self._failed)
        else:
            self._loop = ControlLoop(self._period, self._tick, self.clock, self._failed)
        self._loop.start()

    def stop(self, feed: Callable[[], None]) -> None:
        """Stop the arm, then the thread.

        Args:
            feed: Called again and again meanwhile, to keep states coming in.
        """
        loop = self._loop
        if loop is None:
            return
        self.tracker.ask(self.guard.deactivate)
        end = time.monotonic() + self._settings.guard.stop_time + 1.0
        while loop.running and self.guard.mode is not Mode.INACTIVE and time.monotonic() < end:
            feed()
            time.sleep(1e-3)
        loop.stop()
        loop.join(5.0)
        self._loop = None

    def release(self) -> None:
        """Destroy the ROS entities."""
        for entity in self.entities:
            kind = type(entity).__name__
            for word, destroy in (
                ("Publisher", self._node.destroy_publisher),
                ("Subscription", self._node.destroy_subscription),
                ("Service", self._node.destroy_service),
                ("Timer", self._node.destroy_timer),
            ):
                if word in kind:
                    destroy(entity)
        self.entities = []

    def take_state(self, message: Any) -> str:
        """Put a joint state into the mailbox; return what is wrong with it, empty if nothing."""
        arrived, time_of = self.clock.now(), self.clock.from_stamp(message.header.stamp)
        sample = self._joints.sample(time_of, message.name, message.position, message.velocity)
        if sample is None:
            return self._joints.problem
        self._states += 1
        self._latency.state(arrived - time_of)
        self._mailbox.put(sample)
        return ""

    def take_target(self, message: Any) -> str:
        """Pass the position of a target pose on; return what is wrong with it, empty if nothing."""
        if message.header.frame_id not in ("", self._frame):
            return f"its frame is '{message.header.frame_id}' and not '{self._frame}'"
        place = message.pose.position
        target = np.array([place.x, place.y, place.z])
        if not np.isfinite(target).all():
            return TargetError(f"target position is {target}", "give three finite numbers [m]").problem
        self.tracker.ask(lambda now: self._references.aim(target, now))
        return ""

    def publish_diagnostics(self) -> None:
        """Publish /diagnostics; called once a second."""
        now = time.monotonic()
        rate = (self._states - self._states_before) / max(1e-3, now - self._counted_at)
        self._states_before, self._counted_at = self._states, now
        topic = self._node.resolve_topic_name("joint_states")
        self._diagnostics.publish(self._loop, self._solves, rate, self._node.count_publishers(topic))

    def publish_markers(self) -> None:
        """Publish ~/markers."""
        if self._last is not None and self.running:
            self._markers.publish(self._last, self.tracker.plan)

    def _clock(self) -> LoopClock:
        if self._settings.lockstep:
            return StampClock()
        simulated = self._node.get_parameter("use_sim_time").value
        return SimulatedClock(self._node.get_clock()) if simulated else MonotonicClock(self._node.get_clock())

    def _make_sink(self, joints: tuple[str, ...]) -> Any:
        if self._settings.sink == "trajectory":
            return TrajectorySink(self._node, joints, self.guard, self._settings.trajectory_points, self._period)
        return EffortSink(self._node, joints)

    def _tick(self) -> None:
        """One tick, in the control thread."""
        loop, sample = self._loop, self._mailbox.get()
        assert loop is not None
        if self._settings.lockstep and sample is not None and self._repeats(sample):
            return
        tick = self.tracker.tick(sample)
        if self._settings.lockstep and not tick.command.publish:
            self._sink.send_silence()
        self._last = tick
        if tick.plan is not None:
            self._solves.add(tick.plan)
        if loop.ticks % self._every == 0:
            self._status.publish(tick, self.tracker.plan, loop.ticks, loop.overruns)
        if 0.0 < self._settings.duration <= self.tracker.tracked and not self._ended:
            self._ended = True
            self.guard.deactivate(self.clock.now())  # here, at a known tick: the process takes its time to notice
            self._finished()

    def _repeats(self, sample: JointSample) -> bool:
        """In lockstep: label the answer, and give the same answer again to a state that has had one."""
        self._sink.answer(self.clock.to_nanoseconds(sample.time))
        if sample.time != self._answered:
            self._answered = sample.time
            return False
        if self._last is not None and self._last.command.publish:
            self._sink.repeat()
        else:
            self._sink.send_silence()
        return True

    def _failed(self, error: Exception) -> bool:
        """A tick raised: the arm is stopped by the guard; without a context to publish in, the loop ends."""
        self.guard.fault(f"tick raised {type(error).__name__}: {error}")
        if not self._node.context.ok():
            return False
        self._node.get_logger().error(self.guard.latched, throttle_duration_sec=5.0)
        return True


