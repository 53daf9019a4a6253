"""The tracking cost and its Gauss-Newton terms by Pinocchio, float64: the baseline's own code, not the oracle's."""

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.pinocchio_model import pinocchio_model

RELAXATION = 1e-3
"""Distance from a limit below which the log barrier is a parabola [rad, rad/s, Nm]."""


@dataclass(frozen=True)
class TrajectoryTerms:
    """Local quadratic of every knot in z_k = [q_k; v_k; a_k]."""

    cost: float
    """Total cost of the trajectory."""
    gradient: np.ndarray
    """Shape (N, 3n); the acceleration part of the last knot is zero."""
    hessian: np.ndarray
    """Gauss-Newton Hessians, shape (N, 3n, 3n)."""


class PinocchioTerms:
    """Cost of trajectories of one arm, x_k = [q_k; v_k] and a_k, and its quadratic terms.

    Args:
        articulation: The arm; its joint order is that of every array.
        weights: Weights and margins of the cost.
        nominal: Posture of the posture weight, shape (n,); zeros when None.
    """

    def __init__(self, articulation: Articulation, weights: CostWeights, nominal: np.ndarray | None = None) -> None:
        self.weights, self.nominal = weights, np.zeros(articulation.dof) if nominal is None else np.asarray(nominal, dtype=float)
        self._model, self._frame = pinocchio_model(articulation)
        self._data, self._n = self._model.createData(), articulation.dof
        margin = weights.position_margin
        self._position_box = articulation.position_lower + margin, articulation.position_upper - margin
        self._velocity_box = _symmetric(articulation.velocity_limit - weights.velocity_margin)
        self._torque_box = _symmetric(articulation.effort_limit - weights.torque_margin)

    def cost(self, states: np.ndarray, accelerations: np.ndarray, targets: np.ndarray, wrench: np.ndarray) -> float:
        """Return the total cost.

        Args:
            states: Knots [q; v], shape (N, 2n).
            accelerations: Shape (N-1, n).
            targets: Tool targets [m], base frame, shape (N, 3).
            wrench: World wrench (force, moment) on the tool, shape (6,) [N, Nm].
        """
        n, model, data, pushed = self._n, self._model, self._data, wrench.any()
        tools, torques = np.empty((len(states), 3)), np.empty_like(accelerations)
        for k, x in enumerate(states):
            if k < len(accelerations):
                torques[k] = pin.rnea(model, data, x[:n], x[n:], accelerations[k])
                if pushed:
                    torques[k] -= pin.computeFrameJacobian(model, data, x[:n], self._frame, pin.LOCAL_WORLD_ALIGNED).T @ wrench
            pin.framesForwardKinematics(model, data, x[:n])
            tools[k] = data.oMf[self._frame].translation
        return self._cost(states, tools - targets, torques)

    def torque(self, x: np.ndarray, a: np.ndarray, wrench: np.ndarray) -> np.ndarray:
        """Return the joint torques [Nm | N], shape (n,), that give acceleration a in state x = [q; v] under a world wrench."""
        n = self._n
        jacobian = pin.computeFrameJacobian(self._model, self._data, x[:n], self._frame, pin.LOCAL_WORLD_ALIGNED)
        return pin.rnea(self._model, self._data, x[:n], x[n:], a) - jacobian.T @ wrench

    def tool(self, x: np.ndarray) -> np.ndarray:
        """Return the tool position in the base frame [m], shape (3,), in state x = [q; v]."""
        pin.framesForwardKinematics(self._model, self._data, x[: self._n])
        return self._data.oMf[self._frame].translation.copy()

    def quadratic(self, states: np.ndarray, accelerations: np.ndarray, targets: np.ndarray, wrench: np.ndarray) -> TrajectoryTerms:
        """Return cost, gradients and Gauss-Newton Hessians; arguments as in `cost`."""
        n, model, data, intervals = self._n, self._model, self._data, len(accelerations)
        tools, jacobians = np.empty((len(states), 3)), np.empty((len(states), 6, n))
        torques, slopes = np.empty((intervals, n)), np.empty((intervals, n, 3 * n))
        for k, x in enumerate(states):
            jacobians[k] = pin.computeFrameJacobian(model, data, x[:n], self._frame, pin.LOCAL_WORLD_ALIGNED)
            tools[k] = data.oMf[self._frame].translation
            if k < intervals:
                pin.computeRNEADerivatives(model, data, x[:n], x[n:], accelerations[k])
                torques[k], slope = data.tau, slopes[k]
                slope[:, :n], slope[:, n : 2 * n], slope[:, 2 * n :] = data.dtau_dq, data.dtau_dv, data.M
        # Pinocchio fills the upper triangle of the mass matrix.
        slopes[:, :, 2 * n :] = np.triu(slopes[:, :, 2 * n :]) + np.triu(slopes[:, :, 2 * n :], 1).transpose(0, 2, 1)
        if wrench.any():
            torques -= wrench @ jacobians[:-1]
            slopes[:, :, :n] -= _wrench_derivatives(jacobians[:-1], wrench)
        errors, jacobians = tools - targets, jacobians[:, :3]
        gradient, hessian = self._state_terms(states, errors, jacobians)
        _, slope, curvature = _box_barrier(torques, *self._torque_box, self.weights.torque_barrier)
        gradient[:-1] += np.einsum("kij,ki->kj", slopes, self.weights.torque * torques + slope)
        hessian[:-1] += slopes.transpose(0, 2, 1) @ ((self.weights.torque + curvature)[:, :, None] * slopes)
        return TrajectoryTerms(self._cost(states, errors, torques), gradient, hessian)

    def _state_terms(self, states: np.ndarray, errors: np.ndarray, jacobians: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, weights, diagonal = self._n, self.weights, np.arange(self._n)
        q, v, w = states[:, :n], states[:, n:], self._tool_weights(len(states))
        _, slope_q, curvature_q = _box_barrier(q, *self._position_box, weights.position_barrier)
        _, slope_v, curvature_v = _box_barrier(v, *self._velocity_box, weights.velocity_barrier)
        gradient, hessian = np.zeros((len(states), 3 * n)), np.zeros((len(states), 3 * n, 3 * n))
        pull = np.einsum("kij,ki->kj", jacobians, w[:, None] * errors)
        gradient[:, :n] = pull + weights.posture * (q - self.nominal) + slope_q
        gradient[:, n : 2 * n] = weights.velocity * v + slope_v
        hessian[:, :n, :n] = w[:, None, None] * jacobians.transpose(0, 2, 1) @ jacobians
        hessian[:, diagonal, diagonal] += weights.posture + curvature_q
        hessian[:, n + diagonal, n + diagonal] = weights.velocity + curvature_v
        return gradient, hessian

    def _cost(self, states: np.ndarray, errors: np.ndarray, torques: np.ndarray) -> float:
        n, weights = self._n, self.weights
        q, v, w = states[:, :n], states[:, n:], self._tool_weights(len(states))
        quadratic = w @ (errors**2).sum(axis=1) + weights.velocity * (v**2).sum() + weights.posture * ((q - self.nominal) ** 2).sum()
        barriers = (
            _box_barrier(q, *self._position_box, weights.position_barrier)[0],
            _box_barrier(v, *self._velocity_box, weights.velocity_barrier)[0],
            _box_barrier(torques, *self._torque_box, weights.torque_barrier)[0],
        )
        return float(0.5 * (quadratic + weights.torque * (torques**2).sum()) + sum(barriers))

    def _tool_weights(self, knots: int) -> np.ndarray:
        w = np.full(knots, self.weights.tool_position)
        w[-1] = self.weights.tool_position_terminal
        return w


def _wrench_derivatives(jacobians: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """Return d(J' w)/dq, shape (K, n, n), for a constant world wrench w at the tool, joints numbered from base to tool.

    J_i = (v_i, s_i) turns with every joint from the base up to i, and v_i = s_i x (tool - origin_i) follows the tool when a
    later joint moves it: dJ_i/dq_j = (s_j x v_i, s_j x s_i) for j <= i and (s_i x v_j, 0) for j > i.

    Args:
        jacobians: Tool Jacobians, rows (linear, angular), base axes, shape (K, 6, n).
        wrench: World wrench (force, moment), shape (6,).
    """
    linear, angular = jacobians[:, :3].transpose(0, 2, 1), jacobians[:, 3:].transpose(0, 2, 1)
    # Entry [i, j] by cyclic rotation of the triple products f.(s_j x v_i), m.(s_j x s_i) and f.(s_i x v_j).
    arm = np.cross(linear, wrench[:3])
    turned = (arm + np.cross(angular, wrench[3:])) @ jacobians[:, 3:]
    moved = angular @ arm.transpose(0, 2, 1)
    return np.tril(turned) + np.triu(moved, 1)


def _symmetric(limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return -limit, limit


def _box_barrier(x: np.ndarray, lower: np.ndarray, upper: np.ndarray, weight: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Return value, gradient and diagonal Hessian of the relaxed log barriers (Hauser and Saccon 2006) of a box."""
    if weight == 0.0:
        return 0.0, np.zeros_like(x), np.zeros_like(x)
    low, high = _relaxed_log(x - lower), _relaxed_log(upper - x)
    return weight * float((low[0] + high[0]).sum()), weight * (low[1] - high[1]), weight * (low[2] + high[2])


def _relaxed_log(d: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    finite, clipped = ~np.isinf(d), np.maximum(d, RELAXATION)
    short = np.minimum(d - RELAXATION, 0.0) / RELAXATION  # how far beyond the relaxation, 0 inside
    # ((d - 2 delta)/delta)^2 - 1 = (short - 1)^2 - 1: the parabola that continues -log in value, slope and curvature.
    value, slope, curvature = -np.log(clipped) + 0.5 * ((short - 1.0) ** 2 - 1.0), (short - 1.0) / clipped, 1.0 / clipped**2
    return np.where(finite, value, 0.0), np.where(finite, slope, 0.0), np.where(finite, curvature, 0.0)
