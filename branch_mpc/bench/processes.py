"""Nodes as operating-system processes that never outlive their starter, and a DDS domain of their own."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from branch_mpc.errors import BranchMpcError

DOMAINS = range(1, 102)
"""Domains whose ports lie below the ephemeral range of Linux."""
PR_SET_PDEATHSIG = 1
"""Linux prctl: the signal a process gets when its parent dies."""


class NodeProcess:
    """One node in a process of its own; its output goes to a file."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path) -> None:
        """Start `python -m branch_mpc.ros.<name>`.

        Args:
            name: Module of the node.
            arguments: Words of its command line.
            folder: Where its output file is made.
        """
        self.name, self.log = name, folder / f"{name}.log"
        self._output: IO[bytes] = self.log.open("wb")
        # A session of its own: Ctrl-C reaches the starter alone, which then ends the nodes in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"branch_mpc.ros.{name}", *arguments],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            # `-m` looks in the working directory first: there must be no other copy of the package than this one.
            cwd=Path(__file__).parents[2],
            start_new_session=True,
            preexec_fn=_die_with_parent,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "RCUTILS_COLORIZED_OUTPUT": "0"},
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code, None while it runs."""
        return self._process.poll()

    def says(self) -> str:
        """Return the last thing that the node itself said, without the decoration of its log; empty before the first."""
        return next(iter(self._said()), "")

    def complaint(self) -> str:
        """Return the last error that it said, or else the last line of its output."""
        lines = self._lines()
        return next(iter(self._said("FATAL", "ERROR")), lines[-1] if lines else f"exit code {self.exit_code}")

    def check(self) -> None:
        """Raise when the process has ended.

        Raises:
            BranchMpcError: It has; the message is the node's own.
        """
        if self.exit_code is not None:
            raise self.error()

    def error(self) -> BranchMpcError:
        """Return what went wrong, in the node's own words."""
        problem, _, remedy = self.complaint().rpartition("; ")
        return BranchMpcError(f"{self.name}: {problem or remedy}", remedy if problem else "try it with --no-ros, which needs no nodes")

    def _said(self, *severities: str) -> list[str]:
        """What the node logged or printed itself, newest first."""
        wanted = "|".join(severities or ("INFO", "WARN", "ERROR", "FATAL"))
        forms = (rf"\[(?:{wanted})\] \[[\d.]+\] \[\S+\]: (.+)", rf"{self.name}: (.+)")
        found = (re.fullmatch(form, line) for line in reversed(self._lines()) for form in forms)
        return [match[1] for match in found if match]

    def _lines(self) -> list[str]:
        return [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]

    def stop(self, patience: float = 5.0) -> int:
        """End the process as Ctrl-C would, with TERM and KILL for one that does not listen.

        Args:
            patience: How long it may take to end by itself [s].

        Returns:
            Its exit code.
        """
        for number, wait in ((signal.SIGINT, patience), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
            if self.exit_code is None:
                self._process.send_signal(number)
                try:
                    self._process.wait(wait)
                except subprocess.TimeoutExpired:
                    continue
        self._output.close()
        return self._process.wait()


def confine(domain: int | None = None) -> int:
    """Keep DDS traffic of this process and its children on the loopback, in a domain of their own.

    Args:
        domain: Domain to use; None for the one of the environment, or else a free one.

    Returns:
        The domain.
    """
    # Humble knows only the first variable, and from Kilted on only the second one confines.
    os.environ.setdefault("ROS_LOCALHOST_ONLY", "1")
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if domain is None:
        given = os.environ.get("ROS_DOMAIN_ID", "")
        domain = int(given) if given.isdecimal() else free_domain(os.getpid())
    os.environ["ROS_DOMAIN_ID"] = str(domain)
    return domain


def free_domain(seed: int) -> int:
    """Return a domain in which no participant listens on this machine, beginning the search at `seed`."""
    order = [DOMAINS[(seed + index) % len(DOMAINS)] for index in range(len(DOMAINS))]
    return next((domain for domain in order if _is_free(domain)), order[0])


def _is_free(domain: int) -> bool:
    # RTPS 2.5, 9.6.2.3: participant p of domain d takes unicast discovery on 7400 + 250 d + 10 + 2 p.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("0.0.0.0", 7410 + 250 * domain))
        except OSError:
            return False
    return True


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
