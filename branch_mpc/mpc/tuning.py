"""Measures the launch choices of a case on the user's own device, behind an accuracy gate: what `branch_mpc tune` runs.

The measured tick is a receding-horizon one: plan from rest until the merit settles, shift the plan by a knot, start from its second
state. Every candidate solves that same tick from that same seed; a candidate whose merit is off the best one's by more than the
gate cannot win, however fast it is. Schedules and linear solvers are compared first, merit blocks and reductions for the winner.
"""

import dataclasses
import datetime
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from branch_mpc.errors import BranchMpcError, SettingError
from branch_mpc.mpc.device_facts import facts_of
from branch_mpc.mpc.launch_policy import choose
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.mpc.tuning_table import TuningRow
from branch_mpc.robot.articulation import Articulation
from branch_mpc.sqp.solver import SqpSolver, check_device
from branch_mpc.sqp.torque_solver import TorqueSolver

GATE = 1e-2
"""Largest merit above the best candidate's, relative to 1 + its magnitude."""
SETTLE = 10
"""SQP iterations from rest before the measured tick."""
MERIT_BLOCKS = (32, 64, 128)


@dataclass(frozen=True)
class Tick:
    """The tracking problem that is measured."""

    articulation: Articulation
    """The robot, n joints."""
    position: np.ndarray
    """Configuration to start from at rest, shape (n,)."""
    targets: Callable[[int], np.ndarray]
    """Targets of N + 1 knots, shape (N + 1, 3), by N + 1."""


@dataclass(frozen=True)
class Choice:
    """One candidate; fields as in LaunchPolicy."""

    linear_solver: str
    order: str
    schedule: str
    merit_block: int
    reduction: str

    def __str__(self) -> str:
        return f"{self.linear_solver}, {self.order}, {self.schedule}, merit block {self.merit_block}, {self.reduction}"


@dataclass(frozen=True)
class Measured:
    """A candidate and what came out."""

    choice: Choice
    time_us: float
    """Median time of the tick's solve [us], device."""
    merit: float
    """Merit after it."""


def candidates(formulation: str, is_cpu: bool, start: Choice, iterations: int) -> Iterator[Choice]:
    """Yield the linear solvers, orders and schedules that are compared first; those of the policy come first."""
    schedules = ("serial",) if is_cpu else ("fused", "cooperative", "serial")
    solvers: tuple[str, ...] = ("direct",)
    if formulation == "torque":
        solvers = ("pcg", "direct", "direct_first") if iterations > 1 else ("pcg", "direct")
    yield start
    for solver in solvers:
        for schedule in schedules if solver != "pcg" else schedules[:1]:
            choice = dataclasses.replace(start, linear_solver=solver, schedule=schedule)
            if choice != start:
                yield choice
    if formulation == "acceleration":
        yield dataclasses.replace(start, order="dense")


def refinements(formulation: str, is_cpu: bool, best: Choice) -> Iterator[Choice]:
    """Yield variations of the best candidate; on the CPU a block is one thread and there is nothing to vary."""
    if is_cpu:
        return
    for block in MERIT_BLOCKS:
        if block != best.merit_block:
            yield dataclasses.replace(best, merit_block=block)
    if formulation == "torque":
        yield dataclasses.replace(best, reduction="float32" if best.reduction == "float64" else "float64")


def winner(measured: list[Measured], gate: float = GATE) -> Measured:
    """Return the fastest candidate within the gate of the lowest merit; ties keep the earlier one.

    Raises:
        SettingError: No candidate gave a finite merit.
    """
    usable = [m for m in measured if np.isfinite(m.merit)]
    if not usable:
        raise SettingError("no candidate solved the tuning problem", "check weights and step: the merit is not finite")
    lowest = min(m.merit for m in usable)
    return min((m for m in usable if m.merit <= lowest + gate * (1.0 + abs(lowest))), key=lambda m: m.time_us)


def tune(tick: Tick, settings: MpcSettings, progress: Callable[[str], None] = lambda text: None, budget: float = 0.5) -> TuningRow:
    """Measure one case: robot, device, horizon, batch, formulation and iterations of `settings`.

    Args:
        tick: The problem.
        settings: The case; weights and the torque form's settings count too.
        progress: Called with a line for each candidate.
        budget: Time for timing each candidate [s].

    Raises:
        BranchMpcError: The device does not exist, or no candidate works.
    """
    device = check_device(settings.device)
    facts = facts_of(device)
    policy = choose(facts, knots=settings.knots, batch=settings.batch, formulation=settings.formulation, forced=settings.policy)
    start = Choice(policy.linear_solver, policy.order, policy.schedule, policy.merit_block, policy.reduction)
    measured: list[Measured] = []

    def measure(choices: Iterator[Choice]) -> None:
        for choice in choices:
            try:
                measured.append(Measured(choice, *run(tick, settings, choice, device, budget)))
                progress(f"{choice}: {measured[-1].time_us:.1f} us, merit {measured[-1].merit:.4f}")
            except BranchMpcError as error:
                progress(f"{choice}: left out, {error.problem.splitlines()[0]}")

    measure(candidates(settings.formulation, facts.is_cpu, start, settings.iterations))
    measure(refinements(settings.formulation, facts.is_cpu, winner(measured).choice))
    best = winner(measured)
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return TuningRow(
        device=facts.name,
        architecture=facts.architecture,
        robot=tick.articulation.name,
        knots=settings.knots,
        batch=settings.batch,
        formulation=settings.formulation,
        **dataclasses.asdict(best.choice),
        time_us=round(best.time_us, 2),
        merit=best.merit,
        measured=f"{date}, {settings.iterations} SQP iterations, {len(measured)} candidates, warp {wp.config.version}",
    )


