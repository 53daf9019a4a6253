"""The control tick: prediction, warm start, hypotheses, delay, determinism, poison."""

import dataclasses

import numpy as np
import pytest
import warp as wp

from branch_mpc.errors import SettingError
from branch_mpc.mpc.controller import PREDICTION_SUBSTEP, Controller
from branch_mpc.mpc.kernels import tick_kernels
from branch_mpc.mpc.plan import JointSample, SolveStatus
from branch_mpc.mpc.sent_commands import SEGMENTS
from branch_mpc.mpc.settings import MpcSettings, PolicySettings
from branch_mpc.optimal_control.lanes import LANES
from branch_mpc.optimal_control.reference import Approach, Hold, figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.plant import SimulatedArm
from branch_mpc.robot import load_robot, ready_configuration

ROBOT = load_robot("indy7")
Q = ready_configuration("indy7")
STEP, KNOTS = 0.01, 32
SETTINGS = MpcSettings(batch=8, device="cpu")


def sample(arm):
    """The arm's exact state as a measurement."""
    return JointSample(arm.time, arm.position.copy(), arm.velocity.copy())


def start(settings=SETTINGS, wrench=None):
    """A controller and an arm at rest in `ready`, and a reference that approaches the figure-8."""
    arm = SimulatedArm(ROBOT, Q, wrench=wrench)
    controller = Controller(ROBOT, settings)
    controller.reset(sample(arm))
    return controller, arm, Approach(arm.tool(), figure8_for("indy7"), duration=0.5)


def loop(controller, arm, reference, ticks, delay=0.0, compensate=True):
    """Closed loop for some ticks; each torque reaches the arm `delay` after its measurement. Returns errors [m] and torques."""
    errors, torques = [], []
    for _ in range(ticks):
        measured = sample(arm)
        effect = measured.time + (delay if compensate else 0.0)
        plan = controller.step(measured, effect, window(reference, effect, KNOTS, STEP))
        arm.advance(delay)
        arm.apply(plan.torque[0])
        controller.sent(effect, plan.torque[0])
        arm.advance(STEP - delay)
        errors.append(np.linalg.norm(arm.tool() - reference.position(np.array([arm.time]))[0]))
        torques.append(plan.torque[0])
    return np.array(errors), np.array(torques)


def test_holding_still_takes_the_gravity_torque():
    """At rest with the target at the tool, the first torque is the gravity torque up to 1 Nm, and the plan stays put: it may
    drift 2 mm only at the end, where nothing follows that would be paid for it."""
    controller, arm, _ = start()
    plan = controller.step(sample(arm), 0.0, window(Hold(arm.tool()), 0.0, KNOTS, STEP))
    gravity = np.array([0, -12.021389, -16.940418, 3.930005, -2.708412, 0.001660])  # published golden value
    assert plan.status is SolveStatus.SOLVED
    assert np.abs(plan.torque[0] - gravity).max() < 1.0
    assert np.abs(plan.tool[:8] - arm.tool()).max() < 1e-4
    assert np.abs(plan.tool - arm.tool()).max() < 2e-3


def test_lockstep_is_deterministic():
    """Two controllers in the same loop send the same bits."""
    torques = [loop(*start(), ticks=40)[1] for _ in range(2)]
    assert np.array_equal(*torques)


@pytest.mark.parametrize("delay", [0.002, 0.005, 0.009])
def test_replaying_sent_commands_hides_the_delay(delay):
    """With the delay compensated, tracking stays within 1.2 times the delay-free case; ignored, 5 ms and more make it worse."""
    free = loop(*start(), ticks=150)[0][60:]
    compensated = loop(*start(), ticks=150, delay=delay)[0][60:]
    ignored = loop(*start(), ticks=150, delay=delay, compensate=False)[0][60:]
    rms = [float(np.sqrt(np.mean(e**2))) for e in (free, compensated, ignored)]
    assert rms[1] < 1.2 * rms[0]
    assert delay < 0.005 or rms[2] > 1.1 * rms[1]


