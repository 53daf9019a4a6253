"""What may leave: checks, limits, rates and fallback modes. NumPy only, so it works when the GPU is gone."""

from branch_mpc.guard.command import Command
from branch_mpc.guard.guard import Guard
from branch_mpc.guard.limits import Limits
from branch_mpc.guard.modes import Flags, Mode
from branch_mpc.guard.settings import GuardSettings

__all__ = ["Command", "Flags", "Guard", "GuardSettings", "Limits", "Mode"]
