"""Random problems on trees and trajectories, and the comparison of a solver with the oracle."""

from dataclasses import dataclass

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.oracle import quadratic_tree as oracle

INSTANCES, FRAMES = 2, 4
PARENTS, DOFS = (-1, 0, 1, 1, 3, 0), (2, 1, 0, 1, 1, 3)
ORDERS = {
    "tree": br.order.tree,
    "dense": br.order.dense,
    "chronological": br.order.frames,
    "cyclic": lambda u: br.order.frames(u, time="cyclic"),
}
SCHEDULES = {
    "serial": br.Schedule.serial,
    "levels": br.Schedule.levels,
    "paths": br.Schedule.paths,
    "instance_blocks": lambda plan: br.Schedule.instance_blocks(plan, k=2),
    "cooperative": br.Schedule.cooperative,
    "fused": br.Schedule.fused,
}


@br.residual
def reach(body: br.Body, target: wp.vec3, point: wp.vec3) -> wp.vec3:
    return target - br.position(body, point)


@br.residual
def turn(body: br.Body, target: wp.quat) -> wp.vec3:
    return br.rotation_error(body, target)


@br.residual
def limit(d: br.Dof, low: float, high: float) -> float:
    v = d.q + d.value
    return wp.max(v - high, 0.0) + wp.max(low - v, 0.0)


@br.residual
def smooth(a: br.Dof, b: br.Dof, rate: float) -> float:
    return ((b.q + b.value) - (a.q + a.value)) * rate


@br.residual
def between(a: br.Body, b: br.Body, distance: float) -> float:
    return wp.length(a.position - b.position) - distance


@dataclass
class Tree:
    """A problem with its block sets and the arrays that a test changes."""

    problem: br.Problem
    u: br.Tangents
    x: br.Twists
    arrays: dict[str, wp.array]


