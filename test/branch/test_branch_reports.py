"""Reports before compiling: numbers checked by hand, refusals with the report attached."""

import numpy as np
import pytest
import warp as wp
from chains import chain, solver

import branch_mpc.branch as br
from branch_mpc.errors import PlanError, ScheduleError


def tiny(order: str) -> br.Plan:
    """Two steps of one joint: nx 2, nu 1, A with 3 nonzeros, B with 2."""
    case = chain(instances=4, steps=2, joints=1)
    return br.plan(case.problem, br.order.dense(case.inputs) if order == "dense" else br.order.frames(case.inputs))


def test_chronological_plan_counts_by_hand() -> None:
    """Two fronts [u_t; x_t] in two levels: fill 2 (1 + 2), storage (6 + 2 + 8) numbers, operations counted on paper."""
    plan = tiny("chronological")
    assert plan.classes == {(1, 2): 2}
    assert [(f.frames, f.children, f.parent, f.level) for f in plan.fronts] == [((1,), (), 1, 0), ((0,), (0,), None, 1)]
    assert (len(plan.levels), plan.depth, plan.fill, plan.bytes_per_instance) == (2, 2, 6, 64)
    # [A B]' [V v]: 2 x 5 x 3; lower triangle times [A B]: 2 (1 x 2 + 2 x 1 + 3 + 2); root 1; Y 3; update 2 (3 + 2)
    assert plan.flops == (2 * (30 + 18 + 1 + 3 + 10), 2 * (4 + 1) + 2 * 5 * 2)
    np.testing.assert_array_equal(plan.table(), [[1, -1, 1], [0, 0, -1]])


def test_dense_plan_counts_by_hand() -> None:
    """One front of both inputs: fill 3, storage (3 + 2 + 8) numbers, operations counted on paper."""
    plan = tiny("dense")
    assert plan.classes == {(2, 0): 1}
    assert (len(plan.levels), plan.depth, plan.fill, plan.bytes_per_instance) == (1, 1, 3, 52)
    # two substitutions of 48; one block below the diagonal 2 (2 + 3); Cholesky of 2: 2 roots, 1 division, 1 product, 1 difference; y 4
    assert plan.flops == (96 + 10 + 5 + 4, 4 + 20)


def test_reports_print_the_numbers() -> None:
    """The tables name the block sets and hold the figures of the attributes."""
    text = tiny("chronological").report()
    sizes = ("'acceleration' 2 x 1", "'state' 3 x 2", "64 bytes per instance, 256 in all")
    for part in ("chronological", *sizes, "fill 6", "depth 2", "factor 124"):
        assert part in text


def test_schedules_report_launches_and_storage() -> None:
    """Launches per phase, shared memory and workspace, by hand: rows of 4 numbers for one thread, of 3 for lanes."""
    plan = tiny("chronological")
    serial, cooperative, fused = br.Schedule.serial(plan), br.Schedule.cooperative(plan), br.Schedule.fused(plan, block_dim=64)
    assert (serial.launches, cooperative.launches, fused.launches) == ((1, 1), (2, 2), (1, 1))
    # V 2x3, R 3x3, M 3x3, P 1, Y 3, flag 1 in float32
    assert (serial.shared_bytes, cooperative.shared_bytes, fused.shared_bytes) == (0, 116, 116)
    # a record: L 1, Y one row, two statistics; and the update of 2 rows where launches part the fronts
    assert (serial.workspace, cooperative.workspace, fused.workspace) == (2 * 7, 2 * 12, 2 * 6)
    assert "launches: factor 2, solve 2" in cooperative.report()
    assert "every level holds one front" in cooperative.report()
    assert "one block of 64 per (instance, chain)" in fused.report()
    assert "note" not in serial.report() + fused.report()
    assert "the plan has one front" in br.Schedule.fused(tiny("dense")).report()


def test_plan_over_the_budget_is_refused_with_its_report() -> None:
    """Four instances of 64 bytes do not go into 255."""
    case = chain(instances=4, steps=2, joints=1)
    with pytest.raises(PlanError, match="needs 256 bytes, the budget is 255") as caught:
        br.plan(case.problem, br.order.frames(case.inputs), memory_budget=255)
    assert "front class" in caught.value.report
    plan = br.plan(case.problem, br.order.frames(case.inputs), memory_budget=256)
    with pytest.raises(ScheduleError, match="the workspace needs 384 bytes, the budget is 256") as caught:
        br.Schedule.cooperative(plan)
    assert "launches" in caught.value.report


def test_front_wider_than_shared_memory_is_refused_with_its_report() -> None:
    """A dense front of 100 frames of 6 joints needs 727 kB: more than any block has."""
    case = chain(instances=1, steps=100, joints=6)
    plan = br.plan(case.problem, br.order.dense(case.inputs))
    with pytest.raises(ScheduleError, match="bytes of shared memory, 232448 are available") as caught:
        br.Schedule.cooperative(plan)
    assert "does not fit" in caught.value.report
    with pytest.raises(ScheduleError, match="115 are available"):
        br.Schedule.fused(tiny("chronological"), shared_memory=115)
    assert "fits" in br.Schedule.serial(plan).report()


def test_source_is_readable_and_says_where_it_comes_from() -> None:
    """The header states problem, plan, schedule and versions; the text holds the constants and both kernels."""
    text = solver(chain(), "chronological", "serial").source()
    versions = ("# branch_mpc", "generator", "warp " + wp.config.version)
    for part in (*versions, "# plan chronological", "# schedule serial", "A (4, 4) constants, 6 nonzeros"):
        assert part in text
    for part in ("def branch_factor(", "def branch_solve(", "T(0.1) * r[0] + r[2]", "// UPDATE"):
        assert part in text
    assert max(map(len, text.splitlines())) < 1200
