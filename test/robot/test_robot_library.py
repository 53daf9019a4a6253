"""Robots by name, by URDF path and by JSON path; the JSON round trip; the Pinocchio model."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from branch_mpc.errors import RobotError
from branch_mpc.oracle.random_trees import random_articulation
from branch_mpc.robot import Articulation, load_robot, ready_configuration, robot_names, robot_urdf
from branch_mpc.robot.pinocchio_model import pinocchio_model


def _robots() -> list[Articulation]:
    return [*map(load_robot, robot_names()), *(random_articulation(np.random.default_rng(seed), 6) for seed in range(3))]


@pytest.mark.parametrize("robot", _robots(), ids=lambda robot: robot.name)
def test_json_round_trip_keeps_every_bit(robot: Articulation, tmp_path: Path) -> None:
    """Saved and loaded, every array has the same bytes, infinite limits included."""
    robot.save(tmp_path / "robot.json")
    loaded = load_robot(tmp_path / "robot.json")
    for field in dataclasses.fields(Articulation):
        before, after = getattr(robot, field.name), getattr(loaded, field.name)
        if isinstance(before, np.ndarray):
            assert after.dtype == float and after.shape == before.shape and after.tobytes() == before.tobytes()
        else:
            assert after == before and type(after) is type(before)
    assert loaded.fingerprint == robot.fingerprint


def test_urdf_and_its_json_are_the_same_robot(tmp_path: Path) -> None:
    """A shipped name, its URDF path and a JSON file of it load as equal robots."""
    by_name = load_robot("indy7")
    by_name.save(tmp_path / "indy7.json")
    prints = {robot.fingerprint for robot in (by_name, load_robot(robot_urdf("indy7")), load_robot(str(tmp_path / "indy7.json")))}
    assert len(prints) == 1


def test_json_needs_no_pinocchio(tmp_path: Path) -> None:
    """The robot room and a JSON robot load in a process that has no Pinocchio."""
    load_robot("indy7").save(tmp_path / "indy7.json")
    code = (
        "import sys; sys.modules['pinocchio'] = None\n"
        "from branch_mpc.robot import load_robot\n"
        f"print(load_robot({str(tmp_path / 'indy7.json')!r}).dof)"
    )
    folder = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout == "6\n"


@pytest.mark.parametrize("call", [load_robot, robot_urdf, ready_configuration])
def test_unknown_robot_lists_the_known_ones(call) -> None:
    """A name that is not shipped is an error that lists those that are."""
    with pytest.raises(RobotError, match=r"robot 'indy8' is unknown; .*indy7, iiwa14"):
        call("indy8")


@pytest.mark.parametrize("name", ["no/such/arm.urdf", "no/such/arm.json", "arm.xml", "arm.urdf.xacro"])
def test_missing_file_is_named(name: str) -> None:
    """A path that does not exist is an error that names it."""
    with pytest.raises(RobotError, match=f"robot file '{name}' does not exist"):
        load_robot(name)


def test_folder_is_no_robot(tmp_path: Path) -> None:
    """A folder given as the robot is an error and not a traceback."""
    with pytest.raises(RobotError, match="unknown"):
        load_robot(tmp_path)


def test_binary_file_is_no_robot(tmp_path: Path) -> None:
    """A file that is not text is an error that names it."""
    (tmp_path / "arm.urdf").write_bytes(b"\xff\xfe\x00<\x81")
    (tmp_path / "arm.json").write_bytes(b"\xff\xfe\x00{\x81")
    for name in ("arm.urdf", "arm.json"):
        with pytest.raises(RobotError, match=name):
            load_robot(tmp_path / name)


def _set(key: str, value: object):
    return lambda values: values.__setitem__(key, value)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda values: values.pop("mass"), "not an articulation"),
        (_set("format", "branch_mpc/articulation/99"), "not an articulation"),
        (_set("mass", [1.0] * 5), "'mass' has shape"),
        (_set("mass", [1.0] * 5 + [-1.0]), "joint 'joint5' has mass -1 kg"),
        (_set("mass", [1.0] * 5 + [float("nan")]), "'mass' holds a number that is not finite"),
        (_set("mass", "heavy"), "holds no articulation"),
        (_set("parents", [-1, 0, 1, 2, 3, 5]), "joint 'joint5' has parent 5"),
        (_set("joint_types", ["revolute"] * 5 + ["planar"]), "joint 'joint5' is of type 'planar'"),
        (_set("joint_types", ["revolute"] * 5), "do not match"),
        (_set("axis", [[0, 0, 2]] * 6), "axis of joint 'joint0' has length 2"),
        (_set("rotation", [np.zeros((3, 3)).tolist()] * 6), "frame of 'joint0' is not a rotation"),
        (_set("rotation", [np.diag([1.0, 1.0, -1.0]).tolist()] * 6), "frame of 'joint0' is not a rotation"),
        (_set("inertia", [np.diag([1.0, 1.0, -1.0]).tolist()] * 6), "not positive definite"),
        (_set("inertia", [[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]] * 6), "not symmetric"),
        (_set("effort_limit", [0.0] * 6), "joint 'joint0' has effort_limit 0"),
        (_set("position_lower", [float("-inf")] * 6), "position limits that are not finite"),
        (_set("position_lower", [9.0] * 6), "lower limit 9"),
        (_set("tool_link", 6), "tool 'tcp' sits on link 6"),
    ],
)
def test_damaged_json_is_refused(spoil, words: str, tmp_path: Path) -> None:
    """A JSON robot is checked like a URDF: shapes, finite numbers, frames, bodies, limits."""
    values = json.loads(load_robot("indy7").to_json())
    spoil(values)
    (tmp_path / "robot.json").write_text(json.dumps(values))
    with pytest.raises(RobotError) as caught:
        load_robot(tmp_path / "robot.json")
    assert words in str(caught.value) and "robot.json" in str(caught.value)


def test_json_takes_overrides_and_refuses_another_tool(tmp_path: Path) -> None:
    """Limits of a JSON robot can be overridden with the same checks; its tool is fixed."""
    load_robot("indy7").save(path := tmp_path / "indy7.json")
    robot = load_robot(path, tool="tcp", overrides={"joint3": {"effort": 50, "velocity": 2.0}})
    assert robot.effort_limit.tolist() == [431.97, 431.97, 197.23, 50.0, 79.79, 79.79] and robot.velocity_limit[3] == 2.0
    with pytest.raises(RobotError, match="tool 'flange' is unknown; use 'tcp'"):
        load_robot(path, tool="flange")
    with pytest.raises(RobotError, match="joint 'joint3' has effort_limit -1"):
        load_robot(path, overrides={"joint3": {"effort": -1.0}})


def test_pinocchio_model_carries_limits_gravity_and_tool() -> None:
    """The Pinocchio model has one number per joint, the limits, the gravity and the tool of the articulation."""
    robot = random_articulation(np.random.default_rng(4), 9)
    model, tool = pinocchio_model(robot)
    assert model.nq == model.nv == 9 and tuple(model.names[1:]) == robot.joint_names
    assert np.array_equal(model.lowerPositionLimit, robot.position_lower)
    assert np.array_equal(model.upperPositionLimit, robot.position_upper)
    assert np.array_equal(model.velocityLimit, robot.velocity_limit)
    assert np.array_equal(model.gravity.linear, robot.gravity)
    frame = model.frames[tool]
    assert frame.name == "tool" and frame.parentJoint == robot.tool_link + 1
    assert np.array_equal(frame.placement.translation, robot.tool_translation)


def test_pinocchio_model_refuses_joints_out_of_depth_first_order() -> None:
    """Pinocchio's recursions are wrong on trees that are not numbered depth first, so such an articulation is refused."""
    robot = random_articulation(np.random.default_rng(4), 4, branched=False)
    with pytest.raises(RobotError, match=r"joint 'joint3' .* depth first"):
        pinocchio_model(dataclasses.replace(robot, parents=(-1, 0, 0, 1)))
    model, _ = pinocchio_model(dataclasses.replace(robot, parents=(-1, 0, 1, 0)))
    assert pin.neutral(model).shape == (4,)
