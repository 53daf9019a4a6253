"""The torque form in float64 NumPy, slowly: twin of the device's KKT blocks, Schur complement, preconditioner, step and merit.

Everything is dense and written from the definitions: S = -C G^-1 C' of the whole constraint matrix, not from the formulas of its blocks.
"""

from dataclasses import dataclass

import numpy as np

from branch_mpc.oracle import rigid_body
from branch_mpc.oracle.tracking import TrackingProblem, box_barrier


@dataclass(frozen=True)
class TorqueBlocks:
    """KKT blocks of a linearised iterate of N knots."""

    Q: np.ndarray
    """Hessians of the states with rho on the positions, shape (N, 2n, 2n)."""
    R: np.ndarray
    """Hessians of the torques, shape (N-1, n, n)."""
    gx: np.ndarray
    """Gradients in the states, shape (N, 2n)."""
    gu: np.ndarray
    """Gradients in the torques, shape (N-1, n)."""
    A: np.ndarray
    """df/dx, shape (N-1, 2n, 2n)."""
    B: np.ndarray
    """df/du, shape (N-1, 2n, n)."""
    c: np.ndarray
    """Defects x_0 - x_s and x_{k+1} - f(x_k, u_k), shape (N, 2n)."""
    cost: float
    """Sum of the stage costs."""


