"""The closed loop through the real launch, where there is one (it is not on PyPI)."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ros
# Not `launch`: from the root of the repository that name would find the folder launch/.
pytest.importorskip("launch_ros", reason="launch_ros cannot be imported; it comes with ROS 2, not from PyPI")

PATIENCE = 300.0
"""Longest run [s]: the kernels may have to be compiled."""


class Probe:
    """Counts what a run publishes, in a context of its own."""

    def __init__(self, namespace: str) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import qos_profile_sensor_data
        from sensor_msgs.msg import JointState

        from branch_mpc.msg import MpcStatus

        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.statuses: list[Any] = []
        self.states = 0
        self.node = rclpy.create_node("probe", namespace=namespace, context=self.context)
        self.node.create_subscription(MpcStatus, "mpc_node/status", self.statuses.append, 10)
        self.node.create_subscription(JointState, "joint_states", self._on_state, qos_profile_sensor_data)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def _on_state(self, _: Any) -> None:
        self.states += 1

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()
        self.context.shutdown()


@pytest.fixture
def probe() -> Iterator[Probe]:
    """A probe in the namespace of the run."""
    probe = Probe("arm")
    yield probe
    probe.close()


def run(path: Path, **arguments: str) -> dict[str, int]:
    """Launch a file until it ends, and return the exit code of every process by executable."""
    import launch
    from launch.actions import IncludeLaunchDescription, RegisterEventHandler, Shutdown, TimerAction
    from launch.event_handlers import OnProcessExit
    from launch.launch_description_sources import PythonLaunchDescriptionSource

    codes: dict[str, int] = {}

    def ended(event: Any, _: Any) -> None:
        codes[Path(event.cmd[0]).name] = event.returncode

    service = launch.LaunchService(noninteractive=True)
    service.include_launch_description(
        launch.LaunchDescription(
            [
                RegisterEventHandler(OnProcessExit(on_exit=ended)),
                TimerAction(period=PATIENCE, actions=[Shutdown(reason="the test has waited long enough")]),
                IncludeLaunchDescription(PythonLaunchDescriptionSource(str(path)), launch_arguments=list(arguments.items())),
            ]
        )
    )
    codes["launch"] = service.run()
    return codes


def test_closed_loop_tracks_and_ends(root: Path, probe: Probe) -> None:
    """One process a node: both come up, the arm tracks, the run ends by itself and everything exits with 0."""
    from branch_mpc.msg import MpcStatus

    codes = run(root / "launch/indy7_figure8.launch.py", namespace="arm", duration="3.0", device="cpu", batch="2")
    assert codes == {"mpc_node": 0, "plant_node": 0, "launch": 0}
    assert probe.states > 0
    assert MpcStatus.TRACKING in [status.mode for status in probe.statuses]


def test_bad_robot_ends_the_launch(root: Path) -> None:
    """A robot that does not exist ends the nodes with an error, and the launch with them, with exit code 1."""
    codes = run(root / "launch/indy7_figure8.launch.py", namespace="arm", robot="nobody", device="cpu")
    assert codes["launch"] == 1
    assert 0 not in codes.values()
