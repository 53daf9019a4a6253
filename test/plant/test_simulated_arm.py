"""The simulated arm: energy, order of the integrator, forces, saturation, counters, refusal of bad numbers."""

import dataclasses

import numpy as np
import pytest

from branch_mpc.errors import BranchMpcError
from branch_mpc.oracle import rigid_body
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.plant import SimulatedArm
from branch_mpc.robot import Articulation, load_robot, ready_configuration


def _energy(robot: Articulation, q: np.ndarray, v: np.ndarray) -> float:
    """Kinetic plus potential energy [J], from the textbook twin."""
    frames = rigid_body.link_frames(robot, q)
    centers = np.array([origin + rotation @ center for (rotation, origin), center in zip(frames, robot.center_of_mass, strict=True)])
    return float(0.5 * v @ rigid_body.mass_matrix(robot, q) @ v - robot.mass @ centers @ robot.gravity)


def _drift(robot: Articulation, q: np.ndarray, v: np.ndarray, substep: float, duration: float) -> float:
    arm = SimulatedArm(robot, q, v, substep=substep)
    arm.advance(duration)
    return abs(_energy(robot, arm.position, arm.velocity) - _energy(robot, q, v))


@pytest.mark.parametrize("name", ["indy7", "iiwa14"])
def test_falling_arm_keeps_its_energy(name: str) -> None:
    """Without torque and friction the total energy of the falling arm is constant, and its error is of fourth order."""
    robot, q = load_robot(name), ready_configuration(name)
    coarse, fine = (_drift(robot, q, np.zeros(robot.dof), substep, 0.4) for substep in (2e-3, 1e-3))
    assert fine < 1e-6  # of about 20 J of kinetic energy; measured 1e-8 to 5e-7
    assert 12 < coarse / fine < 40  # 2^4 for a method of order four, 2^5 where the errors of a conservative motion cancel


@pytest.mark.parametrize("seed", range(3))
def test_random_tree_keeps_its_energy_in_zero_gravity(seed: int) -> None:
    """Kinetic energy alone is constant when there is no gravity, on trees with prismatic joints too."""
    rng = np.random.default_rng(seed)
    robot = dataclasses.replace(random_articulation(rng, 5), gravity=np.zeros(3))
    q, v = rng.uniform(-1, 1, 5), 0.5 * rng.normal(size=5)
    assert _drift(robot, q, v, 1e-3, 0.3) < 1e-7 * _energy(robot, q, v)  # fourth order: (1e-3 s)^4 times derivatives up to 1e4


def test_world_force_works_like_its_jacobian() -> None:
    """Work of a constant world force equals force times displacement of the tool, which the energy must have gained."""
    robot, q = load_robot("indy7"), ready_configuration("indy7")
    force = np.array([20.0, -15.0, 40.0])
    arm = SimulatedArm(robot, q, wrench=np.concatenate([force, np.zeros(3)]))
    start = arm.tool()
    arm.advance(0.3)
    gained = _energy(robot, arm.position, arm.velocity) - _energy(robot, q, np.zeros(6))
    work = force @ (arm.tool() - start)
    assert abs(work) > 1.0
    assert gained == pytest.approx(work, abs=1e-6)  # the integrator's energy error, as without a force


def test_static_balance_holds_under_a_wrench() -> None:
    """Gravity torque minus J^T w keeps the arm still while force and moment push on the tool."""
    robot, q = load_robot("iiwa14"), ready_configuration("iiwa14")
    wrench = np.array([10.0, 20.0, -30.0, 1.0, -2.0, 3.0])
    arm = SimulatedArm(robot, q, wrench=wrench)
    arm.apply(rigid_body.inverse_dynamics(robot, q, np.zeros(7), np.zeros(7), wrench))
    arm.advance(0.05)
    # An unstable equilibrium (last joint 1e-3 kg m^2) amplifies the rounding of the torque, 1e-14 Nm, for 50 ms.
    assert np.abs(arm.position - q).max() < 1e-9
    arm.wrench = np.zeros(6)
    arm.advance(0.05)
    assert np.abs(arm.position - q).max() > 1e-3


def test_acceleration_equals_the_textbook_with_payload_and_friction() -> None:
    """Friction and payload act as their definitions say: tau - d v, and a point mass at the tool."""
    robot, q = load_robot("indy7"), ready_configuration("indy7")
    v, torque, friction = 0.1 * np.arange(6), np.linspace(-5, 5, 6), np.linspace(0.1, 0.6, 6)
    arm = SimulatedArm(robot, q, v, friction=friction, payload=3.0)
    arm.apply(torque)
    point, mass = robot.tool_translation, robot.mass[5]
    center = (mass * robot.center_of_mass[5] + 3.0 * point) / (mass + 3.0)
    lever = rigid_body.skew(robot.center_of_mass[5] - point)
    loaded = dataclasses.replace(
        robot,
        mass=robot.mass + np.array([0, 0, 0, 0, 0, 3.0]),
        center_of_mass=np.vstack([robot.center_of_mass[:5], center]),
        inertia=np.concatenate([robot.inertia[:5], [robot.inertia[5] + 3.0 * mass / (mass + 3.0) * lever @ lever.T]]),
    )
    expected = rigid_body.forward_dynamics(loaded, q, v, torque - friction * v)
    assert np.allclose(arm.acceleration(q, v), expected, rtol=1e-9)  # float64 on both sides, condition of M about 1e4


