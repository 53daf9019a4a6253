"""The simulated arm's brakes and its time."""

import numpy as np
import pytest
from toy_arm import READY, ToyArm, gravity

from branch_mpc.ros.braked_arm import BrakedArm

TURN = np.array([1.0, 0.0, 0.0])


class Arm(ToyArm):
    """The toy arm with the face of SimulatedArm."""

    wrench = np.zeros(6)
    held = np.zeros(3)
    position = property(lambda self: self.q)
    velocity = property(lambda self: self.v)

    def apply(self, torque):
        """Hold a torque."""
        self.held = torque

    def advance(self, duration):
        """Move on."""
        super().advance(self.held, duration)


def braked(**changes):
    """Return a braked toy arm."""
    return BrakedArm(Arm, READY, changes.get("timeout", 0.1), changes.get("push", np.zeros(6)), changes.get("push_at", 0.0))


def test_stands_still_before_the_first_command():
    """Before the first command the arm does not fall, however long that takes."""
    arm = braked()
    arm.advance(100.0)
    np.testing.assert_array_equal(arm.position, READY)
    assert arm.braked and not arm.velocity.any() and arm.time == 100.0


def test_moves_from_the_arrival_of_a_command_on():
    """A torque acts from the time of its arrival, not from the next publication."""
    arm = braked()
    arm.command(gravity(READY) + TURN, 0.003)
    arm.advance(0.013)
    other = Arm(READY)
    other.apply(gravity(READY) + TURN)
    other.advance(0.010)
    np.testing.assert_allclose(arm.position, other.q, atol=1e-15)


def test_brakes_close_when_commands_stop():
    """After the timeout the arm stands where it has got to, and the next command starts from rest."""
    arm = braked()
    arm.command(gravity(READY) + 5.0 * TURN, 0.0)
    arm.advance(0.05)
    assert arm.velocity[0] > 0.1
    arm.advance(0.5)
    place = arm.position
    assert arm.braked and not arm.velocity.any() and not arm.torque.any()
    arm.advance(3.0)
    np.testing.assert_array_equal(arm.position, place)
    arm.command(gravity(place), 3.0)
    arm.advance(3.05)
    # A rad/s of leftover speed would show; gravity changes by 1e-16 over the motion.
    np.testing.assert_allclose(arm.velocity, 0.0, atol=1e-9)


@pytest.mark.parametrize("torque", [np.full(3, np.nan), np.zeros(2), np.zeros(0)])
def test_bad_commands_change_nothing(torque):
    """A command of the wrong length or with NaN is counted; the brakes stay closed."""
    arm = braked()
    assert not arm.command(torque, 0.5)
    assert arm.rejected == 1 and arm.braked


def test_the_push_begins_after_the_first_command():
    """The push is counted from the first command on."""
    push = np.array([0.0, 0.0, -50.0, 0.0, 0.0, 0.0])
    arm = braked(push=push, push_at=0.02)
    arm.advance(5.0)
    seen = []
    for step in range(5):
        arm.command(gravity(READY), 5.0 + 0.01 * step)
        arm.advance(5.0 + 0.01 * step + 0.005)
        seen.append(bool(np.any(arm._arm.wrench)))
    assert seen == [False, False, True, True, True]