def acceleration(problem: TrackingProblem, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return M^-1 (u - b + J' w) by the articulated-body algorithm, shape (n,)."""
    n = problem.articulation.dof
    return rigid_body.forward_dynamics(problem.articulation, x[:n], x[n:], u, problem.wrench)


def acceleration_derivatives(problem: TrackingProblem, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return da/dx, shape (n, 2n), and da/du = M^-1, shape (n, n), the wrench fixed in the world."""
    arm, n = problem.articulation, problem.articulation.dof
    a = acceleration(problem, x, u)
    by_q, by_v, _ = rigid_body.inverse_dynamics_derivatives(arm, x[:n], x[n:], a, problem.wrench)
    inverse = np.linalg.inv(rigid_body.mass_matrix(arm, x[:n]))
    return -inverse @ np.hstack([by_q, by_v]), inverse


def discrete_step(problem: TrackingProblem, x: np.ndarray, u: np.ndarray, integrator: str = "trapezoidal") -> np.ndarray:
    """Return f_h(x, u), shape (2n,); integrators as GATO defines them."""
    n, h = problem.articulation.dof, problem.step
    if integrator == "rk4":

        def slope(y: np.ndarray) -> np.ndarray:
            return np.r_[y[n:], acceleration(problem, y, u)]

        k1 = slope(x)
        k2 = slope(x + 0.5 * h * k1)
        k3 = slope(x + 0.5 * h * k2)
        return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(x + h * k3))
    a = acceleration(problem, x, u)
    second = {"euler": 0.0, "semi_implicit": 1.0, "trapezoidal": 0.5}[integrator] * h * h
    return np.r_[x[:n] + h * x[n:] + second * a, x[n:] + h * a]


def step_derivatives(
    problem: TrackingProblem, x: np.ndarray, u: np.ndarray, integrator: str = "trapezoidal"
) -> tuple[np.ndarray, np.ndarray]:
    """Return A = df/dx, shape (2n, 2n), and B = df/du, shape (2n, n)."""
    n, h = problem.articulation.dof, problem.step

    def slope(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Derivative of [v; a] at y along dy, the columns of which are d y / d(x, u)."""
        by_x, by_u = acceleration_derivatives(problem, y, u)
        return np.vstack([dy[n:], by_x @ dy + np.hstack([np.zeros((n, 2 * n)), by_u])])

    start = np.hstack([np.eye(2 * n), np.zeros((2 * n, n))])
    if integrator == "rk4":
        total, y, d = start.copy(), x, start
        for ahead, weight in ((0.5, 1.0), (0.5, 2.0), (1.0, 2.0), (0.0, 1.0)):
            k, dk = np.r_[y[n:], acceleration(problem, y, u)], slope(y, d)
            total = total + h / 6.0 * weight * dk
            y, d = x + ahead * h * k, start + ahead * h * dk
        return total[:, : 2 * n], total[:, 2 * n :]
    bottom = slope(x, start)[n:]
    second = {"euler": 0.0, "semi_implicit": 1.0, "trapezoidal": 0.5}[integrator] * h * h
    total = start + np.vstack([second * bottom, h * bottom])
    total[:n, n : 2 * n] += h * np.eye(n)
    return total[:, : 2 * n], total[:, 2 * n :]


def stage(
    problem: TrackingProblem, knot: int, x: np.ndarray, u: np.ndarray | None
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return cost, gx (2n,), Q (2n, 2n) without rho, gu (n,) and R (n, n) of one knot; u None at the last one."""
    arm, weights, n = problem.articulation, problem.weights, problem.articulation.dof
    q, v, tool = x[:n], x[n:], weights.tool_position if u is not None else weights.tool_position_terminal
    jacobian = rigid_body.tool_jacobian(arm, q)[:3]
    error = rigid_body.tool_pose(arm, q)[0] - problem.targets[knot]
    away = q - (np.zeros(n) if problem.nominal is None else problem.nominal)
    margin, fast = weights.position_margin, arm.velocity_limit - weights.velocity_margin
    in_q = box_barrier(q, arm.position_lower + margin, arm.position_upper - margin, weights.position_barrier)
    in_v = box_barrier(v, -fast, fast, weights.velocity_barrier)
    cost = 0.5 * (tool * error @ error + weights.velocity * v @ v + weights.posture * away @ away) + in_q[0] + in_v[0]
    gradient = np.r_[tool * jacobian.T @ error + weights.posture * away + in_q[1], weights.velocity * v + in_v[1]]
    hessian = np.zeros((2 * n, 2 * n))
    hessian[:n, :n] = tool * jacobian.T @ jacobian + np.diag(weights.posture + in_q[2])
    hessian[n:, n:] = np.diag(weights.velocity + in_v[2])
    if u is None:
        return float(cost), gradient, hessian, np.zeros(n), np.zeros((n, n))
    strong = arm.effort_limit - weights.torque_margin
    in_u = box_barrier(u, -strong, strong, weights.torque_barrier)
    cost += 0.5 * weights.torque * u @ u + in_u[0]
    return float(cost), gradient, hessian, weights.torque * u + in_u[1], np.diag(weights.torque + in_u[2])


def blocks(
    problem: TrackingProblem, x0: np.ndarray, states: np.ndarray, torques: np.ndarray, rho: float, integrator: str = "trapezoidal"
) -> TorqueBlocks:
    """Return the KKT blocks at states, shape (N, 2n), and torques, shape (N-1, n)."""
    n = problem.articulation.dof
    stages = [stage(problem, k, x, u) for k, (x, u) in enumerate(zip(states, [*torques, None], strict=True))]
    linear = [step_derivatives(problem, x, u, integrator) for x, u in zip(states[:-1], torques, strict=True)]
    defects = [states[0] - x0]
    defects += [b - discrete_step(problem, a, u, integrator) for a, b, u in zip(states[:-1], states[1:], torques, strict=True)]
    damping = rho * np.diag(np.r_[np.ones(n), np.zeros(n)])
    return TorqueBlocks(
        Q=np.array([s[2] + damping for s in stages]),
        R=np.array([s[4] for s in stages[:-1]]),
        gx=np.array([s[1] for s in stages]),
        gu=np.array([s[3] for s in stages[:-1]]),
        A=np.array([a for a, _ in linear]),
        B=np.array([b for _, b in linear]),
        c=np.array(defects),
        cost=sum(s[0] for s in stages),
    )


def merit(
    problem: TrackingProblem, x0: np.ndarray, states: np.ndarray, torques: np.ndarray, mu: float, integrator: str = "trapezoidal"
) -> float:
    """Return the stage costs plus mu times the L1 defects."""
    total = sum(stage(problem, k, x, u)[0] for k, (x, u) in enumerate(zip(states, [*torques, None], strict=True)))
    total += mu * float(np.abs(states[0] - x0).sum())
    for a, b, u in zip(states[:-1], states[1:], torques, strict=True):
        total += mu * float(np.abs(b - discrete_step(problem, a, u, integrator)).sum())
    return total


def _stacked(terms: TorqueBlocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return G, g and C over z = [x_0, u_0, .., x_{N-1}], rows of C: x_0, then x_{k+1} - A x_k - B u_k."""
    knots, nx, n = len(terms.gx), terms.gx.shape[1], terms.gu.shape[1]
    width = nx + n
    size = knots * width - n
    G, g, C = np.zeros((size, size)), np.zeros(size), np.zeros((knots * nx, size))
    C[:nx, :nx] = np.eye(nx)
    for k in range(knots):
        at = k * width
        G[at : at + nx, at : at + nx], g[at : at + nx] = terms.Q[k], terms.gx[k]
        if k < knots - 1:
            G[at + nx : at + width, at + nx : at + width], g[at + nx : at + width] = terms.R[k], terms.gu[k]
            rows = slice((k + 1) * nx, (k + 2) * nx)
            C[rows, at : at + nx], C[rows, at + nx : at + width] = -terms.A[k], -terms.B[k]
            C[rows, at + width : at + width + nx] = np.eye(nx)
    return G, g, C


def schur(terms: TorqueBlocks) -> tuple[np.ndarray, np.ndarray]:
    """Return S = -C G^-1 C', shape (N nx, N nx), and gamma = c - C G^-1 g of S l = gamma."""
    G, g, C = _stacked(terms)
    inverse = np.linalg.inv(G)
    return -C @ inverse @ C.T, terms.c.ravel() - C @ inverse @ g


def stair_preconditioner(S: np.ndarray, nx: int, rho: float) -> np.ndarray:
    """Return the symmetric stair preconditioner of S, dense: D^-1 - D^-1 (S - D) D^-1 with D its damped block diagonal.

    Rho is subtracted from the position half of every block but the first.
    """
    knots = len(S) // nx
    D, off = np.zeros_like(S), S.copy()
    for k in range(knots):
        at = slice(k * nx, (k + 1) * nx)
        D[at, at] = S[at, at] - (rho if k else 0.0) * np.diag(np.r_[np.ones(nx // 2), np.zeros(nx // 2)])
        off[at, at] = 0.0
    inverse = np.linalg.inv(D)
    return inverse - inverse @ off @ inverse


def pcg(S: np.ndarray, P: np.ndarray, gamma: np.ndarray, tolerance: float, cap: int, floor: float = 1e-6) -> tuple[np.ndarray, int]:
    """Return the costates of S l = gamma from zero and the number of iterations, with GATO's stopping rule."""
    x, r = np.zeros_like(gamma), gamma.copy()
    z = P @ r
    p, first = z.copy(), float(r @ z)
    eta, count = first, 0
    if abs(first) < floor:
        return x, 0
    while count < cap:
        y = S @ p
        alpha = eta / (p @ y)
        x, r = x + alpha * p, r - alpha * y
        z = P @ r
        count, following = count + 1, float(r @ z)
        if abs(following) < floor + tolerance * abs(first):
            break
        p, eta = z + following / eta * p, following
    return x, count


def step_from_costates(terms: TorqueBlocks, costates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return dx, shape (N, 2n), and du, shape (N-1, n), that minimise the quadratic for costates, shape (N, 2n)."""
    G, g, C = _stacked(terms)
    nx, n = terms.gx.shape[1], terms.gu.shape[1]
    z = -np.linalg.solve(G, g - C.T @ costates.ravel())
    rows = np.r_[z, np.zeros(n)].reshape(len(terms.gx), nx + n)
    return rows[:, :nx], rows[:-1, nx:]


def roll_out(terms: TorqueBlocks, du: np.ndarray) -> np.ndarray:
    """Return dx, shape (N, 2n), that follows from du, shape (N-1, n), in the linear model."""
    rows = [-terms.c[0]]
    for A, B, u, c in zip(terms.A, terms.B, du, terms.c[1:], strict=True):
        rows.append(A @ rows[-1] + B @ u - c)
    return np.array(rows)


def kkt_residual(terms: TorqueBlocks) -> float:
    """Return the largest |dJ/du_k| by the adjoint and |c| (Bryson and Ho 1975, section 2.2)."""
    adjoint, largest = terms.gx[-1], float(np.abs(terms.c).max())
    for A, B, gx, gu in zip(terms.A[::-1], terms.B[::-1], terms.gx[-2::-1], terms.gu[::-1], strict=True):
        largest = max(largest, float(np.abs(gu + B.T @ adjoint).max()))
        adjoint = gx + A.T @ adjoint
    return largest
