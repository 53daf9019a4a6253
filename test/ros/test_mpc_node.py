"""The lifecycle node over DDS, with a planner without kernels and a robot that the test plays."""

import threading
import time

import numpy as np
import pytest
from fake_planner import FakePlanner

from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.robot import load_robot, ready_configuration

pytestmark = pytest.mark.ros
ROBOT = load_robot("indy7")
READY = ready_configuration("indy7")
GRAVITY = HostDynamics(ROBOT).gravity(READY)
LIMIT = 10.0
"""Longest wait for anything [s]; discovery takes 0.1 or 3 s."""


class Stage:
    """mpc_node and a robot that stands still, in one executor."""

    def __init__(self, **overrides):
        import rclpy
        from rclpy.parameter import Parameter
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState
        from std_msgs.msg import Float64MultiArray

        from branch_mpc.msg import MpcStatus
        from branch_mpc.ros.compat import make_executor
        from branch_mpc.ros.mpc_node import MpcNode

        rclpy.init(args=[])
        self.planner, self.stop = None, threading.Event()
        values = {"robot": "indy7", "autostart": False, "status_rate": 100.0, "guard.prestream": 0.02, **overrides}
        parameters = [Parameter(name, value=value) for name, value in values.items()]
        self.node = MpcNode(self.stop, planner=self.make, parameter_overrides=parameters)
        self.probe = rclpy.create_node("probe")
        self.commands, self.status, self.playing = [], [], True
        keep = QoSProfile(depth=1000)
        self.probe.create_subscription(Float64MultiArray, "mpc_node/commands", lambda m: self.commands.append(np.array(m.data)), keep)
        self.probe.create_subscription(MpcStatus, "mpc_node/status", self.status.append, keep)
        self.states = self.probe.create_publisher(JointState, "joint_states", 1)
        self.order, self.position, self.message = list(range(6)), READY.copy(), JointState
        self.probe.create_timer(0.005, self.play)
        self.executor = make_executor()
        self.executor.add_node(self.node)
        self.executor.add_node(self.probe)
        self.node.begin()

    def make(self, *args):
        """Make the planner and keep it."""
        self.planner = FakePlanner(*args)
        return self.planner

    def play(self):
        """Publish a joint state in an order of its own, with a finger in between."""
        if not self.playing:
            return
        names = [ROBOT.joint_names[i] for i in self.order] + ["finger"]
        message = self.message(name=names, position=[*(float(self.position[i]) for i in self.order), 0.1], velocity=[0.0] * 7)
        message.header.stamp = self.probe.get_clock().now().to_msg()
        self.states.publish(message)

    def until(self, condition, limit=LIMIT):
        """Spin until a condition holds; return whether it did."""
        end = time.monotonic() + limit
        while not condition() and time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.02)
        return bool(condition())

    def tracking(self):
        """Configure, activate and wait for tracking."""
        assert self.node.trigger_configure().name == "SUCCESS"
        assert self.node.trigger_activate().name == "SUCCESS"
        assert self.until(lambda: self.modes()[-1:] == ["TRACKING"] and len(self.commands) > 5)

    def modes(self):
        """Return the modes that the status has shown, by name."""
        from branch_mpc.msg import MpcStatus

        names = {getattr(MpcStatus, name): name for name in ("INACTIVE", "WAITING", "HOLD", "TRACKING", "DEGRADED", "STOPPING", "FAULT")}
        return [names[message.mode] for message in self.status]

    def call(self, kind, name, **fields):
        """Call a service of the node and return the response."""
        client = self.probe.create_client(kind, f"mpc_node/{name}")
        assert self.until(client.service_is_ready)
        future = client.call_async(kind.Request(**fields))
        assert self.until(future.done)
        return future.result()

    def close(self):
        """Tear everything down."""
        import rclpy

        self.node.end()
        self.executor.shutdown()
        self.probe.destroy_node()
        self.node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture
def stage():
    """Return a function that makes a stage, torn down at the end."""
    stages = []

    def made(**overrides):
        stages.append(Stage(**overrides))
        return stages[-1]

    yield made
    for item in stages:
        item.close()


