"""Slow twin of `branch_mpc.branch` on trees: one dense system over all tangents, in float64.

It works from the problem description alone: twists are products of path matrices, residuals are the user's Python function on plain
numbers with poses moved by the exponential map, and their Jacobians are central differences.
Source: Featherstone, Rigid Body Dynamics Algorithms (2008), section 4.2, for the path matrices; Nocedal and Wright, Numerical
Optimization (2006), equation 10.23, for the Gauss-Newton approximation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from branch_mpc.branch.arrays import Strided
from branch_mpc.branch.blocks import Tangents, Twists, View
from branch_mpc.branch.problem import Problem
from branch_mpc.branch.residual import Body, Dof, Residual, plain_function
from branch_mpc.branch.residual_term import ResidualTerm
from branch_mpc.branch.symbols import Matrix, Quaternion, Vector
from branch_mpc.branch.tree_terms import BlockQuadratic, FrameCoupling, TreeDamping

DIFFERENCE = 1e-6  # of central differences: errors of 1e-12 by truncation, 1e-10 by rounding


@dataclass(frozen=True)
class TreeSolution:
    """Minimiser of every instance.

    Attributes:
        H: Hessian over all tangents (instances, frames n, frames n).
        g: Gradient at zero (instances, frames n).
        tangents: (instances, frames, n).
        twists: (instances, frames, bodies, 6), or None.
        J: Twists per tangents (instances, frames bodies 6, frames n), or None.
    """

    H: np.ndarray
    g: np.ndarray
    tangents: np.ndarray
    twists: np.ndarray | None
    J: np.ndarray | None


def numbers(data: Strided, lead: tuple[int, ...], component: tuple[int, ...]) -> np.ndarray:
    """An array of the problem broadcast to (*lead, *component), float64."""
    raw = data.array if isinstance(data.array, np.ndarray) else data.array.numpy()
    flat = np.asarray(raw, dtype=np.float64).ravel()
    view = np.lib.stride_tricks.as_strided(flat, (*lead, data.size), (*(8 * s for s in data.strides), 8))
    return view.reshape(*lead, *component).copy()


def solve(problem: Problem) -> TreeSolution:
    """Solve every instance."""
    u, x = problem.tree.tangents, problem.tree.twists
    assert u is not None
    H, g = assemble(problem)
    z = np.stack([np.linalg.solve(a, -b) for a, b in zip(H, g, strict=True)])
    J = None if x is None else path_jacobian(x)
    twists = None if J is None else np.einsum("mij,mj->mi", J, z).reshape(u.instances, u.frames, u.topology.bodies, 6)
    return TreeSolution(H, g, z.reshape(u.instances, u.frames, u.width), twists, J)


def path_jacobian(x: Twists) -> np.ndarray:
    """Twists of all bodies and frames per tangents (instances, frames bodies 6, frames n)."""
    u, topology = x.tangents, x.topology
    lead, n, bodies = (u.instances, u.frames), u.width, topology.bodies
    S = numbers(x.S, lead, (n, 6))
    X = np.broadcast_to(np.eye(6), (*lead, bodies, 6, 6)) if x.X is None else numbers(x.X, lead, (bodies, 6, 6))
    J = np.zeros((u.instances, u.frames, bodies, 6, u.frames, n))
    for t in range(u.frames):
        for b in range(bodies):
            if topology.parents[b] >= 0:
                J[:, t, b] = np.einsum("mij,mjfk->mifk", X[:, t, b], J[:, t, topology.parents[b]])
            dofs = slice(topology.offsets[b], topology.offsets[b + 1])
            J[:, t, b, :, t, dofs] += S[:, t, dofs].swapaxes(1, 2)
    return J.reshape(u.instances, u.frames * bodies * 6, u.frames * n)


def assemble(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Hessian and gradient over all tangents, (instances, N, N) and (instances, N)."""
    u, x = problem.tree.tangents, problem.tree.twists
    assert u is not None
    size = u.frames * u.width
    H, g = np.zeros((u.instances, size, size)), np.zeros((u.instances, size))
    J = None if x is None else path_jacobian(x)
    for term in problem.tree.terms:
        if isinstance(term, ResidualTerm):
            _residual(term, J, H, g)
        elif isinstance(term, BlockQuadratic):
            _quadratic(term, J, H, g)
        elif isinstance(term, FrameCoupling):
            C = numbers(term.C, (u.instances, u.frames - 1), (u.width, u.width))
            for t in range(u.frames - 1):
                low, high = slice(t * u.width, (t + 1) * u.width), slice((t + 1) * u.width, (t + 2) * u.width)
                H[:, high, low] += C[:, t]
                H[:, low, high] += C[:, t].swapaxes(1, 2)
        else:
            _damping(term, H)
    return H, g


def _rows(view: View, t: int, member: int, J: np.ndarray | None, instance: int) -> np.ndarray:
    """The block as a function of all tangents (width, N)."""
    u = view.tangents
    if view.kind == "twist":
        assert J is not None
        first = (t * u.topology.bodies + member) * 6
        return J[instance, first : first + 6]
    first, width = t * u.width + member, 1
    if view.kind == "tangent":
        first, width = t * u.width + int(u.topology.offsets[member]), u.topology.dofs[member]
    return np.eye(u.frames * u.width)[first : first + width]


