"""Slow twin of `branch_mpc.branch`: the dense system of stationarity and constraints with Lagrange multipliers, in float64.

It works from the problem description alone (terms and relation), not from a plan: no recursion, no elimination order.
Source: Nocedal and Wright, Numerical Optimization (2006), section 16.1, equation 16.4.
"""

from dataclasses import dataclass

import numpy as np

from branch_mpc.branch.problem import Coefficient, Problem, Relation


@dataclass(frozen=True)
class QuadraticSolution:
    """Minimiser of every instance.

    Attributes:
        states: (instances, frames + 1, nx).
        inputs: (instances, frames, nu).
        objective: (instances,).
    """

    states: np.ndarray
    inputs: np.ndarray
    objective: np.ndarray


@dataclass(frozen=True)
class _Instance:
    """One problem over w = [x_0 .. x_{T-1}, u_0 .. u_{T-2}]: 1/2 w' Q w + q' w subject to C w = d."""

    Q: np.ndarray
    q: np.ndarray
    C: np.ndarray
    d: np.ndarray


def solve(problem: Problem) -> QuadraticSolution:
    """Solve every instance.

    Args:
        problem: A problem with its relation and terms; the arrays are copied to the host.
    """
    relation = _relation(problem)
    nx, nu, steps = relation.states.width, relation.inputs.width, relation.inputs.frames
    states, inputs, objective = [], [], []
    for m in range(problem.instances or 0):
        p = _instance(problem, m)
        size, rows = len(p.q), len(p.d)
        kkt = np.block([[p.Q, p.C.T], [p.C, np.zeros((rows, rows))]])
        w = np.linalg.solve(kkt, np.r_[-p.q, p.d])[:size]
        states.append(w[: (steps + 1) * nx].reshape(steps + 1, nx))
        inputs.append(w[(steps + 1) * nx :].reshape(steps, nu))
        objective.append(0.5 * w @ p.Q @ w + p.q @ w)
    return QuadraticSolution(np.array(states), np.array(inputs), np.array(objective))


def reduced(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Hessian (instances, P, P) and gradient at zero (instances, P) of the objective as a function of all inputs, P = frames nu.

    The constraints determine the states: w = N u + n with C N = 0 and C n = d.
    """
    relation = _relation(problem)
    first = relation.states.width * relation.states.frames  # of the inputs in w
    hessians, gradients = [], []
    for m in range(problem.instances or 0):
        p = _instance(problem, m)
        on_states, on_inputs = p.C[:, :first], p.C[:, first:]
        N = np.vstack([np.linalg.solve(on_states, -on_inputs), np.eye(on_inputs.shape[1])])
        n = np.r_[np.linalg.solve(on_states, p.d), np.zeros(on_inputs.shape[1])]
        hessians.append(N.T @ p.Q @ N)
        gradients.append(N.T @ (p.Q @ n + p.q))
    return np.array(hessians), np.array(gradients)


def objective(problem: Problem, inputs: np.ndarray) -> np.ndarray:
    """Objective (instances,) of inputs (instances, frames, nu), with the states that follow from them."""
    relation = _relation(problem)
    first = relation.states.width * relation.states.frames
    values = []
    for m in range(problem.instances or 0):
        p = _instance(problem, m)
        u = np.asarray(inputs[m], dtype=np.float64).ravel()
        w = np.r_[np.linalg.solve(p.C[:, :first], p.d - p.C[:, first:] @ u), u]
        values.append(0.5 * w @ p.Q @ w + p.q @ w)
    return np.array(values)


def _relation(problem: Problem) -> Relation:
    if problem.relation is None:
        raise ValueError("the problem has no relation")
    return problem.relation


def _instance(problem: Problem, m: int) -> _Instance:
    """Assemble instance m."""
    relation = _relation(problem)
    nx, nu, steps = relation.states.width, relation.inputs.width, relation.inputs.frames
    first, size = nx * (steps + 1), nx * (steps + 1) + nu * steps
    Q, q = np.zeros((size, size)), np.zeros(size)
    C, d = np.zeros((first, size)), np.zeros(first)
    C[:, :first] = np.eye(first)
    if relation.initial is not None:
        d[:nx] = relation.initial.numpy()[m]
    for t in range(steps + 1):
        H, g = _terms(problem, m, t)
        z = np.r_[nx * t : nx * (t + 1), first + nu * t : first + nu * (t + 1)] if t < steps else np.r_[nx * t : nx * (t + 1)]
        Q[np.ix_(z, z)], q[z] = H[: len(z), : len(z)], g[: len(z)]
        if t < steps:
            row = slice(nx * (t + 1), nx * (t + 2))
            C[row, nx * t : nx * (t + 1)] = -_matrix(relation.A, m, t)
            C[row, first + nu * t : first + nu * (t + 1)] = -_matrix(relation.B, m, t)
            if relation.c is not None:
                offset = relation.c.numpy()
                d[row] = offset[m, t] if offset.ndim == 3 else offset[t]
    return _Instance(Q, q, C, d)


def _terms(problem: Problem, m: int, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Hessian and gradient of the terms of frame t over [x_t; u_t]."""
    width = problem.quadratics[0].g.shape[-1]
    H, g = np.zeros((width, width)), np.zeros(width)
    for term in problem.quadratics:
        lower = np.tril(term.H.numpy()[m, t].astype(np.float64))
        H += lower + np.tril(lower, -1).T
        g += term.g.numpy()[m, t]
    for damp in problem.dampings:
        H += np.diag(float(damp.weight.numpy()[m]) * damp.scale)
    return H, g


def _matrix(matrix: Coefficient, m: int, t: int) -> np.ndarray:
    """The matrix of frame t in instance m."""
    if matrix.array is None:
        return np.asarray(matrix.constant)
    values = matrix.array.numpy()
    return values[m, t] if values.ndim == 4 else values[t]
