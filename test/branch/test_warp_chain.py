"""The warp sweep on fibers against the float64 oracle and the general body."""

import numpy as np
import pytest
import warp as wp
from chains import assert_optimal, chain, results, solved, solver

import branch_mpc.branch as br
from branch_mpc.branch import warp_chain


@pytest.fixture
def fibers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of the CPU run as fibers, so that lanes are real."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)


def damped(joints: int, seed: int, initial: bool = False, steps: int = 5):
    """A double integrator with one quadratic term, damping of every unknown and, if asked, an initial state."""
    case = chain(joints=joints, seed=seed, steps=steps)
    rng = np.random.default_rng(seed + 100)
    scale = rng.uniform(0.5, 2.0, 3 * joints) * np.repeat([1.0, 1e-2, 1e-4], joints)
    weight = wp.array(rng.uniform(0.1, 1.0, 3), dtype=wp.float32, device="cpu")
    case.problem.add(br.damping(case.states, case.inputs, scale=scale, weight=weight))
    return case


def applied(made: br.Solver) -> bool:
    """True when the solver took the warp sweep."""
    return "warp_sync" in made.source()


@pytest.mark.parametrize("joints", (1, 4, 6, 7))
def test_warp_sweep_is_optimal(joints: int, fibers: None) -> None:
    """Odd and even joint numbers, one to four rows a half: solution, gradient and decrease are the oracle's and the general body's."""
    made = solved(damped(joints, joints), "chronological", "fused")
    assert applied(made)
    assert_optimal(made)
    plain = solved(damped(joints, joints), "chronological", "serial")
    # two float32 eliminations of blocks with condition of a few hundred
    for a, b in zip(results(plain), results(made), strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-4 * max(1.0, np.abs(a).max()))


def test_failures_are_told_apart_and_inactive_instances_stay(fibers: None) -> None:
    """An indefinite pivot is 1, a right-hand side that is not finite 2; neither nor an inactive instance touches the solution."""
    case = damped(6, 3)
    made = solved(case, "chronological", "fused")
    before = results(made)
    H, g = case.H[0].numpy().copy(), case.g[0].numpy().copy()
    H[0, 2, 12, 12] = -1e4
    g[1, 3, 13] = np.inf
    g[2] *= 2.0
    case.H[0].assign(H)
    case.g[0].assign(g)
    made.active.assign(np.array([1, 1, 0], dtype=np.int32))
    made.factor()
    made.solve()
    after = results(made)
    assert after[-1].tolist() == [1, 2, 0]
    for a, b in zip(before[:-1], after[:-1], strict=True):
        assert np.array_equal(a, b)


def test_general_body_remains_for_everything_else(fibers: None) -> None:
    """Offsets, other transitions, eight joints, float64 and other schedules keep the general body."""
    for case, schedule in (
        (chain(everything=True), "fused"),
        (chain(matrices="frames"), "fused"),
        (chain(dtype=wp.float64), "fused"),
        (chain(), "cooperative"),
    ):
        assert not applied(solver(case, "chronological", schedule))
    plan = br.plan((case := chain(joints=8)).problem, br.order.frames(case.inputs, time="chronological"))
    assert not warp_chain.applies(plan, "fused", 32, wp.get_device("cpu"))


def test_one_lane_on_the_cpu_never_takes_the_warp_sweep() -> None:
    """Without fibers a block is one lane, and a sweep over 32 would give wrong numbers."""
    assert not applied(solver(chain(), "chronological", "fused"))
