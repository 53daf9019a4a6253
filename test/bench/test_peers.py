"""Comparison with other libraries: what is handed over is our problem, and a peer that is missing is a row that says so."""

import sys

import numpy as np
import pytest

from branch_mpc.bench import peers
from branch_mpc.bench.peers_problem import PeerProblem, PeerSolve, arm_only, urdf_of
from branch_mpc.errors import ProblemError
from branch_mpc.examples.choices import Choice
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_library import load_tree


def _problem(batch: int = 3) -> PeerProblem:
    return peers.problem_of(load_tree("indy7"), batch, 1, 2, 24, "cpu")


@pytest.mark.parametrize("seed", range(4))
def test_urdf_text_is_the_same_robot(seed: int) -> None:
    """Pinocchio, reading the URDF text that peers get, puts every effector where our kinematics puts it."""
    import pinocchio as pin

    rng = np.random.default_rng(seed)
    tree = twin.random_tree(rng, 7)
    q = twin.random_configuration(tree, rng)
    model = pin.buildModelFromXML(urdf_of(tree))
    data, numbers = model.createData(), pin.neutral(model)
    for body, name in enumerate(tree.body_names):
        joint = model.joints[model.getJointId(name)]
        numbers[joint.idx_q : joint.idx_q + joint.nq] = [q[body]] if joint.nq == 1 else [np.cos(q[body]), np.sin(q[body])]
    pin.framesForwardKinematics(model, data, numbers)
    for effector, name in enumerate(tree.effector_names):
        rotation, position = twin.effector_pose(tree, q, effector)
        frame = data.oMf[model.getFrameId(name)]
        # Roll, pitch, yaw and back, in float64; near a quarter turn of pitch the angles lose half of the digits.
        assert np.abs(frame.translation - position).max() < 1e-7 and np.abs(frame.rotation - rotation).max() < 1e-7


@pytest.mark.parametrize("name", list(peers.PEERS))
def test_missing_peers_are_rows_with_a_reason(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer whose package is not installed is reported with the error of its import, and passes nothing."""
    for package in ("newton", "newton.ik", "jax", "pyroki", "pytorch_kinematics"):
        monkeypatch.setitem(sys.modules, package, None)
    found = peers.row_of(name, _problem(), peers.PEERS[name], budget=0.01)
    assert found["missing"].startswith(("ImportError", "ModuleNotFoundError")) and not found["passed"] and found["us"] is None
    assert "not measured" in peers.line_of(found)


def test_peers_that_miss_the_targets_fail_the_gate() -> None:
    """A peer that returns its start is timed, and does not pass."""
    problem = _problem()
    q = np.repeat(problem.starts[:1], problem.batch, axis=0)
    idle = PeerSolve(lambda: None, lambda: None, lambda: q, "nowhere")
    found = peers.row_of("idle", problem, lambda problem: idle, budget=0.01)
    assert found["missing"] is None and found["solved"] == 0.0 and not found["passed"] and "FAILED" in peers.line_of(found)


def test_peers_that_know_arms_only_say_so() -> None:
    """A robot with a free base or several effectors is refused by name, not solved as something else."""
    tree = twin.random_tree(np.random.default_rng(0), 4, free=True)
    with pytest.raises(ProblemError, match="choose an arm"):
        arm_only(peers.problem_of(tree, 1, 1, 1, 4, "cpu"), "somebody")


@pytest.mark.parametrize("frames", [1, 6])
def test_ours_pass_their_own_gate(frames: int) -> None:
    """Our row is measured through the same door as the peers': time, accuracy, boundary."""
    problem = peers.problem_of(load_tree("indy7"), 2, frames, 12, 24, "cpu")
    found = peers.row_of("ours", problem, peers.ours(Choice("dense", "serial") if frames == 1 else Choice("chronological", "serial")), 0.01)
    assert found["missing"] is None and found["passed"] and found["us"] > 0.0 and found["distance_worst"] < peers.GATE
