"""Random state chains with positive definite terms, and the comparison of a solver with the oracle."""

from dataclasses import dataclass

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.oracle import quadratic as oracle

INSTANCES, STEPS, JOINTS = 3, 5, 2
PLANS = ("chronological", "dense", "cyclic")
SCHEDULES = ("serial", "cooperative", "fused")


@dataclass
class Chain:
    """A problem with its block sets and the arrays that its terms read."""

    problem: br.Problem
    inputs: br.BlockSet
    states: br.BlockSet
    H: list[wp.array]
    g: list[wp.array]


def double_integrator(joints: int, step: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """A and B of q+ = q + h v + h^2/2 a, v+ = v + h a."""
    eye = np.eye(joints)
    return np.block([[eye, step * eye], [0.0 * eye, eye]]), np.vstack([0.5 * step * step * eye, step * eye])


def positive_terms(rng: np.random.Generator, instances: int, frames: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks with condition of a few hundred; NaN above the diagonal, which must never be used."""
    root = rng.normal(size=(instances, frames, width, width))
    H = root @ root.swapaxes(-1, -2) / width + 0.05 * np.eye(width)
    rows, columns = np.triu_indices(width, 1)
    H[:, :, rows, columns] = np.nan
    return H, rng.normal(size=(instances, frames, width))


def chain(
    *,
    instances: int = INSTANCES,
    steps: int = STEPS,
    joints: int = JOINTS,
    dtype: type = wp.float32,
    seed: int = 0,
    matrices: str = "constant",
    everything: bool = False,
    step: float = 0.1,
    device: str = "cpu",
) -> Chain:
    """A random chain.

    Args:
        instances: Number of problems.
        steps: Frames of the inputs.
        joints: Width of the inputs, half the width of the states.
        dtype: Type of all arrays.
        seed: Seed of the numbers.
        matrices: "constant", "frames" (A and B arrays per frame) or "mixed" (A constant, B per instance and frame).
        everything: Also c, an initial state, a second quadratic term and damping.
        step: Time step of the constant matrices.
        device: Where the arrays live.
    """
    rng = np.random.default_rng(seed)
    nx, nu = 2 * joints, joints
    A, B = double_integrator(joints, step)
    array = lambda value: wp.array(value, dtype=dtype, device=device)  # noqa: E731
    if matrices == "frames":
        A, B = array(A + 0.2 * rng.normal(size=(steps, nx, nx))), array(rng.normal(size=(steps, nx, nu)))
    elif matrices == "mixed":
        B = array(B + 0.2 * rng.normal(size=(instances, steps, nx, nu)))
    problem = br.Problem(instances=instances)
    u = problem.inputs("acceleration", width=nu, frames=steps)
    c = array(rng.normal(size=(instances, steps, nx))) if everything else None
    initial = array(rng.normal(size=(instances, nx))) if everything else None
    x = problem.states("state", u, A=A, B=B, c=c, initial=initial)
    result = Chain(problem, u, x, [], [])
    for _ in range(2 if everything else 1):
        H, g = (array(value) for value in positive_terms(rng, instances, steps + 1, nx + nu))
        problem.add(br.quadratic(x, u, H=H, g=g))
        result.H.append(H)
        result.g.append(g)
    if everything:
        scale = np.r_[np.zeros(nx), np.arange(1.0, nu + 1.0)]
        problem.add(br.damping(x, u, scale=scale, weight=array(rng.uniform(0.1, 1.0, instances))))
    return result


def solver(case: Chain, plan: str, schedule: str) -> br.Solver:
    """Compile a chain under a plan and a schedule by name."""
    order = br.order.dense(case.inputs) if plan == "dense" else br.order.frames(case.inputs, time=plan)
    made = br.plan(case.problem, order)
    return br.compile(made, getattr(br.Schedule, schedule)(made), device=case.H[0].device, dtype=case.problem.dtype)


def solved(case: Chain, plan: str, schedule: str) -> br.Solver:
    """Compile, factor and solve."""
    result = solver(case, plan, schedule)
    result.factor()
    result.solve()
    return result


def results(made: br.Solver) -> list[np.ndarray]:
    """Copies of everything a solver puts out."""
    relation = made.plan.relation
    arrays = (made.solution(relation.inputs), made.solution(relation.states), made.gradient, made.predicted_decrease, made.pivot_failed)
    return [array.numpy().copy() for array in arrays]


def assert_optimal(made: br.Solver) -> None:
    """Solution against the oracle, and the stationarity and rollout residuals recomputed in float64.

    Errors of a backward stable solve are a small multiple of the unit roundoff, times the condition of the reduced Hessian for the
    solution and times the size of the summed terms for the residual; 30 leaves room for the roundings of the sweep along the chain.
    """
    problem, relation = made.plan.problem, made.plan.relation
    inputs, states = (made.solution(block).numpy().astype(np.float64) for block in (relation.inputs, relation.states))
    exact = oracle.solve(problem)
    G, b = oracle.reduced(problem)
    unit = 30.0 * np.finfo(made.gradient.numpy().dtype).eps
    assert not made.pivot_failed.numpy().any()
    for m in range(problem.instances):
        u = inputs[m].ravel()
        size = np.abs(exact.inputs[m]).max() + np.abs(exact.states[m]).max()
        tolerance = unit * np.linalg.cond(G[m]) * size
        np.testing.assert_allclose(inputs[m], exact.inputs[m], rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(states[m], exact.states[m], rtol=0.0, atol=tolerance)
        terms = (np.abs(G[m]) @ np.abs(u) + np.abs(b[m])).max()
        np.testing.assert_allclose(G[m] @ u + b[m], 0.0, atol=unit * terms)
