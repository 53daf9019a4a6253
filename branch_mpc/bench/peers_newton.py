"""Newton's Levenberg-Marquardt IK (PyPI: newton) on our problems."""

from typing import Any

import numpy as np
import warp as wp

from branch_mpc.bench.peers_problem import PeerProblem, PeerSolve
from branch_mpc.errors import ProblemError
from branch_mpc.examples.inverse_kinematics import IkWeights
from branch_mpc.examples.levenberg_marquardt import captured
from branch_mpc.examples.targets import body_rotations
from branch_mpc.kinematics.tree import quaternion
from branch_mpc.robot.tree_model import TreeModel


def prepare(problem: PeerProblem) -> PeerSolve:
    """Return Newton's solver with analytic Jacobians and the weights of our residuals, captured in a graph.

    Raises:
        ProblemError: Trajectories: their solver is not part of this Newton.
        ImportError: Newton is not installed.
    """
    import newton
    import newton.ik as ik

    if problem.frames > 1:
        raise ProblemError("newton.ik solves single poses", "compare trajectories with jaxls")
    tree, starts = problem.tree, len(problem.starts)
    rows = problem.batch * starts
    with wp.ScopedDevice(problem.device):
        model = model_of(newton, tree)
        solver = ik.IKOptimizerLM(
            model,
            rows,
            objectives(ik, problem, model),
            jacobian_mode=ik.IKJacobianType.ANALYTIC,
            problem_idx=wp.array(np.repeat(np.arange(problem.batch), starts), dtype=wp.int32),
        )
        begin = wp.array(np.tile(problem.starts, (problem.batch, 1)), dtype=wp.float32)
        q = wp.clone(begin)
    costs: list[Any] = []

    def launch() -> None:
        solver.step(begin, q, iterations=problem.iterations)
        costs[:] = [solver.compute_costs(q)]

    def answer() -> np.ndarray:
        best = costs[0].numpy().reshape(problem.batch, starts).argmin(axis=1)
        return q.numpy().reshape(problem.batch, starts, -1)[np.arange(problem.batch), best]

    device = wp.get_device(problem.device)
    return PeerSolve(
        captured(launch, device), lambda: wp.synchronize_device(device), answer, "device, captured graph, best start chosen on the host"
    )


def model_of(newton: Any, tree: TreeModel) -> Any:
    """Return Newton's model of a robot, body by body and joint by joint."""
    builder = newton.ModelBuilder()
    bodies, joints = [], []
    for index, name in enumerate(tree.body_names):
        bodies.append(builder.add_link(label=name, mass=float(tree.mass[index]), inertia=wp.mat33(*tree.inertia[index].ravel())))
        parent = -1 if tree.parents[index] < 0 else bodies[tree.parents[index]]
        place = wp.transform(wp.vec3(*tree.translation[index]), wp.quat(*quaternion(tree.rotation[index])))
        if tree.joint_types[index] == "free":
            joints.append(builder.add_joint_free(parent=parent, child=bodies[-1]))
            continue
        add = builder.add_joint_prismatic if tree.joint_types[index] == "prismatic" else builder.add_joint_revolute
        dof = tree.dof_start[index]
        limits = {"limit_lower": float(max(tree.lower[dof], -1e6)), "limit_upper": float(min(tree.upper[dof], 1e6))}
        joints.append(add(parent=parent, child=bodies[-1], parent_xform=place, axis=wp.vec3(*tree.axis[index]), **limits))
    builder.add_articulation(joints)
    return builder.finalize()


def objectives(ik: Any, problem: PeerProblem, model: Any) -> list[Any]:
    """Return Newton's objectives; its weights multiply residuals, ours their squares."""
    tree, weights = problem.tree, IkWeights()
    rotations = body_rotations(tree, problem.targets.rotation)
    found = []
    for index, body in enumerate(tree.effector_bodies):
        position = wp.array(problem.targets.position[:, index], dtype=wp.vec3)
        offset = wp.vec3(*tree.effector_translation[index])
        found.append(ik.IKObjectivePosition(body, offset, position, weight=float(np.sqrt(weights.position))))
        rotation = wp.array(rotations[:, index], dtype=wp.vec4)
        found.append(ik.IKObjectiveRotation(body, wp.quat_identity(), rotation, weight=float(np.sqrt(weights.rotation))))
    found.append(ik.IKObjectiveJointLimit(model.joint_limit_lower, model.joint_limit_upper, weight=float(np.sqrt(weights.limit))))
    return found
