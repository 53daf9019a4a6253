"""Settings of the guard: how old an input may be, how much may leave, how the arm is stopped and held."""

from dataclasses import dataclass

from branch_mpc.settings import param


@dataclass(frozen=True)
class GuardSettings:
    """One timeout per input, one margin per quantity; the rates and gains scale with the joint.

    The hold and stop laws are tau = g(q) + M(q) (hold_stiffness (q_hold - q) - hold_damping v): per unit of inertia, so
    the same two numbers fit a shoulder and a wrist.
    """

    state_timeout: float = param(0.05, low=1e-3, high=1.0, unit="s", doc="oldest measured state that a command may be computed from")
    plan_timeout: float = param(0.1, low=1e-3, high=1.0, unit="s", doc="oldest plan that is followed; then the arm is stopped")
    prestream: float = param(0.2, low=0.0, high=10.0, unit="s", doc="time that states must arrive without a gap before the first command")
    stop_time: float = param(0.5, low=0.05, high=5.0, unit="s", doc="longest time from the start of a stop to the hold")
    future_tolerance: float = param(0.05, low=0.0, high=1.0, unit="s", doc="state stamps further in the future are rejected")
    torque_rate: float = param(10.0, low=0.01, high=1e4, unit="1/s", doc="fastest torque change, as a fraction of the joint's effort limit")
    torque_margin: float = param(0.02, low=0.0, high=0.9, doc="part of the effort limit that is never used")
    velocity_margin: float = param(0.0, low=0.0, high=0.9, doc="part of the velocity limit above which only braking torque leaves")
    position_margin: float = param(0.0, low=0.0, high=1.0, unit="rad", doc="distance from a position limit at which outward torque ends")
    plan_torque: float = param(4.0, low=1.0, high=100.0, doc="a plan with torques beyond this multiple of the effort limit is rejected")
    plan_rejections: int = param(2, low=1, high=100, doc="rejected plans in a row after which the arm is stopped")
    stall_ticks: int = param(5, low=1, high=1000, doc="plans in a row without an accepted step that count as stalled")
    hold_stiffness: float = param(100.0, low=0.0, high=1e4, unit="1/s^2", doc="stiffness of the posture hold, per unit of inertia")
    hold_damping: float = param(20.0, low=0.1, high=1e3, unit="1/s", doc="damping of the stop and of the hold, per unit of inertia")
    rest_speed: float = param(0.01, low=1e-4, high=0.5, doc="fraction of the velocity limit below which a joint is at rest")
    position_jump: float = param(3.0, low=1.0, high=100.0, doc="states further off than this times velocity limit x time are implausible")
    jump_samples: int = param(5, low=1, high=1000, doc="consistent implausible states in a row that are believed, with a restart")
    auto_resume: bool = param(False, doc="track again after a stop without being asked to")
