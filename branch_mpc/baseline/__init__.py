"""The CPU baseline: SQP with Pinocchio terms and OSQP, on the same problem as the device."""

from branch_mpc.baseline.controller import OsqpController, OsqpResult, OsqpTimes
from branch_mpc.baseline.planner import OsqpPlanner
from branch_mpc.baseline.quadratic_program import OsqpSettings

__all__ = ["OsqpController", "OsqpPlanner", "OsqpResult", "OsqpSettings", "OsqpTimes"]
