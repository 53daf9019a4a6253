"""One line that says why the guard changed its mode."""

from branch_mpc.guard.modes import Flags, Mode
from branch_mpc.guard.plan_gate import PlanGate
from branch_mpc.guard.state_gate import StateGate


def explain(mode: Mode, flags: Flags, fault: str, hold: str, states: StateGate, plans: PlanGate, now: float) -> str:
    """Return the reason for entering `mode`, the gravest flag first.

    Args:
        mode: The mode entered.
        flags: The flags that led there.
        fault: Reason of the latched fault.
        hold: Reason of the hold in force.
        states: Gate of the states.
        plans: Gate of the plans.
        now: Controller clock [s].
    """
    if flags.fault:
        return fault
    if mode in (Mode.TRACKING, Mode.INACTIVE):
        return ""
    if flags.leaving:
        return "deactivating"
    if flags.no_state:
        rejected = f" (last rejected: {states.last_rejection})" if states.last_rejection else ""
        return f"no joint state for {states.age(now):.3f} s{rejected}"
    if flags.holding:
        return hold
    if mode is Mode.HOLD:
        return "ready"
    if plans.stall_limit_reached:
        return f"stalled: no step accepted in {plans.stalled} plans"
    if plans.plan is None or plans.in_a_row:
        return plans.last_rejection
    return f"no plan for {plans.age(now):.3f} s"
