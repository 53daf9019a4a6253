"""Errors of the package: each names what is wrong, with the numbers, and the remedy."""


class BranchMpcError(Exception):
    """Base of every error a user can cause.

    Attributes:
        problem: One clause naming the joint, link, parameter or file and the offending value.
        remedy: What to do about it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem, self.remedy = problem, remedy


class RobotError(BranchMpcError):
    """A robot description that cannot be used: unknown robot, missing file, inertia or limit."""


class SettingError(BranchMpcError):
    """A parameter out of range, of the wrong type, or one that does not exist."""


class DeviceError(BranchMpcError):
    """A compute device that is not there or cannot hold the problem."""


class ProblemError(BranchMpcError):
    """A Branch problem whose blocks, relations or terms do not fit together."""


class PlanError(BranchMpcError):
    """An elimination order that does not apply, or a plan over the memory budget.

    Attributes:
        report: The plan's report, when there is one.
    """

    def __init__(self, problem: str, remedy: str, report: object | None = None) -> None:
        super().__init__(problem if report is None else f"{problem}\n{report}\n", remedy)
        self.report = report


class ScheduleError(PlanError):
    """A schedule that does not apply to the plan or does not fit the device."""


class TargetError(BranchMpcError):
    """A target that cannot be followed: not finite, wrong length, unknown frame."""


class InputTimeout(BranchMpcError):
    """An input that never came: no joint states, no robot description."""
