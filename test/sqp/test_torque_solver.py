"""The torque form's loop: identical bits at every merit launch, batches, early exit, rho, poison, statistics."""

import numpy as np
import pytest
import warp as wp

from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot import load_robot, ready_configuration
from branch_mpc.sqp.torque_settings import TorqueSettings
from branch_mpc.sqp.torque_solver import TorqueSolver
from branch_mpc.sqp.torque_statistics import STAGES

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
ROBOT, Q = load_robot("indy7"), ready_configuration("indy7")
X0, TARGETS = np.r_[Q, 0 * Q], window(figure8_for("indy7"), 0.0, 32, 0.01)


def make(device="cpu", **options):
    """A solver of the figure-8 with 32 knots at GATO's weights."""
    settings = {name: options.pop(name) for name in list(options) if name in TorqueSettings.__dataclass_fields__}
    defaults = {"knots": 32, "step": 0.01, "batch": 1, "weights": GATO, "iterations": 3}
    return TorqueSolver(ROBOT, device=device, settings=TorqueSettings(**settings), **(defaults | options))


def bits(result):
    """Everything that a launch configuration must not change."""
    return result.position.tobytes(), result.torque.tobytes(), result.merit.tobytes(), result.statistics.step_sizes.tobytes()


@pytest.fixture(scope="module")
def plain():
    """PCG, three iterations, one problem."""
    return make()


def test_merit_launch_does_not_change_a_bit(plain):
    """Candidates in one thread or eight, and blocks of 1, 32 and 64 fibers of the merit kernel, give the same trajectory."""
    reference = bits(plain.solve(X0, TARGETS))
    plain.reset()
    assert bits(plain.solve(X0, TARGETS)) == reference
    assert bits(make(merit_fused=True).solve(X0, TARGETS)) == reference
    expected, before = plain.candidate_costs.numpy().copy(), wp.config.enable_cpu_blocks
    problem = [plain.x0, plain.wrenches, plain.targets, plain.weights, plain.nominal, plain._step_array]
    dX, dU = wp.full_like(plain.dX, 0.01), wp.full_like(plain.dU, 0.1)
    found = []
    try:
        for block, blocks in ((1, False), (32, True), (64, True)):
            wp.config.enable_cpu_blocks = blocks
            costs, defects = wp.zeros_like(plain.candidate_costs), wp.zeros_like(plain.candidate_costs)
            inputs = [plain.X, plain.U, dX, dU, *problem, plain.active, plain.failed, costs, defects]
            wp.launch(plain._kernels.merit, dim=(1, 8, 32), inputs=inputs, device="cpu", block_dim=block)
            found.append((costs.numpy().tobytes(), defects.numpy().tobytes()))
    finally:
        wp.config.enable_cpu_blocks = before
    assert found[0] == found[1] == found[2]
    assert expected.any() and np.frombuffer(found[0][0], np.float32).any()


@pytest.mark.cuda
@pytest.mark.parametrize("block", [32, 64, 128, 256])
def test_merit_block_does_not_change_a_bit_on_cuda(block):
    """Every block size of the merit kernel gives the trajectory of 64 threads, fused or not."""
    reference = bits(make("cuda:0", merit_block=64).solve(X0, TARGETS))
    assert bits(make("cuda:0", merit_block=block).solve(X0, TARGETS)) == reference
    assert bits(make("cuda:0", merit_block=block, merit_fused=True).solve(X0, TARGETS)) == reference


def test_rows_are_independent():
    """A batch of three problems with their own wrench, rho, mu and PCG tolerance equals three solves of one."""
    wrenches = np.array([[0.0] * 6, [0, 0, -30.0, 0, 0, 0], [10.0, 0, 0, 0, 1, 0]])
    rows = {"rho": np.array([0.01, 0.1, 1.0]), "mu": np.array([10.0, 1.0, 5.0]), "pcg_tolerance": np.array([1e-4, 1e-2, 1e-3])}
    batch = make(batch=3)
    batch.set_batch(**rows)
    together = batch.solve(X0, TARGETS, wrenches)
    single = make()
    for m in range(3):
        single.set_batch(**{name: value[m] for name, value in rows.items()})
        single.reset()
        alone = single.solve(X0, TARGETS, wrenches[m])
        assert np.array_equal(alone.torque[0], together.torque[m])
        assert np.array_equal(alone.statistics.linear_iterations[:, 0], together.statistics.linear_iterations[:, m])