def test_torque_saturates_and_is_counted() -> None:
    """A torque beyond the effort limit acts as the limit, and every substep of it is counted; without saturation it acts whole."""
    robot, q = load_robot("indy7"), ready_configuration("indy7")
    torque = np.array([1000.0, 0, 0, 0, 0, 0])
    clipped, whole = SimulatedArm(robot, q), SimulatedArm(robot, q, saturate=False)
    for arm in (clipped, whole):
        arm.advance(0.003)
        arm.apply(torque)
        arm.advance(0.005)
        assert arm.limit_violations["torque"] == 5
    assert clipped.torque[0] == robot.effort_limit[0]
    assert whole.torque[0] == 1000.0


def test_position_and_velocity_violations_are_counted_apart() -> None:
    """Substeps outside the position limits and above the velocity limits have their own counters."""
    robot, q = load_robot("indy7"), ready_configuration("indy7")
    outside, fast = q.copy(), np.zeros(6)
    outside[2], fast[0] = robot.position_upper[2] + 0.1, 1.1 * robot.velocity_limit[0]
    still, moving = SimulatedArm(robot, outside), SimulatedArm(robot, q, fast)
    still.apply(rigid_body.inverse_dynamics(robot, outside, np.zeros(6), np.zeros(6)))
    for arm in (still, moving):
        arm.advance(0.004)
    assert still.limit_violations == {"position": 4, "velocity": 0, "torque": 0}
    assert moving.limit_violations == {"position": 0, "velocity": 4, "torque": 0}


def test_durations_that_are_no_multiple_of_the_substep_add_up() -> None:
    """Time is what was asked for, to rounding, whatever the durations; a remainder is simulated and not dropped."""
    robot, q = load_robot("indy7"), ready_configuration("indy7")
    pieces, whole = SimulatedArm(robot, q), SimulatedArm(robot, q)
    for _ in range(100):
        pieces.advance(0.0033)
    whole.advance(0.33)
    assert pieces.time == pytest.approx(0.33, abs=1e-12)
    # Different step patterns of a fourth-order method: both are within 1e-8 rad of the exact motion.
    assert np.abs(pieces.position - whole.position).max() < 1e-7
    exact = SimulatedArm(robot, q)
    for _ in range(10):
        exact.advance(0.01)
    assert exact.limit_violations.keys() == {"position", "velocity", "torque"} and exact.time == pytest.approx(0.1, abs=1e-14)


def test_equal_calls_give_equal_states() -> None:
    """The simulation is deterministic to the last bit."""
    states = []
    for _ in range(2):
        arm = SimulatedArm(load_robot("iiwa14"), ready_configuration("iiwa14"), wrench=np.ones(6))
        arm.apply(np.linspace(-20, 20, 7))
        arm.advance(0.1)
        states.append((arm.position.tobytes(), arm.velocity.tobytes(), arm.time))
    assert states[0] == states[1]


def test_state_given_out_is_a_copy() -> None:
    """Writing into a returned array does not move the arm."""
    arm = SimulatedArm(load_robot("indy7"), ready_configuration("indy7"))
    arm.position[:] = 9.0
    arm.wrench[:] = 9.0
    assert np.array_equal(arm.position, ready_configuration("indy7")) and not arm.wrench.any()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda arm: arm.apply(np.array([0, 0, 0, 0, 0, np.nan])), "torque"),
        (lambda arm: arm.apply(np.zeros(5)), "torque of the simulated arm has shape (5,)"),
        (lambda arm: setattr(arm, "wrench", np.full(6, np.inf)), "wrench"),
        (lambda arm: arm.advance(-0.1), "-0.1 s"),
        (lambda arm: arm.advance(np.nan), "nan s"),
    ],
)
def test_bad_numbers_are_refused_and_change_nothing(act, words: str) -> None:
    """A number that is not finite or of the wrong shape raises and leaves the arm as it was."""
    arm = SimulatedArm(load_robot("indy7"), ready_configuration("indy7"))
    arm.apply(np.ones(6))
    with pytest.raises(BranchMpcError) as caught:
        act(arm)
    assert words in str(caught.value)
    assert np.array_equal(arm.torque, np.ones(6)) and not arm.wrench.any() and arm.time == 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"q0": np.zeros(5)}, "initial position"),
        ({"v0": np.full(6, np.nan)}, "initial velocity"),
        ({"substep": 0.0}, "substep"),
        ({"payload": -1.0}, "payload"),
        ({"friction": -1.0}, "friction"),
    ],
)
def test_bad_construction_is_refused(arguments: dict, words: str) -> None:
    """Constructor arguments that make no sense raise an error that names them."""
    with pytest.raises(BranchMpcError, match=words):
        SimulatedArm(load_robot("indy7"), **{"q0": np.zeros(6), **arguments})


def test_divergence_is_an_error_and_not_a_nan() -> None:
    """A motion beyond floating point raises and keeps the last finite state."""
    arm = SimulatedArm(load_robot("indy7"), ready_configuration("indy7"), saturate=False)
    arm.apply(np.full(6, 1e200))
    with pytest.raises(BranchMpcError, match="diverged"):
        arm.advance(0.1)
    assert np.isfinite(arm.position).all() and np.isfinite(arm.velocity).all()
