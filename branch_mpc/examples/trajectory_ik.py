"""Inverse kinematics of whole trajectories: `python -m branch_mpc.examples.trajectory_ik`.

The configurations of T frames follow effector targets under smoothness, joint limits and a posture, all at once. The same
problem under another elimination order and another schedule is the same call with other names.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
import warp as wp

from branch_mpc.errors import ProblemError
from branch_mpc.examples.choices import CHRONOLOGICAL_SERIAL, PLANS, SCHEDULES, Choice
from branch_mpc.examples.inverse_kinematics import add_effector_terms, add_joint_terms
from branch_mpc.examples.levenberg_marquardt import TRAJECTORY_SEARCH, Poses, Search, SearchSettings, sample_configurations
from branch_mpc.examples.residuals import smooth
from branch_mpc.examples.targets import EffectorPoses, body_rotations, effector_poses
from branch_mpc.robot.tree_library import load_tree, tree_names
from branch_mpc.robot.tree_model import TreeModel
from branch_mpc.settings import param


@dataclass(frozen=True)
class TrajectoryWeights:
    """Weights of the squared residuals."""

    position: float = param(8.0, doc="distance of an effector", unit="1/m^2", low=0.0, high=1e6)
    rotation: float = param(0.8, doc="angle of an effector", unit="1/rad^2", low=0.0, high=1e6)
    smooth: float = param(1e-6, doc="joint velocity between frames", unit="s^2/rad^2", low=0.0, high=1e6)
    limit: float = param(10.0, doc="joint out of its limits", unit="1/rad^2", low=0.0, high=1e6)
    posture: float = param(1e-4, doc="joint away from its nominal position", unit="1/rad^2", low=0.0, high=1e6)
    rate: float = param(30.0, doc="frames a second", unit="Hz", low=0.1, high=1e4)


class TrajectoryIk:
    """A compiled solver of `instances` trajectories of `frames` frames.

    Attributes:
        search: The search; `search.accepted` is the result, (instances, frames, coordinates).
    """

    def __init__(
        self,
        tree: TreeModel,
        instances: int,
        frames: int,
        *,
        choice: Choice = CHRONOLOGICAL_SERIAL,
        device: str = "cpu",
        weights: TrajectoryWeights = TrajectoryWeights(),
        settings: SearchSettings = TRAJECTORY_SEARCH,
    ) -> None:
        self.tree, self.instances, self.frames = tree, instances, frames
        poses, self._position, self._rotation = trajectory_problem(tree, instances, frames, device, weights)
        self.search = Search(poses, choice, settings)

    def set_targets(self, targets: EffectorPoses) -> None:
        """Take over targets, shape (instances, frames, effectors, ...) or broadcast to it.

        Raises:
            ProblemError: Targets of another shape, or that are not finite.
        """
        lead = (self.instances, self.frames, len(self.tree.effector_names))
        rotation = body_rotations(self.tree, targets.rotation)
        for array, value, width in ((self._position, targets.position, 3), (self._rotation, rotation, 4)):
            if not np.isfinite(value).all():
                raise ProblemError("targets hold a number that is not finite", "give targets that are numbers")
            try:
                array.assign(np.ascontiguousarray(np.broadcast_to(value, (*lead, width)), dtype=np.float32))
            except ValueError as error:
                raise ProblemError(f"targets have shape {value.shape}, expected {(*lead, width)}", "give each frame a target") from error

    def solve(self, start: np.ndarray | None = None) -> np.ndarray:
        """Solve for the targets and return configurations [rad | m], shape (instances, frames, coordinates).

        Args:
            start: Where to start, shape (instances, frames, coordinates) or broadcast to it; default the last start, at first
                the nominal configuration.
        """
        self.search.run(start)
        return self.search.accepted.numpy().astype(float)


def trajectory_problem(
    tree: TreeModel, instances: int, frames: int, device: str, weights: TrajectoryWeights
) -> tuple[Poses, wp.array, wp.array]:
    """Return the problem of trajectories and its targets; compiles nothing.

    Args:
        tree: The robot.
        instances: Trajectories.
        frames: Frames of each.
        device: Where the arrays live.
        weights: Weights of the residuals; zero leaves a term out.

    Returns:
        The configurations with their Branch problem, the targets of the effectors [m], (instances, frames, effectors) vec3f,
        and the target rotations of the effectors' bodies, quatf; both are read by reference.

    Raises:
        ProblemError: The robot has no effector, or there are less than two frames.
    """
    if frames < 2:
        raise ProblemError(f"a trajectory of {frames} frames", "give at least 2; a single pose is InverseKinematics")
    poses = Poses(tree, instances, frames, device)
    targets = add_effector_terms(poses, weights.position, weights.rotation)
    add_joint_terms(poses, weights.limit, weights.posture, rest_numbers(tree))
    u = poses.u
    if weights.smooth > 0.0:
        poses.problem.add(smooth, a=u.dofs[:, :-1], b=u.dofs[:, 1:], inv_dt=weights.rate, weight=weights.smooth)
    return poses, *targets


def rest_numbers(tree: TreeModel) -> np.ndarray:
    """Return the nominal configuration in tangent coordinates, shape (dof,): zero turn and the position of a free base."""
    numbers = np.zeros(tree.dof)
    for body, kind in enumerate(tree.joint_types):
        i, j, count = tree.coordinate_start[body], tree.dof_start[body], 3 if kind == "free" else 1
        numbers[j : j + count] = tree.nominal[i : i + count]
    return numbers


def smooth_targets(tree: TreeModel, instances: int, frames: int, *, spread: float = 0.3, seed: int = 1) -> EffectorPoses:
    """Return effector paths that the robot can follow: those of configurations that go from one to another and back."""
    rng = np.random.default_rng(seed)
    ends = sample_configurations(tree, 2 * instances, rng, spread).reshape(2, instances, 1, tree.coordinates)
    phase = 0.5 - 0.5 * np.cos(np.linspace(0.0, 2.0 * np.pi, frames))[:, None]
    path = ends[0] + phase * (ends[1] - ends[0])
    for body, kind in enumerate(tree.joint_types):
        if kind == "free":
            i = tree.coordinate_start[body]
            path[..., i + 3 : i + 7] /= np.linalg.norm(path[..., i + 3 : i + 7], axis=-1, keepdims=True)
    return effector_poses(tree, path)


def main(arguments: list[str] | None = None) -> int:
    """Solve a trajectory and print how well it follows."""
    parser = argparse.ArgumentParser(prog="branch_mpc.examples.trajectory_ik", description=__doc__.split("\n\n")[0])
    parser.add_argument("--robot", default="iiwa14", help=f"{', '.join(tree_names())}, or a file (default iiwa14)")
    parser.add_argument("--batch", type=int, default=1, help="trajectories (default 1)")
    parser.add_argument("--frames", type=int, default=32, help="frames (default 32)")
    parser.add_argument("--plan", choices=PLANS, default="chronological")
    parser.add_argument("--schedule", choices=SCHEDULES, default="serial")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    tree = load_tree(options.robot)
    choice = Choice(options.plan, options.schedule)
    solver = TrajectoryIk(tree, options.batch, options.frames, choice=choice, device=options.device)
    print(solver.search.planned.plan.report(), solver.search.planned.schedule.report(), sep="\n")
    targets = smooth_targets(tree, options.batch, options.frames)
    solver.set_targets(targets)
    solver.solve()
    begun = time.perf_counter()
    path = solver.solve()
    elapsed = time.perf_counter() - begun
    distance, angle = effector_poses(tree, path).error(targets)
    print(
        f"{tree.name}: largest distance from the targets {1e3 * distance.max():.3g} mm, {angle.max():.2g} rad, "
        f"{1e3 * elapsed:.3g} ms for {solver.search.settings.iterations} iterations"
    )
    return 0 if np.isfinite(path).all() else 1


if __name__ == "__main__":
    sys.exit(main())
