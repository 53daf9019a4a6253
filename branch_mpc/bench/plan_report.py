"""Plan and schedule of an application as text; plans symbolically and compiles nothing."""

from typing import Any

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.errors import SettingError
from branch_mpc.examples.choices import PLANS, SCHEDULES, Choice, order_of, planned, schedule_of
from branch_mpc.examples.contact_response import ResponseProblem
from branch_mpc.examples.inverse_kinematics import IkWeights, pose_problem
from branch_mpc.examples.trajectory_ik import TrajectoryWeights, trajectory_problem
from branch_mpc.robot.tree_library import load_tree

APPLICATIONS = ("mpc", "ik", "trajectory", "contact")


def report_of(robot: str, application: str, batch: int, knots: int, choice: Choice) -> str:
    """Return the reports of plan and schedule.

    Args:
        robot: Name or file of a robot.
        application: One of `APPLICATIONS`.
        batch: Problems, trajectories, worlds, or hypotheses of the controller.
        knots: Knots of the controller's horizon, or frames of a trajectory.
        choice: Plan and schedule.

    Raises:
        SettingError: An unknown application, plan or schedule, or a number that cannot be used.
        RobotError: A robot that cannot be loaded.
        PlanError: The choice does not apply or does not fit (the error carries the report).
    """
    for label, value, known in (
        ("plan", choice.plan, PLANS),
        ("schedule", choice.schedule, SCHEDULES),
        ("application", application, APPLICATIONS),
    ):
        if value not in known:
            raise SettingError(f"{label} '{value}' does not exist", f"choose one of {', '.join(known)}")
    if batch < 1 or knots < 2:
        raise SettingError(f"batch is {batch}, knots {knots}", "give a batch of at least 1 and at least 2 knots")
    tree = load_tree(robot)
    if application == "mpc":
        plan, schedule = _controller(tree.dof, batch, knots, choice)
        return f"{plan.report()}\n{schedule.report()}"
    problem, blocks = _problem(tree, application, batch, knots)
    found = planned(problem, blocks, choice)
    return f"{found.plan.report()}\n{found.schedule.report()}\n  planned in {1e3 * found.seconds:.3g} ms"


def _problem(tree: Any, application: str, batch: int, knots: int) -> tuple[br.Problem, Any]:
    if application == "contact":
        world = ResponseProblem(tree, batch)
        return world.problem, world.u
    if application == "ik":
        poses = pose_problem(tree, batch, "cpu", IkWeights())[0]
    else:
        poses = trajectory_problem(tree, batch, knots, "cpu", TrajectoryWeights())[0]
    return poses.problem, poses.u


def _controller(n: int, batch: int, knots: int, choice: Choice) -> tuple[Any, Any]:
    """The quadratic problem of an SQP iteration of the controller, in acceleration form (sqp/solver.py)."""
    h, eye = 0.01, np.eye(n)
    problem = br.Problem(instances=batch)
    a = problem.inputs("acceleration", width=n, frames=knots - 1)
    transition = np.block([[eye, h * eye], [0 * eye, eye]])
    x = problem.states("state", a, A=transition, B=np.vstack([0.5 * h * h * eye, h * eye]))
    H = wp.zeros((batch, knots, 3 * n, 3 * n), dtype=wp.float32, device="cpu")
    problem.add(br.quadratic(x, a, H=H, g=wp.zeros((batch, knots, 3 * n), dtype=wp.float32, device="cpu")))
    plan = br.plan(problem, order_of(a, choice.plan))
    return plan, schedule_of(plan, choice)
