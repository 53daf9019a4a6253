"""The table of modes, row by row and as a whole."""

import itertools

import pytest

from branch_mpc.guard import Flags, Mode
from branch_mpc.guard.modes import RULES, next_mode

NAMES = tuple(Flags.__dataclass_fields__)
ACTIVE = (Mode.WAITING, Mode.HOLD, Mode.TRACKING, Mode.DEGRADED, Mode.STOPPING, Mode.FAULT)


def every_flags():
    """Yield every combination of flags."""
    for values in itertools.product((False, True), repeat=len(NAMES)):
        yield Flags(**dict(zip(NAMES, values, strict=True)))


def test_healthy_inputs_lead_from_waiting_to_tracking_and_stay():
    """With every flag False the arm is held first and then tracked."""
    modes = [Mode.WAITING]
    for _ in range(4):
        modes.append(next_mode(modes[-1], Flags()))
    assert modes == [Mode.WAITING, Mode.HOLD, Mode.TRACKING, Mode.TRACKING, Mode.TRACKING]


def test_silent_modes_are_left_by_activation_only():
    """No flag moves UNCONFIGURED or INACTIVE."""
    for mode, flags in itertools.product((Mode.UNCONFIGURED, Mode.INACTIVE), every_flags()):
        assert next_mode(mode, flags) is mode


@pytest.mark.parametrize("mode", ACTIVE)
def test_leaving_reaches_inactive_from_every_mode(mode):
    """Deactivation ends in INACTIVE within three steps once the stop is finished, whatever else is wrong."""
    for flags in every_flags():
        if flags.leaving and not flags.unfinished:
            now = mode
            for _ in range(3):
                now = next_mode(now, flags)
            assert now is Mode.INACTIVE, flags


@pytest.mark.parametrize("mode", ACTIVE)
def test_a_fault_never_leads_to_tracking(mode):
    """With the fault flag up no path leads to TRACKING or DEGRADED, and FAULT is reached when a stop is finished."""
    for flags in every_flags():
        if flags.fault and not flags.leaving:
            now = mode
            for _ in range(4):
                now = next_mode(now, flags)
                assert now not in (Mode.TRACKING, Mode.DEGRADED), flags
            assert now is (Mode.STOPPING if flags.unfinished and mode not in (Mode.WAITING, Mode.HOLD, Mode.FAULT) else Mode.FAULT), flags


def test_tracking_needs_a_state_a_plan_and_no_hold():
    """The only way into TRACKING is a fresh plan, and from HOLD no hold in force."""
    for mode, flags in itertools.product(ACTIVE, every_flags()):
        if next_mode(mode, flags) is Mode.TRACKING and mode is not Mode.TRACKING:
            assert mode in (Mode.HOLD, Mode.DEGRADED)
            assert not (flags.no_plan or flags.late_plan or flags.holding or flags.fault or flags.leaving or flags.no_state), flags


def test_every_rule_can_fire():
    """No rule is shadowed by those above it: a dead row would be a wish, not a rule."""
    for index, rule in enumerate(RULES):
        earlier = [other for other in RULES[:index] if other.mode is rule.mode]
        fires = any(
            rule.needs <= (up := {name for name in NAMES if getattr(flags, name)})
            and not rule.forbids & up
            and not any(other.needs <= up and not other.forbids & up for other in earlier)
            for flags in every_flags()
        )
        assert fires, rule
