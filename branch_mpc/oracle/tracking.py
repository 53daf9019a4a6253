"""The acceleration-form tracking problem in float64 NumPy, slowly: twin of the device's terms, steps and residual.

Unknowns are the knots x_k = [q_k; v_k] and the accelerations a_k, held over each interval, so that
x_{k+1} = A x_k + B a_k exactly. The torque u_k = ID(q_k, v_k, a_k, w) is seen by the cost alone. Each Newton step
solves the dense KKT system of the Gauss-Newton quadratic; no recursion is shared with the code under test.
"""

from dataclasses import dataclass

import numpy as np

from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.oracle import rigid_body
from branch_mpc.robot.articulation import Articulation

RELAXATION = 1e-3
"""Distance from a limit below which the log barrier is continued by its parabola [rad, rad/s, Nm]."""
CANDIDATES = tuple(0.5**i for i in range(8))
"""Step lengths of the line search, tried in this order."""


@dataclass(frozen=True)
class TrackingProblem:
    """One tracking problem: N knots of an arm whose tool should follow targets under a known world wrench."""

    articulation: Articulation
    """The arm, n joints."""
    targets: np.ndarray
    """Tool targets in the base frame, shape (N, 3) [m]."""
    weights: CostWeights = CostWeights()
    """Weights and margins of the cost."""
    step: float = 0.01
    """Time between knots h [s]."""
    nominal: np.ndarray | None = None
    """Posture that the posture weight pulls to, shape (n,) [rad | m]; zeros when None."""
    wrench: np.ndarray | None = None
    """World wrench (force, moment) on the tool, shape (6,) [N, Nm]; zeros when None."""

    @property
    def knots(self) -> int:
        """Number of knots N."""
        return len(self.targets)

    def integrator(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A, shape (2n, 2n), and B, shape (2n, n), of q+ = q + h v + h^2/2 a, v+ = v + h a."""
        h, eye = self.step, np.eye(self.articulation.dof)
        return np.block([[eye, h * eye], [0.0 * eye, eye]]), np.vstack([0.5 * h * h * eye, h * eye])


@dataclass(frozen=True)
class StageTerms:
    """Local quadratic of one knot in (q, v, a)."""

    cost: float
    """Stage cost."""
    gradient: np.ndarray
    """Shape (3n,); the acceleration part of the last knot is zero."""
    hessian: np.ndarray
    """Gauss-Newton Hessian, shape (3n, 3n)."""


@dataclass(frozen=True)
class Iterate:
    """A trajectory of the SQP and what was known about it."""

    states: np.ndarray
    """Knots [q_k; v_k], shape (N, 2n)."""
    accelerations: np.ndarray
    """Accelerations, shape (N-1, n)."""
    cost: float
    """Total cost."""
    step_size: float
    """Accepted step length that led here, 0 when refused or at the seed."""
    residual: float
    """Largest |dV/da| at the linearisation that led here; NaN at the seed."""


def barrier(distance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the relaxed log barrier of distances to a limit and its first two derivatives; zeros where infinite.

    -log d for d >= delta, else -log delta + ((d - 2 delta)^2 / delta^2 - 1) / 2: twice continuously differentiable
    and convex on both sides of the limit (Hauser and Saccon 2006, eq. 10, quadratic).
    """
    d, delta = np.asarray(distance, dtype=float), RELAXATION
    finite, inside = ~np.isinf(d), d >= delta
    safe, s = np.where(finite & inside, d, 1.0), (np.where(finite, d, 0.0) - 2.0 * delta) / delta
    value = np.where(inside, -np.log(safe), -np.log(delta) + 0.5 * (s**2 - 1.0))
    slope = np.where(inside, -1.0 / safe, s / delta)
    curvature = np.where(inside, 1.0 / safe**2, 1.0 / delta**2)
    return tuple(np.where(finite, x, 0.0) for x in (value, slope, curvature))  # type: ignore[return-value]


def box_barrier(x: np.ndarray, lower: np.ndarray, upper: np.ndarray, weight: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Return value, gradient and Hessian diagonal of the weighted barriers of lower <= x <= upper."""
    low, high = barrier(x - lower), barrier(upper - x)
    return weight * float(np.sum(low[0] + high[0])), weight * (low[1] - high[1]), weight * (low[2] + high[2])


def stage_terms(problem: TrackingProblem, knot: int, x: np.ndarray, a: np.ndarray | None) -> StageTerms:
    """Return cost, gradient and Gauss-Newton Hessian of one knot in (q, v, a).

    Args:
        problem: The problem.
        knot: Knot number, 0 to N-1.
        x: State [q; v], shape (2n,).
        a: Acceleration, shape (n,); None at the last knot, which has no torque terms.
    """
    arm, weights = problem.articulation, problem.weights
    n, last = arm.dof, knot == problem.knots - 1
    q, v, w = x[:n], x[n:], weights.tool_position_terminal if last else weights.tool_position
    position, jacobian = rigid_body.tool_pose(arm, q)[0], rigid_body.tool_jacobian(arm, q)[:3]
    error = position - problem.targets[knot]
    away = q - (np.zeros(n) if problem.nominal is None else problem.nominal)
    margin = weights.position_margin
    in_q = box_barrier(q, arm.position_lower + margin, arm.position_upper - margin, weights.position_barrier)
    top = arm.velocity_limit - weights.velocity_margin
    in_v = box_barrier(v, -top, top, weights.velocity_barrier)
    cost = 0.5 * (w * error @ error + weights.velocity * v @ v + weights.posture * away @ away) + in_q[0] + in_v[0]
    gradient, hessian = np.zeros(3 * n), np.zeros((3 * n, 3 * n))
    gradient[:n] = w * jacobian.T @ error + weights.posture * away + in_q[1]
    gradient[n : 2 * n] = weights.velocity * v + in_v[1]
    hessian[:n, :n] = w * jacobian.T @ jacobian + np.diag(weights.posture + in_q[2])
    hessian[n : 2 * n, n : 2 * n] = np.diag(weights.velocity + in_v[2])
    if a is not None and not last:
        torque, g = _torque(problem, x, a)
        top = arm.effort_limit - weights.torque_margin
        in_u = box_barrier(torque, -top, top, weights.torque_barrier)
        cost += 0.5 * weights.torque * torque @ torque + in_u[0]
        gradient += g.T @ (weights.torque * torque + in_u[1])
        hessian += g.T @ np.diag(weights.torque + in_u[2]) @ g
    return StageTerms(float(cost), gradient, hessian)


def stage_cost(problem: TrackingProblem, knot: int, x: np.ndarray, a: np.ndarray | None) -> float:
    """Return the cost of one knot, summed term by term as the docstring of CostWeights writes it."""
    arm, weights, last = problem.articulation, problem.weights, knot == problem.knots - 1
    q, v = x[: arm.dof], x[arm.dof :]
    nominal = np.zeros(arm.dof) if problem.nominal is None else problem.nominal
    tool = weights.tool_position_terminal if last else weights.tool_position
    cost = 0.5 * tool * np.sum((rigid_body.tool_pose(arm, q)[0] - problem.targets[knot]) ** 2)
    cost += 0.5 * weights.velocity * np.sum(v**2) + 0.5 * weights.posture * np.sum((q - nominal) ** 2)
    margin, top = weights.position_margin, arm.velocity_limit - weights.velocity_margin
    cost += box_barrier(q, arm.position_lower + margin, arm.position_upper - margin, weights.position_barrier)[0]
    cost += box_barrier(v, -top, top, weights.velocity_barrier)[0]
    if a is not None and not last:
        torque = rigid_body.inverse_dynamics(arm, q, v, a, _wrench(problem))
        top = arm.effort_limit - weights.torque_margin
        cost += 0.5 * weights.torque * np.sum(torque**2) + box_barrier(torque, -top, top, weights.torque_barrier)[0]
    return float(cost)


def trajectory_terms(problem: TrackingProblem, states: np.ndarray, accelerations: np.ndarray) -> list[StageTerms]:
    """Return the terms of every knot of states, shape (N, 2n), and accelerations, shape (N-1, n)."""
    return [stage_terms(problem, k, x, a) for k, (x, a) in enumerate(zip(states, [*accelerations, None], strict=True))]


def total_cost(problem: TrackingProblem, states: np.ndarray, accelerations: np.ndarray) -> float:
    """Return the sum of the stage costs of states, shape (N, 2n), and accelerations, shape (N-1, n)."""
    return sum(stage_cost(problem, k, x, a) for k, (x, a) in enumerate(zip(states, [*accelerations, None], strict=True)))


def rollout(problem: TrackingProblem, x0: np.ndarray, accelerations: np.ndarray) -> np.ndarray:
    """Return the knots, shape (N, 2n), that follow from x0, shape (2n,), and accelerations, shape (N-1, n)."""
    (transition, control), states = problem.integrator(), [np.asarray(x0, dtype=float)]
    for a in accelerations:
        states.append(transition @ states[-1] + control @ a)
    return np.array(states)


def _torque(problem: TrackingProblem, x: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arm, n = problem.articulation, problem.articulation.dof
    torque = rigid_body.inverse_dynamics(arm, x[:n], x[n:], a, _wrench(problem))
    return torque, np.hstack(rigid_body.inverse_dynamics_derivatives(arm, x[:n], x[n:], a, _wrench(problem)))


def _wrench(problem: TrackingProblem) -> np.ndarray:
    return np.zeros(6) if problem.wrench is None else problem.wrench
