"""What the solver of trees promises beside the numbers: masks, flags that name their cause, determinism, graphs, reports, planning."""

import numpy as np
import pytest
import warp as wp
from trees import ORDERS, SCHEDULES, assert_optimal, positive, results, run, solver, tree

import branch_mpc.branch as br
from branch_mpc.branch import tables
from branch_mpc.errors import PlanError, ScheduleError

SOME = [("tree", "serial"), ("dense", "cooperative"), ("cyclic", "instance_blocks")]


@pytest.mark.parametrize(("order", "schedule"), SOME)
def test_failures_are_flagged_by_name_and_leave_outputs_alone(order: str, schedule: str) -> None:
    """A NaN and an indefinite term flag their own instance, name block and term, keep its outputs, and go when the cause goes."""
    case = tree()
    made = run(solver(case, order, schedule))
    before = results(made)
    good = case.arrays["H"].numpy().copy()
    for value, flag, words in ((np.nan, 1, "H of the quadratic term on 'x' (not finite)"), (-1e4, 1, "H of the quadratic term on 'x'")):
        bad = good.copy()
        bad[2 * 4 - 1, 4, 5, 5] = value
        case.arrays["H"].assign(bad)
        run(made)
        assert made.pivot_failed.numpy().tolist() == [0, flag]
        (line,) = made.failures()
        assert line.startswith("instance 1: a pivot is not positive and finite where ")
        assert words in line
        assert ("u['body4', 3]" if order == "tree" else "frame") in line
        for old, new in zip(before[:2], results(made), strict=False):
            np.testing.assert_array_equal(old[1], new[1])
    case.arrays["H"].assign(good)
    g = case.arrays["g"].numpy().copy()
    wrong = g.copy()
    wrong[0, 1, 2, 3] = np.inf
    case.arrays["g"].assign(wrong)
    run(made)
    assert made.pivot_failed.numpy().tolist() == [2, 0]
    assert "g of the quadratic term on 'x' (not finite)" in made.failures()[0]
    case.arrays["g"].assign(g)
    assert_optimal(run(made))
    assert made.failures() == []


def test_a_body_without_any_term_is_a_singular_front() -> None:
    """Without damping a joint that no term sees has a zero pivot, which is flagged and named."""
    u = br.tangents(br.Topology((-1, 0), (1, 1), ("arm", "hand")), instances=1)
    rng = np.random.default_rng(0)
    x = br.twists(u, S=wp.array(rng.normal(size=(1, 1, 2, 6)), dtype=wp.float32))
    problem = br.Problem()
    problem.add(br.quadratic(x["arm"], H=wp.array(positive(rng, 1, 1), dtype=wp.float32)))
    plan = br.plan(problem, br.order.tree(u))
    made = run(br.compile(plan, br.Schedule.serial(plan)))
    assert made.pivot_failed.numpy().tolist() == [1]
    assert "u['hand', 0] is eliminated" in made.failures()[0]