def test_life_cycle_twice(stage):
    """Configure, activate, track, deactivate, clean up, and again: torques near gravity's, silence after the end."""
    scene = stage()
    for _ in range(2):
        scene.tracking()
        np.testing.assert_allclose(scene.commands[-1], GRAVITY, atol=0.5)
        assert scene.node.trigger_deactivate().name == "SUCCESS"
        scene.until(lambda: False, 0.1)
        count = len(scene.commands)
        scene.until(lambda: False, 0.1)
        assert len(scene.commands) == count
        # The last command holds the arm: an effort controller keeps it for ever.
        np.testing.assert_allclose(scene.commands[-1], GRAVITY, atol=0.5)
        assert scene.node.trigger_cleanup().name == "SUCCESS"
        scene.commands.clear()
        scene.status.clear()


def test_fault_44_deactivation_hears_states_while_it_stops_the_arm(stage):
    """Deactivation runs in the executor's own thread; the states it needs for the stop still come in."""
    scene = stage()
    scene.tracking()
    heard = scene.node._parts._states
    player = threading.Thread(target=lambda: [(scene.play(), time.sleep(0.005)) for _ in range(40)])
    player.start()
    assert scene.node.trigger_deactivate().name == "SUCCESS"
    player.join()
    assert scene.node._parts._states > heard


def test_fault_03_order_of_states_changes_at_run_time(stage):
    """T1 to T3: shuffled states give commands in the robot's joint order."""
    scene = stage()
    scene.tracking()
    scene.order = [5, 0, 3, 1, 4, 2]
    count = len(scene.commands)
    assert scene.until(lambda: len(scene.commands) > count + 20)
    np.testing.assert_allclose(scene.commands[-1], GRAVITY, atol=0.5)


def test_fault_09_states_stop_and_come_back(stage):
    """When joint states stop the node stops and falls silent; when they return it holds, and tracks after ~/reset."""
    from std_srvs.srv import Trigger

    scene = stage()
    scene.tracking()
    scene.playing = False
    assert scene.until(lambda: scene.modes()[-1] == "WAITING")
    assert "STOPPING" in scene.modes() and "no joint state" in scene.status[-1].reason
    scene.playing = True
    assert scene.until(lambda: scene.modes()[-1] == "HOLD")
    scene.until(lambda: False, 0.2)
    assert scene.modes()[-1] == "HOLD"
    assert scene.call(Trigger, "reset").success
    assert scene.until(lambda: scene.modes()[-1] == "TRACKING") and scene.planner.epoch == 2


def test_hold_service(stage):
    """~/hold true holds, ~/hold false tracks again; both are refused while inactive."""
    from std_srvs.srv import SetBool

    scene = stage()
    assert scene.node.trigger_configure().name == "SUCCESS"
    assert not scene.call(SetBool, "hold", data=True).success
    assert scene.node.trigger_activate().name == "SUCCESS"
    assert scene.until(lambda: scene.modes()[-1:] == ["TRACKING"])
    assert scene.call(SetBool, "hold", data=True).success
    assert scene.until(lambda: scene.modes()[-1] == "HOLD" and scene.status[-1].reason == "hold requested")
    assert scene.call(SetBool, "hold", data=False).success
    assert scene.until(lambda: scene.modes()[-1] == "TRACKING")


def test_fault_17_bad_target_messages(stage):
    """NaN and foreign frames leave the previous target; a good one becomes the reference."""
    from geometry_msgs.msg import PoseStamped

    scene = stage(**{"reference.kind": "target", "reference.approach": 0.1})
    scene.tracking()
    publisher = scene.probe.create_publisher(PoseStamped, "mpc_node/target_pose", 1)
    assert scene.until(lambda: publisher.get_subscription_count() > 0)

    def send(x, frame=""):
        message = PoseStamped()
        message.header.frame_id, message.pose.position.x, message.pose.position.z = frame, x, 0.5
        publisher.publish(message)

    def aimed():
        return scene.planner.calls[-1][2][-1]

    send(0.33)
    assert scene.until(lambda: abs(aimed()[0] - 0.33) < 1e-9)
    send(float("nan"))
    send(0.77, "camera")
    count = len(scene.planner.calls)
    assert scene.until(lambda: len(scene.planner.calls) > count + 30)
    np.testing.assert_allclose(aimed(), [0.33, 0.0, 0.5], atol=1e-9)
    assert scene.modes()[-1] == "TRACKING"


