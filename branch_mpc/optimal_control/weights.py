"""Weights of the tracking objective; the form and the defaults' meaning are GATO's."""

from dataclasses import dataclass

from branch_mpc.settings import param


@dataclass(frozen=True)
class CostWeights:
    """Weights of the stage cost

        l_k = w_k/2 |p(q_k) - p_ref|^2 + w_v/2 |v_k|^2 + w_u/2 |u_k|^2 + w_post/2 |q_k - q_nom|^2 + barriers,

    with w_k = `tool_position`, at the last knot `tool_position_terminal`; the last knot has no torque terms.
    """

    tool_position: float = param(200.0, low=0.0, live=True, unit="1/m^2", doc="weight of the tool position error")
    tool_position_terminal: float = param(200.0, low=0.0, live=True, unit="1/m^2", doc="the same at the last knot")
    velocity: float = param(1e-2, low=0.0, live=True, unit="s^2/rad^2", doc="weight of the joint velocities")
    torque: float = param(2e-6, low=1e-12, live=True, unit="1/(Nm)^2", doc="weight of the joint torques")
    posture: float = param(0.0, low=0.0, live=True, unit="1/rad^2", doc="weight of the distance from the nominal posture")
    position_barrier: float = param(0.01, low=0.0, live=True, doc="log barrier of the joint position limits")
    velocity_barrier: float = param(0.0, low=0.0, live=True, doc="log barrier of the joint velocity limits")
    torque_barrier: float = param(0.0, low=0.0, live=True, doc="log barrier of the joint torque limits")
    position_margin: float = param(0.1, low=0.0, high=1.0, unit="rad", doc="distance kept by the barrier from position limits")
    velocity_margin: float = param(0.1, low=0.0, high=1.0, unit="rad/s", doc="distance kept by the barrier from velocity limits")
    torque_margin: float = param(0.1, low=0.0, high=100.0, unit="Nm", doc="distance kept by the barrier from torque limits")
