"""Emission under the name that the rooms below know it by; it serves `branch` too and lives at the top of the package."""

from branch_mpc.emit_text import CPP_TYPE, cpp, python

__all__ = ["CPP_TYPE", "cpp", "python"]
