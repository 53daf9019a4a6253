"""Progress on standard error: one rewritten line on a terminal, sparse lines elsewhere."""

import sys
import time
from typing import TextIO

WIDTH = 110
"""Longest line; a longer text is cut, since one that wraps cannot be rewritten."""


class Progress:
    """Shows what a long job is doing.

    On a terminal every text replaces the one before; elsewhere a text is printed when its topic is new or
    the last line is `interval` seconds old, so that a log stays short.
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 2.0) -> None:
        """Write to `stream` (standard error), elsewhere than a terminal at most every `interval` seconds a topic."""
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._interval = interval
        self._topic, self._written, self._open = "", -interval, False

    def __call__(self, text: str, topic: str = "") -> None:
        """Show `text`; `topic` names the kind of step (the text itself when empty)."""
        now, topic = time.monotonic(), topic or text
        if topic == self._topic and now - self._written < (0.1 if self._live else self._interval):
            return
        self._topic, self._written = topic, now
        text = text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
        self._stream.write(f"\r\x1b[2K{text}" if self._live else f"{text}\n")
        self._stream.flush()
        self._open = self._live

    def close(self) -> None:
        """End the rewritten line, so that what follows starts on a line of its own."""
        if self._open:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
        self._open, self._topic = False, ""
