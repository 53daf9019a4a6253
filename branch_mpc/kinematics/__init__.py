"""Forward kinematics of any tree for a batch of configurations, driven by a table: no compile per robot."""

from branch_mpc.kinematics.tree import TreeKinematics

__all__ = ["TreeKinematics"]
