"""The tracer under the name that the rooms below know it by; it serves `branch` too and lives at the top of the package."""

from branch_mpc.derivative import gradient
from branch_mpc.expression import Graph, Number, Scalar, live, operation_count

__all__ = ["Graph", "Number", "Scalar", "gradient", "live", "operation_count"]
