"""The map: every plan under every schedule over robots, batches and horizons, with an accuracy gate.

Rows are plain dictionaries, as they go into JSON. The summary says what wins in each cell, how far the runner-up is, and
what one fixed choice for the whole map would cost.
"""

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from branch_mpc.bench.map_cases import GATES, UNITS, Case, Workload, measure
from branch_mpc.errors import BranchMpcError, SettingError
from branch_mpc.examples.choices import LETTERS, PLANS, Choice, choices
from branch_mpc.robot.tree_library import MissingRobotError, load_tree
from branch_mpc.robot.tree_model import TreeModel

WIDE = 256
"""Unknowns over which a plan that ignores time is left out of a trajectory map."""
FIXED_SHARE = 0.9
"""Part of the cells that a fixed choice must pass in."""
Tell = Callable[[str], None]


def candidates(workload: Workload) -> list[Choice]:
    """Return the choices that a map tries on a workload: every plan under every schedule that has a meaning there.

    Plans in time need frames; on long trajectories of large robots, tree and dense are left out: one front of all frames.
    """
    if workload.frames == 1:
        return choices(PLANS[:2])
    return choices(PLANS if workload.frames * workload.tree.dof <= WIDE else PLANS[2:])


def map_rows(
    workloads: Sequence[Workload],
    device: str,
    *,
    budget: float = 0.3,
    twins: bool = True,
    deadline: float = np.inf,
    tell: Tell = lambda text: None,
    keep: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
) -> list[dict[str, Any]]:
    """Measure every choice on every workload.

    Args:
        workloads: The cells.
        device: Where to run.
        budget: Time to spend on the timing of one row [s].
        twins: Gate against the float64 twin; otherwise against the first choice that runs, for cells too large for the twin.
        deadline: `time.monotonic()` after which no row is begun [s].
        tell: Told of each row that begins.
        keep: Given all rows after each cell.
    """
    rows: list[dict[str, Any]] = []
    for workload in workloads:
        if time.monotonic() > deadline:
            break
        case = Case(workload, twins=twins)
        for choice in candidates(workload):
            if time.monotonic() > deadline:
                break
            tell(f"{workload.label}: {choice.label}")
            rows.append(_row(case, choice, device, budget))
            gc.collect()
        keep(rows)
    return rows


def _row(case: Case, choice: Choice, device: str, budget: float) -> dict[str, Any]:
    w = case.workload
    row: dict[str, Any] = {
        "application": w.application,
        "robot": w.tree.name,
        "dof": w.tree.dof,
        "batch": w.batch,
        "frames": w.frames,
        "plan": choice.plan,
        "schedule": choice.schedule,
        "block_dim": choice.block_dim if choice.schedule in ("instance_blocks", "cooperative", "fused") else None,
        "device": device,
        "reference": case.reference_name,
        "gate": GATES[w.application],
        "unit": UNITS[w.application],
        "refused": None,
    }
    try:
        return row | measure(case, choice, device, budget=budget)
    except (BranchMpcError, RuntimeError) as error:  # RuntimeError: Warp has no memory left, or a launch failed
        reason = str(error).strip().splitlines()
        return row | {"passed": False, "us": None, "residual": None, "refused": reason[0] if reason else type(error).__name__}


