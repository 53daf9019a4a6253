"""What the robot is: URDF to Articulation. Pinocchio is used here, only when a URDF is read, and in no room below."""

from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.from_urdf import articulation_from_urdf
from branch_mpc.robot.library import load_robot, ready_configuration, robot_names, robot_urdf

__all__ = ["Articulation", "articulation_from_urdf", "load_robot", "ready_configuration", "robot_names", "robot_urdf"]