@pytest.mark.parametrize("lanes", [1, LANES])
def test_prediction_matches_the_simulated_arm(lanes):
    """The device's RK2 prediction under a wrench equals Pinocchio's RK4 arm, through two commands, to 2e-4 rad/s and 2e-6 rad."""
    force = np.array([5.0, -10.0, 20.0, 0.0, 0.0, 0.0])
    torques = [np.array([3.0, -10, -15, 4, -2, 0.01]), np.array([1.0, -13, -16, 3, -3, 0.0])]
    arm = SimulatedArm(ROBOT, Q, 0.2 * np.ones(6), wrench=force)
    states, durations, replay = np.zeros((2, 12)), np.zeros((2, SEGMENTS)), np.zeros((2, SEGMENTS, 6))
    states[0, :6], states[0, 6:] = arm.position, arm.velocity
    durations[:, :2], replay[:, 0], replay[:, 1] = (0.004, 0.006), *torques
    for torque, length in zip(torques, (0.004, 0.006), strict=True):
        arm.apply(torque)
        arm.advance(length)
    states[1, :6], states[1, 6:] = arm.position, arm.velocity
    for torque, length in zip(torques, (0.004, 0.006), strict=True):
        arm.apply(torque)
        arm.advance(length)
    inputs = [states, durations, replay, np.stack([force, 0 * force]), np.ones(6)]
    scores, x0 = wp.zeros(2, dtype=float, device="cpu"), wp.zeros((2, 12), dtype=float, device="cpu")
    kernels = tick_kernels(ROBOT, SEGMENTS, PREDICTION_SUBSTEP, lanes=lanes)
    arrays = [wp.array(x, dtype=float, device="cpu") for x in inputs]
    wp.launch(kernels.predict, dim=kernels.groups(2), inputs=arrays, outputs=[scores, x0], device="cpu")
    assert np.abs(x0.numpy()[0, :6] - arm.position).max() < 2e-6
    assert np.abs(x0.numpy()[0, 6:] - arm.velocity).max() < 2e-4
    assert scores.numpy()[0] < 1e-6 < 1e-2 < scores.numpy()[1]


@pytest.mark.parametrize("shift", [0.0, 0.25, 1.0, 2.5, 40.0, -1.0])
def test_warm_start_is_the_mean_of_the_previous_accelerations(shift):
    """Shifted by the elapsed time, each interval gets the mean of the previous piecewise-constant plan over it; the last repeats;
    a negative shift starts from zero."""
    best = np.random.default_rng(0).uniform(-1, 1, (7, 2))
    A = wp.full((1, 7, 2), value=9.0, dtype=float, device="cpu")
    inputs = [wp.array(best, dtype=float, device="cpu"), wp.array([shift], dtype=float, device="cpu")]
    wp.launch(tick_kernels(ROBOT, SEGMENTS, PREDICTION_SUBSTEP).warm_start, dim=1, inputs=inputs, outputs=[A], device="cpu")
    held = lambda t: best[np.minimum(np.floor(t + 1e-9).astype(int), 6)]  # noqa: E731
    fine = (np.arange(1000) + 0.5) / 1000
    expected = np.stack([held(k + shift + fine).mean(axis=0) for k in range(7)]) if shift >= 0 else np.zeros((7, 2))
    assert np.allclose(A.numpy()[0], expected, atol=2e-3)


def test_hypotheses_find_a_constant_push():
    """Under 50 N the estimate is within 5 N after half a second, and the batch tracks ten times better than one problem."""
    push = np.array([0.0, 0.0, -50.0, 0.0, 0.0, 0.0])
    batch = start(wrench=push)
    error = loop(*batch, ticks=120)[0][60:]
    alone = loop(*start(dataclasses.replace(SETTINGS, batch=1), wrench=push), ticks=120)[0][60:]
    assert np.linalg.norm(batch[0].wrench_estimate - push) < 5.0
    assert np.sqrt(np.mean(error**2)) < 0.1 * np.sqrt(np.mean(alone**2))


