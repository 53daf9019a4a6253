"""The simulated robot, independent of the controller's dynamics."""

from branch_mpc.plant.simulated_arm import SimulatedArm

__all__ = ["SimulatedArm"]