def cell_of(row: dict[str, Any]) -> tuple[str, str, int, int]:
    """Return the cell that a row belongs to: application, robot, batch, frames."""
    return row["application"], row["robot"], row["batch"], row["frames"]


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return winners, runner-up gaps and the cost of a fixed choice.

    Returns:
        'cells': per cell the winner, its time, the ratio of the runner-up, and how many choices passed; 'fixed': the one
        choice that passes in at least 90 % of the cells with the best geometric mean ratio to the winners, its worst ratio
        and where that is; 'runner_up': median and worst ratio.
    """
    cells: dict[tuple[str, str, int, int], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault(cell_of(row), [])
        if row["passed"]:
            cells[cell_of(row)].append(row)
    won = {cell: sorted(passed, key=lambda row: row["us"]) for cell, passed in cells.items()}
    found = [_winner(cell, passed, sum(cell_of(row) == cell for row in rows)) for cell, passed in won.items()]
    gaps = [entry["runner_up_ratio"] for entry in found if entry["runner_up_ratio"] is not None]
    runner_up = {"median": float(np.median(gaps)), "worst": max(gaps)} if gaps else None
    return {"cells": found, "runner_up": runner_up, "fixed": _fixed({cell: passed for cell, passed in won.items() if passed})}


def _winner(cell: tuple[str, str, int, int], passed: list[dict[str, Any]], tried: int) -> dict[str, Any]:
    entry: dict[str, Any] = dict(zip(("application", "robot", "batch", "frames"), cell, strict=True))
    entry |= {"tried": tried, "passed": len(passed), "plan": None, "schedule": None, "letter": None, "us": None, "runner_up_ratio": None}
    if passed:
        best = passed[0]
        entry |= {"plan": best["plan"], "schedule": best["schedule"], "letter": LETTERS[best["schedule"]], "us": best["us"]}
    if len(passed) > 1:
        second = passed[1]
        entry |= {"runner_up_ratio": second["us"] / best["us"], "runner_up": f"{second['plan']} / {second['schedule']}"}
    return entry


def _fixed(won: dict[tuple[str, str, int, int], list[dict[str, Any]]]) -> dict[str, Any] | None:
    """The best single choice for the whole map, and what it costs."""
    ratios: dict[str, dict[tuple[str, str, int, int], float]] = {}
    for cell, passed in won.items():
        for row in passed:
            ratios.setdefault(f"{row['plan']} / {row['schedule']}", {})[cell] = row["us"] / passed[0]["us"]
    able = {label: costs for label, costs in ratios.items() if len(costs) >= FIXED_SHARE * len(won)}
    if not able:
        return None
    label = min(able, key=lambda name: float(np.mean(np.log(list(able[name].values())))))
    costs = able[label]
    worst = max(costs, key=lambda cell: costs[cell])
    return {
        "choice": label,
        "cells": len(won),
        "without_passing_row": len(won) - len(costs),
        "mean_ratio": float(np.exp(np.mean(np.log(list(costs.values()))))),
        "worst_ratio": costs[worst],
        "worst_cell": dict(zip(("application", "robot", "batch", "frames"), worst, strict=True)),
    }


def workloads_of(
    application: str, robots: Sequence[str], batches: Sequence[int], horizons: Sequence[int], tell: Tell = lambda text: None
) -> list[Workload]:
    """Return the cells of a grid; robots whose optional package is missing are told of and left out.

    Args:
        application: "ik", "trajectory" or "contact".
        robots: Names or files.
        batches: Problems, trajectories or worlds.
        horizons: Frames; used by trajectories alone.
        tell: Told of each robot that is left out.

    Raises:
        SettingError: No robot is left, or a number that cannot be used.
        RobotError: An unknown robot, or a file that holds none.
    """
    if min([*batches, *horizons], default=0) < 1:
        raise SettingError("a batch or a horizon is under 1", "give whole numbers of at least 1")
    if application == "trajectory" and min(horizons) < 2:
        raise SettingError(f"a trajectory of {min(horizons)} frames", "give horizons of at least 2; a single pose is --application ik")
    trees: list[TreeModel] = []
    missing: list[str] = []
    for robot in robots:
        try:
            trees.append(load_tree(robot))
        except MissingRobotError as error:
            missing.append(str(error))
            tell(f"left out: {error}")
    if not trees:
        raise SettingError(f"no robot can be loaded ({missing[0]})", "name robots that are installed")
    frames = horizons if application == "trajectory" else [1]
    return [Workload(application, tree, batch, horizon) for tree in trees for horizon in frames for batch in batches]
