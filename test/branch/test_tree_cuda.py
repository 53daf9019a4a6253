"""Trees and trajectories on a CUDA device: real warps, barriers, shared memory and interleaved cells."""

import numpy as np
import pytest
import warp as wp
from trees import ORDERS, SCHEDULES, assert_optimal, results, run, solver, tree

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("order", ORDERS)
def test_device_solutions_are_optimal_and_replay_bit_for_bit(order: str, schedule: str) -> None:
    """Every plan and schedule is optimal on the device, from a captured graph, and repeats its bits."""
    made = run(solver(tree(device="cuda:0", instances=5), order, schedule))
    with wp.ScopedCapture(device="cuda:0") as capture:
        run(made)
    wp.capture_launch(capture.graph)
    assert_optimal(made)
    first = results(made)
    wp.capture_launch(capture.graph)
    for a, b in zip(first, results(made), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("order", ORDERS)
def test_device_solves_many_right_hand_sides(order: str) -> None:
    """H y = H z on the device gives z back."""
    case = tree(device="cuda:0", instances=3)
    made = run(solver(case, order, "cooperative"))
    many = made.columns(2, given=case.u, wanted=case.u)
    from branch_mpc.oracle import quadratic_tree as oracle

    H, _ = oracle.assemble(case.problem)
    z = np.random.default_rng(0).normal(size=(3, 2, 32))
    many.rhs.assign(np.einsum("mij,mkj->mki", H, z).reshape(3, 2, 4, 8))
    many.solve()
    # float32 roundings of the right-hand side and of the solve, by the condition of H
    bound = 120.0 * np.finfo(np.float32).eps * max(np.linalg.cond(h) for h in H) * np.abs(z).max()
    np.testing.assert_allclose(many.solution(case.u).numpy().reshape(3, 2, 32), z, rtol=0.0, atol=bound)