def run(tick: Tick, settings: MpcSettings, choice: Choice, device: Any, budget: float) -> tuple[float, float]:
    """Return (median time [us], merit) of the measured tick under one choice."""
    if settings.formulation == "torque":
        launches, merit = _torque_tick(tick, settings, choice, device)
    else:
        launches, merit = _acceleration_tick(tick, settings, choice, device)
    launches()
    with wp.ScopedCapture(device=device) as capture:
        launches()
    return 1e6 * _median(lambda: wp.capture_launch(capture.graph), device, budget), float(merit.numpy().mean())


def _acceleration_tick(tick: Tick, settings: MpcSettings, choice: Choice, device: Any) -> tuple[Callable[[], None], Any]:
    solver = SqpSolver(
        tick.articulation,
        **_common(settings),
        device=str(device),
        iterations=settings.iterations,
        retries=settings.retries,
        order=choice.order,
        schedule=choice.schedule,
        merit_block=choice.merit_block,
    )
    targets, N = tick.targets(settings.knots + 1), settings.knots
    result = None
    for _ in range(-(-SETTLE // settings.iterations)):
        warm = None if result is None else result.acceleration
        result = solver.solve(np.r_[tick.position, 0.0 * tick.position], targets[:N], acceleration=warm)
    assert result is not None
    shifted = np.concatenate([result.acceleration[:, 1:], result.acceleration[:, -1:]], axis=1)
    solver.solve(np.concatenate([result.position[:, 1], result.velocity[:, 1]], axis=1), targets[1:], acceleration=shifted)
    seed = wp.array(shifted, dtype=solver.A.dtype, device=device)

    def launches() -> None:
        wp.copy(solver.A, seed)
        solver.launch_rollout()
        for _ in range(settings.iterations):
            solver.launch_iteration()

    return launches, solver.merit


def _torque_tick(tick: Tick, settings: MpcSettings, choice: Choice, device: Any) -> tuple[Callable[[], None], Any]:
    solver = TorqueSolver(
        tick.articulation,
        **_common(settings),
        settings=settings.torque,
        device=str(device),
        iterations=settings.iterations,
        linear_solvers=(choice.linear_solver,),
        order=choice.order,
        schedule=choice.schedule,
        merit_block=choice.merit_block,
        reduction=choice.reduction,
    )
    targets, N, states, torques = tick.targets(settings.knots + 1), settings.knots, None, None
    for _ in range(-(-SETTLE // settings.iterations)):
        result = solver.solve(np.r_[tick.position, 0.0 * tick.position], targets[:N], states=states, torques=torques)
        states, torques = np.concatenate([result.position, result.velocity], axis=2), result.torque
    assert states is not None and torques is not None
    arrays = [np.concatenate([values[:, 1:], values[:, -1:]], axis=1) for values in (states, torques)]
    costates = solver.dual.numpy().copy()
    solver.solve(states[:, 1], targets[1:], states=arrays[0], torques=arrays[1])
    state = (solver.X, solver.U, solver.dual)
    seeds = [wp.array(value, dtype=array.dtype, device=device) for array, value in zip(state, (*arrays, costates), strict=True)]

    def launches() -> None:
        for array, seed in zip(state, seeds, strict=True):
            wp.copy(array, seed)
        solver.launch_solve(choice.linear_solver)

    return launches, solver.merit


def _common(settings: MpcSettings) -> dict[str, Any]:
    return {"knots": settings.knots, "step": settings.step, "batch": settings.batch, "weights": settings.weights}


def _median(replay: Callable[[], None], device: Any, budget: float) -> float:
    """Median seconds of a replay over blocks of replays, each block waited for."""

    def block(count: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            replay()
        wp.synchronize_device(device)
        return (time.perf_counter() - begun) / count

    block(3)
    count = max(1, int(budget / 9 / max(block(1), 1e-7)))
    return float(np.median([block(count) for _ in range(9)]))
