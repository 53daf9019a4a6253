"""What the solver promises beside the numbers: independence, masks, failures, determinism, graphs."""

import numpy as np
import pytest
import warp as wp
from chains import PLANS, SCHEDULES, assert_optimal, chain, results, solved, solver

COMBINATIONS = [(plan, schedule) for plan in PLANS for schedule in SCHEDULES]


@pytest.mark.parametrize(("plan", "schedule"), COMBINATIONS)
def test_instances_do_not_touch_each_other(plan: str, schedule: str) -> None:
    """Changing the numbers of instance 1 changes no bit of instances 0 and 2."""
    case = chain()
    made = solved(case, plan, schedule)
    before = results(made)
    g = case.g[0].numpy().copy()
    g[1] *= -3.0
    case.g[0].assign(g)
    made.factor()
    made.solve()
    for old, new in zip(before[:4], results(made), strict=False):
        np.testing.assert_array_equal(old[[0, 2]], new[[0, 2]])
        assert (old[1] != new[1]).any()


@pytest.mark.parametrize(("plan", "schedule"), COMBINATIONS)
def test_inactive_instances_keep_their_outputs(plan: str, schedule: str) -> None:
    """An instance whose mask is 0 keeps every output, even with numbers that would fail; the others go on."""
    case = chain()
    made = solved(case, plan, schedule)
    before = results(made)
    made.active.assign([1, 0, 1])
    H, g = case.H[0].numpy().copy(), case.g[0].numpy().copy()
    H[1], g[1:] = -1.0, 2.0 * g[1:]
    case.H[0].assign(H)
    case.g[0].assign(g)
    made.factor()
    made.solve()
    for old, new in zip(before, results(made), strict=True):
        np.testing.assert_array_equal(old[:2], new[:2])
    np.testing.assert_allclose(made.solution(case.inputs).numpy()[2], 2.0 * before[0][2], rtol=1e-6)  # the solution is linear in g


@pytest.mark.parametrize(("plan", "schedule"), COMBINATIONS)
@pytest.mark.parametrize("fault", ("negative", "zero", "nan", "infinite"))
def test_failed_pivots_are_flagged_and_leave_outputs_alone(plan: str, schedule: str, fault: str) -> None:
    """A pivot that is not positive and finite flags its own instance, which keeps its outputs; the flag goes when the cause goes."""
    case = chain()
    made = solved(case, plan, schedule)
    before = results(made)
    good = case.H[0].numpy().copy()
    bad = good.copy()
    if fault == "zero":
        bad[1] = 0.0
    else:
        bad[1, 2, 5, 5] = {"negative": -50.0, "nan": np.nan, "infinite": np.inf}[fault]
    case.H[0].assign(bad)
    made.factor()
    made.solve()
    assert made.pivot_failed.numpy().tolist() == [0, 1, 0]
    for old, new in zip(before[:4], results(made), strict=False):
        np.testing.assert_array_equal(old, new)
    case.H[0].assign(good)
    made.factor()
    made.solve()
    assert_optimal(made)


@pytest.mark.parametrize(("plan", "schedule"), COMBINATIONS)
@pytest.mark.parametrize("where", ((0, 0), (3, 5), (5, 1)))
def test_right_hand_sides_that_are_not_finite_are_flagged(plan: str, schedule: str, where: tuple[int, int]) -> None:
    """A NaN in the gradient of any frame flags the instance as 2 and never reaches a solution."""
    case = chain()
    made = solved(case, plan, schedule)
    before = results(made)
    g = case.g[0].numpy().copy()
    g[(0, *where)] = np.nan
    case.g[0].assign(g)
    made.factor()
    made.solve()
    flagged = made.pivot_failed.numpy().tolist()
    assert flagged[1:] == [0, 0]
    # The state of frame 0 is given: its gradient reaches no input.
    assert flagged[0] == (2 if where[0] else 0)
    np.testing.assert_array_equal(made.solution(case.inputs).numpy(), before[0])


@pytest.mark.parametrize(("plan", "schedule"), COMBINATIONS)
def test_reruns_and_replayed_graphs_are_bit_identical(plan: str, schedule: str) -> None:
    """Running again, and replaying a captured graph, gives the same bits, also after the inputs changed in place."""
    case = chain()
    made = solved(case, plan, schedule)
    first = results(made)
    with wp.ScopedCapture(device="cpu") as capture:
        made.factor()
        made.solve()
    case.g[0].assign(2.0 * case.g[0].numpy())
    wp.capture_launch(capture.graph)
    replayed = results(made)
    assert (replayed[0] != first[0]).any()
    made.factor()
    made.solve()
    for a, b in zip(replayed, results(made), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("plan", PLANS)
def test_lanes_flag_failures_too(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With real lanes and barriers a failing instance ends its block early and the others finish."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    case = chain()
    H, g = case.H[0].numpy().copy(), case.g[0].numpy().copy()
    H[1, 2, 5, 5], g[2, 3, 1] = -50.0, np.inf
    case.H[0].assign(H)
    case.g[0].assign(g)
    made = solver(case, plan, "fused")
    made.factor()
    made.solve()
    assert made.pivot_failed.numpy().tolist() == [0, 1, 2]
    inputs = made.solution(case.inputs).numpy()
    assert inputs[0].any()
    assert not inputs[1:].any()


def test_value_updates_are_symmetric_to_the_last_bit() -> None:
    """The update V of every front, read from the workspace of the cooperative schedule, equals its transpose bit for bit."""
    case = chain(everything=True)
    made = solved(case, "chronological", "cooperative")
    nx, nu, row = 4, 2, made.schedule.layout.row
    records = made._arrays["work"].numpy().reshape(3, len(made.plan.fronts), -1)
    V = records[:, :, -nx * row :].reshape(3, -1, nx, row)[..., :nx]
    assert records.shape[-1] == nu * nu + nu * row + 2 + nx * row
    np.testing.assert_array_equal(V, V.swapaxes(-1, -2))
