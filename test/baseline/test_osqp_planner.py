"""The baseline in closed loop: the same warm start, hypotheses and delay compensation as the controller."""

import numpy as np

from branch_mpc.baseline import OsqpPlanner
from branch_mpc.baseline.planner import shifted
from branch_mpc.bench.compare_ticks import closed_loop
from branch_mpc.bench.record import Recording, metrics
from branch_mpc.mpc.plan import JointSample, SolveStatus
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.reference import Approach, Hold, figure8_for, window
from branch_mpc.plant import SimulatedArm
from branch_mpc.robot import load_robot, ready_configuration


def run(batch: int, duration: float, push: float = 0.0, knots: int = 16) -> Recording:
    """The Indy7 on its way to the figure, under a constant vertical force [N] that nobody announced."""
    arm, q = load_robot("indy7"), ready_configuration("indy7")
    plant = SimulatedArm(arm, q)
    reference = Approach(plant.tool(), figure8_for("indy7"), 2.0) if not push else Hold(plant.tool())

    class Pushed(SimulatedArm):
        def apply(self, torque: np.ndarray) -> None:
            self.wrench = np.array([0.0, 0.0, push, 0.0, 0.0, 0.0])
            super().apply(torque)

    planner = OsqpPlanner(arm, MpcSettings(knots=knots, batch=batch), q)
    return closed_loop(arm, Pushed(arm, q), planner, reference, duration=duration, approach=0.0)[0]


def test_shift_moves_by_whole_intervals_and_repeats_the_last() -> None:
    """One interval later the plan starts at its second acceleration and ends with its last one twice."""
    a = np.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(shifted(a, 0.0), a)
    np.testing.assert_array_equal(shifted(a, 1.0), a[[1, 2, 3, 3]])
    np.testing.assert_array_equal(shifted(a, 9.0), a[[3, 3, 3, 3]])


def test_shift_by_a_fraction_is_the_mean_over_the_interval() -> None:
    """Half an interval later each acceleration is half the old one and half the next: the same velocity change."""
    a = np.array([[1.0], [3.0], [7.0]])
    np.testing.assert_allclose(shifted(a, 0.5), [[2.0], [5.0], [7.0]], rtol=1e-15)


def test_the_arm_follows_the_approach() -> None:
    """In closed loop the tool stays within a millimetre of the target without any limit violated."""
    numbers = metrics(run(batch=1, duration=0.4))
    assert numbers["tracking_max_mm"] < 1.0
    assert numbers["limit_violations"] == 0
    assert numbers["solve_status"] == {"solved": 40}


def test_hypotheses_find_a_push() -> None:
    """With eight rows an unknown 30 N push is found and the tool error is a fraction of the single row's."""
    alone, batch = (run(count, 0.6, push=-30.0) for count in (1, 8))
    late = slice(30, None)
    errors = [np.linalg.norm(recording.motion.tool - recording.motion.target, axis=1)[late].mean() for recording in (alone, batch)]
    assert errors[1] < 0.5 * errors[0]
    np.testing.assert_allclose(batch.solves.wrench[late, 2].mean(), -30.0, atol=10.0)  # the sphere's radius of some newtons remains


def test_a_plan_starts_at_the_measured_state_when_nothing_is_on_its_way() -> None:
    """With start at the time of the measurement the first knot is the measurement, and tool and torque belong to the plan."""
    arm, q = load_robot("indy7"), ready_configuration("indy7")
    planner, plant = OsqpPlanner(arm, MpcSettings(knots=8, batch=2)), SimulatedArm(arm, q)
    sample = JointSample(0.0, q, np.full(6, 0.1))
    planner.reset(sample)
    plan = planner.step(sample, 0.0, window(Hold(plant.tool()), 0.0, 8, 0.01))
    np.testing.assert_array_equal(plan.position[0], q)
    np.testing.assert_array_equal(plan.velocity[0], sample.velocity)
    np.testing.assert_allclose(plan.tool[0], plant.tool(), atol=1e-12)
    assert plan.torque.shape == (7, 6)
    assert plan.status is SolveStatus.SOLVED


def test_delay_is_rolled_forward_over_the_commands_sent() -> None:
    """A plan that starts 20 ms after the measurement starts where the arm will be under the torque that is already sent."""
    arm, q = load_robot("indy7"), ready_configuration("indy7")
    planner, plant = OsqpPlanner(arm, MpcSettings(knots=8, batch=1)), SimulatedArm(arm, q)
    torque = plant_torque = 1.5 * np.array([1.0, -12.0, -17.0, 4.0, -2.7, 0.0])
    planner.reset(JointSample(0.0, q, np.zeros(6)))
    planner.sent(0.0, torque)
    plan = planner.step(JointSample(0.0, q, np.zeros(6)), 0.02, window(Hold(plant.tool()), 0.02, 8, 0.01))
    plant.apply(plant_torque)
    plant.advance(0.02)
    # Midpoint steps of 2.5 ms against Runge-Kutta steps of 1 ms.
    np.testing.assert_allclose(plan.position[0], plant.position, atol=1e-6)
    np.testing.assert_allclose(plan.velocity[0], plant.velocity, atol=1e-4)


def test_reset_starts_anew() -> None:
    """After a reset the planner plans as a new one does, and the epoch says that it was reset."""
    arm, q = load_robot("indy7"), ready_configuration("indy7")
    targets = window(figure8_for("indy7"), 0.0, 8, 0.01)
    used, fresh = (OsqpPlanner(arm, MpcSettings(knots=8, batch=3)) for _ in range(2))
    rest = JointSample(0.0, q, np.zeros(6))
    for planner in (used, fresh):
        planner.reset(rest)
    for tick in range(3):
        used.sent(0.01 * tick, np.full(6, 5.0))
        used.step(JointSample(0.01 * tick, q + 0.01 * tick, np.ones(6)), 0.01 * tick, targets)
    used.reset(rest)
    again, first = (planner.step(rest, 0.0, targets) for planner in (used, fresh))
    assert again.epoch > first.epoch
    np.testing.assert_array_equal(again.torque, first.torque)
    assert again.merit == first.merit
