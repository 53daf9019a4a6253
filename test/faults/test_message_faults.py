"""Faults 2 to 7 of the fault table: joint states as publishers send them."""

import itertools

import numpy as np
import pytest

from branch_mpc.ros.joint_map import JointMap

JOINTS = ("shoulder", "elbow", "wrist")


def test_fault_02_uncontrolled_joints_may_be_anything():
    """NaN in a joint that is not controlled, between the controlled ones (fingers), changes nothing."""
    sample = JointMap(JOINTS).sample(1.0, ["finger", "wrist", "shoulder", "elbow"], [np.nan, 3.0, 1.0, 2.0], [np.nan, 0.3, 0.1, 0.2])
    np.testing.assert_array_equal(sample.position, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(sample.velocity, [0.1, 0.2, 0.3])


def test_fault_03_order_may_change_between_messages():
    """T1, T2: every order of the same names gives the same bits, also when it changes from message to message."""
    values = {"shoulder": (0.1, 1.1), "elbow": (0.2, 1.2), "wrist": (0.3, 1.3), "finger": (9.0, 9.0)}
    joint_map = JointMap(JOINTS)
    for index, names in enumerate(itertools.permutations(values)):
        sample = joint_map.sample(0.01 * index, list(names), [values[name][0] for name in names], [values[name][1] for name in names])
        np.testing.assert_array_equal(sample.position, [0.1, 0.2, 0.3])
        np.testing.assert_array_equal(sample.velocity, [1.1, 1.2, 1.3])


def test_fault_04_missing_joints_are_named():
    """A message without a controlled joint gives no sample, and the joint and the names that came are told."""
    joint_map = JointMap(JOINTS)
    assert joint_map.sample(0.0, ["shoulder", "wrist"], [0.0, 0.0], []) is None
    assert "elbow" in joint_map.problem and "shoulder, wrist" in joint_map.problem
    assert joint_map.sample(0.1, list(JOINTS), [0.0] * 3, []) is not None and joint_map.problem == ""
    assert joint_map.rejections["missing joints"] == 1


def test_fault_05_duplicate_names_are_rejected():
    """A name that comes twice has no meaning, even when it is no controlled joint."""
    joint_map = JointMap(JOINTS)
    assert joint_map.sample(0.0, [*JOINTS, "elbow"], [0.0] * 4, []) is None
    assert joint_map.problem == "duplicate joints: elbow"


@pytest.mark.parametrize("velocity", [[], [np.nan] * 3, [0.0] * 3])
def test_fault_06_missing_velocities_are_estimated(velocity):
    """Without velocities, with NaN for them, or with zeros while the arm moves, the difference of positions is used."""
    joint_map, rate = JointMap(JOINTS), np.array([0.5, -0.3, 0.1])
    for step in range(20):
        sample = joint_map.sample(0.002 * step, list(JOINTS), list(0.002 * step * rate), velocity)
    # Rounding of positions of a hundredth over 5 ms.
    np.testing.assert_allclose(sample.velocity, rate, atol=1e-9)
    assert joint_map.estimated >= 15


def test_fault_06_zeros_at_rest_are_believed():
    """All-zero velocities of a resting arm with encoder noise stay zero, and are no warning."""
    joint_map = JointMap(JOINTS)
    for step in range(20):
        sample = joint_map.sample(0.002 * step, list(JOINTS), [1e-6 * (step % 2)] * 3, [0.0] * 3)
    assert not sample.velocity.any() and joint_map.estimated == 0


def test_fault_06_one_missing_velocity_leaves_the_others():
    """NaN in one joint's velocity is estimated, the measured ones are kept."""
    joint_map = JointMap(JOINTS)
    for step in range(10):
        sample = joint_map.sample(0.002 * step, list(JOINTS), [0.001 * step] * 3, [7.0, np.nan, 9.0])
    np.testing.assert_allclose(sample.velocity, [7.0, 0.5, 9.0])


def test_an_infinite_velocity_is_a_fault_and_no_gap():
    """Infinity is passed on, for the guard to reject; only NaN means 'not measured'."""
    assert np.isinf(JointMap(JOINTS).sample(0.0, list(JOINTS), [0.0] * 3, [np.inf, 0.0, 0.0]).velocity[0])


@pytest.mark.parametrize(("positions", "velocities"), [(2, 0), (4, 0), (0, 0), (3, 2), (3, 4), (3, 1)])
def test_fault_07_wrong_lengths(positions, velocities):
    """T7: arrays that do not fit the names are rejected with the lengths."""
    joint_map = JointMap(JOINTS)
    assert joint_map.sample(0.0, list(JOINTS), [0.0] * positions, [0.0] * velocities) is None
    assert joint_map.problem.startswith("wrong length") and joint_map.rejections["wrong length"] == 1


def test_the_estimate_starts_over_after_a_gap_or_a_jump_of_the_clock():
    """Positions from before a gap, or from later than now, do not make a velocity."""
    joint_map = JointMap(JOINTS)
    for time, place in ((5.0, 0.0), (5.01, 0.0), (6.0, 1.0), (1.0, 0.5)):
        sample = joint_map.sample(time, list(JOINTS), [place] * 3, [])
        assert np.isfinite(sample.velocity).all() and not sample.velocity.any()
