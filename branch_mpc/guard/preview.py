"""What follows a command, for a sink that takes a short trajectory."""

import dataclasses

import numpy as np

from branch_mpc.guard.command import Command
from branch_mpc.guard.limiter import Limiter
from branch_mpc.guard.modes import Mode
from branch_mpc.guard.plan_gate import PlanGate


def preview(command: Command, effect: float, plans: PlanGate, limiter: Limiter, count: int, spacing: float) -> list[Command]:
    """Return `count` commands after `command`, `spacing` apart, each limited as if it were sent.

    While a plan is followed they come from it; in every other mode, and past the plan's timeout, they rest at the
    command's position and torque.

    Args:
        command: The command just made.
        effect: When that one takes effect [s].
        plans: Gate with the plan in force.
        limiter: Limits in amount and rate.
        count: Number of commands.
        spacing: Time between them [s].
    """
    points: list[Command] = []
    last = command
    for index in range(1, count + 1):
        torque, position, velocity = command.torque, last.position, np.zeros_like(command.velocity)
        time = effect + index * spacing
        if command.mode in (Mode.TRACKING, Mode.DEGRADED) and not plans.expired(time):
            torque, position, velocity = plans.at(time)
        torque = limiter.rated(limiter.clip(torque), last.torque, spacing)
        position, velocity = limiter.within(position, velocity)
        last = dataclasses.replace(command, time=command.time + index * spacing, torque=torque, position=position, velocity=velocity)
        points.append(last)
    return points
