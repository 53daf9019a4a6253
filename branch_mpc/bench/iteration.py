"""Times one SQP iteration and its parts: `python -m branch_mpc.bench.iteration`.

Every row states its boundary. 'device' is a captured graph replayed back to back, divided by the number of replays;
'host to host' is `Controller.step`, from a measurement in host memory to the plan in host memory. The merit and the
KKT residual of the timed iterate stand beside each time.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import warp as wp

from branch_mpc.bench.facts import provenance
from branch_mpc.mpc.controller import Controller
from branch_mpc.mpc.plan import JointSample
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot import Articulation, load_robot, ready_configuration
from branch_mpc.sqp.solver import SqpSolver


def timed(run: Callable[[], None], finish: Callable[[], None], *, budget: float = 1.0, blocks: int = 15) -> list[float]:
    """Seconds per call of `run`, one number per block of calls; `finish` waits for the device at the end of a block."""
    run()
    finish()
    begun = time.perf_counter()
    run()
    finish()
    count = max(1, int(budget / blocks / max(time.perf_counter() - begun, 1e-7)))
    seconds = []
    for _ in range(blocks):
        begun = time.perf_counter()
        for _ in range(count):
            run()
        finish()
        seconds.append((time.perf_counter() - begun) / count)
    return seconds


def row(seconds: list[float], **facts: object) -> dict:
    """One result: median, minimum and maximum over blocks in microseconds, with its facts."""
    return {**facts, "us_median": 1e6 * float(np.median(seconds)), "us_min": 1e6 * min(seconds), "us_max": 1e6 * max(seconds)}


def _arm(robot: str) -> tuple[Articulation, np.ndarray]:
    """The robot of this name or JSON file (which needs no Pinocchio) and its start configuration."""
    articulation = load_robot(robot)
    return articulation, ready_configuration(articulation.name)


def iteration_rows(robot: str, knots: int, batch: int, device: str, weights: CostWeights, schedule: str) -> list[dict]:
    """Device times of one iteration and of its parts from a converged iterate of the figure-8."""
    articulation, q = _arm(robot)
    solver = SqpSolver(
        articulation, knots=knots, step=0.01, batch=batch, weights=weights, device=device, iterations=4, retries=0, schedule=schedule
    )
    targets = window(figure8_for(articulation.name), 0.0, knots, 0.01)
    result = solver.solve(np.r_[q, 0 * q], targets)
    facts = {"robot": articulation.name, "knots": knots, "batch": batch, "iterations": 1, "boundary": "device", "schedule": schedule}
    facts |= {"merit": float(result.merit[0]), "kkt_residual": float(result.kkt_residual[0])}
    rows = []
    parts = {"iteration": solver.launch_iteration, "terms": solver.launch_terms, "factor and solve": solver.launch_direction}
    parts["merit"] = lambda: solver.launch_merit(0, 1)
    for name, launches in parts.items():
        # an accepted or converged problem leaves the active set; the parts are timed with every problem in it
        solver.linear.active.fill_(1)
        seconds = timed(solver.capture(launches), lambda: wp.synchronize_device(solver.device))
        rows.append(row(seconds, part=name, **facts))
    return rows


def tick_row(robot: str, knots: int, batch: int, device: str, weights: CostWeights) -> dict:
    """Host-to-host time of a whole tick: delay, warm start, hypotheses, one iteration, selection, outputs."""
    articulation, q = _arm(robot)
    controller = Controller(articulation, MpcSettings(knots=knots, batch=batch, device=device, weights=weights))
    sample = JointSample(0.0, q, 0 * q)
    controller.reset(sample)
    targets, ticks = window(figure8_for(articulation.name), 0.0, knots, 0.01), []
    torque = controller.step(sample, 0.0, targets).torque[0]
    for k in range(1, 400):
        controller.sent((k - 1) * 0.01, torque)
        begun = time.perf_counter()
        plan = controller.step(JointSample(0.01 * k, q, 0 * q), 0.01 * k, targets)
        ticks.append(time.perf_counter() - begun)
    facts = {"robot": articulation.name, "knots": knots, "batch": batch, "iterations": 1}
    facts |= {"boundary": "host to host", "schedule": controller.policy.schedule}
    return row(ticks[20:], part="tick", **facts, merit=plan.merit, kkt_residual=plan.kkt_residual) | {
        "us_p99": 1e6 * float(np.quantile(ticks[20:], 0.99))
    }


def environment(device: str) -> dict:
    """Date, device and versions of a measurement."""
    return {**provenance(), "device": device, "device_name": "CPU" if device == "cpu" else wp.get_device(device).name}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write JSON when asked."""
    parser = argparse.ArgumentParser(prog="branch_mpc.bench.iteration", description="time one SQP iteration and its parts")
    parser.add_argument("--robot", default="indy7", help="shipped robot, or an articulation saved as JSON")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--schedule", default="serial")
    parser.add_argument("--knots", type=int, nargs="+", default=[32])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    wp.config.quiet = True
    gato = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
    rows = []
    for knots in options.knots:
        for batch in options.batch:
            new = iteration_rows(options.robot, knots, batch, options.device, gato, options.schedule)
            new.append(tick_row(options.robot, knots, batch, options.device, gato))
            rows += new
            for r in new:
                print(
                    f"{r['robot']:8s} N {knots:4d} M {batch:4d} {r['part']:17s} {r['us_median']:9.1f} us"
                    f" ({r['us_min']:.1f} to {r['us_max']:.1f}, {r['boundary']}) merit {r['merit']:.4f} KKT {r['kkt_residual']:.1e}"
                )
    result = {**environment(options.device), "rows": rows}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