def test_fault_04_no_joint_states_end_a_run_with_an_input_timeout(stage):
    """Without joint states the failure names the topic, the run ends, and nothing was ever published."""
    scene = stage(input_timeout=1.0)
    scene.playing = False
    assert scene.node.trigger_configure().name == "SUCCESS"
    assert scene.node.trigger_activate().name == "SUCCESS"
    assert scene.until(scene.stop.is_set)
    assert scene.node.exit_code == 1 and "/joint_states" in str(scene.node.failure)
    assert scene.commands == []


def test_fault_47_a_driver_with_best_effort_states_is_heard(stage):
    """T55: reliable and best-effort publishers of joint states are both heard."""
    from rclpy.qos import QoSProfile, ReliabilityPolicy

    scene = stage()
    quality = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    scene.states = scene.probe.create_publisher(scene.message, "joint_states", quality)
    scene.tracking()


def test_duration_ends_the_run(stage):
    """After `duration` of tracking the node sets the stop event, with exit code 0."""
    scene = stage(duration=0.5)
    scene.tracking()
    assert scene.until(scene.stop.is_set) and scene.node.exit_code == 0


def test_a_fault_ends_a_run_of_limited_length(stage):
    """A run with a duration that got stuck ends with exit code 1 and the guard's reason instead of never."""
    scene = stage(duration=60.0)
    scene.tracking()
    scene.planner.broken = lambda planner: (_ for _ in ()).throw(RuntimeError("device lost"))
    assert scene.until(scene.stop.is_set)
    assert scene.node.exit_code == 1 and "device lost" in str(scene.node.failure)


@pytest.mark.parametrize(
    ("overrides", "word"),
    [({"robot": "indy8"}, "indy8"), ({"robot": "/nowhere/arm.urdf"}, "arm.urdf"), ({"robot": ""}, "robot_description")],
)
def test_a_robot_that_cannot_be_used_fails_configuration(stage, overrides, word):
    """Configure fails, names the robot, and leaves the node unconfigured, able to try again."""
    scene = stage(**overrides)
    assert scene.node.trigger_configure().name == "FAILURE"
    assert word in str(scene.node.failure)


def test_trajectory_sink(stage):
    """The trajectory starts with the command and has strictly increasing times, positions, velocities and efforts."""
    from trajectory_msgs.msg import JointTrajectory

    scene = stage(sink="trajectory")
    got = []
    scene.probe.create_subscription(JointTrajectory, "mpc_node/joint_trajectory", got.append, 10)
    assert scene.node.trigger_configure().name == "SUCCESS"
    assert scene.node.trigger_activate().name == "SUCCESS"
    assert scene.until(lambda: len(got) > 10)
    message = got[-1]
    times = [point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in message.points]
    assert times == pytest.approx([0.0, 0.01, 0.02, 0.03]) and tuple(message.joint_names) == ROBOT.joint_names
    for point in message.points:
        np.testing.assert_allclose(point.positions, READY, atol=1e-6)
        np.testing.assert_allclose(point.effort, GRAVITY, atol=0.5)
        assert len(point.velocities) == 6


def test_diagnostics_tell_loop_solver_and_inputs(stage):
    """/diagnostics holds the three parts, with the mode, the solve times and the rate of the states."""
    from diagnostic_msgs.msg import DiagnosticArray

    scene = stage()
    got = []
    scene.probe.create_subscription(DiagnosticArray, "/diagnostics", got.append, 10)
    scene.tracking()
    assert scene.until(lambda: got and "tracking" in got[-1].status[0].message)
    loop, solver, inputs = got[-1].status
    assert solver.message == "solved" and inputs.message == "ok"
    assert {"overruns", "lateness p99 (ms)"} <= {pair.key for pair in loop.values}
    assert {"solve p99 (ms)", "policy", "KKT residual"} <= {pair.key for pair in solver.values}
