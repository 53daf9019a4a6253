"""The rows of GATO's timing page on the device at hand, beside the published ones: `branch_mpc bench gato-tables`.

Ours is the figure-8 with GATO's default weights from the hold seed with zero torque; the page's Orin sweeps are GATO's own
example 15, which is not public as data, so counts and merits compare in kind, not digit by digit. The table `quality` is on one and
the same problem. 'warm' is the next tick of a receding horizon: the solution shifted by a knot, from its own second state.
Times are those of a replayed graph that restores the seed and solves, waited for: boundary 'device'.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import warp as wp

from branch_mpc.bench.facts import provenance
from branch_mpc.bench.start import start_configuration
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.mpc.device_facts import facts_of
from branch_mpc.mpc.launch_policy import LaunchPolicy, choose
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.mpc.tuning import Tick, _median
from branch_mpc.optimal_control.reference import figure8_for, window
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.library import load_robot, ready_configuration, robot_names
from branch_mpc.sqp.solver import SqpSolver, check_device
from branch_mpc.sqp.torque_settings import TorqueSettings
from branch_mpc.sqp.torque_solver import TorqueSolver
from branch_mpc.sqp.torque_statistics import STAGES, TorqueResult

GATO = CostWeights(tool_position=2.0, tool_position_terminal=50.0)
ITERATIONS, STEP = 8, 0.01
SOLVERS = ("pcg", "direct", "direct_first")
HORIZONS, BATCHES = (32, 64, 128, 256, 512), (1, 4, 16)
BLOCKS = (32, 64, 128, 256)
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One problem size: solvers of both forms with eight iterations, and the seeds of the cold and the warm solve."""

    torque: TorqueSolver
    acceleration: SqpSolver
    tick: Tick
    budget: float


def published(name: str) -> Any:
    """Return a published table: 'gato_timing' or 'gato_quality'."""
    return json.loads(resources.files("branch_mpc.bench").joinpath("published", f"{name}.json").read_text())


def tick_of(robot: str, tool: str | None, step: float) -> Tick:
    """Return the figure-8 from rest of a robot.

    Raises:
        RobotError: The robot cannot be used.
    """
    arm = load_robot(robot, tool)
    dynamics = HostDynamics(arm)
    q = ready_configuration(arm.name) if arm.name in robot_names() else start_configuration(robot, dynamics)
    at = dynamics.tool(q)[0]
    reference = figure8_for(arm.name, at, reach=float(np.linalg.norm(at - arm.translation[0])))
    return Tick(arm, q, lambda knots: window(reference, 0.0, knots, step))


def measure_tables(
    device: str, *, quick: bool = False, progress: Tell = lambda text: None, robots: tuple[str, ...] = ("indy7", "iiwa14")
) -> dict[str, Any]:
    """Measure every table.

    Args:
        device: Name of a Warp device, or 'auto'.
        quick: Only a few rows of each table.
        progress: Called with a line before each cell.
        robots: Two robots, or saved articulations of them; the page's sweeps are of the first.

    Raises:
        DeviceError: The device does not exist.
    """
    target = check_device(device)
    ticks = [tick_of(robot, None, STEP) for robot in robots]
    sizes = [(N, M) for N in (HORIZONS[:2] if quick else HORIZONS) for M in (BATCHES[:1] if quick else BATCHES)]
    budget = 0.05 if quick else 0.5
    tables: dict[str, Any] = {"device": facts_of(target).name, "iterations": ITERATIONS, "boundary": "device", "quick": quick}
    tables |= {"published_source": published("gato_timing")["source"], **provenance()}
    tables |= {"merit_launch": [], "stages": [], "pcg_iterations": [], "direct_against_pcg": [], "quality": []}
    for N, M in sizes:
        progress(f"{ticks[0].articulation.name}, N {N}, M {M}")
        cell = make_cell(ticks[0], N, M, target, budget)
        tables["direct_against_pcg"].append(row := direct_row(cell))
        if M == 1:
            tables["pcg_iterations"].append(iterations_row(N, row))
        if N in (32, 64) or not quick:
            tables["merit_launch"] += merit_rows(cell)
        if N == 32:
            tables["stages"] += stage_rows(cell)
    for tick in ticks[: 1 if quick else 2]:
        for N in (32, 64):
            progress(f"quality, {tick.articulation.name}, N {N}")
            tables["quality"].append(quality_row(make_cell(tick, N, 1, target, budget)))
    return tables


def make_cell(tick: Tick, knots: int, batch: int, device: Any, budget: float) -> Cell:
    """Compile the solvers of a problem size as the launch policy has them."""
    policies = [_policy(device, knots, batch, form) for form in ("torque", "acceleration")]
    common: dict[str, Any] = {
        "knots": knots,
        "step": STEP,
        "batch": batch,
        "weights": GATO,
        "device": str(device),
        "iterations": ITERATIONS,
    }
    launch: list[dict[str, Any]] = [{"order": p.order, "schedule": p.schedule, "merit_block": p.merit_block} for p in policies]
    settings = TorqueSettings(reset_rho=False)
    torque = TorqueSolver(tick.articulation, **common, **launch[0], settings=settings, linear_solvers=SOLVERS)
    return Cell(torque, SqpSolver(tick.articulation, **common, **launch[1], retries=0), tick, budget)


