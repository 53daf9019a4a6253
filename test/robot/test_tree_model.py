"""Trees of any size: what they hold, how they travel, what is refused."""

import dataclasses
import importlib.metadata
import sys
from typing import Any

import numpy as np
import pytest

from branch_mpc.errors import RobotError
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot import load_robot
from branch_mpc.robot.tree_library import load_tree, tree_from_pinocchio, tree_names
from branch_mpc.robot.tree_model import TreeModel


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
def test_json_keeps_every_bit(free: bool) -> None:
    """A robot that was written and read is the same robot, limits without a value included."""
    tree = twin.random_tree(np.random.default_rng(1), 9, free)
    back = TreeModel.from_json(tree.to_json())
    assert back.fingerprint == tree.fingerprint
    assert np.array_equal(back.lower, tree.lower) and np.array_equal(back.upper, tree.upper)
    assert back.dof == tree.dof == 9 + 6 * free and back.coordinates == tree.coordinates == 9 + 7 * free


@pytest.mark.parametrize("name", ["indy7", "iiwa14"])
def test_shipped_arms_are_trees(name: str) -> None:
    """The tree of a shipped arm has its joints, its limits and its tool."""
    tree, arm = load_tree(name), load_robot(name)
    assert tree.widths == (1,) * arm.dof and tree.effector_names == (arm.tool_name,) and tree.depth == arm.dof
    assert np.array_equal(tree.lower, arm.position_lower)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"parents": (-1, 2, 1)}, "number parents before children"),
    ({"joint_types": ("revolute", "free", "revolute")}, "let only the base be free"),
    ({"joint_types": ("revolute", "screw", "revolute")}, "use one of free, revolute"),
    ({"mass": np.array([1.0, 0.0, 1.0])}, "give it a positive mass"),
    ({"axis": np.ones((3, 3))}, "give a unit vector"),
    ({"translation": np.full((3, 3), np.nan)}, "give finite numbers"),
    ({"rotation": 2.0 * np.repeat(np.eye(3)[None], 3, axis=0)}, "orthonormal"),
    ({"upper": np.full(3, -9.0)}, "give lower < upper"),
    ({"nominal": np.full(3, 9.0)}, "start inside the limits"),
    ({"effector_bodies": (0, 7)}, "use bodies of 0 to 2"),
    ({"body_names": ("a", "a", "b")}, "its own name"),
    ({"inertia": np.zeros((3, 3))}, "give shape"),
]


@pytest.mark.parametrize(("change", "remedy"), WRONG, ids=[remedy for _, remedy in WRONG])
def test_wrong_trees_are_refused(change: dict[str, Any], remedy: str) -> None:
    """A robot that cannot be used is refused with what to do about it, whatever file it came in."""
    rng = np.random.default_rng(3)
    tree = twin.random_tree(rng, 3)
    while "continuous" in tree.joint_types:
        tree = twin.random_tree(rng, 3)
    with pytest.raises(RobotError, match=remedy):
        TreeModel.from_json(dataclasses.replace(tree, **change).to_json())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "branch_mpc/tree/1"}'])
def test_other_json_is_refused(text: str) -> None:
    """JSON text that is no tree is refused, not half read."""
    with pytest.raises(RobotError, match=r"TreeModel\.to_json"):
        TreeModel.from_json(text)


def test_unknown_and_missing_robots_are_named() -> None:
    """A name that nobody has lists those that exist; a missing file says so."""
    with pytest.raises(RobotError, match="g1_hands"):
        load_tree("g2")
    with pytest.raises(RobotError, match="does not exist"):
        TreeModel.load("nowhere.json")


@pytest.mark.parametrize("name", [name for name in tree_names() if name not in ("indy7", "iiwa14")])
def test_missing_package_is_named_with_its_remedy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the optional packages, their robots are refused with the words that install them."""

    def missing(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", None)
    with pytest.raises(RobotError, match=r"branch_mpc\[robots\]"):
        load_tree(name)


WIDTHS = {"ur10": 6, "panda": 9, "allegro": 16, "anymal_c": 18, "g1": 35, "g1_hands": 49}


def _has_robot_data() -> bool:
    try:
        return bool(importlib.metadata.version("example-robot-data"))
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.mark.skipif(not _has_robot_data(), reason="example-robot-data is not installed (extra [robots])")
@pytest.mark.parametrize(("name", "dof"), list(WIDTHS.items()))
def test_robots_of_the_packages_have_the_widths_of_the_page(name: str, dof: int) -> None:
    """The robots of the maps have as many tangent coordinates as those of the Branch page."""
    assert load_tree(name).dof == dof


ARM = """<robot name="arm"><link name="base"/>
<link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="b"><inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link><link name="tip"/>
<joint name="one" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/><limit effort="1" velocity="1"/></joint>
<joint name="two" type="prismatic"><parent link="a"/><child link="b"/><origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>
<limit lower="0.1" upper="0.4" effort="1" velocity="1"/></joint>
<joint name="end" type="fixed"><parent link="b"/><child link="tip"/><origin xyz="0 0 0.2"/></joint></robot>"""


def test_pinocchio_models_become_trees() -> None:
    """Kinds, axes, limits, bodies and effectors of a Pinocchio model arrive, and poses agree with Pinocchio's."""
    import pinocchio as pin

    model = pin.buildModelFromXML(ARM)
    tree = tree_from_pinocchio(model, "arm", ["tip"])
    assert tree.joint_types == ("continuous", "prismatic") and tree.parents == (-1, 0)
    assert np.isinf(tree.upper[0]) and tree.lower[1] == 0.1 and tree.nominal[1] == 0.1
    data = model.createData()
    pin.framesForwardKinematics(model, data, np.array([np.cos(0.7), np.sin(0.7), 0.3]))
    rotation, position = twin.effector_pose(tree, np.array([0.7, 0.3]), 0)
    frame = data.oMf[model.getFrameId("tip")]
    # Both are float64; a few roundings of numbers near one.
    assert np.abs(position - frame.translation).max() < 1e-14 and np.abs(rotation - frame.rotation).max() < 1e-14
    with pytest.raises(RobotError, match="there is no frame 'hand'"):
        tree_from_pinocchio(model, "arm", ["hand"])


def test_pinocchio_models_with_other_joints_are_refused() -> None:
    """A joint with two axes is named, not dropped."""
    import pinocchio as pin

    model = pin.Model()
    model.addJoint(0, pin.JointModelPlanar(), pin.SE3.Identity(), "slide")
    with pytest.raises(RobotError, match="joint 'slide'"):
        tree_from_pinocchio(model, "table", [])
