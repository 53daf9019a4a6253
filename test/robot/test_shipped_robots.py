"""The shipped robots against golden numbers (Pinocchio on GATO's files, recorded in the design notes of this package)."""

import numpy as np
import pinocchio as pin
import pytest

from branch_mpc.oracle import rigid_body
from branch_mpc.robot import load_robot, ready_configuration, robot_names, robot_urdf
from branch_mpc.robot.pinocchio_model import pinocchio_model

CONFIG_READY = np.array([0, np.pi / 6, np.pi / 8, -np.pi / 3, 0, np.pi / 3, 0])

# robot, configuration, tool position [m], gravity torque [Nm]
GOLDEN = [
    ("indy7", np.zeros(6), (0, -0.1865, 1.3275), (0, -0.003418, -0.004711, 0, -0.004737, 0)),
    ("indy7", None, (-0.345562, 0.293243, 1.071063), (0, -12.021389, -16.940418, 3.930005, -2.708412, 0.001660)),
    ("iiwa14", np.zeros(7), (0, 0, 1.301), (0, 0.022122, 0, -0.003433, 0, 0, 0)),
    ("iiwa14", CONFIG_READY, (0.640756, 0.172667, 0.636114), (0, -50.681231, 3.619217, 23.201200, -0.502266, -0.622611, 0)),
    ("iiwa14", None, (0.507670, 0, 0.511030), (0, -38.470072, -0.251581, 21.831706, -0.675632, -0.049879, 0)),
]


@pytest.mark.parametrize(("name", "configuration", "tool", "gravity"), GOLDEN)
def test_tool_position_and_gravity_torque_are_golden(name: str, configuration: np.ndarray | None, tool: tuple, gravity: tuple) -> None:
    """Tool position and gravity torque equal the recorded ones, by Pinocchio and by the textbook twin."""
    robot = load_robot(name)
    q = ready_configuration(name) if configuration is None else configuration
    model, frame = pinocchio_model(robot)
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    zero = np.zeros(robot.dof)
    for position in (data.oMf[frame].translation, rigid_body.tool_pose(robot, q)[0]):
        assert np.abs(position - tool).max() < 1e-6  # six printed digits
    for torque in (pin.computeGeneralizedGravity(model, data, q), rigid_body.inverse_dynamics(robot, q, zero, zero)):
        # The golden model keeps angles as printed (1.57079633); making them exact quarter turns moves torques by up to 1.7e-6 Nm.
        assert np.abs(torque - gravity).max() < 3e-6


@pytest.mark.parametrize(
    ("name", "acceleration", "diagonal", "condition"),
    [
        (
            "indy7",
            (-1.14441808, -6.29492568, 4.90602798, -47.49033683, 73.5417528, 8617.11590478),
            (0.81656, 5.01650, 1.01166, 0.13526, 0.06481, 0.000583),
            9.9e3,
        ),
        (
            "iiwa14",
            (-26.3010894, 10.4876631, 38.23113523, -9.64775161, -13.69128823, 188.76787185, 5015.07899232),
            (1.51209, 2.85870, 0.81579, 0.80021, 0.02254, 0.01684, 0.001),
            3.1e3,
        ),
    ],
)
def test_forward_dynamics_and_mass_matrix_are_golden(name: str, acceleration: tuple, diagonal: tuple, condition: float) -> None:
    """Forward dynamics from the start configuration and the mass matrix equal the recorded ones."""
    robot, q = load_robot(name), ready_configuration(name)
    v, torque = 0.1 * np.arange(1, robot.dof + 1), np.linspace(-5, 5, robot.dof)
    model, _ = pinocchio_model(robot)
    for result in (pin.aba(model, model.createData(), q, v, torque), rigid_body.forward_dynamics(robot, q, v, torque)):
        assert np.abs(result - acceleration).max() < 1e-5  # exact quarter turns move these accelerations by up to 5e-6
    matrix = rigid_body.mass_matrix(robot, q)
    assert np.abs(np.diag(matrix) - diagonal).max() < 6e-6  # five printed digits
    assert np.linalg.cond(matrix) == pytest.approx(condition, rel=0.02)  # two printed digits


@pytest.mark.parametrize(("name", "mass"), [("indy7", 24.711), ("iiwa14", 25.61)])
def test_moving_mass_is_golden(name: str, mass: float) -> None:
    """The sum of the moving masses is the recorded one, the base not counted."""
    assert load_robot(name).mass.sum() == pytest.approx(mass, abs=5e-4)


def test_limits_are_those_of_the_tables() -> None:
    """Position, velocity and effort limits carry over unchanged."""
    indy, iiwa = load_robot("indy7"), load_robot("iiwa14")
    assert indy.effort_limit.tolist() == [431.97, 431.97, 197.23, 79.79, 79.79, 79.79]
    assert indy.velocity_limit.tolist() == [2.61799388] * 3 + [3.14159265] * 3
    assert indy.position_upper.tolist() == [3.05432619] * 5 + [3.75245789]
    assert iiwa.effort_limit.tolist() == [320, 320, 176, 176, 110, 40, 40]
    assert iiwa.velocity_limit.tolist() == [1.48353, 1.48353, 1.74533, 1.309, 2.26893, 2.35619, 2.35619]
    for robot in (indy, iiwa):
        assert np.array_equal(robot.position_lower, -robot.position_upper)


@pytest.mark.parametrize("name", ["indy7", "iiwa14"])
def test_rounded_quarter_turns_are_exact(name: str) -> None:
    """Every joint frame of the shipped robots is a permutation with signs, so that generated dynamics can drop the zeros."""
    robot = load_robot(name)
    assert set(np.unique(np.abs(robot.rotation))) == {0.0, 1.0}
    assert not np.signbit(robot.rotation[robot.rotation == 0]).any()
    assert np.array_equal(robot.axis, np.tile([0.0, 0.0, 1.0], (robot.dof, 1)))


@pytest.mark.parametrize("name", robot_names())
def test_start_configuration_is_inside_the_limits(name: str) -> None:
    """The start configuration fits the robot and its limits, and the caller owns the array."""
    robot, q = load_robot(name), ready_configuration(name)
    assert (robot.position_lower < q).all() and (q < robot.position_upper).all()
    q[:] = 99.0
    assert ready_configuration(name).max() < 3.0


@pytest.mark.parametrize("name", robot_names())
def test_shipped_urdf_reads_the_same_without_our_checks(name: str) -> None:
    """Pinocchio on the shipped file alone gives the same joints and masses: nothing is lost on the way through the checks."""
    robot, model = load_robot(name), pin.buildModelFromUrdf(str(robot_urdf(name)))
    assert tuple(model.names[1:]) == robot.joint_names
    for index in range(robot.dof):
        inertia, placement = model.inertias[index + 1], model.jointPlacements[index + 1]
        assert inertia.mass == robot.mass[index]
        assert np.allclose(inertia.lever, robot.center_of_mass[index], atol=1e-11)  # components below 1e-12 m are snapped to zero
        assert np.allclose(inertia.inertia, robot.inertia[index], atol=1e-15)
        assert np.allclose(placement.rotation, robot.rotation[index], atol=1e-7)  # quarter turns are snapped
        assert np.allclose(placement.translation, robot.translation[index], atol=1e-12)
    assert np.array_equal(model.effortLimit if hasattr(model, "effortLimit") else model.upperEffortLimit, robot.effort_limit)