def _policy(device: Any, knots: int, batch: int, formulation: str) -> LaunchPolicy:
    return choose(facts_of(device), knots=knots, batch=batch, formulation=formulation, forced=MpcSettings().policy)


def rest(cell: Cell) -> np.ndarray:
    """First state of the cold solve, shape (2n,)."""
    return np.r_[cell.tick.position, 0.0 * cell.tick.position]


def cold_and_warm(cell: Cell, name: str) -> tuple[dict[str, Any], dict[str, Any], TorqueResult]:
    """Solve cold and warm with one linear solver; statistics and time of each, and the cold result."""
    solver, N = cell.torque, cell.torque.knots
    targets = cell.tick.targets(N + 1)
    solver.reset()
    cold = solver.solve(rest(cell), targets[:N], linear_solver=name)
    first = _torque_facts(cell, name, cold, None, None, 0.0 * solver.dual.numpy())
    states = np.concatenate([cold.position, cold.velocity], axis=2)
    shifted = np.concatenate([states[:, 1:], states[:, -1:]], axis=1), np.concatenate([cold.torque[:, 1:], cold.torque[:, -1:]], axis=1)
    solver.reset()
    solver.solve(rest(cell), targets[:N], linear_solver=name)  # the costates of the cold solve
    costates = solver.dual.numpy().copy()
    solver.reset_rho()
    warm = solver.solve(states[:, 1], targets[1:], states=shifted[0], torques=shifted[1], linear_solver=name)
    return first, _torque_facts(cell, name, warm, *shifted, costates), cold


def _torque_facts(
    cell: Cell, name: str, result: TorqueResult, states: np.ndarray | None, torques: np.ndarray | None, costates: np.ndarray
) -> dict[str, Any]:
    """Facts of a solve, and its time from these seeds."""
    solver = cell.torque
    seeds = (
        np.broadcast_to(rest(cell), solver.X.shape) if states is None else states,
        np.zeros(solver.U.shape) if torques is None else torques,
    )
    pairs = [
        (array, wp.array(value, dtype=array.dtype, device=solver.device))
        for array, value in zip((solver.X, solver.U, solver.dual), (*seeds, costates), strict=True)
    ]

    def launches() -> None:
        for array, seed in pairs:
            wp.copy(array, seed)
        solver.reset_rho()
        solver.launch_solve(name)

    seconds = _median(solver.capture(launches), solver.device, cell.budget)
    s = result.statistics
    facts = {"us": 1e6 * seconds, "merit": float(s.final_merit[0]), "defect": float(s.defect[0]), "kkt_residual": float(s.kkt_residual[0])}
    return facts | {"linear_iterations": s.linear_iterations[:, 0].tolist(), "step_sizes": s.step_sizes[:, 0].tolist()}


def acceleration_cold(cell: Cell) -> dict[str, Any]:
    """Merit after each iteration of the acceleration form and the time of all of them, cold."""
    solver, N = cell.acceleration, cell.acceleration.knots
    targets, zeros = cell.tick.targets(N), wp.zeros_like(cell.acceleration.A)
    solver.reset()
    result = solver.solve(rest(cell), targets)

    def launches(count: int) -> None:
        wp.copy(solver.A, zeros)
        solver.reset()
        solver.launch_rollout()
        for _ in range(count):
            solver.launch_iteration()

    merits = []
    for count in range(1, ITERATIONS + 1):
        launches(count)
        merits.append(float(solver.merit.numpy()[0]))
    seconds = _median(solver.capture(lambda: launches(ITERATIONS)), solver.device, cell.budget)
    return {"us": 1e6 * seconds, "merit": merits[-1], "merits": merits, "kkt_residual": float(result.kkt_residual[0])}


def direct_row(cell: Cell) -> dict[str, Any]:
    """Direct solve against PCG, cold and warm, with the acceleration form and the published row of this size."""
    N, M = cell.torque.knots, cell.torque.batch
    row: dict[str, Any] = {"robot": cell.tick.articulation.name, "knots": N, "batch": M}
    for name in SOLVERS:
        cold, warm, _ = cold_and_warm(cell, name)
        row |= {f"cold_{name}": cold, f"warm_{name}": warm}
    row |= {f"{seed}_ratio": row[f"{seed}_direct"]["us"] / row[f"{seed}_pcg"]["us"] for seed in ("cold", "warm")}
    row["cold_acceleration"] = acceleration_cold(cell)
    row["acceleration_wins"] = verdict(row["cold_acceleration"], {name: row[f"cold_{name}"] for name in ("pcg", "direct")})
    tables = published("gato_timing")
    times = [r for r in tables["direct_against_pcg"]["rows"] if (r["knots"], r["batch"]) == (N, M)]
    merits = [r for r in tables["final_merit"]["rows"] if r["knots"] == N]
    row["published"] = {
        **(times[0] if times else {}),
        **({f"merit_{k}": v for k, v in merits[0].items() if k != "knots"} if merits else {}),
    }
    return row