@pytest.mark.parametrize("poison", ["position", "velocity", "target", "start"])
def test_poison_gives_a_status_and_no_memory(poison):
    """NaN in any input gives NOT_FINITE for that tick; the next clean tick equals a freshly reset controller's bit for bit."""
    controller, arm, reference = start()
    loop(controller, arm, reference, ticks=3)
    good, targets, when = sample(arm), window(reference, arm.time, KNOTS, STEP), arm.time
    bad = {name: np.where(np.arange(6) == 2, np.nan, getattr(good, name)) for name in ("position", "velocity")}
    used = dataclasses.replace(good, **{poison: bad[poison]}) if poison in bad else good
    plan = controller.step(used, np.nan if poison == "start" else when, targets * np.nan if poison == "target" else targets)
    assert plan.status is SolveStatus.NOT_FINITE
    controller.reset(good)
    after = controller.step(good, when, targets)
    fresh = Controller(ROBOT, SETTINGS)
    fresh.reset(good)
    assert np.array_equal(after.torque, fresh.step(good, when, targets).torque)


def test_poison_without_a_reset_is_a_cold_start():
    """Even without a reset the tick after a poisoned one starts cold and solves."""
    controller, arm, reference = start()
    loop(controller, arm, reference, ticks=3)
    targets = window(reference, arm.time, KNOTS, STEP)
    controller.step(dataclasses.replace(sample(arm), position=np.full(6, np.nan)), arm.time, targets)
    plan = controller.step(sample(arm), arm.time, targets)
    assert plan.status is SolveStatus.SOLVED
    assert np.isfinite(plan.torque).all()


def test_reset_starts_a_new_epoch_and_tick_count():
    """Plans carry the epoch of the last reset and count ticks from one."""
    controller, arm, reference = start()
    targets = window(reference, 0.0, KNOTS, STEP)
    before = controller.step(sample(arm), 0.0, targets)
    controller.reset(sample(arm))
    after = controller.step(sample(arm), 0.0, targets)
    assert (after.epoch, after.tick) == (before.epoch + 1, 1)


def test_wrong_shapes_are_a_named_error():
    """Targets or joint arrays of the wrong shape are a programming error that names both shapes."""
    controller, arm, _ = start()
    with pytest.raises(SettingError, match=r"targets \(3, 3\).*give targets \(32, 3\)"):
        controller.step(sample(arm), 0.0, np.zeros((3, 3)))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.cuda)])
def test_ticks_in_one_launch_equal_the_launches(device, monkeypatch):
    """Where a block shifts the plan, rolls out and iterates in one launch, the torques of six ticks, on and between knots of the
    previous plan, equal the CPU's to float32 rounding."""
    if device != "cpu" and not wp.is_cuda_available():
        pytest.skip("Warp finds no CUDA device")
    plain = MpcSettings(knots=6, batch=3, device="cpu", weights=CostWeights(tool_position=2.0, tool_position_terminal=50.0))
    fused = dataclasses.replace(plain, device=device, policy=PolicySettings(schedule="fused"))
    plans = []
    for blocks, settings in ((False, plain), (True, fused)):
        with monkeypatch.context() as patch:
            patch.setattr(wp.config, "enable_cpu_blocks", blocks)
            controller, reference = Controller(ROBOT, settings), figure8_for("indy7")
            assert (controller._solver.block is not None) == blocks
            controller.reset(JointSample(0.0, Q, np.zeros(6)))
            times = (0.0, 0.01, 0.0125, 0.02, 0.047, 0.05)
            plans.append([controller.step(JointSample(t, Q + 0.01 * t, np.zeros(6)), t, window(reference, t, 6, STEP)) for t in times])
    for expected, plan in zip(*plans, strict=True):
        assert plan.row == expected.row
        assert np.abs(plan.torque - expected.torque).max() < 1e-3 * np.abs(expected.torque).max()
        assert np.isclose(plan.merit, expected.merit, rtol=1e-4, atol=1e-5)
