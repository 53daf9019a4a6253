"""Every plan under every schedule on trees and trajectories, against the float64 oracle."""

from typing import Any

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import ORDERS, SCHEDULES, Tree, assert_optimal, positive, results, run, solver, tree

import branch_mpc.branch as br
from branch_mpc.branch.tree_schedule import TreeSchedule
from branch_mpc.oracle import quadratic_tree as oracle


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("order", ORDERS)
def test_every_plan_and_schedule_is_optimal(order: str, schedule: str) -> None:
    """A trajectory of coupled frames with every kind of term is solved under all combinations."""
    assert_optimal(run(solver(tree(), order, schedule)))


@pytest.mark.parametrize("order", ("tree", "dense"))
def test_transport_and_body_coordinates(order: str) -> None:
    """With matrices X and poses moved in body axes a single frame is solved on the tree and condensed."""
    assert_optimal(run(solver(tree(frames=1, transport=True), order, "serial")))


@pytest.mark.parametrize("order", ("tree", "cyclic"))
def test_frames_that_nothing_couples_are_problems_of_their_own(order: str) -> None:
    """The plan holds one frame only, and every frame is solved."""
    made = solver(tree(frames=3, coupled=False), order, "serial")
    assert (made.plan.split, made.plan.blocks.frames) == (3, 1)
    assert_optimal(run(made))


@pytest.mark.parametrize("order", ("tree", "dense"))
def test_residuals_on_two_bodies(order: str) -> None:
    """A term between bodies of two branches couples them; without a tree order the twists are substituted front by front."""
    assert_optimal(run(solver(tree(frames=1, pairs=True, seed=3), order, "serial")))


def test_orders_may_be_joined_and_spelled_out() -> None:
    """A tree order on a subtree, then the others in one front, and frames named one by one, give the solution of any other order."""
    case = tree(frames=1)
    plan = br.plan(case.problem, br.order.tree(case.u[[2, 3, 4]]) + br.order.eliminate(case.u[[0, 1, 5]]))
    assert plan.kind == "tree + eliminate"
    assert_optimal(run(br.compile(plan, br.Schedule.serial(plan))))
    case = tree(frames=3)
    plan = br.plan(case.problem, br.order.eliminate(case.u[:, 1], case.u[:, [0, 2]]))
    assert plan.classes == {(0, 8, 16): 1, (0, 16, 0): 1}
    assert_optimal(run(br.compile(plan, br.Schedule.levels(plan))))


def test_double_precision_is_carried_through() -> None:
    """In float64 the same code reaches the accuracy of the oracle's differences."""
    assert_optimal(run(solver(tree(frames=2, dtype=wp.float64), "tree", "serial")))