def test_inactive_instances_keep_their_outputs() -> None:
    """An instance whose mask is 0 keeps solution and flags, even with numbers that would fail."""
    case = tree()
    made = run(solver(case, "cyclic", "levels"))
    before = results(made)
    made.active.assign([1, 0])
    H = case.arrays["H"].numpy().copy()
    H[4:] = -1.0
    case.arrays["H"].assign(H)
    run(made)
    for old, new in zip(before, results(made), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(("order", "schedule"), [(o, s) for o in ORDERS for s in ("serial", "fused")])
def test_replayed_graphs_repeat_the_bits(order: str, schedule: str) -> None:
    """A captured graph of linearise, factor and solve gives the bits of the launches, also after the inputs changed in place."""
    case = tree()
    made = run(solver(case, order, schedule))
    with wp.ScopedCapture(device="cpu") as capture:
        run(made)
    case.arrays["q"].assign(0.5 * case.arrays["q"].numpy())
    wp.capture_launch(capture.graph)
    replayed = results(made)
    run(made)
    for a, b in zip(replayed, results(made), strict=True):
        np.testing.assert_array_equal(a, b)


def test_evaluate_gives_the_cost_of_linearize() -> None:
    """The cost without derivatives is the cost with them, bit for bit."""
    made = solver(tree(), "tree", "serial")
    made.linearize()
    cost = made.cost.numpy().copy()
    made.cost.zero_()
    made.evaluate()
    np.testing.assert_allclose(made.cost.numpy(), cost, rtol=1e-6)  # contractions of multiply-adds may differ


def long_chain(frames: int, bodies: int) -> tuple[br.Problem, br.Tangents]:
    """Zeros of the size of a humanoid: what planning sees."""
    parents = tuple(b - 1 if b % 10 else max(0, b // 10 - 1) if b else -1 for b in range(bodies))
    u = br.tangents(br.Topology(parents, (1,) * bodies), instances=1, frames=frames)
    C = wp.zeros((1, max(1, frames - 1), bodies, bodies), dtype=wp.float32)
    x = br.twists(u, S=wp.zeros((1, frames, bodies, 6), dtype=wp.float32))
    problem = br.Problem()
    problem.add(br.quadratic(x[[9, 19]], H=wp.zeros((frames, 2, 6, 6), dtype=wp.float32)))
    problem.add(br.damping(u, weight=0.1))
    if frames > 1:
        problem.add(br.coupling(u, C=C))
    return problem, u


def test_plans_count_by_hand() -> None:
    """Seven frames of three unknowns: widths, levels and fill of the block recursions."""
    problem, u = _blocks(7, 3)
    chronological = br.plan(problem, br.order.frames(u))
    assert chronological.classes == {(0, 3, 3): 6, (0, 3, 0): 1}
    assert (chronological.depth, chronological.fill) == (7, 7 * 6 + 6 * 9)
    cyclic = br.plan(problem, br.order.frames(u, time="cyclic"))
    # frames 1 3 5 couple two neighbours each, 2 and 6 one or two of those left, 4 and 0 end
    assert [f.pivots[0] for f in cyclic.fronts] == [1, 3, 5, 2, 6, 4, 0]
    assert [len(f.coupled) for f in cyclic.fronts] == [2, 2, 2, 2, 1, 1, 0]
    assert [f.level for f in cyclic.fronts] == [0, 0, 0, 1, 1, 2, 3]
    dense = br.plan(problem, br.order.dense(u))
    assert (dense.classes, dense.fill) == ({(0, 21, 0): 1}, 21 * 22 // 2)
    for part in ("chronological", "substituted", "fill 96", "depth 7", "levels 7"):
        assert part in chronological.report()


def _blocks(frames: int, n: int) -> tuple[br.Problem, br.Tangents]:
    """Frame blocks and couplings only, no twists."""
    u = br.tangents(br.Topology(tuple(range(-1, n - 1)), (1,) * n), instances=1, frames=frames)
    problem = br.Problem()
    problem.add(br.quadratic(u, H=wp.zeros((1, frames, n, n), dtype=wp.float32), g=wp.zeros((1, frames, n), dtype=wp.float32)))
    problem.add(br.coupling(u, C=wp.zeros((1, frames - 1, n, n), dtype=wp.float32)))
    return problem, u


@pytest.mark.parametrize("order", ("tree", "dense", "chronological", "cyclic"))
def test_fronts_hold_the_fill_of_a_dense_elimination(order: str) -> None:
    """The coupled blocks of every front are those that eliminating a full matrix of blocks in the same order would couple."""
    problem, u = _blocks(6, 3) if order != "tree" else long_chain(1, 30)
    plan = br.plan(problem, ORDERS[order](u))
    blocks = plan.blocks
    size = len(blocks.first)
    pattern = np.eye(size, dtype=bool)
    for row, col in zip(blocks.of(plan.records[:, 3]), blocks.of(plan.records[:, 4]), strict=True):
        if not blocks.twists:
            pattern[row, col] = pattern[col, row] = True
    left = set(range(size))
    for front in plan.fronts:
        own = {*front.pivots, *([] if front.substituted is None else [front.substituted])}
        if front.substituted is not None:
            body = front.substituted - blocks.count
            near = {body} | ({blocks.count + u.topology.parents[body]} if u.topology.parents[body] >= 0 else set())
            near |= set(np.flatnonzero(pattern[front.substituted])) - own
        else:
            near = set()
        near |= {int(c) for p in front.pivots for c in np.flatnonzero(pattern[p])}
        left -= own
        coupled = near & left
        assert set(front.coupled) == coupled
        for a in coupled:
            pattern[a, list(coupled)] = True


@pytest.mark.parametrize("order", ORDERS)
def test_schedules_cover_every_front_once_and_in_order(order: str) -> None:
    """Under every schedule each front runs once, after its children."""
    plan = _plan(order)
    for name, make in SCHEDULES.items():
        numbers, launches = make(plan).groups
        seen: list[int] = []
        for first, count in launches:
            for row in range(first, first + count):
                at, length = numbers[2 * row : 2 * row + 2]
                for front in numbers[at : at + length].tolist():
                    assert set(plan.fronts[front].children) <= set(seen), name
                    seen.append(front)
        assert sorted(seen) == list(range(len(plan.fronts)))


def _plan(order: str) -> br.TreePlan:
    case = tree()
    return br.plan(case.problem, ORDERS[order](case.u))


def test_schedules_report_launches_and_degenerate_combinations() -> None:
    """One front makes every schedule the same, a chain has one front a level: the reports say so."""
    dense, chain, cyclic = _plan("dense"), _plan("chronological"), _plan("cyclic")
    assert "the plan has one front" in br.Schedule.fused(dense).report()
    assert "every level holds one front" in br.Schedule.levels(chain).report()
    assert br.Schedule.levels(chain).launches[1] == 4 + 1  # four frames, then the twists
    assert br.Schedule.paths(chain).launches[1] == 1 + 1
    assert br.Schedule.levels(cyclic).launches[1] == cyclic.depth + 1
    assert "note: no front has" not in br.Schedule.fused(chain).report()
    assert "one block of 64 per (instance, path)" in br.Schedule.fused(cyclic, block_dim=64).report()


def test_over_the_budget_is_refused_with_the_report() -> None:
    """A plan, or a schedule whose workspace is larger than the plan thought, carries its report in the error."""
    problem, u = _blocks(7, 3)
    with pytest.raises(PlanError, match="the budget is 100") as caught:
        br.plan(problem, br.order.dense(u), memory_budget=100)
    assert "front class" in caught.value.report
    need = br.plan(problem, br.order.dense(u)).bytes_per_instance
    plan = br.plan(problem, br.order.dense(u), memory_budget=need)
    with pytest.raises(ScheduleError, match="the workspace needs") as refused:
        br.Schedule.levels(br.plan(problem, br.order.dense(u), memory_budget=need))
    assert "launches" in refused.value.report
    assert plan.bytes_per_instance == need


def test_planning_a_humanoid_trajectory_makes_a_table_per_front() -> None:
    """Seventy unknowns in 32 frames plan to 32 fronts, whose table lists 210 variables in the widest."""
    problem, u = long_chain(32, 70)
    plan = br.plan(problem, br.order.frames(u, time="cyclic"))
    assert (len(plan.fronts), plan.depth, max(plan.classes)) == (32, 6, (0, 70, 140))
    table = tables.build(plan, compact=True)
    assert table.numbers.dtype == np.int32
    assert table.panels == sum((p + q + 1) * p for _, p, q in (f.widths for f in plan.fronts))


def test_sources_say_what_they_were_made_from() -> None:
    """The text of every kernel follows the reports of plan and schedule."""
    text = solver(tree(), "cyclic", "serial").source()
    for part in ("# plan cyclic", "# schedule serial", "def branch_factor(", "def branch_condense(", "def branch_rollout("):
        assert part in text
