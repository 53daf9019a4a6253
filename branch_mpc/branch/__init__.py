"""Branch: solvers of structured quadratic problems, generated from a problem, an elimination plan and a schedule.

    import branch_mpc.branch as br

    problem = br.Problem(instances=M)
    u = problem.inputs("acceleration", width=nu, frames=T - 1)
    x = problem.states("state", u, A=A, B=B)
    problem.add(br.quadratic(x, u, H=H, g=g))
    plan = br.plan(problem, br.order.frames(u, time="chronological"))
    solver = br.compile(plan, br.Schedule.serial(plan), device="cpu")
    solver.factor(); solver.solve()
    solver.solution(u)

It knows no robot, no MPC and no ROS; the application owns the nonlinear loop.
"""

from branch_mpc.branch import order
from branch_mpc.branch.blocks import Tangents, Twists, View, tangents, twists
from branch_mpc.branch.many import Columns
from branch_mpc.branch.plan import Plan, plan
from branch_mpc.branch.problem import Problem
from branch_mpc.branch.residual import Body, Dof, Residual, position, residual, rotation, rotation_error
from branch_mpc.branch.schedule import Schedule
from branch_mpc.branch.solver import Solver, compile
from branch_mpc.branch.terms import BlockSet, damping, quadratic
from branch_mpc.branch.topology import Topology
from branch_mpc.branch.tree_plan import TreePlan
from branch_mpc.branch.tree_schedule import TreeSchedule
from branch_mpc.branch.tree_solver import TreeSolver
from branch_mpc.branch.tree_terms import coupling

__all__ = [
    "BlockSet",
    "Body",
    "Columns",
    "Dof",
    "Plan",
    "Problem",
    "Residual",
    "Schedule",
    "Solver",
    "Tangents",
    "Topology",
    "TreePlan",
    "TreeSchedule",
    "TreeSolver",
    "Twists",
    "View",
    "compile",
    "coupling",
    "damping",
    "order",
    "plan",
    "position",
    "quadratic",
    "residual",
    "rotation",
    "rotation_error",
    "tangents",
    "twists",
]