@pytest.mark.parametrize(("order", "schedule"), [("tree", "cooperative"), ("cyclic", "fused"), ("cyclic", "instance_blocks")])
def test_real_lanes_agree_with_one_lane(order: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of 32 fibers with barriers is optimal too."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    assert_optimal(run(solver(tree(), order, schedule)))


@pytest.mark.parametrize("order", ("tree", "chronological"))
def test_panels_on_chip_and_interleaved_cells(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage that threads of a GPU use, panels in registers and neighbouring cells side by side, is right on the CPU too."""
    layout = TreeSchedule.layout
    monkeypatch.setattr(TreeSchedule, "layout", lambda self, cpu: layout(self, False))
    made = solver(tree(), order, "serial")
    assert made._layout.minor
    assert_optimal(run(made))


def test_panels_wider_than_shared_memory_are_factored_in_place() -> None:
    """With 64 bytes of shared memory every panel is in global memory: the report says so and the solution is right."""
    case = tree(frames=2)
    plan = br.plan(case.problem, br.order.dense(case.u))
    schedule = br.Schedule.cooperative(plan, shared_memory=64)
    assert schedule.shared_bytes == 0
    assert "factored in place" in schedule.report()
    assert_optimal(run(br.compile(plan, schedule)))


def test_unrolled_fronts_solve_the_same() -> None:
    """With sizes and table as constants of the code the result is that of the table, to rounding."""
    case = tree(frames=1, parents=(-1, 0, 1, 1, 3), dofs=(1, 1, 1, 1, 1))
    plain, unrolled = (run(solver(case, "tree", "serial", unroll=flag)) for flag in (False, True))
    assert "TABLE[]" in unrolled.source()
    for a, b in zip(results(plain), results(unrolled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)  # other contractions of multiply-adds


@pytest.mark.parametrize("order", ("tree", "dense", "cyclic"))
def test_many_right_hand_sides(order: str) -> None:
    """Columns of the inverse for forces on bodies and tangents, seen at bodies and tangents, are those of the dense inverse."""
    case = tree(seed=5)
    made = run(solver(case, order, "serial"))
    hand = case.x[["body4", "body2"], 1:3]
    many = made.columns(3, given=[hand, case.u], wanted=[case.u, case.x, hand])
    rng = np.random.default_rng(0)
    force, torque = rng.normal(size=(2, 3, 2, 2, 6)), rng.normal(size=(2, 3, 4, 8))
    many.rhs.assign(force)
    many.right_hand_side(case.u).assign(torque)
    many.solve()
    exact = oracle.solve(case.problem)
    rows = exact.J.reshape(2, 4, 6, 6, 32)[:, 1:3][:, :, [4, 2]]
    for m in range(2):
        load = np.einsum("kfbi,fbij->kj", force[m], rows[m]) + torque[m].reshape(3, -1)
        y = np.linalg.solve(exact.H[m], load.T).T
        bound = 60.0 * np.finfo(np.float32).eps * np.linalg.cond(exact.H[m]) * np.abs(y).max()
        np.testing.assert_allclose(many.solution(case.u).numpy()[m].reshape(3, -1), y, rtol=0.0, atol=bound)
        twists, size = (exact.J[m] @ y.T).T.reshape(3, 4, 6, 6), np.abs(exact.J[m]).sum(axis=1).max()
        np.testing.assert_allclose(many.solution(case.x).numpy()[m], twists, rtol=0.0, atol=bound * size)
        np.testing.assert_array_equal(many.solution(hand).numpy()[m], many.solution(case.x).numpy()[m][:, 1:3][:, :, [4, 2]])


def test_numbering_of_siblings_changes_nothing() -> None:
    """Bodies renumbered within the tree: the same problem, the same solution of every body."""
    rng = np.random.default_rng(7)
    numbers = {"S": rng.normal(size=(1, 1, 5, 6)), "H": positive(rng, 1, 1, 5), "g": rng.normal(size=(1, 1, 5, 6))}
    answers = []
    for order, parents in (([0, 1, 2, 3, 4], (-1, 0, 0, 1, 2)), ([0, 2, 1, 4, 3], (-1, 0, 0, 1, 2))):
        u = br.tangents(br.Topology(parents, (1,) * 5), instances=1)
        data = {k: wp.array(v[:, 0, order] if k == "H" else v[:, :, order], dtype=wp.float32) for k, v in numbers.items()}
        x = br.twists(u, S=data["S"])
        problem = br.Problem()
        problem.add(br.quadratic(x, H=data["H"], g=data["g"]))
        problem.add(br.damping(u, weight=0.1))
        plan = br.plan(problem, br.order.tree(u))
        made = run(br.compile(plan, br.Schedule.serial(plan)))
        answers.append(made.solution(u).numpy()[0, 0][np.argsort(order)])
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-4, atol=1e-6)  # sums over children in another order


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    """Problems whose numbers the property tests replace, so that kernels compile once."""
    case = tree()
    return {"case": case, "made": [solver(case, order, "levels") for order in ORDERS]}


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), scale=st.floats(-2.0, 2.0), empty=st.integers(0, 2**6 - 1))
def test_random_terms_are_solved_by_every_plan(compiled: dict[str, Any], seed: int, scale: float, empty: int) -> None:
    """Whatever the terms, their scale, and the bodies that have none."""
    case, rng = compiled["case"], np.random.default_rng(seed)
    H = 10.0**scale * positive(rng, 2 * 4, 6)
    H[:, [b for b in range(6) if empty >> b & 1]] = 0.0
    case.arrays["H"].assign(H)
    case.arrays["g"].assign(10.0**scale * rng.normal(size=(2, 4, 6, 6)))
    case.arrays["q"].assign(rng.normal(size=(2, 4, 8)))
    for made in compiled["made"]:
        assert_optimal(run(made))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_random_trees_run_through_the_same_code(data: st.DataObject) -> None:
    """Any tree with one root and as many bodies compiles to the same kernels, and is solved."""
    parents = (-1, *(data.draw(st.integers(0, b - 1)) for b in range(1, 6)))
    case = tree(frames=1, parents=parents, dofs=(1,) * 6, seed=data.draw(st.integers(0, 1000)))
    made = solver(case, "tree", "paths")
    assert_optimal(run(made))


def unchanged(case: Tree, order: str, schedule: str) -> None:
    """Instance 1 may change without a bit of instance 0 changing."""
    made = run(solver(case, order, schedule))
    before = results(made)
    g = case.arrays["g"].numpy().copy()
    g[1] *= -3.0
    case.arrays["g"].assign(g)
    run(made)
    for old, new in zip(before[:3], results(made), strict=False):
        np.testing.assert_array_equal(old[0], new[0])
        assert (old[1] != new[1]).any()


@pytest.mark.parametrize(("order", "schedule"), [(o, s) for o in ORDERS for s in ("serial", "instance_blocks", "cooperative")])
def test_instances_do_not_touch_each_other(order: str, schedule: str) -> None:
    """Changing the numbers of instance 1 changes no bit of instance 0."""
    unchanged(tree(), order, schedule)
