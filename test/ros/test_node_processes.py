"""Both nodes as processes: signals, exit codes, lockstep."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.ros
FAKE = str(Path(__file__).parent / "fake_mpc_node.py")
LIMIT = 30.0
"""Longest wait for anything [s]."""


@pytest.fixture
def start(root, tmp_path):
    """Return a function that starts a Python process with ROS parameters; all are ended at the end of the test."""
    processes = []

    def started(program, **parameters):
        words = [word for name, value in parameters.items() for word in ("-p", f"{name.replace('__', '.')}:={value}")]
        # Its own session, so that a signal reaches it alone.
        process = subprocess.Popen(
            [sys.executable, *program, "--ros-args", *words],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield started
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def listen():
    """Return a function that spins a probe on the commands until a condition on them holds."""
    import rclpy
    from rclpy.qos import QoSProfile
    from std_msgs.msg import Float64MultiArray

    rclpy.init(args=[])
    probe, commands = rclpy.create_node("probe"), []
    probe.create_subscription(Float64MultiArray, "mpc_node/commands", commands.append, QoSProfile(depth=1000))

    def until(condition):
        """Spin until the condition, on the commands heard, holds; return whether it did."""
        end = time.monotonic() + LIMIT
        while not condition(commands) and time.monotonic() < end:
            rclpy.spin_once(probe, timeout_sec=0.05)
        return condition(commands)

    until.heard = lambda: probe.count_publishers("mpc_node/commands") > 0
    yield until
    probe.destroy_node()
    rclpy.shutdown()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_fault_45_a_signal_while_moving_ends_in_order(start, listen, number):
    """T53: SIGINT twice, or SIGTERM, in ACTIVE: the last command holds the arm against gravity, exit code 0, no traceback."""
    from branch_mpc.dynamics.host import HostDynamics
    from branch_mpc.robot import load_robot, ready_configuration

    plant = start(["-m", "branch_mpc.ros.plant_node"], robot="indy7")
    node = start([FAKE], robot="indy7")
    assert listen(lambda commands: len(commands) > 50)
    node.send_signal(number)
    time.sleep(0.02)
    node.send_signal(number)
    last = []

    def ended(commands):
        last[:] = commands[-1:]
        return node.poll() is not None

    assert listen(ended)
    output = node.communicate()[0]
    assert node.returncode == 0 and "Traceback" not in output, output
    gravity = HostDynamics(load_robot("indy7")).gravity(ready_configuration("indy7"))
    np.testing.assert_allclose(last[0].data, gravity, atol=2.0)
    plant.send_signal(signal.SIGINT)
    assert plant.wait(LIMIT) == 0


def test_lockstep_gives_identical_commands(start, listen):
    """Two lockstep runs give the same torques bit for bit, and the plant moved one period a command."""
    runs = []
    for _ in range(2):
        node = start([FAKE], robot="indy7", lockstep="true", duration=2.0)
        # The run is over in a fraction of a second, discovery can take three: the plant starts when the probe listens.
        assert listen(lambda commands: listen.heard())
        settled = time.monotonic() + 1.0
        listen(lambda commands, settled=settled: time.monotonic() > settled)
        plant = start(["-m", "branch_mpc.ros.plant_node"], robot="indy7", lockstep="true", push="[0.0,0.0,-1.0]")
        first = {}

        def done(commands, node=node, first=first):
            for message in commands:
                first.setdefault(int(message.layout.dim[0].label), tuple(message.data))
            commands.clear()
            return node.poll() is not None

        assert listen(done)
        assert node.wait(LIMIT) == 0, node.communicate()[0]
        plant.send_signal(signal.SIGINT)
        assert plant.wait(LIMIT) == 0
        runs.append(first)
    common = sorted(set(runs[0]) & set(runs[1]))
    # A probe that is discovered late, or a depth that is exceeded, may miss a few.
    assert len(common) > 50 and all(label % 10_000_000 == 0 for label in common)
    assert all(runs[0][label] == runs[1][label] for label in common)
    assert len({runs[0][label] for label in common}) > 40


@pytest.mark.parametrize(
    ("program", "parameters", "words"),
    [
        ([FAKE], {"robot": "indy8"}, ("indy8", "indy7, iiwa14")),
        ([FAKE], {"robot": "indy7", "knotz": 3}, ("'knotz'", "did you mean 'knots'?")),
        (["-m", "branch_mpc.ros.plant_node"], {"robot": "indy8"}, ("indy8",)),
        (["-m", "branch_mpc.ros.plant_node"], {"robot": "indy7", "push": "[1.0]"}, ("'push'", "three")),
        (["-m", "branch_mpc.ros.plant_node"], {"robot": "indy7", "start": "[9.0,0.0,0.0,0.0,0.0,0.0]"}, ("'start'", "joint0")),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(start, program, parameters, words):
    """A wrong robot or parameter ends the process with code 1 and a line that says what and the remedy."""
    process = start(program, **parameters)
    output = process.communicate(timeout=LIMIT)[0]
    assert process.returncode == 1
    assert any(all(word in line for word in words) for line in output.splitlines()), output
    assert "Traceback" not in output
