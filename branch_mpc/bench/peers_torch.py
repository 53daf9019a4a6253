"""Damped least squares of pytorch_kinematics (PyPI: pytorch-kinematics) on our problems."""

from typing import Any

import numpy as np

from branch_mpc.bench.peers_problem import PeerProblem, PeerSolve, arm_only, urdf_of
from branch_mpc.errors import ProblemError


def prepare(problem: PeerProblem) -> PeerSolve:
    """Return its pseudo-inverse solver with all iterations, early stopping off.

    Raises:
        ProblemError: A robot with several effectors or a free base, or trajectories.
        ImportError: pytorch_kinematics is not installed.
    """
    import pytorch_kinematics as kinematics
    import torch

    arm_only(problem, "pytorch_kinematics")
    if problem.frames > 1:
        raise ProblemError("pytorch_kinematics solves single poses", "compare trajectories with jaxls")
    tree = problem.tree
    device = "cuda" if problem.device.startswith("cuda") else "cpu"
    chain = kinematics.build_serial_chain_from_urdf(urdf_of(tree).encode(), tree.effector_names[0])
    chain = chain.to(dtype=torch.float32, device=device)
    columns = [tree.body_names.index(name) for name in chain.get_joint_parameter_names()]
    solver = kinematics.PseudoInverseIK(
        chain,
        pos_tolerance=1e-5,
        rot_tolerance=1e-4,
        retry_configs=torch.tensor(problem.starts[:, columns], dtype=torch.float32, device=device),
        max_iterations=problem.iterations,
        early_stopping_any_converged=False,
        early_stopping_no_improvement=None,
    )
    rotation = torch.tensor(problem.targets.rotation[:, 0][:, [3, 0, 1, 2]], dtype=torch.float32, device=device)
    position = torch.tensor(problem.targets.position[:, 0], dtype=torch.float32, device=device)
    goal = kinematics.Transform3d(rot=rotation, pos=position, device=device)
    found: list[Any] = []

    def run() -> None:
        found[:] = [solver.solve(goal)]

    def answer() -> np.ndarray:
        solutions, errors = found[0].solutions.cpu().numpy(), found[0].err_pos.cpu().numpy()
        q = np.tile(tree.nominal, (problem.batch, 1))
        q[:, columns] = solutions[np.arange(problem.batch), errors.argmin(axis=1)]
        return q

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    return PeerSolve(run, wait, answer, "host to device, Python loop")
