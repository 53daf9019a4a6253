"""`Articulation` to a Pinocchio model, for what stands beside the controller: plant, baseline, tests."""

import numpy as np
import pinocchio as pin

from branch_mpc.errors import RobotError
from branch_mpc.robot.articulation import Articulation

_AXES = "XYZ"


def pinocchio_model(articulation: Articulation) -> tuple[pin.Model, int]:
    """Return a Pinocchio model of the articulation and the index of its tool frame.

    Every joint is one number, continuous ones too; joint i of the articulation is joint i + 1 of the model.

    Args:
        articulation: The robot.

    Raises:
        RobotError: The joints are not numbered depth first, which Pinocchio's recursions need.
    """
    _check_depth_first(articulation)
    model = pin.Model()
    model.name = articulation.name
    model.gravity = pin.Motion(np.array(articulation.gravity), np.zeros(3))
    for index, name in enumerate(articulation.joint_names):
        placement = pin.SE3(articulation.rotation[index], articulation.translation[index])
        limits = (articulation.effort_limit, articulation.velocity_limit, articulation.position_lower, articulation.position_upper)
        bounds = (limit[index : index + 1] for limit in limits)
        joint = model.addJoint(articulation.parents[index] + 1, _joint_model(articulation, index), placement, name, *bounds)
        body = pin.Inertia(articulation.mass[index], articulation.center_of_mass[index], articulation.inertia[index])
        model.appendBodyToJoint(joint, body, pin.SE3.Identity())
    tool = pin.SE3(articulation.tool_rotation, articulation.tool_translation)
    frame = model.addFrame(pin.Frame(articulation.tool_name, articulation.tool_link + 1, tool, pin.FrameType.OP_FRAME))
    return model, int(frame)


def _joint_model(articulation: Articulation, index: int) -> pin.JointModel:
    axis = articulation.axis[index]
    kind = "P" if articulation.joint_types[index] == "prismatic" else "R"
    if np.count_nonzero(axis) == 1 and axis.max() == 1.0:
        return getattr(pin, f"JointModel{kind}{_AXES[int(axis.argmax())]}")()
    if kind == "P":
        return pin.JointModelPrismaticUnaligned(axis)
    return pin.JointModelRevoluteUnaligned(axis)


def _check_depth_first(articulation: Articulation) -> None:
    chain: list[int] = []  # the links from the base to the last joint seen
    for index, parent in enumerate(articulation.parents):
        while chain and chain[-1] != parent:
            chain.pop()
        if parent != (chain[-1] if chain else -1):
            raise RobotError(
                f"joint '{articulation.joint_names[index]}' of robot '{articulation.name}' does not follow its parent's branch",
                "number the joints depth first",
            )
        chain.append(index)
