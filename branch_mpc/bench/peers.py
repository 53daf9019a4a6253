"""Other libraries on our problems: Newton's IK, PyRoki/jaxls, pytorch_kinematics: `python -m branch_mpc.bench.peers`.

Same targets, same starts, same iterations, and one accuracy gate for all: effector within 1 mm. Each peer is an optional
package that its user installs; one that is missing or fails is a row that says why.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from branch_mpc.bench import peers_jax, peers_newton, peers_torch
from branch_mpc.bench.iteration import timed
from branch_mpc.bench.peers_problem import PeerProblem, PeerSolve
from branch_mpc.errors import BranchMpcError
from branch_mpc.examples.choices import PLANS, SCHEDULES, Choice
from branch_mpc.examples.inverse_kinematics import InverseKinematics, reachable, start_configurations
from branch_mpc.examples.levenberg_marquardt import SearchSettings, captured
from branch_mpc.examples.targets import effector_poses
from branch_mpc.examples.trajectory_ik import TrajectoryIk, smooth_targets
from branch_mpc.robot.tree_library import load_tree
from branch_mpc.robot.tree_model import TreeModel

GATE = 1e-3
"""Largest effector distance of a solved pose [m]."""
PEERS: dict[str, Callable[[PeerProblem], PeerSolve]] = {
    "newton": peers_newton.prepare,
    "pyroki": peers_jax.prepare,
    "pytorch_kinematics": peers_torch.prepare,
}


def problem_of(tree: TreeModel, batch: int, frames: int, starts: int, iterations: int, device: str) -> PeerProblem:
    """Return the problem that everybody solves: single poses with several starts, or trajectories from the nominal pose."""
    if frames > 1:
        return PeerProblem(tree, smooth_targets(tree, batch, frames), tree.nominal[None], iterations, device, frames)
    return PeerProblem(tree, reachable(tree, batch, spread=0.7), start_configurations(tree, starts), iterations, device, 1)


def row_of(name: str, problem: PeerProblem, prepare: Callable[[PeerProblem], PeerSolve], budget: float) -> dict[str, Any]:
    """Return the row of one solver: time of a whole solve, accuracy, or why there is none."""
    row: dict[str, Any] = {
        "solver": name,
        "robot": problem.tree.name,
        "batch": problem.batch,
        "frames": problem.frames,
        "starts": len(problem.starts) if problem.frames == 1 else 1,
        "iterations": problem.iterations,
        "device": problem.device,
        "missing": None,
    }
    begun = time.perf_counter()
    try:
        solve = prepare(problem)
        solve.run()
        solve.wait()
        row["first_s"] = time.perf_counter() - begun
        seconds = timed(solve.run, solve.wait, budget=budget, blocks=5)
        answer = np.asarray(solve.answer(), dtype=float)
    except Exception as error:  # whatever another library raises is part of the result
        return row | {
            "passed": False,
            "us": None,
            "missing": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}",
        }
    distance = effector_poses(problem.tree, answer).error(problem.targets)[0]
    solved = distance < GATE if problem.frames == 1 else distance.max(axis=-1) < GATE
    return row | {
        "us": 1e6 * float(np.median(seconds)),
        "us_min": 1e6 * min(seconds),
        "us_max": 1e6 * max(seconds),
        "solved": float(solved.mean()),
        "distance_median": float(np.median(distance)),
        "distance_worst": float(distance.max()),
        "passed": bool(solved.mean() >= 0.99),
        "boundary": solve.boundary,
    }


def ours(choice: Choice) -> Callable[[PeerProblem], PeerSolve]:
    """Return the preparation of one of our configurations."""

    def prepare(problem: PeerProblem) -> PeerSolve:
        settings = SearchSettings(iterations=problem.iterations)
        if problem.frames > 1:
            path = TrajectoryIk(problem.tree, problem.batch, problem.frames, choice=choice, device=problem.device, settings=settings)
            path.set_targets(problem.targets)
            device, launch, result = path.search.poses.device, path.search.launch, path.search.accepted
        else:
            count = len(problem.starts)
            solver = InverseKinematics(problem.tree, problem.batch, starts=count, choice=choice, device=problem.device, settings=settings)
            solver.set_targets(problem.targets)
            solver.set_starts(problem.starts)
            device, launch, result = solver.search.poses.device, solver.launch, solver.chosen
        replay = captured(launch, device)
        return PeerSolve(replay, lambda: wp.synchronize_device(device), lambda: result.numpy(), "device, captured graph")

    return prepare


def main(arguments: list[str] | None = None) -> int:
    """Measure, print one line a solver, and write JSON when asked."""
    parser = argparse.ArgumentParser(prog="branch_mpc.bench.peers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--robots", nargs="+", default=["panda"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--frames", type=int, default=1, help="frames of a trajectory; 1: single poses")
    parser.add_argument("--starts", type=int, default=17)
    parser.add_argument("--iterations", type=int, default=0, help="default 24, 32 for trajectories")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=2.0, help="time to spend on a row")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--ours", nargs="*", default=["tree/serial", "dense/serial"], metavar="PLAN/SCHEDULE")
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    wp.config.quiet = True
    choices = [Choice(*text.split("/")) for text in options.ours]
    if wrong := [c.label for c in choices if c.plan not in PLANS or c.schedule not in SCHEDULES]:
        parser.error(f"unknown choice {wrong[0]}")
    iterations = options.iterations or (24 if options.frames == 1 else 32)
    solvers = {choice.label: ours(choice) for choice in choices} | {name: PEERS[name] for name in options.peers}
    rows = []
    for robot in options.robots:
        try:
            tree = load_tree(robot)
        except BranchMpcError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        for batch in options.batch:
            problem = problem_of(tree, batch, options.frames, options.starts, iterations, options.device)
            for name, prepare in solvers.items():
                rows.append(row_of(name, problem, prepare, options.seconds))
                print(line_of(rows[-1]), flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return 0 if rows else 1


def line_of(row: dict[str, Any]) -> str:
    """Return a row as one line."""
    place = f"{row['robot']:10s} B {row['batch']:6d} T {row['frames']:4d} {row['solver']:24s}"
    if row["missing"]:
        return f"{place} not measured: {row['missing']}"
    accuracy = f"{100 * row['solved']:.1f} % within 1 mm, median {1e3 * row['distance_median']:.2g} mm"
    return f"{place} {1e-3 * row['us']:10.3f} ms  {accuracy}  {'passed' if row['passed'] else 'FAILED the gate'}"


if __name__ == "__main__":
    sys.exit(main())
