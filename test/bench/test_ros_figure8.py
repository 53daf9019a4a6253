"""The figure-8 as ROS 2 processes over DDS, started by the command line."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("branch_mpc.msg")
pytestmark = pytest.mark.ros

COMMAND = [sys.executable, "-m", "branch_mpc.cli", "figure8", "--device", "cpu", "--batch", "2"]


def environment() -> dict[str, str]:
    """DDS on the loopback, in a domain that the command chooses; the package of this tree."""
    env = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_LOCALHOST_ONLY": "1"}
    env.pop("ROS_DOMAIN_ID", None)
    root = str(Path(__file__).parents[2])
    return {**env, "PYTHONPATH": os.pathsep.join(part for part in (root, env.get("PYTHONPATH")) if part)}


def children(pid: int) -> list[int]:
    """Process ids of the children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def test_the_arm_draws_over_dds(tmp_path: Path) -> None:
    """Plant and controller as processes: the numbers come from what went over DDS, the picture is there, the code is 0.

    In real time on a loaded machine ticks may be late, so the bound on the error is wide: 10 mm, a fiftieth of the figure.
    """
    words = ["--duration", "1", "--json", "--out", str(tmp_path / "run.png")]
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=300, env=environment())
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert results["transport"].startswith("DDS, real time")
    assert results["tracking_rms_mm"] < 10.0
    assert results["limit_violations"] == 0
    assert 0 < results["ticks"] <= 301
    assert results["device"] == "CPU"
    assert "acceleration form" in results["policy"]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_lockstep_over_dds_gives_the_numbers_of_the_run_without_ros() -> None:
    """With the plant waiting for every command, DDS changes nothing: RMS as without ROS to 10 %, no overruns.

    The arm is held for a tick longer on its brakes there, so the runs are not bit for bit the same.
    """
    words = ["--duration", "1", "--json", "--no-picture", "--set", "lockstep=true"]
    rms = []
    for more in ([], ["--no-ros"]):
        done = subprocess.run([*COMMAND, *words, *more], capture_output=True, text=True, timeout=300, env=environment())
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout.splitlines()[-1])
        assert (results["overruns"], results["limit_violations"]) == (0, 0) if not more else True
        rms.append(results["tracking_rms_mm"])
    assert rms[0] == pytest.approx(rms[1], rel=0.1)


def test_ctrl_c_ends_both_nodes(tmp_path: Path) -> None:
    """SIGINT in the middle of the motion: code 130, no trace, no picture, and no process is left."""
    process = subprocess.Popen(
        [*COMMAND, "--duration", "600", "--out", str(tmp_path / "run.png")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("DDS"):
            break
    nodes = children(process.pid)
    assert len(nodes) == 2
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert rest.splitlines()[-1] == "branch_mpc: stopped by Ctrl-C"
    assert "Traceback" not in rest
    assert out == ""
    assert list(tmp_path.iterdir()) == []
    assert not [pid for pid in nodes if Path(f"/proc/{pid}").exists()]


def test_no_joint_states_is_one_clear_line(tmp_path: Path) -> None:
    """Without a robot the command gives up by itself and says what is missing."""
    env = {**environment(), "ROS_DOMAIN_ID": "93"}
    words = ["--no-plant", "--out", str(tmp_path / "run.png")]
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "branch_mpc: error: no joint states on 'joint_states' within 10 s; start the robot's driver"
    )
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