def _quadratic(term: BlockQuadratic, J: np.ndarray | None, H: np.ndarray, g: np.ndarray) -> None:
    view, u = term.view, term.view.tangents
    frames, members = view.frames, (0,) if term.whole_frame else view.members
    lead = (u.instances, len(frames)) if term.whole_frame else (u.instances, len(frames), len(members))
    assert term.H is not None
    width = round(term.H.size**0.5)
    values = numbers(term.H, lead, (width, width)).reshape(u.instances, len(frames), len(members), width, width)
    vector = None if term.g is None else numbers(term.g, lead, (width,)).reshape(u.instances, len(frames), len(members), width)
    for m in range(u.instances):
        for f, t in enumerate(frames):
            for k, member in enumerate(members):
                rows = np.eye(u.frames * u.width)[t * width : (t + 1) * width] if term.whole_frame else _rows(view, t, member, J, m)
                lower = np.tril(values[m, f, k])
                H[m] += rows.T @ (lower + np.tril(lower, -1).T) @ rows
                if vector is not None:
                    g[m] += rows.T @ vector[m, f, k]


def _damping(term: TreeDamping, H: np.ndarray) -> None:
    u = term.view.tangents
    weight = numbers(term.weight, (u.instances, 1), ()).ravel()
    scale = np.ones(u.width) if term.scale is None else term.scale
    first, width = term.view.ranges()
    for at, count in zip(first.ravel().tolist(), width.ravel().tolist(), strict=True):
        for i in range(at, at + count):
            H[:, i, i] += weight * scale[i % u.width]


def _residual(term: ResidualTerm, J: np.ndarray | None, H: np.ndarray, g: np.ndarray) -> None:
    lead = (term.instances, *term.shape)
    weights = numbers(term.weight, lead, ())
    data = {name: numbers(value, lead, term.residual.data[name]) for name, value in term.data.items()}
    for m in range(term.instances):
        for f in range(term.shape[0]):
            for k in range(term.shape[1]):
                values = {name: value[m, f, k] for name, value in data.items()}
                rows = [_rows(v, _pick(v.frames, f), _pick(v.members, k), J, m) for v in term.blocks.values()]
                r, local = evaluate(term, values, m, f, k)
                full = local @ np.vstack(rows)
                H[m] += weights[m, f, k] * full.T @ full
                g[m] += weights[m, f, k] * full.T @ r


def cost(problem: Problem) -> np.ndarray:
    """Sum of 1/2 weight |residual|^2 of every instance."""
    total = np.zeros(problem.instances or 0)
    for term in problem.tree.terms:
        if isinstance(term, ResidualTerm):
            lead = (term.instances, *term.shape)
            weights = numbers(term.weight, lead, ())
            data = {name: numbers(value, lead, term.residual.data[name]) for name, value in term.data.items()}
            for index in np.ndindex(*lead):
                r = _value(term, {name: value[index] for name, value in data.items()}, index, np.zeros(term.width))
                total[index[0]] += 0.5 * weights[index] * r @ r
    return total


def evaluate(term: ResidualTerm, data: dict[str, np.ndarray], m: int, f: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Residual and its Jacobian over the unknowns of its arguments, by central differences."""
    step = DIFFERENCE * np.eye(term.width)
    columns = [(_value(term, data, (m, f, k), e) - _value(term, data, (m, f, k), -e)) / (2 * DIFFERENCE) for e in step]
    return _value(term, data, (m, f, k), np.zeros(term.width)), np.stack(columns, axis=1)


def _value(term: ResidualTerm, data: dict[str, np.ndarray], index: tuple[int, ...], unknowns: np.ndarray) -> np.ndarray:
    m, f, k = index
    arguments: dict[str, Any] = {name: _symbol(term.residual, name, value) for name, value in data.items()}
    at = 0
    for name, view in term.blocks.items():
        u, t, member = view.tangents, _pick(view.frames, f), _pick(view.members, k)
        width = term.residual.blocks[name]
        own = unknowns[at : at + width]
        at += width
        if isinstance(view.owner, Twists):
            assert view.owner.pose is not None
            pose = numbers(view.owner.pose, (u.instances, u.frames), (u.topology.bodies, 7))[m, t, member]
            arguments[name] = moved(pose, own, view.owner.coordinates)
        else:
            assert u.q is not None
            arguments[name] = Dof(float(numbers(u.q, (u.instances, u.frames), (u.width,))[m, t, member]), float(own[0]))
    value = plain_function(term.residual)(**arguments)
    return np.array(list(value) if isinstance(value, Vector | tuple | list) else [value], dtype=float)


def moved(pose: np.ndarray, twist: np.ndarray, coordinates: str) -> Body:
    """A body whose pose moved with a twist, by the exponential map of the rotation."""
    angle = float(np.linalg.norm(twist[3:]))
    axis = twist[3:] / angle if angle > 0 else np.zeros(3)
    turn = Quaternion(*(np.sin(0.5 * angle) * axis).tolist(), float(np.cos(0.5 * angle)))
    at, orientation = pose[:3], Quaternion(*pose[3:].tolist())
    from_body = _rotation(orientation)
    if coordinates == "body":
        position, orientation = at + from_body @ twist[:3], orientation * turn
    else:
        about = _rotation(turn) @ at if coordinates == "world" else at
        position, orientation = about + twist[:3], turn * orientation
    return Body(Vector(*position.tolist()), orientation, Vector(*twist.tolist()))


def _rotation(q: Quaternion) -> np.ndarray:
    x, y, z, w = q
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def _symbol(residual: Residual, name: str, value: np.ndarray) -> Any:
    shape = residual.data[name]
    if not shape:
        return float(value)
    if len(shape) == 2:
        return Matrix(value.tolist())
    return Quaternion(*value.tolist()) if "quat" in residual.arguments[name].__name__ else Vector(*value.tolist())


def _pick(values: tuple[int, ...], index: int) -> int:
    return values[index if len(values) > 1 else 0]


__all__ = ["Tangents", "TreeSolution", "assemble", "cost", "numbers", "path_jacobian", "solve"]