def test_rho_follows_gatos_rule():
    """Accepted: rho shrinks by 1.2, 1.2^2, ..; refused: it grows by 1.2, 1.2^2, ..; the clock d starts anew with each solve."""
    solver = make(iterations=2, reset_rho=False)
    result = solver.solve(X0, TARGETS)
    first, second = result.statistics.step_sizes[:, 0]
    assert first > 0 and second > 0
    assert np.isclose(result.statistics.rho[0], 0.01 / 1.2 / 1.2**2, rtol=1e-6)
    refused = make(iterations=2, reset_rho=False, mu=0.0)
    refused.weights.assign(np.array([0, 0, 1e-2, 2e-6, 0, 0, 0, 0.0]))  # at rest without torque, and falling costs nothing: no gain
    result = refused.solve(X0, TARGETS)
    attempts = np.count_nonzero(result.statistics.linear_iterations)  # a problem that has converged keeps its rho
    assert (result.statistics.step_sizes == 0).all() and attempts >= 1
    assert np.isclose(result.statistics.rho[0], 0.01 * 1.2 ** (attempts * (attempts + 1) / 2), rtol=1e-6)


def test_converged_problems_are_frozen():
    """At rest on its target with nothing to gain, a problem takes no iteration and does not move, while its neighbour does."""
    solver = make(batch=2)
    solver.weights.assign(np.array([0, 0, 1e-2, 2e-6, 0, 0, 0, 0.0]))  # only rest: gravity pulls the first, a push holds nothing
    seed = solver.solve(X0, TARGETS)
    again = solver.solve(X0, TARGETS, states=np.concatenate([seed.position, seed.velocity], -1), torques=seed.torque)
    frozen = solver.solve(X0, TARGETS, states=np.concatenate([again.position, again.velocity], -1), torques=again.torque)
    assert frozen.statistics.converged.all()
    assert frozen.statistics.linear_iterations[-1].max() == 0
    assert (frozen.statistics.step_sizes[-1] == 0).all()


def test_solve_ratio_stops_the_batch():
    """At ratio 0 the whole batch stops before its first step."""
    solver = make(batch=2, solve_ratio=0.0)
    result = solver.solve(X0, TARGETS)
    assert (result.statistics.step_sizes == 0).all() and np.array_equal(result.position[0, 0], np.float32(Q))


@pytest.mark.parametrize("linear_solver", ["pcg", "direct"])
def test_a_poisoned_row_stays_alone(linear_solver):
    """NaN in one row's state refuses its steps and leaves its costates finite; the other row equals a clean solve."""
    solver = make(batch=2, linear_solvers=(linear_solver,))
    clean = solver.solve(X0, TARGETS)
    solver.reset()
    x0 = np.tile(X0, (2, 1))
    x0[1, 3] = np.nan
    poisoned = solver.solve(x0, TARGETS)
    assert np.array_equal(poisoned.torque[0], clean.torque[0])
    assert (poisoned.statistics.step_sizes[:, 1] == 0).all() and poisoned.statistics.pivot_failed[1]
    solver.solve(X0, TARGETS)
    assert np.isfinite(solver.dual.numpy()).all()


def test_direct_first_is_direct_then_pcg():
    """The first SQP iteration reports one direct solve, the second a PCG count."""
    result = make(linear_solvers=("direct_first",)).solve(X0, TARGETS)
    counts = result.statistics.linear_iterations[:, 0]
    assert counts[0] == 1 and counts[1] > 5


def test_statistics_of_a_timed_solve(plain):
    """Stage by stage a solve gives the same bits as the graph, and five positive times an iteration; without asking there are none."""
    plain.reset()
    replayed = plain.solve(X0, TARGETS)
    plain.reset()
    timed = plain.solve(X0, TARGETS, timed=True)
    assert bits(timed) == bits(replayed)
    assert replayed.statistics.stage_times.shape == (0, len(STAGES))
    assert timed.statistics.stage_times.shape == (3, len(STAGES)) and (timed.statistics.stage_times > 0).all()
    assert timed.statistics.summary().startswith("pcg: merit 184.04")
