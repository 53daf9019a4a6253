"""The iterations of a block, and the loop's kernels with a warp a problem, against the kernels of the CPU and the float64 twin."""

import dataclasses

import numpy as np
import pytest
import warp as wp

from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.oracle.tracking import TrackingProblem
from branch_mpc.oracle.tracking_sqp import sqp
from branch_mpc.robot import load_robot, ready_configuration
from branch_mpc.sqp.block_iteration import SHARED_MEMORY, BlockShape, block_shape
from branch_mpc.sqp.solver import SqpSolver

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
KNOTS = 6
Q = ready_configuration("indy7")
X0 = np.r_[Q, 0 * Q]
TARGETS = window(figure8_for("indy7"), 0.0, KNOTS, 0.01)
# Far from the optimum, where full steps are refused, and still conditioned so that float32 follows float64 to 1e-3.
FAR = {"weights": CostWeights(tool_position=2e3, tool_position_terminal=2e4, velocity=1e-2, torque=1e-5), "step": 0.05}


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.cuda)])
def device(request, monkeypatch):
    """CPU blocks as fibers, or CUDA."""
    if request.param != "cpu" and not wp.is_cuda_available():
        pytest.skip("Warp finds no CUDA device")
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    return request.param


def make(arm, device, threads=None, **options):
    """A solver with lanes; `threads` sets the block by hand."""
    defaults = {"knots": KNOTS, "step": 0.01, "batch": 2, "weights": GATO, "schedule": "fused", "device": device}
    solver = SqpSolver(arm, **(defaults | options))
    if threads:
        solver.block = BlockShape(arm.dof, KNOTS, threads)
    return solver


def plain(monkeypatch, arm, **options):
    """The CPU's own path, without lanes, compiled and captured."""
    with monkeypatch.context() as patch:
        patch.setattr(wp.config, "enable_cpu_blocks", False)
        solver = SqpSolver(arm, **({"knots": KNOTS, "step": 0.01, "batch": 2, "weights": GATO} | options))
        solver.replay()
    solver.reset()
    return solver


@pytest.mark.parametrize("threads", (64, 32), ids=("on chip", "in passes"))
def test_block_iterations_equal_the_oracle(threads, device):
    """Two iterations in one launch under a wrench give the float64 twin's trajectory, objective and residual, to float32 rounding."""
    wrench = np.array([10.0, -20.0, 30.0, 1.0, 0.5, -0.5])
    solver = make(load_robot("indy7"), device, threads, iterations=2)
    result = solver.solve(X0, TARGETS, np.array([wrench, 0 * wrench]))
    expected = sqp(TrackingProblem(load_robot("indy7"), TARGETS, GATO, wrench=wrench), X0, np.zeros((KNOTS - 1, 6)), 2)[-1]
    assert np.abs(result.acceleration[0] - expected.accelerations).max() < 2e-4 * np.abs(expected.accelerations).max()
    assert abs(result.merit[0] - expected.cost) < 2e-4
    assert abs(result.kkt_residual[0] - expected.residual) < 2e-4 * max(1.0, expected.residual)
    again = solver.solve(X0, TARGETS, np.array([wrench, 0 * wrench]))
    assert np.array_equal(result.acceleration, again.acceleration)


def test_short_steps_equal_the_loop_of_launches(device, monkeypatch):
    """Where full steps are refused a block takes the same step lengths, objectives and dampings as the CPU's launches."""
    rng, arm, sizes = np.random.default_rng(3), load_robot("indy7"), set()
    block = make(arm, device, retries=2, **FAR)
    loop = plain(monkeypatch, arm, retries=2, **FAR)
    for _ in range(6):
        x0 = np.r_[rng.uniform(-3.0, 3.0, 6), rng.uniform(-3, 3, 6)]
        targets = np.tile(rng.uniform(-1.5, 1.5, 3), (KNOTS, 1))
        acceleration = rng.uniform(-300, 300, (KNOTS - 1, 6))
        for solver in (block, loop):
            solver.reset()
        got, expected = (solver.solve(x0, targets, acceleration=acceleration) for solver in (block, loop))
        sizes |= set(expected.step_size.tolist())
        assert np.array_equal(got.step_size, expected.step_size)
        assert np.allclose(got.damping, expected.damping)
        # sums of float32 costs that differ by 1e5 between knots
        assert np.allclose(got.merit, expected.merit, rtol=1e-3)
    assert len(sizes) > 1, "no problem of the sample refused a full step"


def test_poisoned_problem_is_flagged_and_spares_the_others(device):
    """NaN in one wrench fails that problem's pivot and leaves its plan; the other's bits do not change, nor after a reset its own."""
    solver, wrenches = make(load_robot("indy7"), device), np.zeros((2, 6))
    clean = solver.solve(X0, TARGETS, wrenches)
    wrenches[1, 0] = np.nan
    poisoned = solver.solve(X0, TARGETS, wrenches)
    assert poisoned.pivot_failed.tolist() == [False, True]
    assert not poisoned.acceleration[1].any()
    assert poisoned.step_size[1] == 0.0
    assert np.array_equal(poisoned.acceleration[0], clean.acceleration[0])
    solver.reset()
    assert np.array_equal(solver.solve(X0, TARGETS).acceleration, clean.acceleration)


@pytest.mark.parametrize(("joints", "branched"), [(8, False), (4, True)])
def test_other_robots_run_as_launches(joints, branched, device, monkeypatch):
    """Eight joints (lanes for the terms, no block) and a tree (neither) give the CPU's iterates through the loop's warp kernels."""
    arm = random_articulation(np.random.default_rng(2), joints, branched=branched, prismatic=True)
    arm = dataclasses.replace(arm, effort_limit=np.full(joints, 1e3))
    solver, x0, options = make(arm, device), np.zeros(2 * joints), {"batch": 2}
    targets = np.tile([0.2, 0.1, 0.3], (KNOTS, 1))
    result = solver.solve(x0, targets)
    assert solver.block is None
    expected = plain(monkeypatch, arm, **options).solve(x0, targets)
    assert np.array_equal(result.step_size, expected.step_size)
    assert np.allclose(result.merit, expected.merit, rtol=1e-4, atol=1e-5)
    assert np.abs(result.acceleration - expected.acceleration).max() < 2e-3 * np.abs(expected.acceleration).max()


def test_blocks_fit_the_shared_memory():
    """Every chosen block fits a data-centre GPU; long horizons and eight joints run as launches."""
    for n in range(1, 8):
        for knots in (2, 5, 32, 64, 128, 256):
            for batch in (1, 512):
                shape = block_shape(n, knots, batch, 132)
                assert shape is not None
                assert 4 * shape.shared <= SHARED_MEMORY
    assert block_shape(6, 1024, 1, 132) is None
    assert block_shape(8, 32, 1, 132) is None
