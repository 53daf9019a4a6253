"""Newton steps, residuals and the SQP of the tracking problem in float64: dense, and without any recursion but the residual's."""

import numpy as np

from branch_mpc.oracle.tracking import CANDIDATES, Iterate, StageTerms, TrackingProblem, rollout, total_cost, trajectory_terms


def newton_step(problem: TrackingProblem, terms: list[StageTerms]) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss-Newton step (dx, shape (N, 2n); da, shape (N-1, n)) from the dense KKT system.

    Minimises sum g_k' z_k + z_k' H_k z_k / 2 over z_k = [dx_k; da_k] subject to dx_0 = 0 and dx_{k+1} = A dx_k + B da_k
    by solving [H C'; C 0] [z; l] = [-g; 0] (Nocedal and Wright 2006, eq. 16.4). The unknowns are scaled to
    (q, h v, h^2 a), without which the system has condition 1e16.
    """
    (transition, control), nx, knots = problem.integrator(), 2 * problem.articulation.dof, problem.knots
    n, width, h = problem.articulation.dof, 3 * problem.articulation.dof, problem.step
    size, rows = knots * width - n, knots * nx
    scale = np.tile(np.repeat([1.0, 1.0 / h, 1.0 / h**2], n), knots)[:size]
    hessian, gradient, constraint = np.zeros((size, size)), np.zeros(size), np.zeros((rows, size))
    constraint[:nx, :nx] = np.eye(nx)
    for k, term in enumerate(terms):
        at, span = k * width, min(width, size - k * width)
        hessian[at : at + span, at : at + span], gradient[at : at + span] = term.hessian[:span, :span], term.gradient[:span]
        if k < knots - 1:
            row = slice((k + 1) * nx, (k + 2) * nx)
            constraint[row, at : at + width] = -np.hstack([transition, control])
            constraint[row, at + width : at + width + nx] = np.eye(nx)
    # Rows have the scale of the knot that they define.
    constraint = constraint * scale / np.tile(np.repeat([1.0, 1.0 / h], n), knots)[:, None]
    kkt = np.block([[hessian * np.outer(scale, scale), constraint.T], [constraint, np.zeros((rows, rows))]])
    z = scale * np.linalg.solve(kkt, np.r_[-scale * gradient, np.zeros(rows)])[:size]
    blocks = np.r_[z, np.zeros(n)].reshape(knots, width)
    return blocks[:, :nx], blocks[:-1, nx:]


def kkt_residual(problem: TrackingProblem, terms: list[StageTerms]) -> float:
    """Return the largest |dV/da|, the residual that the device reports with a solve.

    V_k(dx) = p_k' dx + dx' P_k dx / 2 is the value function of the local quadratic by the Riccati recursion
    (Rawlings, Mayne and Diehl 2017, section 1.3.3, with linear terms); dV/da at knot k is g_a + B' p_{k+1}, the
    slope in a_k at dx_k = 0 when all later accelerations react optimally. It is zero exactly at a stationary point.
    """
    (transition, control), nx = problem.integrator(), 2 * problem.articulation.dof
    p, curvature, largest = terms[-1].gradient[:nx], terms[-1].hessian[:nx, :nx], 0.0
    for term in reversed(terms[:-1]):
        h_xx, h_ax, h_aa = term.hessian[:nx, :nx], term.hessian[nx:, :nx], term.hessian[nx:, nx:]
        slope = term.gradient[nx:] + control.T @ p
        cross = h_ax + control.T @ curvature @ transition
        gain = np.linalg.solve(h_aa + control.T @ curvature @ control, np.c_[cross, slope])
        p = term.gradient[:nx] + transition.T @ p - cross.T @ gain[:, -1]
        curvature = h_xx + transition.T @ curvature @ transition - cross.T @ gain[:, :-1]
        curvature = 0.5 * (curvature + curvature.T)
        largest = max(largest, float(np.abs(slope).max()))
    return largest


def reduced_gradient(problem: TrackingProblem, terms: list[StageTerms]) -> np.ndarray:
    """Return the gradient of the total cost in the accelerations, shape (N-1, n), the states following by roll-out.

    By the adjoint l_k = g_x + A' l_{k+1}: dJ/da_k = g_a + B' l_{k+1} (Bryson and Ho 1975, section 2.2).
    """
    (transition, control), nx = problem.integrator(), 2 * problem.articulation.dof
    adjoint, rows = terms[-1].gradient[:nx], []
    for term in reversed(terms[:-1]):
        rows.append(term.gradient[nx:] + control.T @ adjoint)
        adjoint = term.gradient[:nx] + transition.T @ adjoint
    return np.array(rows[::-1])


def sqp(problem: TrackingProblem, x0: np.ndarray, accelerations: np.ndarray, iterations: int) -> list[Iterate]:
    """Return the seed and the iterates of the SQP.

    Each iteration tries the step lengths 1, 1/2, .. 2^-7 and takes the first that lowers the total cost. The states follow
    the accelerations by roll-out, so that no iterate has a defect.

    Args:
        problem: The problem.
        x0: First knot [q; v], shape (2n,).
        accelerations: Seed, shape (N-1, n); zeros hold the pose when x0 is at rest.
        iterations: Number of iterations.
    """
    states, a = rollout(problem, x0, accelerations), np.array(accelerations, dtype=float)
    iterates = [Iterate(states, a, total_cost(problem, states, a), 0.0, float("nan"))]
    for _ in range(iterations):
        terms = trajectory_terms(problem, states, a)
        _, da = newton_step(problem, terms)
        best, taken = iterates[-1].cost, 0.0
        for alpha in CANDIDATES:
            candidate = rollout(problem, x0, a + alpha * da)
            cost = total_cost(problem, candidate, a + alpha * da)
            if cost < best:
                best, taken, states, a = cost, alpha, candidate, a + alpha * da
                break
        iterates.append(Iterate(states, a, best, taken, kkt_residual(problem, terms)))
    return iterates
