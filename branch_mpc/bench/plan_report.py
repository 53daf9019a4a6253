"""Plan and schedule of an application as text; plans symbolically and compiles nothing."""

from typing import Any

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.errors import SettingError
from branch_mpc.examples.choices import PLANS, SCHEDULES, Choice, planned
from branch_mpc.examples.contact_response import ResponseProblem
from branch_mpc.examples.inverse_kinematics import IkWeights, pose_problem
from branch_mpc.examples.trajectory_ik import TrajectoryWeights, trajectory_problem
from branch_mpc.robot.tree_library import load_tree

APPLICATIONS = ("mpc", "ik", "trajectory", "contact")
CHAIN_PLANS = ("chronological", "cyclic", "dense")
CHAIN_SCHEDULES = ("serial", "cooperative", "fused")
"""Plans and schedules of the controller's chain of states; the others report on its problem as coupled frames."""


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
    lead = f"{tree.name}, {application}"
    if application == "mpc" and choice.plan in CHAIN_PLANS and choice.schedule in CHAIN_SCHEDULES:
        found = planned(*_chain(tree.dof, batch, knots), choice)
        lead += f": a chain of {knots} states"
    else:
        found = planned(*_problem(tree, application, batch, knots), choice)
        lead += ": the states of every second knot, as coupled frames" if application == "mpc" else ""
    return f"{lead}\n{found.plan.report()}\n{found.schedule.report()}\n  planned in {1e3 * found.seconds:.3g} ms"


def _problem(tree: Any, application: str, batch: int, knots: int) -> tuple[br.Problem, Any]:
    if application == "mpc":
        return _coupled_frames(tree.dof, batch, knots)
    if application == "contact":
        world = ResponseProblem(tree, batch)
        return world.problem, world.u
    if application == "ik":
        poses = pose_problem(tree, batch, "cpu", IkWeights())[0]
    else:
        poses = trajectory_problem(tree, batch, knots, "cpu", TrajectoryWeights())[0]
    return poses.problem, poses.u


def _chain(n: int, batch: int, knots: int) -> tuple[br.Problem, Any]:
    """The quadratic problem of an SQP iteration of the controller, in acceleration form (sqp/solver.py)."""
    h, eye = 0.01, np.eye(n)
    problem = br.Problem(instances=batch)
    a = problem.inputs("acceleration", width=n, frames=knots - 1)
    transition = np.block([[eye, h * eye], [0 * eye, eye]])
    x = problem.states("state", a, A=transition, B=np.vstack([0.5 * h * h * eye, h * eye]))
    H = wp.zeros((batch, knots, 3 * n, 3 * n), dtype=wp.float32, device="cpu")
    problem.add(br.quadratic(x, a, H=H, g=wp.zeros((batch, knots, 3 * n), dtype=wp.float32, device="cpu")))
    return problem, a


def _coupled_frames(n: int, batch: int, knots: int) -> tuple[br.Problem, Any]:
    """The same problem as coupled frames, for orders that a chain of states does not have.

    Two accelerations lead from any state to any state two knots later: the 2n equations of two steps of the integrator are
    regular in them. So the states of every second knot may be the unknowns, 2n a frame; what lies between follows from its two
    neighbours, and the Hessian is block tridiagonal. The last acceleration, when it has no partner, is condensed into its frame.
    """
    frames, width = max(1, (knots - 1) // 2), 2 * n
    topology = br.Topology(parents=(-1,) * n, dofs=(2,) * n, names=tuple(f"joint{index}" for index in range(n)))
    u = br.tangents(topology, instances=batch, frames=frames, name="state")
    H, g = (wp.zeros((batch, frames, *shape), dtype=wp.float32, device="cpu") for shape in ((width, width), (width,)))
    problem = br.Problem()
    problem.add(br.quadratic(u, H=H, g=g))
    if frames > 1:
        problem.add(br.coupling(u, C=wp.zeros((batch, frames - 1, width, width), dtype=wp.float32, device="cpu")))
    return problem, u