def verdict(ours: dict[str, Any], others: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Say whether the acceleration form has the lower merit after equal iterations, and reaches each other's merit in less time.

    Its time to a merit is that of the iterations it takes there, an eighth of the whole solve each; the other's is its whole solve.
    """
    lost = []
    for name, other in others.items():
        if not ours["merit"] <= other["merit"]:
            lost.append(f"merit {ours['merit']:.4f} is above {other['merit']:.4f} of {name}")
        needed = next((k + 1 for k, merit in enumerate(ours["merits"]) if merit <= other["merit"]), None)
        if needed is None:
            lost.append(f"the merit of {name} is not reached")
        elif needed * ours["us"] / ITERATIONS >= other["us"]:
            lost.append(f"{needed * ours['us'] / ITERATIONS:.0f} us to the merit of {name}, which takes {other['us']:.0f} us")
    return {"wins": not lost, "why_not": "; ".join(lost)}


def iterations_row(knots: int, row: dict[str, Any]) -> dict[str, Any]:
    """PCG iterations per SQP iteration, cold and warm, beside the published ones."""
    theirs = [r for r in published("gato_timing")["pcg_iterations"]["rows"] if r["knots"] == knots]
    ours = {seed: row[f"{seed}_pcg"]["linear_iterations"] for seed in ("cold", "warm")}
    return {"knots": knots, **ours, "published": theirs[0] if theirs else {}}


def merit_rows(cell: Cell) -> list[dict[str, Any]]:
    """Time of the merit launch by block size, and fused, beside the RTX 5090's and the Orin's."""
    solver, N, M = cell.torque, cell.torque.knots, cell.torque.batch
    solver.reset()
    solver.solve(rest(cell), cell.tick.targets(N), linear_solver="direct")
    solver.active.fill_(1)
    solver.failed.zero_()
    problem = [solver.x0, solver.wrenches, solver.targets, solver.weights, solver.nominal, solver._step_array]
    inputs = [solver.X, solver.U, solver.dX, solver.dU, *problem, solver.active, solver.failed]
    inputs += [solver.candidate_costs, solver.candidate_defects]
    rows = []
    kernels = solver._kernels
    for kernel, dim, fused in ((kernels.merit, (M, 8, N), False), (kernels.merit_fused, (M, N), True)):
        for block in (1,) if solver.device.is_cpu else BLOCKS:

            def launches(kernel: Any = kernel, dim: tuple[int, ...] = dim, block: int = block) -> None:
                for _ in range(10):
                    wp.launch(kernel, dim=dim, inputs=inputs, device=solver.device, block_dim=block)

            seconds = _median(solver.capture(launches), solver.device, 0.3 * cell.budget) / 10
            rows.append({"robot": cell.tick.articulation.name, "knots": N, "batch": M, "block": block, "fused": fused, "us": 1e6 * seconds})
    tables = published("gato_timing")
    rows[0]["published"] = [
        *(r for r in tables["merit_rtx5090"]["rows"] if (r["robot"], r["knots"], r["batch"]) == (rows[0]["robot"], N, M)),
        *(r for r in tables["merit_orin"]["rows"] if (r["knots"], r["batch"]) == (N, M)),
    ]
    return rows


def stage_rows(cell: Cell) -> list[dict[str, Any]]:
    """Stage times of a cold PCG solve summed over its iterations, beside the Orin's."""
    solver = cell.torque
    solver.solve(rest(cell), cell.tick.targets(solver.knots), linear_solver="pcg", timed=True)
    solver.reset()
    result = solver.solve(rest(cell), cell.tick.targets(solver.knots), linear_solver="pcg", timed=True)
    stages = dict(zip(STAGES, (1e3 * result.statistics.stage_times.sum(axis=0)).tolist(), strict=True))
    theirs = [r for r in published("gato_timing")["stages_orin"]["rows"] if r["batch"] == solver.batch and r["seed"] == "cold"]
    block = 1 if solver.device.is_cpu else solver.merit_block
    return [{"batch": solver.batch, "seed": "cold", "launch": block, **{f"{k}_ms": v for k, v in stages.items()}, "published": theirs}]


def quality_row(cell: Cell) -> dict[str, Any]:
    """Merit after each SQP iteration of every path on GATO's own problem, beside gato-mpc 0.1.6."""
    robot, N = cell.tick.articulation.name, cell.torque.knots
    row: dict[str, Any] = {"robot": robot, "knots": N, "iterations": list(range(1, ITERATIONS + 1))}
    paths = {}
    for name in ("pcg", "direct"):
        cold, _, result = cold_and_warm(cell, name)
        paths[name] = cold
        row[name] = {**cold, "merits": result.statistics.merit_history[1:, 0].tolist()}
        row["initial_merit"] = float(result.statistics.initial_merit[0])
    row["acceleration"] = acceleration_cold(cell)
    row["acceleration_wins"] = verdict(row["acceleration"], paths)
    row["published"] = [r for r in published("gato_quality")["rows"] if (r["robot"], r["knots"]) == (robot, N)]
    return row