def quaternions(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Unit quaternions (*shape, 4)."""
    q = rng.normal(size=(*shape, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def positive(rng: np.random.Generator, *shape: int, width: int = 6) -> np.ndarray:
    """Positive definite blocks with NaN above the diagonal, which must never be used."""
    root = rng.normal(size=(*shape, width, width))
    H = 0.1 * root @ root.swapaxes(-1, -2)
    rows, columns = np.triu_indices(width, 1)
    H[..., rows, columns] = np.nan
    return H


def tree(
    *,
    instances: int = INSTANCES,
    frames: int = FRAMES,
    coupled: bool = True,
    transport: bool = False,
    pairs: bool = False,
    seed: int = 1,
    dtype: type = wp.float32,
    device: str = "cpu",
    parents: tuple[int, ...] = PARENTS,
    dofs: tuple[int, ...] = DOFS,
) -> Tree:
    """A problem with every kind of term.

    Args:
        instances: Number of problems.
        frames: Number of frames.
        coupled: Also terms between neighbouring frames.
        transport: Matrices X and body coordinates; else world coordinates.
        pairs: Also a residual on two bodies.
        seed: Seed of the numbers.
        dtype: Type of all arrays.
        device: Where the arrays live.
        parents: The tree.
        dofs: Unknowns per body.
    """
    rng, topology = np.random.default_rng(seed), br.Topology(parents, dofs)
    B, T, n, bodies = instances, frames, topology.width, topology.bodies

    def array(value: np.ndarray) -> wp.array:  # arrays have at most four axes: instances and frames become rows
        value = np.asarray(value)
        return wp.array(value.reshape(-1, *value.shape[2:]) if value.ndim > 4 else value, dtype=dtype, device=device)

    poses = np.concatenate([rng.normal(size=(B, T, bodies, 3)), quaternions(rng, B, T, bodies)], axis=-1)
    made = {
        "q": array(rng.normal(size=(B, T, n))),
        "S": array(rng.normal(size=(B, T, n, 6))),
        "pose": array(poses),
        "target": array(rng.normal(size=(B, T, 2, 3))),
        "H": array(positive(rng, B, T, bodies)),
        "g": array(rng.normal(size=(B, T, bodies, 6))),
        "weight": array(rng.uniform(0.5, 1.0, B)),
    }
    X = array(np.eye(6) + 0.3 * rng.normal(size=(B, T, bodies, 6, 6))) if transport else None
    u = br.tangents(topology, instances=B, frames=T, q=made["q"])
    x = br.twists(u, S=made["S"], X=X, pose=made["pose"], coordinates="body" if transport else "world")
    problem = br.Problem()
    weights = array(rng.uniform(0.5, 1.0, size=(B, 1, 1)))
    problem.add(reach, body=x[[2, 4], :], target=made["target"], point=wp.vec3(0.1, 0.2, 0.3), weight=weights)
    problem.add(turn, body=x["body4"], target=array(quaternions(rng, B, T, 1)))
    problem.add(limit, d=u.dofs, low=-0.5, high=0.5, weight=10.0)
    problem.add(br.quadratic(x, H=made["H"], g=made["g"]))
    problem.add(br.damping(u, weight=made["weight"]))
    if pairs:
        problem.add(between, a=x["body2"], b=x["body5"], distance=0.7)
    if coupled and T > 1:
        problem.add(smooth, a=u.dofs[:, :-1], b=u.dofs[:, 1:], rate=1.5, weight=0.3)
        problem.add(br.coupling(u, C=array(0.05 * rng.normal(size=(B, T - 1, n, n)))))
    return Tree(problem, u, x, made)


def solver(case: Tree, order: str, schedule: str, **options: object) -> br.TreeSolver:
    """Compile a problem under an order and a schedule by name."""
    plan = br.plan(case.problem, ORDERS[order](case.u))
    device = str(case.arrays["S"].device)
    return br.compile(plan, SCHEDULES[schedule](plan, **options), device=device, dtype=case.problem.dtype)


def run(made: br.TreeSolver) -> br.TreeSolver:
    """Linearise, factor and solve."""
    made.linearize()
    made.factor()
    made.solve()
    return made


def results(made: br.TreeSolver) -> list[np.ndarray]:
    """Copies of everything a solver puts out."""
    tree_ = made.plan.problem.tree
    arrays = (made.solution(tree_.tangents), made.solution(tree_.twists), made.predicted_decrease, made.pivot_failed)
    return [array.numpy().copy() for array in arrays]


def assert_optimal(made: br.TreeSolver) -> None:
    """Solution, twists, decrease, cost and the gradient at the solution against the oracle.

    Errors of a backward stable solve are a small multiple of the unit roundoff times the condition of H; 60 leaves room for the sums
    that make H, which are as many as there are bodies above one another. Residuals are held to float64 central differences, 1e-8.
    """
    case = made.plan.problem
    exact = oracle.solve(case)
    unit = 60.0 * np.finfo(made.cost.numpy().dtype).eps + 1e-8
    u, x = (made.solution(b).numpy().astype(np.float64) for b in (case.tree.tangents, case.tree.twists))
    assert not made.pivot_failed.numpy().any()
    np.testing.assert_allclose(made.cost.numpy(), oracle.cost(case), rtol=unit)
    for m in range(len(u)):
        size, z = np.abs(exact.tangents[m]).max(), u[m].ravel()
        tolerance = unit * np.linalg.cond(exact.H[m]) * size
        np.testing.assert_allclose(u[m], exact.tangents[m], rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(x[m], exact.twists[m], rtol=0.0, atol=tolerance * np.abs(exact.J[m]).sum(axis=1).max())
        terms = (np.abs(exact.H[m]) @ np.abs(z) + np.abs(exact.g[m])).max()
        np.testing.assert_allclose(exact.H[m] @ z + exact.g[m], 0.0, atol=unit * terms)
        decrease = 0.5 * exact.g[m] @ np.linalg.solve(exact.H[m], exact.g[m])
        np.testing.assert_allclose(made.predicted_decrease.numpy()[m], decrease, rtol=unit * np.linalg.cond(exact.H[m]))
