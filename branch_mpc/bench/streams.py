"""What went over DDS during a run, and the recording made from it. No ROS is needed here."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from branch_mpc.bench.record import Motion, Recording, Solves
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import BranchMpcError
from branch_mpc.optimal_control.reference import Reference

NANO = 1e-9
FOLLOWING = ("tracking", "degraded")
"""Modes in which the arm follows plans."""


@dataclass(frozen=True)
class State:
    """A joint state, in the order of the articulation."""

    stamp: int
    """ROS time of the measurement [ns]."""
    position: np.ndarray
    """Joint positions [rad | m], shape (n,)."""
    velocity: np.ndarray
    """Joint velocities [rad/s | m/s], shape (n,)."""
    torque: np.ndarray | None
    """Torques in force [Nm | N], shape (n,); None when the robot does not say."""


@dataclass(frozen=True)
class Status:
    """The fields of an MpcStatus that a recording needs."""

    stamp: int
    """ROS time at which the tick began [ns]."""
    mode: str
    """Mode of the guard."""
    reason: str
    """Why."""
    epoch: int
    """Epoch of the plan in use."""
    overruns: int
    """Ticks skipped since activation."""
    solve: Mapping[str, Any]
    """solve_time, merit, kkt_residual, step_size, row, status and wrench (6,) of the last solve."""


@dataclass
class Streams:
    """Messages in the order in which they came."""

    states: list[State] = field(default_factory=list)
    """Joint states."""
    commands: list[tuple[int, np.ndarray]] = field(default_factory=list)
    """(time of arrival [ns], torques), shape (n,)."""
    statuses: list[Status] = field(default_factory=list)
    """One a tick."""
    starts: dict[int, int] = field(default_factory=dict)
    """ROS time [ns] at which the first plan of an epoch begins, by epoch: the reference begins there too."""

    def began(self) -> int | None:
        """Return when the reference in force began, ROS time [ns]; None before the arm follows a plan and that plan has come."""
        following = next((status for status in self.statuses if status.mode in FOLLOWING), None)
        return None if following is None else self.starts.get(following.epoch)

    def problem(self) -> str:
        """Return why the arm left the reference, empty while it follows or has not begun to."""
        begun = next((index for index, status in enumerate(self.statuses) if status.mode in FOLLOWING), len(self.statuses))
        left = next((status for status in self.statuses[begun:] if status.mode not in FOLLOWING), None)
        return "" if left is None else f"{left.mode}: {left.reason}"

    def state_at(self, stamp: int) -> State:
        """Return the newest state measured at or before a ROS time [ns], or the first one."""
        return next((state for state in reversed(self.states) if state.stamp <= stamp), self.states[0])


def recording_of(
    streams: Streams, dynamics: HostDynamics, reference: Reference, *, approach: float, length: float, period: float
) -> Recording:
    """Make a recording of what went over DDS; times count from the start of the reference.

    Args:
        streams: The messages.
        dynamics: Kinematics of the robot.
        reference: The reference that the controller followed.
        approach: Length of the approach [s].
        length: Length of the run, approach included [s].
        period: Control period [s].

    Raises:
        BranchMpcError: The arm never followed a plan, or the first one was lost on the way.
    """
    began = streams.began()
    if began is None:
        raise BranchMpcError("the arm did not begin to track, or its first plan was lost on the way", "run again")
    motion = _motion(streams, began, dynamics, reference, length)
    solves, overruns = _solves(streams, began, length)
    return Recording(dynamics.articulation, motion, solves, approach, period, overruns)


def _motion(streams: Streams, began: int, dynamics: HostDynamics, reference: Reference, length: float) -> Motion:
    newest, states = -1, []
    for state in streams.states:
        # A plant in lockstep repeats a state until it is answered.
        if state.stamp > newest and 0 <= state.stamp - began <= round(length / NANO):
            newest = state.stamp
            states.append(state)
    n = dynamics.articulation.dof
    time = np.array([(state.stamp - began) * NANO for state in states])
    position = np.array([state.position for state in states]).reshape(-1, n)
    return Motion(
        time=time,
        position=position,
        velocity=np.array([state.velocity for state in states]).reshape(-1, n),
        torque=np.array([_torque(state, streams) for state in states]).reshape(-1, n),
        tool=np.array([dynamics.tool(q)[0] for q in position]).reshape(-1, 3),
        target=reference.position(time).reshape(-1, 3),
    )


def _torque(state: State, streams: Streams) -> np.ndarray:
    """Return the torque in force at a state: what the robot says, else the last command that had arrived."""
    if state.torque is not None:
        return state.torque
    sent = next((torque for arrived, torque in reversed(streams.commands) if arrived <= state.stamp), None)
    return np.zeros_like(state.position) if sent is None else sent


def _solves(streams: Streams, began: int, length: float) -> tuple[Solves, int]:
    during = [status for status in streams.statuses if -0.5 <= (status.stamp - began) * NANO <= length and status.mode in FOLLOWING]
    before = [status.overruns for status in streams.statuses if status.mode not in FOLLOWING]
    column = {
        name: [status.solve[name] for status in during]
        for name in ("solve_time", "merit", "kkt_residual", "step_size", "row", "wrench", "status")
    }
    solves = Solves(
        time=np.array([(status.stamp - began) * NANO for status in during]),
        solve_time=np.array(column["solve_time"]),
        merit=np.array(column["merit"]),
        kkt_residual=np.array(column["kkt_residual"]),
        step_size=np.array(column["step_size"]),
        row=np.array(column["row"], dtype=int),
        wrench=np.array(column["wrench"]).reshape(-1, 6),
        status=tuple(column["status"]),
        mode=tuple(status.mode for status in during),
    )
    return solves, (during[-1].overruns - max(before, default=0) if during else 0)


def with_facts(recording: Recording, facts: Mapping[str, Any]) -> Recording:
    """Return a recording with facts added."""
    return dataclasses.replace(recording, facts={**recording.facts, **facts})
