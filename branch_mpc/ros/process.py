"""What a node's process needs besides its node: signals, priority, an executor that stops cleanly, an exit code."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.signals import SignalHandlerOptions

from branch_mpc.errors import BranchMpcError
from branch_mpc.ros.compat import make_executor, spin

SWITCH_INTERVAL = 5e-4
"""Longest time a Python thread keeps the interpreter when another wants it [s]; the default of 5 ms is half a tick."""


class Interrupted(BranchMpcError):
    """The process was told to end while it was starting."""


def run(name: str, args: Sequence[str] | None, make: Callable[[threading.Event], Any]) -> int:
    """Run a node until it ends or the process is told to, and return the exit code.

    rclpy's own signal handlers would invalidate the context at once, and Python's would raise KeyboardInterrupt at
    any line when a terminal's Ctrl-C reaches the process twice under ros2 launch. Here a signal sets an event, and the
    node leaves in order: it stops the arm and sends its last command before the context goes.

    Args:
        name: Name for error lines.
        args: Command line, None for the process's.
        make: Makes the node, given the event that ends the run. The node has `begin()`, called before spinning;
            `end()`, called after it while messages still travel; and `exit_code`.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    sys.setswitchinterval(SWITCH_INTERVAL)
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    node, executor = None, None
    code = 1
    try:
        node = make(stop)
        executor = make_executor()
        executor.add_node(node)
        node.begin()
        spin(executor, stop)
        node.end()
        code = node.exit_code
    except Interrupted:
        code = 130
    except BranchMpcError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
    except ExternalShutdownException:
        code = 0
    finally:
        if executor is not None:
            executor.shutdown()
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    return code


def use_priority(priority: int) -> str:
    """Give every thread of the process SCHED_FIFO.

    One thread alone would only wait for the others at the interpreter's lock.

    Args:
        priority: 1 to 98; 0 changes nothing.

    Returns:
        What stood in the way; empty when nothing did.
    """
    if priority == 0:
        return ""
    try:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(priority))
    except (OSError, AttributeError) as error:
        return f"rt_priority {priority} could not be set ({error}); allow it in /etc/security/limits.conf (rtprio) or set 0"
    return ""
