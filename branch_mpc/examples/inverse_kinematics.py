"""Batched inverse kinematics of single poses, several starts a problem: `python -m branch_mpc.examples.inverse_kinematics`.

Position, rotation and joint-limit residuals of all effectors; every start is an instance of one Branch problem.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
import warp as wp

from branch_mpc.errors import ProblemError
from branch_mpc.examples import kernels
from branch_mpc.examples.choices import PLANS, SCHEDULES, TREE_SERIAL, Choice
from branch_mpc.examples.levenberg_marquardt import POSE_SEARCH, Poses, Search, SearchSettings, captured, sample_configurations
from branch_mpc.examples.residuals import follow, keep, limit, posture, reach, turn
from branch_mpc.examples.targets import EffectorPoses, body_rotations, effector_poses
from branch_mpc.robot.tree_library import load_tree, tree_names
from branch_mpc.robot.tree_model import TreeModel
from branch_mpc.settings import param

FAR = 1e6
"""Stands for a limit that is not there [rad | m]."""


@dataclass(frozen=True)
class IkWeights:
    """Weights of the squared residuals."""

    position: float = param(1.0, doc="distance of an effector", unit="1/m^2", low=0.0, high=1e6)
    rotation: float = param(0.1, doc="angle of an effector", unit="1/rad^2", low=0.0, high=1e6)
    limit: float = param(10.0, doc="joint out of its limits", unit="1/rad^2", low=0.0, high=1e6)


class InverseKinematics:
    """A compiled solver of `problems` poses with `starts` starts each.

    Attributes:
        search: The search over problems * starts instances.
        chosen: Best configuration of every problem, (problems, coordinates) float32.
        start: Index of the start it came from, (problems,).
    """

    def __init__(
        self,
        tree: TreeModel,
        problems: int,
        *,
        starts: int = 1,
        choice: Choice = TREE_SERIAL,
        device: str = "cpu",
        weights: IkWeights = IkWeights(),
        settings: SearchSettings = POSE_SEARCH,
        seed: int = 0,
    ) -> None:
        self.tree, self.problems, self.starts = tree, problems, starts
        poses, self._position, self._rotation = pose_problem(tree, problems * starts, device, weights)
        with wp.ScopedDevice(poses.device):
            self.chosen = wp.zeros((problems, tree.coordinates), dtype=wp.float32)
            self.start = wp.zeros(problems, dtype=wp.int32)
        self.search = Search(poses, choice, settings)
        self.set_starts(start_configurations(tree, starts, seed))

    def set_starts(self, starts: np.ndarray) -> None:
        """Start every problem from these configurations, (starts, coordinates) or (problems, starts, coordinates)."""
        shape = (self.problems, self.starts, self.tree.coordinates)
        values = np.ascontiguousarray(np.broadcast_to(starts, shape), dtype=np.float32)
        self.search.start.assign(values.reshape(tuple(self.search.start.shape)))

    def set_targets(self, targets: EffectorPoses) -> None:
        """Take over targets, shape (problems, effectors, ...).

        Raises:
            ProblemError: Targets of another shape, or that are not finite.
        """
        count = len(self.tree.effector_names)
        for label, value, width in (("positions", targets.position, 3), ("rotations", targets.rotation, 4)):
            if value.shape != (self.problems, count, width):
                wanted = (self.problems, count, width)
                raise ProblemError(f"target {label} have shape {value.shape}, expected {wanted}", "give each effector of each problem one")
            if not np.isfinite(value).all():
                raise ProblemError(f"target {label} hold a number that is not finite", "give targets that are numbers")
        rotation = body_rotations(self.tree, targets.rotation)
        for array, value in ((self._position, targets.position), (self._rotation, rotation)):
            array.assign(np.repeat(value, self.starts, axis=0)[:, None].astype(np.float32))

    def launch(self) -> None:
        """All launches of a solve: may be captured."""
        self.search.launch()
        inputs = [self.search.accepted, self.search.cost, self.starts, self.chosen, self.start]
        wp.launch(kernels.best_start, self.problems, inputs, device=self.search.poses.device)

    def solve(self) -> np.ndarray:
        """Solve for the targets and return the best configurations [rad | m], shape (problems, coordinates)."""
        if not hasattr(self, "_replay"):
            self._replay = captured(self.launch, self.search.poses.device)
        self._replay()
        return self.chosen.numpy().astype(float)


def pose_problem(tree: TreeModel, instances: int, device: str, weights: IkWeights) -> tuple[Poses, wp.array, wp.array]:
    """Return the problem of single poses and its targets; compiles nothing.

    Args:
        tree: The robot.
        instances: Problems times starts.
        device: Where the arrays live.
        weights: Weights of the residuals; zero leaves a term out.

    Returns:
        The configurations with their Branch problem, the targets of the effectors [m], (instances, 1, effectors) vec3f, and
        the target rotations of the effectors' bodies, (instances, 1, effectors) quatf; both are read by reference.

    Raises:
        ProblemError: The robot has no effector.
    """
    poses = Poses(tree, instances, 1, device)
    targets = add_effector_terms(poses, weights.position, weights.rotation)
    add_joint_terms(poses, weights.limit)
    return poses, *targets


def add_effector_terms(poses: Poses, position_weight: float, rotation_weight: float) -> tuple[wp.array, wp.array]:
    """Add position and rotation residuals of all effectors; a weight of zero leaves its term out.

    Args:
        poses: The configurations.
        position_weight: Weight of the squared distance [1/m^2].
        rotation_weight: Weight of the squared angle [1/rad^2].

    Returns:
        Targets of the effectors [m], (instances, frames, effectors) vec3f, and target rotations of their bodies, quatf.

    Raises:
        ProblemError: The robot has no effector.
    """
    tree = poses.tree
    if not tree.effector_names:
        raise ProblemError(f"robot '{tree.name}' has no effector", "name the frames that it should reach with")
    lead = (poses.instances, poses.frames, len(tree.effector_names))
    with wp.ScopedDevice(poses.device):
        position, rotation = wp.zeros(lead, dtype=wp.vec3f), wp.zeros(lead, dtype=wp.quatf)
    bodies = poses.x[[tree.body_names[body] for body in tree.effector_bodies]]
    points = tree.effector_translation.astype(np.float32)
    if position_weight > 0.0 and rotation_weight > 0.0:
        both = {"target": position, "rotation": rotation, "point": points, "emphasis": float(np.sqrt(rotation_weight / position_weight))}
        poses.problem.add(follow, body=bodies, weight=position_weight, **both)
    elif position_weight > 0.0:
        poses.problem.add(reach, body=bodies, target=position, point=points, weight=position_weight)
    elif rotation_weight > 0.0:
        poses.problem.add(turn, body=bodies, target=rotation, weight=rotation_weight)
    return position, rotation


def add_joint_terms(poses: Poses, limit_weight: float, posture_weight: float = 0.0, rest: np.ndarray | None = None) -> None:
    """Add the residuals of joint limits and of a posture; a weight of zero leaves its term out.

    Args:
        poses: The configurations.
        limit_weight: Weight of the squared excess over a limit [1/rad^2].
        posture_weight: Weight of the squared distance from `rest` [1/rad^2].
        rest: Rest positions in tangent coordinates [rad | m], shape (dof,); default zero.
    """
    lower, upper = (np.clip(bound, -FAR, FAR).astype(np.float32) for bound in (poses.tree.lower, poses.tree.upper))
    goal = np.zeros(poses.tree.dof, dtype=np.float32) if rest is None else rest.astype(np.float32)
    add, dofs = poses.problem.add, poses.u.dofs
    if limit_weight > 0.0 and posture_weight > 0.0:
        emphasis = float(np.sqrt(posture_weight / limit_weight))
        add(keep, d=dofs, lo=lower, hi=upper, rest=goal, emphasis=emphasis, weight=limit_weight)
    elif limit_weight > 0.0:
        add(limit, d=dofs, lo=lower, hi=upper, weight=limit_weight)
    elif posture_weight > 0.0:
        add(posture, d=dofs, rest=goal, weight=posture_weight)


def start_configurations(tree: TreeModel, starts: int, seed: int = 0) -> np.ndarray:
    """Return the nominal configuration and starts - 1 more within the limits, shape (starts, coordinates)."""
    others = sample_configurations(tree, starts, np.random.default_rng(seed))
    others[0] = tree.nominal
    return others


def reachable(tree: TreeModel, problems: int, *, spread: float = 0.5, seed: int = 1) -> EffectorPoses:
    """Return targets that configurations around the nominal one reach, shape (problems, effectors, ...)."""
    return effector_poses(tree, sample_configurations(tree, problems, np.random.default_rng(seed), spread))


def main(arguments: list[str] | None = None) -> int:
    """Solve a batch of reachable poses and print how well."""
    parser = argparse.ArgumentParser(prog="branch_mpc.examples.inverse_kinematics", description=__doc__.split("\n\n")[0])
    parser.add_argument("--robot", default="iiwa14", help=f"{', '.join(tree_names())}, or a file (default iiwa14)")
    parser.add_argument("--batch", type=int, default=64, help="problems (default 64)")
    parser.add_argument("--starts", type=int, default=8, help="starts a problem (default 8)")
    parser.add_argument("--plan", choices=PLANS[:2], default="tree")
    parser.add_argument("--schedule", choices=SCHEDULES, default="serial")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    tree = load_tree(options.robot)
    choice = Choice(options.plan, options.schedule)
    solver = InverseKinematics(tree, options.batch, starts=options.starts, choice=choice, device=options.device)
    print(solver.search.planned.plan.report(), solver.search.planned.schedule.report(), sep="\n")
    targets = reachable(tree, options.batch)
    solver.set_targets(targets)
    solver.solve()
    begun = time.perf_counter()
    q = solver.solve()
    elapsed = time.perf_counter() - begun
    distance, angle = effector_poses(tree, q).error(targets)
    solved = (distance < 1e-3) & (angle < 1e-2)
    print(
        f"{tree.name}: {solved.sum()} of {len(solved)} poses within 1 mm and 0.01 rad, median {1e3 * np.median(distance):.2g} mm, "
        f"{1e3 * elapsed:.3g} ms for all, {options.starts} starts each, {solver.search.settings.iterations} iterations"
    )
    return 0 if solved.any() else 1


if __name__ == "__main__":
    sys.exit(main())
