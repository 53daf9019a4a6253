"""Faults 31, 44 and 45 of the fault table: losing the device, and leaving while moving."""

import numpy as np
from toy_arm import PERIOD, ROBOT, Loop, gravity, make_guard, make_plan

from branch_mpc.guard import Mode


def moving_loop():
    """Return a loop in TRACKING with a moving arm."""
    push = np.array([6.0, 3.0, 0.5])
    loop = Loop(make_guard(), plan=lambda loop: make_plan(loop.now, gravity(loop.arm.q) + push, loop.epoch, loop.tick, q=loop.arm.q))
    loop.run(20)
    assert loop.guard.mode is Mode.TRACKING and (np.abs(loop.arm.v) > 0.1).all()
    return loop


def test_fault_31_device_lost():
    """A lost device latches FAULT: the arm is stopped and held from host memory alone, and only a reset ends it."""
    loop = moving_loop()
    loop.guard.fault("device lost: CUDA error 719")
    loop.run(1)
    assert loop.guard.mode is Mode.STOPPING
    loop.run(60)
    assert loop.guard.mode is Mode.FAULT and "719" in loop.command.reason and loop.command.publish
    assert (np.abs(loop.arm.v) < 0.02 * ROBOT.velocity_limit).all() and not loop.guard.wants_plan
    loop.guard.hold(False, loop.now)
    assert loop.run(5).mode is Mode.FAULT
    loop.guard.reset(loop.now)
    loop.run(4)
    assert loop.guard.mode is Mode.TRACKING and loop.epoch == 2


def test_fault_44_deactivation_while_moving_stops_first():
    """Deactivating a moving arm stops it within stop_time, and the last published torque balances gravity."""
    loop = moving_loop()
    loop.guard.deactivate(loop.now)
    began = loop.now
    published = []
    while loop.guard.mode is not Mode.INACTIVE:
        command = loop.run(1)
        published += [command] if command.publish else []
        assert loop.now - began <= loop.guard.settings.stop_time + 3 * PERIOD
    assert (np.abs(loop.arm.v) <= 0.02 * ROBOT.velocity_limit).all()
    # 1 Nm: the damping torque of the residual 1 % of speed.
    np.testing.assert_allclose(published[-1].torque, gravity(loop.arm.q), atol=1.0)


def test_fault_44_activation_after_deactivation_starts_over():
    """A second activation is as bumpless as the first and needs plans of a newer epoch."""
    loop = moving_loop()
    loop.guard.deactivate(loop.now)
    loop.run(80, until=Mode.INACTIVE)
    loop.guard.activate(loop.now)
    loop.watch.last = None
    old = make_plan(loop.now, epoch=loop.epoch, tick=loop.tick + 100)
    loop.run(5, until=Mode.HOLD)
    step = ROBOT.effort_limit * 10.0 * PERIOD
    assert (np.abs(loop.command.torque - gravity(loop.arm.q)) <= step + 1e-9).all()
    assert not loop.guard.plan(old, loop.now)


def test_deactivation_while_waiting_is_immediate():
    """Without states there is nothing to stop."""
    loop = Loop()
    loop.states = False
    loop.run(3)
    loop.guard.deactivate(loop.now)
    loop.run(1)
    assert loop.guard.mode is Mode.INACTIVE


def test_reset_while_tracking_stops_and_starts_over_cold():
    """~/reset in TRACKING stops the arm, raises the epoch, and tracks again without another request."""
    loop = moving_loop()
    loop.guard.reset(loop.now)
    assert loop.guard.mode is Mode.STOPPING
    loop.plan = lambda loop: make_plan(loop.now, gravity(loop.arm.q), loop.epoch, loop.tick, q=loop.arm.q)
    loop.run(60)
    assert loop.guard.mode is Mode.TRACKING and loop.epoch == 2
