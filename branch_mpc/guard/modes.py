"""Modes of the guard and the table that moves between them."""

import dataclasses
from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """What the arm is being told to do."""

    UNCONFIGURED = "unconfigured"
    """Nothing is known yet; silent."""
    INACTIVE = "inactive"
    """Configured, not in charge of the arm; silent."""
    WAITING = "waiting"
    """In charge, without a state to act on (missing, or not yet streamed long enough); silent."""
    HOLD = "hold"
    """Damped hold of the posture that was measured."""
    TRACKING = "tracking"
    """Following a fresh plan."""
    DEGRADED = "degraded"
    """Following the last valid plan while it ages."""
    STOPPING = "stopping"
    """Decelerating with gravity compensation."""
    FAULT = "fault"
    """Holding like HOLD; left only by a reset."""


SILENT = frozenset({Mode.UNCONFIGURED, Mode.INACTIVE, Mode.WAITING})
"""Modes in which nothing is published."""


@dataclass(frozen=True)
class Flags:
    """What is wrong; all False is healthy (PX4 names its failsafe flags this way for the same reason)."""

    no_state: bool = False
    """No accepted state within the timeout."""
    unsettled: bool = False
    """States have not arrived without a gap for the prestream time."""
    no_plan: bool = False
    """No valid plan, or one past its timeout."""
    late_plan: bool = False
    """The last tick brought no plan, a rejected one, or stalled ones in a row."""
    holding: bool = False
    """A hold was asked for, or a stop has not been acknowledged by a reset."""
    unfinished: bool = False
    """The stop in progress still has speed and time left."""
    leaving: bool = False
    """Deactivation was asked for."""
    fault: bool = False
    """A latched fault."""


@dataclass(frozen=True)
class Rule:
    """In `mode`, with every flag of `needs` up and none of `forbids`, go to `then`."""

    mode: Mode
    then: Mode
    needs: frozenset[str] = frozenset()
    forbids: frozenset[str] = frozenset()


def _rule(mode: Mode, then: Mode, needs: str = "", forbids: str = "") -> Rule:
    return Rule(mode, then, frozenset(needs.split()), frozenset(forbids.split()))


RULES = (
    _rule(Mode.WAITING, Mode.INACTIVE, "leaving"),
    _rule(Mode.WAITING, Mode.FAULT, "fault"),
    _rule(Mode.WAITING, Mode.HOLD, forbids="no_state unsettled"),
    _rule(Mode.HOLD, Mode.STOPPING, "leaving"),
    _rule(Mode.HOLD, Mode.FAULT, "fault"),
    _rule(Mode.HOLD, Mode.STOPPING, "no_state"),
    _rule(Mode.HOLD, Mode.TRACKING, forbids="no_plan late_plan holding"),
    *(_rule(mode, Mode.STOPPING, flag) for mode in (Mode.TRACKING, Mode.DEGRADED) for flag in ("leaving", "fault", "no_plan", "holding")),
    _rule(Mode.TRACKING, Mode.DEGRADED, "no_state"),
    _rule(Mode.TRACKING, Mode.DEGRADED, "late_plan"),
    _rule(Mode.DEGRADED, Mode.TRACKING, forbids="no_state late_plan"),
    _rule(Mode.STOPPING, Mode.INACTIVE, "leaving", "unfinished"),
    _rule(Mode.STOPPING, Mode.FAULT, "fault", "unfinished"),
    _rule(Mode.STOPPING, Mode.WAITING, "no_state", "unfinished"),
    _rule(Mode.STOPPING, Mode.HOLD, forbids="unfinished"),
    _rule(Mode.FAULT, Mode.STOPPING, "leaving"),
    _rule(Mode.FAULT, Mode.WAITING, "no_state", "fault"),
    _rule(Mode.FAULT, Mode.HOLD, forbids="fault"),
)
"""The first rule that applies wins; UNCONFIGURED and INACTIVE are left only by activation."""


def next_mode(mode: Mode, flags: Flags) -> Mode:
    """Return the mode that follows `mode` under `flags`: one step of the table."""
    up = {field.name for field in dataclasses.fields(flags) if getattr(flags, field.name)}
    for rule in RULES:
        if rule.mode is mode and rule.needs <= up and not rule.forbids & up:
            return rule.then
    return mode
