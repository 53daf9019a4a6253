"""Domains and node processes, as far as they need no ROS."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from branch_mpc.bench import processes
from branch_mpc.bench.processes import NodeProcess, confine, free_domain


def test_a_domain_in_use_is_passed_over() -> None:
    """With the discovery port of a domain taken, the search goes on to the next one."""
    domain = free_domain(40)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("0.0.0.0", 7410 + 250 * domain))
        assert free_domain(processes.DOMAINS.index(domain)) != domain


def test_confining_keeps_the_users_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traffic stays on the loopback, in the domain of the environment when it names one."""
    for name in ("ROS_LOCALHOST_ONLY", "ROS_AUTOMATIC_DISCOVERY_RANGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROS_DOMAIN_ID", "77")
    assert confine() == 77
    assert (os.environ["ROS_LOCALHOST_ONLY"], os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"]) == ("1", "LOCALHOST")
    monkeypatch.delenv("ROS_DOMAIN_ID")
    assert confine() in processes.DOMAINS
    # confine() wrote what monkeypatch does not know of
    os.environ.pop("ROS_DOMAIN_ID")


def test_a_node_that_ends_is_an_error_in_its_own_words(tmp_path: Path) -> None:
    """A node that cannot start ends its process; the error is what it said last, and the process is gone."""
    node = NodeProcess("no_such_node", [], tmp_path)
    end = time.monotonic() + 30.0
    while node.exit_code is None and time.monotonic() < end:
        time.sleep(0.02)
    error = node.error()
    assert "no_such_node" in error.problem
    assert "--no-ros" in error.remedy
    assert node.stop() != 0


def test_the_words_of_a_log_are_found(tmp_path: Path) -> None:
    """Warp's lines are passed over; the newest thing a node said and its newest complaint are found, without decoration."""
    node = NodeProcess("no_such_node", [], tmp_path)
    node.stop()
    node.log.write_text(
        "[INFO] [1796085757.01] [mpc_node]: compiling the control tick\n"
        "[FATAL] [1796085757.02] [mpc_node]: device 'cuda:9' does not exist; choose one of cpu\n"
        "[WARN] [1796085757.03] [mpc_node]: something small\n"
        "Module branch_factor load on device 'cpu' took 3.45 ms\n"
    )
    assert node.says() == "something small"
    error = node.error()
    assert error.problem == "no_such_node: device 'cuda:9' does not exist"
    assert error.remedy == "choose one of cpu"


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_nodes_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """A parent that is killed without a chance to clean up takes its node with it."""
    script = (
        "import subprocess, sys, time\n"
        "from branch_mpc.bench.processes import _die_with_parent\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True, preexec_fn=_die_with_parent)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    end = time.monotonic() + 10.0
    while time.monotonic() < end and alive(child):
        time.sleep(0.02)
    assert not alive(child)


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
