"""What the robot is: URDF to Articulation. Pinocchio is used here and in no room below."""

from branch_mpc.robot.articulation import Articulation

__all__ = ["Articulation"]
