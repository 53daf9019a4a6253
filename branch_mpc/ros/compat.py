"""The few places where rclpy differs between Humble, Jazzy and Kilted, and between a distribution and the wheels."""

import threading
import time

from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor


def make_executor() -> SingleThreadedExecutor:
    """Return an EventsExecutor where rclpy has one (Kilted, late Jazzy), else a SingleThreadedExecutor.

    Never a MultiThreadedExecutor: it reached 84 of 1000 Hz on two cores, with 50 ms of jitter (rclpy #1223).
    """
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def spin(executor: SingleThreadedExecutor, stop: threading.Event, period: float = 0.1) -> None:
    """Spin until `stop` is set or the context is shut down; then `stop` is set.

    Waits are finite on purpose. EventsExecutor.spin() of the PyPI wheels never wakes: its infinite wait
    overflows in a C++ library built for glibc before 2.30.

    Args:
        executor: Executor that holds the nodes.
        stop: Event that ends the spinning; set by a signal handler or another thread.
        period: Longest time until `stop` is noticed [s].
    """
    try:
        while not stop.is_set():
            executor.spin_once(timeout_sec=period)
    except ExternalShutdownException:
        stop.set()


def sleep_until(deadline: int) -> float:
    """Sleep to an absolute time and return how late it woke [s].

    Args:
        deadline: Time of `time.monotonic_ns()` to wake at [ns]; one in the past does not sleep.
    """
    left = deadline - time.monotonic_ns()
    if left > 0:
        time.sleep(left * 1e-9)
    return (time.monotonic_ns() - deadline) * 1e-9
