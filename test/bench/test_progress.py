"""Progress: a rewritten line on a terminal, few lines in a log."""

import io

from branch_mpc.bench.progress import WIDTH, Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_per_topic_and_not_per_tick() -> None:
    """A thousand ticks within the interval are one line; a new topic is a new line."""
    log = io.StringIO()
    progress = Progress(log, interval=60.0)
    progress("compiling")
    for tick in range(1000):
        progress(f"tick {tick}", topic="motion")
    progress.close()
    assert log.getvalue() == "compiling\ntick 0\n"


def test_a_terminal_keeps_one_line() -> None:
    """Every text replaces the one before, without a line feed, and the line is gone at the end."""
    terminal = Terminal()
    progress = Progress(terminal)
    progress("compiling")
    progress("running")
    progress.close()
    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_a_long_text_is_cut() -> None:
    """A text that would wrap could not be rewritten."""
    log = io.StringIO()
    Progress(log)("x" * 500)
    assert len(log.getvalue()) == WIDTH + 1
