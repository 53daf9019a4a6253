"""The force sphere: rows, convergence to a constant force, reset."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from branch_mpc.mpc.hypotheses import ForceSphere, fibonacci_sphere
from branch_mpc.mpc.settings import HypothesisSettings


@given(st.integers(1, 64))
def test_sphere_points_have_unit_length(count):
    """Every direction is a unit vector."""
    assert np.allclose(np.linalg.norm(fibonacci_sphere(count), axis=1), 1.0)


def test_sphere_is_centred():
    """The directions do not prefer a side: their mean is near zero."""
    assert np.linalg.norm(fibonacci_sphere(30).mean(axis=0)) < 0.05


@pytest.mark.parametrize("batch", [1, 2, 3, 8])
def test_first_rows_are_the_estimate_and_nothing(batch):
    """Row 0 is the estimate, row 1 the empty hypothesis, the rest lie on the sphere around the estimate."""
    sphere = ForceSphere(batch, HypothesisSettings(radius=4.0))
    sphere.estimate = np.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0])
    rows = sphere.propose()
    assert rows.shape == (batch, 6)
    assert np.array_equal(rows[0], sphere.estimate)
    assert not rows[1:2].any()
    assert np.allclose(np.linalg.norm(rows[2:, :3] - sphere.estimate[:3], axis=1), 4.0)


@pytest.mark.parametrize("force", [(0.0, 0.0, -50.0), (30.0, -40.0, 0.0), (0.0, 0.0, -80.0)])
def test_estimate_reaches_a_constant_force(force):
    """When the nearest row wins each tick, the estimate is within 2 N of a force of any size in 40 ticks and stays there."""
    sphere = ForceSphere(8, HypothesisSettings())
    misses = []
    for _ in range(80):
        rows = sphere.propose()
        sphere.update(int(np.argmin(np.linalg.norm(rows[:, :3] - force, axis=1))))
        misses.append(np.linalg.norm(sphere.estimate[:3] - force))
    assert max(misses[40:]) < 2.0


def test_estimate_fades_when_nothing_explains_the_motion_best():
    """The empty hypothesis halves the estimate on each win."""
    sphere = ForceSphere(8, HypothesisSettings())
    sphere.estimate = np.array([8.0, 0, 0, 0, 0, 0])
    sphere.propose()
    sphere.update(1)
    assert sphere.estimate[0] == 4.0


def test_reset_repeats_the_random_stream():
    """After a reset the same wins give the same rows, bit for bit."""
    sphere = ForceSphere(8, HypothesisSettings(seed=5))
    first = [sphere.propose().copy() for _ in range(3)]
    sphere.update(3)
    sphere.reset()
    assert all(np.array_equal(a, sphere.propose()) for a in first)


def test_one_row_never_estimates():
    """A batch of one plans without a disturbance whatever is reported."""
    sphere = ForceSphere(1, HypothesisSettings())
    sphere.propose()
    sphere.update(0)
    assert not sphere.propose().any()
