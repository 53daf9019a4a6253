"""The node under /clock: any speed, standing still, jumping back."""

import time

import pytest
from test_mpc_node import Stage

pytestmark = pytest.mark.ros


class SimulatedStage(Stage):
    """A stage whose clock is /clock, moved by the test at half the real speed."""

    def __init__(self, **overrides):
        from rosgraph_msgs.msg import Clock

        self.clock_message, self.time, self.ticking = Clock, 1000.0, True
        super().__init__(use_sim_time=True, **overrides)
        self.clock_publisher = self.probe.create_publisher(Clock, "/clock", 10)
        self.probe.create_timer(0.002, self.tick)

    def tick(self):
        """Publish the time."""
        if self.ticking:
            self.time += 0.001
            message = self.clock_message()
            message.clock.sec, message.clock.nanosec = int(self.time), int(self.time % 1.0 * 1e9)
            self.clock_publisher.publish(message)

    def play(self):
        """Publish a joint state with the simulated time."""
        if self.playing and self.time != 1000.0:
            names = [*self.robot_joints(), "finger"]
            message = self.message(name=names, position=[*map(float, self.position), 0.1], velocity=[0.0] * 7)
            message.header.stamp.sec, message.header.stamp.nanosec = int(self.time), int(self.time % 1.0 * 1e9)
            self.states.publish(message)

    def robot_joints(self):
        """Return the joint names."""
        from test_mpc_node import ROBOT

        return ROBOT.joint_names


@pytest.fixture
def scene():
    """Return a stage on simulated time, torn down at the end."""
    # Both nodes share one Python thread with the clock here, so states are older than usual on this clock.
    stage = SimulatedStage(**{"guard.state_timeout": 0.2, "guard.plan_timeout": 0.2})
    yield stage
    stage.close()


def test_tracks_at_the_speed_of_the_clock(scene):
    """At half the real speed the node makes half the ticks."""
    scene.tracking()
    begun, real = scene.node._parts.ticks, time.monotonic()
    simulated = scene.time
    scene.until(lambda: scene.time > simulated + 0.5)
    ticks, passed = scene.node._parts.ticks - begun, time.monotonic() - real
    assert passed > 0.9
    # 100 Hz of simulated time; a shared thread may skip some, and never makes more.
    assert 20 <= ticks <= 52


def test_fault_13_clock_jumps_back(scene):
    """A clock that jumps back by 10 s: the node holds, with the reason, and tracks again after a reset."""
    from std_srvs.srv import Trigger

    scene.tracking()
    scene.time -= 10.0
    assert scene.until(lambda: scene.modes()[-1] == "HOLD" and "clock jumped back" in scene.status[-1].reason)
    assert scene.call(Trigger, "reset").success
    assert scene.until(lambda: scene.modes()[-1] == "TRACKING") and scene.planner.epoch == 2


def test_fault_14_clock_stands_still(scene, capfd):
    """A clock that stands still: no ticks, no commands, a report on the wall clock, and no burst afterwards."""
    scene.tracking()
    scene.ticking = False
    scene.until(lambda: False, 0.3)
    ticks, count = scene.node._parts.ticks, len(scene.commands)
    scene.until(lambda: "no control tick" in capfd.readouterr().err)
    assert scene.node._parts.ticks - ticks <= 1 and len(scene.commands) - count <= 1
    scene.ticking = True
    simulated = scene.time
    assert scene.until(lambda: scene.time > simulated + 0.1)
    assert len(scene.commands) - count <= 14
    # Deactivation needs a clock.
    assert scene.node.trigger_deactivate().name == "SUCCESS"
