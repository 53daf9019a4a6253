"""The same code on a CUDA device: real warps, barriers and shared memory."""

import numpy as np
import pytest
import warp as wp
from chains import PLANS, SCHEDULES, assert_optimal, chain, results, solver

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("dtype", (wp.float32, wp.float64))
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("plan", PLANS)
def test_device_solutions_are_optimal_and_replay_bit_for_bit(plan: str, schedule: str, dtype: type) -> None:
    """Every plan and schedule is optimal on the device, from a captured graph, and repeats its bits."""
    case = chain(everything=True, dtype=dtype, device="cuda:0")
    made = solver(case, plan, schedule)
    with wp.ScopedCapture(device="cuda:0") as capture:
        made.factor()
        made.solve()
    wp.capture_launch(capture.graph)
    assert_optimal(made)
    first = results(made)
    wp.capture_launch(capture.graph)
    for a, b in zip(first, results(made), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("plan", PLANS)
def test_device_flags_failures(plan: str, schedule: str) -> None:
    """A negative pivot and a right-hand side that is not finite flag their instances and nothing else."""
    case = chain(device="cuda:0")
    H, g = case.H[0].numpy().copy(), case.g[0].numpy().copy()
    H[1, 2, 5, 5], g[2, 3, 1] = -50.0, np.inf
    case.H[0].assign(H)
    case.g[0].assign(g)
    made = solver(case, plan, schedule)
    made.factor()
    made.solve()
    assert made.pivot_failed.numpy().tolist() == [0, 1, 2]
    inputs = made.solution(case.inputs).numpy()
    assert inputs[0].any()
    assert not inputs[1:].any()
