"""Trajectory inverse kinematics through the library: one problem under every elimination order."""

import numpy as np
import pytest

from branch_mpc.errors import ProblemError
from branch_mpc.examples.choices import Choice
from branch_mpc.examples.levenberg_marquardt import SearchSettings
from branch_mpc.examples.targets import EffectorPoses, effector_poses
from branch_mpc.examples.trajectory_ik import TrajectoryIk, TrajectoryWeights, main, smooth_targets
from branch_mpc.oracle import pose_search
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_library import load_tree
from branch_mpc.robot.tree_model import TreeModel

FRAMES = 6


def _targets(targets: EffectorPoses, weights: TrajectoryWeights) -> pose_search.PoseTargets:
    rotation = np.array([[twin.rotation_of_quaternion(q) for q in frame] for frame in targets.rotation[0]])
    values = (weights.position, weights.rotation, weights.limit, weights.smooth, weights.posture, weights.rate)
    return pose_search.PoseTargets(targets.position[0], rotation, *values)


def _twin(tree: TreeModel, targets: EffectorPoses, weights: TrajectoryWeights, iterations: int) -> np.ndarray:
    start = np.repeat(tree.nominal[None], FRAMES, axis=0)
    return pose_search.search(tree, start, _targets(targets, weights), iterations=iterations)[0]


def _cost(tree: TreeModel, path: np.ndarray, targets: EffectorPoses, weights: TrajectoryWeights) -> float:
    residual = pose_search.least_squares(tree, path, _targets(targets, weights))[0]
    return 0.5 * float(residual @ residual)


@pytest.mark.parametrize("plan", ["chronological", "cyclic", "dense", "tree"])
def test_every_order_finds_the_trajectory_of_the_twin(plan: str) -> None:
    """Every elimination order ends at the float64 optimum: the order changes the work, not the answer."""
    tree, weights = load_tree("indy7"), TrajectoryWeights(smooth=1e-5)
    targets = smooth_targets(tree, 1, FRAMES)
    solver = TrajectoryIk(tree, 1, FRAMES, choice=Choice(plan, "serial"), weights=weights)
    solver.set_targets(targets)
    path = solver.solve()
    # The optimum is flat along the posture (weight 1e-4): float32 resolves joints to 1e-3 rad, effectors to 1e-4 m.
    assert np.abs(path[0] - _twin(tree, targets, weights, 32)).max() < 2e-3
    assert effector_poses(tree, path).error(EffectorPoses(targets.position, targets.rotation))[0].max() < 5e-3


@pytest.mark.parametrize(
    "weights",
    [
        TrajectoryWeights(posture=0.0, smooth=1e-5),
        TrajectoryWeights(limit=0.0, smooth=1e-5),
        TrajectoryWeights(rotation=0.0, smooth=1e-5, posture=1e-2),
        TrajectoryWeights(position=0.0, smooth=0.0),
    ],
    ids=["no posture", "no limit", "no rotation", "no position, no smoothness"],
)
def test_terms_can_be_left_out(weights: TrajectoryWeights) -> None:
    """A weight of zero leaves its term out, and what is left is minimised as by the twin."""
    tree = load_tree("indy7")
    targets = smooth_targets(tree, 1, FRAMES, spread=0.2)
    solver = TrajectoryIk(tree, 1, FRAMES, weights=weights)
    solver.set_targets(targets)
    solver.solve()
    cost = _cost(tree, _twin(tree, targets, weights, 32), targets, weights)
    # The float32 cost of the same optimum; terms of order 1e-3 cancel to about 1e-7.
    assert float(solver.search.cost.numpy()[0]) == pytest.approx(cost, rel=1e-2, abs=1e-6)


def test_smoothness_slows_the_joints() -> None:
    """A heavier weight on velocity gives a slower path, and none of it gives the path of single poses."""
    tree = load_tree("iiwa14")
    targets = smooth_targets(tree, 1, FRAMES)
    speeds = []
    for smooth in (1e-6, 1e-2):
        solver = TrajectoryIk(tree, 1, FRAMES, weights=TrajectoryWeights(smooth=smooth))
        solver.set_targets(targets)
        speeds.append(np.abs(np.diff(solver.solve()[0], axis=0)).max())
    assert speeds[1] < 0.8 * speeds[0]


def test_instances_do_not_touch_each_other() -> None:
    """A trajectory in a batch is the trajectory alone, bit by bit."""
    tree, targets = load_tree("indy7"), smooth_targets(load_tree("indy7"), 3, FRAMES)
    together, alone = (TrajectoryIk(tree, count, FRAMES, settings=SearchSettings(iterations=4)) for count in (3, 1))
    together.set_targets(targets)
    paths = together.solve()
    alone.set_targets(EffectorPoses(targets.position[2:], targets.rotation[2:]))
    assert np.array_equal(alone.solve()[0], paths[2])


def test_wrong_trajectories_are_refused() -> None:
    """One frame, targets of another shape and targets that are not numbers are refused with a remedy."""
    tree = load_tree("indy7")
    with pytest.raises(ProblemError, match="InverseKinematics"):
        TrajectoryIk(tree, 1, 1)
    solver, good = TrajectoryIk(tree, 1, FRAMES), smooth_targets(tree, 1, FRAMES)
    with pytest.raises(ProblemError, match="expected"):
        solver.set_targets(smooth_targets(tree, 1, FRAMES + 1))
    with pytest.raises(ProblemError, match="not"):
        solver.set_targets(EffectorPoses(good.position * np.inf, good.rotation))


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The module prints plan, schedule and accuracy, and succeeds."""
    assert main(["--robot", "indy7", "--frames", str(FRAMES), "--plan", "cyclic"]) == 0
    assert "largest distance" in capsys.readouterr().out
