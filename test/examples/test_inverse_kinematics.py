"""Batched inverse kinematics through the library: accuracy, starts, limits, and what is refused."""

import numpy as np
import pytest

from branch_mpc.errors import ProblemError
from branch_mpc.examples.choices import Choice
from branch_mpc.examples.inverse_kinematics import IkWeights, InverseKinematics, main, reachable, start_configurations
from branch_mpc.examples.levenberg_marquardt import SearchSettings, sample_configurations
from branch_mpc.examples.targets import EffectorPoses, effector_poses
from branch_mpc.oracle import pose_search
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_library import load_tree
from branch_mpc.robot.tree_model import TreeModel

CHOICES = [Choice("tree", "serial"), Choice("dense", "serial"), Choice("tree", "levels")]


def _floating() -> TreeModel:
    """A robot with two branches on a free base, an effector on each."""
    rng = np.random.default_rng(11)
    while len(set((tree := twin.random_tree(rng, 6, free=True)).effector_bodies)) < 2:
        pass
    return tree


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.label)
def test_reachable_poses_are_reached(choice: Choice) -> None:
    """Every pose near the start is reached within 1 mm and 0.01 rad, inside the joint limits, whatever the plan."""
    tree = load_tree("indy7")
    solver, targets = InverseKinematics(tree, 6, choice=choice), reachable(tree, 6, spread=0.3)
    solver.set_targets(targets)
    q = solver.solve()
    distance, angle = effector_poses(tree, q).error(targets)
    assert distance.max() < 1e-3 and angle.max() < 1e-2
    # The limits are residuals of weight 10: a joint at its limit may be out of it by what the float32 cost resolves.
    assert (q > tree.lower - 1e-3).all() and (q < tree.upper + 1e-3).all()


def test_search_follows_the_float64_twin() -> None:
    """From the same start, after few iterations, configurations are those of the float64 search, on a free base with two effectors."""
    tree, settings = _floating(), SearchSettings(iterations=6)
    rng = np.random.default_rng(2)
    goals = sample_configurations(tree, 2, rng, 0.2)
    solver = InverseKinematics(tree, 2, settings=settings)
    solver.set_targets(effector_poses(tree, goals))
    q = solver.solve()
    for problem in range(2):
        poses = [twin.effector_pose(tree, goals[problem], effector) for effector in range(2)]
        position, rotation = (np.array([pose[index] for pose in poses])[None] for index in (1, 0))
        targets = pose_search.PoseTargets(position, rotation, IkWeights().position, IkWeights().rotation, IkWeights().limit)
        expected, cost = pose_search.search(tree, tree.nominal[None], targets, iterations=6)
        # Damping 1e-5 over float32 rounding of the Hessian: null-space motion agrees to about 1e-3 of a step, effectors better.
        assert np.abs(q[problem] - expected[0]).max() < 5e-3
        assert float(solver.search.cost.numpy()[problem]) == pytest.approx(cost, abs=1e-6)


def test_best_start_wins() -> None:
    """Of several starts the one with the least cost is returned, and more starts never make a problem worse."""
    tree = load_tree("iiwa14")
    targets = reachable(tree, 4, spread=1.0, seed=5)
    one, many = (InverseKinematics(tree, 4, starts=starts) for starts in (1, 6))
    costs = []
    for solver in (one, many):
        solver.set_targets(targets)
        solver.solve()
        costs.append(solver.search.cost.numpy().reshape(4, -1))
    assert (many.start.numpy() == costs[1].argmin(axis=1)).all()
    assert np.array_equal(many.chosen.numpy(), many.search.accepted.numpy().reshape(4, 6, -1)[np.arange(4), many.start.numpy()])
    # Start 0 is the nominal configuration in both; float32 costs of the same launches are the same.
    assert (costs[1].min(axis=1) <= costs[0][:, 0] * (1 + 1e-5) + 1e-12).all()


def test_solves_are_repeatable_and_never_worse_than_the_start() -> None:
    """Two solves give the same bits, and a target out of reach still lowers the cost."""
    tree = load_tree("indy7")
    solver = InverseKinematics(tree, 2)
    far = EffectorPoses(np.array([[[3.0, 0.0, 1.0]], [[0.0, -3.0, 1.0]]]), np.array([[[0.0, 0.0, 0.0, 1.0]]] * 2))
    solver.set_targets(far)
    first, cost = solver.solve(), solver.search.cost.numpy().copy()
    assert np.array_equal(solver.solve(), first) and np.array_equal(solver.search.cost.numpy(), cost)
    start = effector_poses(tree, np.repeat(tree.nominal[None], 2, axis=0))
    assert np.isfinite(first).all() and (cost < 0.5 * start.error(far)[0] ** 2 + 0.5 * 0.1 * np.pi**2).all()
    assert (effector_poses(tree, first).error(far)[0] < start.error(far)[0]).all()


def test_wrong_targets_are_refused() -> None:
    """Targets that are not numbers or not enough are refused before anything runs."""
    solver, good = InverseKinematics(load_tree("indy7"), 2), reachable(load_tree("indy7"), 2)
    with pytest.raises(ProblemError, match="not finite"):
        solver.set_targets(EffectorPoses(good.position * np.nan, good.rotation))
    with pytest.raises(ProblemError, match="expected"):
        solver.set_targets(reachable(load_tree("indy7"), 3))
    with pytest.raises(ProblemError, match="not finite"):
        solver.search.run(np.full(6, np.inf))
    with pytest.raises(ProblemError, match="expected"):
        solver.search.run(np.zeros(5))


def test_starts_are_inside_the_limits() -> None:
    """The first start is the nominal configuration and the others keep the limits."""
    tree = load_tree("iiwa14")
    starts = start_configurations(tree, 17)
    assert np.array_equal(starts[0], tree.nominal) and (starts >= tree.lower).all() and (starts <= tree.upper).all()


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The module prints plan, schedule and accuracy, and succeeds."""
    assert main(["--robot", "indy7", "--batch", "4", "--starts", "3"]) == 0
    assert "within 1 mm" in capsys.readouterr().out
