"""The command `branch_mpc`: figure8, compare, report, bench, policy and tune."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import branch_mpc
from branch_mpc import cli_bench, cli_compare, cli_figure8, cli_policy
from branch_mpc.errors import BranchMpcError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells have it."""


class Parser(argparse.ArgumentParser):
    """A parser that reports a wrong argument in one line, as every other error of the command."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2."""
        self.exit(2, f"branch_mpc: error: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(prog="branch_mpc", description="Model-predictive control of torque-controlled robot arms.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"branch_mpc {branch_mpc.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (cli_figure8, cli_compare, cli_bench, cli_policy):  # cli_policy last: it adds to `bench`
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: Words after the program's name; default those of the process.

    Returns:
        0 on success, 2 for anything the user can put right, 130 after Ctrl-C.
    """
    try:
        options = build_parser().parse_args(arguments)
        code: int = options.run(options)
        return code
    except BranchMpcError as error:
        print(f"branch_mpc: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("branch_mpc: stopped by Ctrl-C", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
