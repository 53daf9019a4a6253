"""What a Levenberg-Marquardt search accepts."""

import numpy as np
import warp as wp

from branch_mpc.examples import kernels
from branch_mpc.examples.levenberg_marquardt import sample_configurations
from branch_mpc.oracle import tree_kinematics as twin

COSTS = np.array([0.5, 1.0, np.nan, 0.5, np.inf], dtype=np.float32)
FAILED = np.array([0, 0, 0, 1, 0], dtype=np.int32)


def test_only_finite_lower_costs_with_sound_pivots_are_accepted() -> None:
    """A step is kept when it lowers the cost; equal, not finite, or after a failed pivot it is taken back and damped more."""
    count, frames, width = len(COSTS), 2, 3
    q = wp.array(np.arange(count * frames * width, dtype=np.float32).reshape(count, frames, width))
    accepted = wp.full((count, frames, width), -1.0, dtype=wp.float32)
    candidate = q.numpy().copy()
    cost, failed = wp.array(COSTS, dtype=wp.float32), wp.array(FAILED, dtype=wp.int32)
    best, following = wp.full(count, 1.0, dtype=wp.float32), wp.zeros(count, dtype=wp.float32)
    damping, refused = wp.full(count, 2.0, dtype=wp.float32), wp.zeros(count * frames, dtype=wp.int32)
    inputs = [cost, failed, best, 0.25, 4.0, 1.0, 5.0, following, damping, accepted, q, refused]
    wp.launch(kernels.settle, (count, frames), inputs, device="cpu")
    good = np.array([True, False, False, False, False])
    assert np.array_equal(refused.numpy().reshape(count, frames), np.repeat(~good[:, None], frames, axis=1).astype(np.int32))
    assert np.array_equal(accepted.numpy()[good], candidate[good]) and (accepted.numpy()[~good] == -1.0).all()
    assert np.array_equal(q.numpy()[good], candidate[good]) and (q.numpy()[~good] == -1.0).all()
    assert np.array_equal(following.numpy(), np.where(good, COSTS, np.float32(1.0)))
    # Both factors run into their bounds here: 0.25 * 2 < 1 and 4 * 2 > 5.
    assert np.array_equal(damping.numpy(), np.where(good, np.float32(1.0), np.float32(5.0)))


def test_sampled_configurations_keep_the_limits() -> None:
    """Starts and targets of the maps are configurations that the robot can take, with unit quaternions."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        tree = twin.random_tree(rng, 8, free=True)
        q = sample_configurations(tree, 50, rng)
        joints = q[:, 7:]
        assert (joints >= tree.lower[6:] - 1e-12).all() and (joints <= tree.upper[6:] + 1e-12).all()
        # Float64 division by the norm.
        assert np.abs(np.linalg.norm(q[:, 3:7], axis=1) - 1.0).max() < 1e-14
