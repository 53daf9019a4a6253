"""The newest value, handed from one thread to another without a lock in the way of either."""

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Holds the last value put in; a reader takes it as often as it likes and never sees a mixture of two.

    `put` replaces one attribute, which is atomic under the interpreter's lock; the event serves readers that wait.
    """

    def __init__(self) -> None:
        self._value: T | None = None
        self._arrived = threading.Event()

    def put(self, value: T) -> None:
        """Replace the value."""
        self._value = value
        self._arrived.set()

    def get(self) -> T | None:
        """Return the newest value, None before the first."""
        return self._value

    def wait(self, timeout: float) -> bool:
        """Wait until a value was put in since the last `wait` that returned True.

        Args:
            timeout: Longest wait [s].
        """
        arrived = self._arrived.wait(timeout)
        self._arrived.clear()
        return arrived

    def clear(self) -> None:
        """Forget the value."""
        self._value = None
        self._arrived.clear()
