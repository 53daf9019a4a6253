"""The torque form through the controller: tracking, warm start, cold ticks, hypotheses, poison."""

import dataclasses

import numpy as np
import pytest
import warp as wp

from branch_mpc.mpc.controller import Controller
from branch_mpc.mpc.plan import JointSample, SolveStatus
from branch_mpc.mpc.settings import MpcSettings, PolicySettings
from branch_mpc.mpc.torque_tick import warm_start_kernel
from branch_mpc.optimal_control.reference import Approach, Hold, figure8_for, window
from branch_mpc.plant import SimulatedArm
from branch_mpc.robot import load_robot, ready_configuration

ROBOT, Q = load_robot("indy7"), ready_configuration("indy7")
STEP, KNOTS = 0.01, 32
DIRECT = PolicySettings(linear_solver="direct", tuning="none")
SETTINGS = MpcSettings(batch=4, device="cpu", formulation="torque", policy=PolicySettings(tuning="none"))


def sample(arm):
    """The arm's exact state as a measurement."""
    return JointSample(arm.time, arm.position.copy(), arm.velocity.copy())


def loop(controller, ticks, wrench=None):
    """Closed loop from rest; tracking errors [m] and the plans."""
    arm = SimulatedArm(ROBOT, Q, wrench=wrench)
    controller.reset(sample(arm))
    reference, errors, plans = Approach(arm.tool(), figure8_for("indy7"), duration=0.5), [], []
    for _ in range(ticks):
        plans.append(controller.step(sample(arm), arm.time, window(reference, arm.time, KNOTS, STEP)))
        arm.apply(plans[-1].torque[0])
        controller.sent(arm.time, plans[-1].torque[0])
        arm.advance(STEP)
        errors.append(np.linalg.norm(arm.tool() - reference.position(np.array([arm.time]))[0]))
    return np.array(errors), plans


@pytest.fixture(scope="module")
def controller():
    """The policy's linear solvers: PCG, and direct first on cold ticks."""
    return Controller(ROBOT, SETTINGS)


@pytest.fixture(scope="module")
def direct():
    """The direct solve in every tick."""
    return Controller(ROBOT, dataclasses.replace(SETTINGS, policy=DIRECT))


def test_holding_still_takes_the_gravity_torque(direct):
    """At rest with the target at the tool, the first torque is the gravity torque up to 1 Nm and is the plan's unknown itself."""
    arm = SimulatedArm(ROBOT, Q)
    direct.reset(sample(arm))
    plan = direct.step(sample(arm), 0.0, window(Hold(arm.tool()), 0.0, KNOTS, STEP))
    gravity = np.array([0, -12.021389, -16.940418, 3.930005, -2.708412, 0.001660])  # published golden value
    assert plan.status is SolveStatus.SOLVED
    assert np.abs(plan.torque[0] - gravity).max() < 1.0
    assert np.array_equal(plan.torque, direct._solver.U.numpy()[plan.row].astype(float))


def test_tracks_like_the_acceleration_form(direct, controller):
    """After the approach the direct solve tracks within 2 mm and PCG within 5 mm; the same loop twice sends the same bits."""
    errors, plans = loop(direct, 120)
    assert np.abs(errors[70:]).max() < 2e-3
    assert np.array_equal(loop(direct, 120)[1][-1].torque, plans[-1].torque)
    assert np.abs(loop(controller, 120)[0][70:]).max() < 5e-3


def test_a_push_is_found(direct):
    """Under an unknown 20 N the estimate ends within 5 N of it: hypotheses and selection are those of the acceleration form."""
    force = np.array([0.0, 0.0, -20.0, 0.0, 0.0, 0.0])
    loop(direct, 150, force)
    assert np.linalg.norm(direct.wrench_estimate[:3] - force[:3]) < 5.0


def test_cold_ticks_take_the_direct_solve_first(controller):
    """Without a plan, or off it by more than 0.1, a tick solves directly first; on the plan it runs PCG."""
    arm = SimulatedArm(ROBOT, Q)
    controller.reset(sample(arm))
    targets = window(figure8_for("indy7"), 0.0, KNOTS, STEP)
    plan = controller.step(sample(arm), 0.0, targets)
    assert controller._solver.linear_iterations.numpy()[0, plan.row] == 1
    on_plan = JointSample(STEP, plan.position[1], plan.velocity[1])
    assert controller._variant(on_plan) == "pcg"
    assert controller._variant(JointSample(STEP, plan.position[1], plan.velocity[1] + 0.1)) == "direct_first"
    plan = controller.step(on_plan, STEP, targets)
    assert controller._solver.linear_iterations.numpy()[0, plan.row] > 1


def test_poison_leaves_the_next_tick_cold(direct):
    """A measurement that is not a number gives NOT_FINITE, and the tick after it equals a tick after a reset."""
    arm = SimulatedArm(ROBOT, Q)
    targets = window(figure8_for("indy7"), 0.0, KNOTS, STEP)
    direct.reset(sample(arm))
    first = direct.step(sample(arm), 0.0, targets)
    direct.reset(sample(arm))
    assert direct.step(JointSample(0.0, np.full(6, np.nan), np.zeros(6)), 0.0, targets).status is SolveStatus.NOT_FINITE
    assert np.array_equal(direct.step(sample(arm), 0.0, targets).torque, first.torque)


@pytest.mark.parametrize("shift", [0.0, 0.25, 1.0, 2.5, 40.0, -1.0])
def test_warm_start_shifts_states_and_torques(shift):
    """States are read between the knots of the previous plan, torques are means over its intervals, the tail repeats; knot 0 is the
    row's own state; a negative shift holds that state with the seed torque."""
    random = np.random.default_rng(0)
    state, torque, x0, seed = random.normal(size=(8, 4)), random.normal(size=(7, 2)), random.normal(size=(1, 4)), np.array([3.0, 4.0])
    X, U = wp.zeros((1, 8, 4), dtype=float, device="cpu"), wp.zeros((1, 7, 2), dtype=float, device="cpu")
    inputs = [wp.array(x, dtype=float, device="cpu") for x in (state, torque, np.array([shift]), seed, x0)]
    wp.launch(warm_start_kernel(), dim=(1, 8), inputs=inputs, outputs=[X, U], device="cpu")
    if shift < 0:
        expected_x, expected_u = np.tile(x0, (8, 1)), np.tile(seed, (7, 1))
    else:
        at = np.minimum(np.arange(8) + shift, 7)
        expected_x = np.array([np.interp(at, np.arange(8), column) for column in state.T]).T
        fine = (np.arange(1000) + 0.5) / 1000
        expected_u = np.array([torque[np.minimum((k + shift + fine).astype(int), 6)].mean(axis=0) for k in range(7)])
        expected_x[0] = x0
    assert np.allclose(X.numpy()[0], expected_x, atol=1e-5)
    assert np.allclose(U.numpy()[0], expected_u, atol=3e-3)
