"""URDFs that users met: what must be refused with the right words, what must be accepted, and nothing guessed."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branch_mpc.errors import RobotError
from branch_mpc.oracle import rigid_body
from branch_mpc.robot import Articulation, articulation_from_urdf, load_robot
from branch_mpc.robot.from_urdf import snapped_rotation

FOLDER = Path(__file__).parents[1] / "urdf"
REFUSED = sorted((FOLDER / "refused").glob("*.urdf"))
ACCEPTED = sorted((FOLDER / "accepted").glob("*.urdf"))
PLAIN = (FOLDER / "accepted" / "plain.urdf").read_text()


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_broken_urdf_is_refused_with_the_words_it_names(path: Path) -> None:
    """Each file states in its first comment what is wrong and which words the one-line error must hold."""
    text = path.read_text()
    words = re.search(r"refused: (.*?) -->", text)[1].split(" | ")
    for source in (path, text):
        with pytest.raises(RobotError) as caught:
            articulation_from_urdf(source)
        message = str(caught.value)
        assert [word for word in words if word not in message] == []
        assert "\n" not in message and caught.value.remedy
    assert message.startswith("robot description: ")
    with pytest.raises(RobotError, match=re.escape(path.name)):
        load_robot(path)


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_unusual_urdf_is_accepted(path: Path) -> None:
    """Each file is unusual but complete; from path and from text it is the same robot."""
    robot = load_robot(path)
    assert robot.joint_names == ("shoulder", "elbow") and robot.parents == (-1, 0)
    assert robot.tool_name == "tool" and robot.tool_link == 1 and robot.base_name == "base_link"
    assert articulation_from_urdf(path.read_text()).fingerprint == robot.fingerprint


def _accepted(name: str) -> Articulation:
    return load_robot(FOLDER / "accepted" / f"{name}.urdf")


def test_continuous_joint_is_one_number_without_position_limits() -> None:
    """A continuous joint takes one entry in every array and has infinite position limits."""
    robot = _accepted("continuous")
    assert robot.joint_types == ("revolute", "continuous") and robot.dof == 2
    assert robot.position_lower[1] == -np.inf and robot.position_upper[1] == np.inf
    assert robot.velocity_limit.tolist() == [2.0, 3.0]


def test_inertial_without_origin_sits_at_the_link_frame() -> None:
    """A missing inertial origin is the identity, as the URDF specification says."""
    robot = _accepted("inertial_without_origin")
    assert not robot.center_of_mass[1].any()
    assert np.allclose(robot.inertia[1], np.diag([0.02, 0.02, 0.002]), rtol=1e-15, atol=0)  # lumping the tool frame rounds; zeros are exact


def test_fixed_links_are_lumped() -> None:
    """Bodies behind fixed joints are added with the parallel-axis theorem and turned with their frame."""
    robot = _accepted("point_mass_on_the_forearm")
    center = (2.0 * 0.15 + 0.5 * 0.3) / 2.5
    extra = 2.0 * (center - 0.15) ** 2 + 0.5 * (0.3 - center) ** 2
    assert robot.mass[1] == 2.5
    assert np.allclose(robot.center_of_mass[1], [0, 0, center], atol=1e-15)
    assert np.allclose(robot.inertia[1], np.diag([0.02 + extra, 0.02 + extra, 0.002]), atol=1e-15)
    behind = _accepted("inertial_behind_a_fixed_joint")
    assert behind.mass[1] == 2.0 and np.allclose(behind.center_of_mass[1], [0, 0, 0.16], atol=1e-15)
    assert np.allclose(behind.tool_translation, [0, 0, 0.31], atol=1e-15)


def test_axes_are_made_unit_vectors_and_slides_are_prismatic() -> None:
    """An axis of length 5 in an oblique direction is normalised; a prismatic joint stays one."""
    robot = _accepted("oblique_axis_and_slide")
    assert robot.joint_types == ("prismatic", "revolute")
    assert np.allclose(robot.axis[1], [0, 0.6, 0.8], atol=1e-15)


def test_tool_is_chosen_by_link_or_joint_and_unknown_ones_are_listed() -> None:
    """A link or the joint above it names the tool; an unknown name or one on the base is an error with the candidates."""
    text = (FOLDER / "refused" / "two_ends.urdf").read_text()
    assert articulation_from_urdf(text, tool="camera").tool_name == "camera"
    assert articulation_from_urdf(text, tool="mount").tool_name == "tool"
    inner = articulation_from_urdf(text, tool="upper")
    assert inner.tool_link == 0 and not inner.tool_translation.any()
    with pytest.raises(RobotError, match="tool 'gripper' is unknown; name one of upper, forearm, tool, camera"):
        articulation_from_urdf(text, tool="gripper")
    with pytest.raises(RobotError, match="tool 'base_link' is fixed to the base"):
        articulation_from_urdf(text, tool="base_link")


def test_overrides_are_the_remedy_for_missing_limits() -> None:
    """Overrides fill in missing limits and replace given ones; unknown joints and limits are refused."""
    path = FOLDER / "refused" / "no_limit.urdf"
    robot = load_robot(path, overrides={"elbow": {"lower": -1, "upper": 1.5, "effort": 20.0, "velocity": 2.5}, "shoulder": {"effort": 50}})
    assert robot.effort_limit.tolist() == [50.0, 20.0] and robot.velocity_limit.tolist() == [2.0, 2.5]
    assert (robot.position_lower[1], robot.position_upper[1]) == (-1.0, 1.5)
    for overrides, words in [
        ({"wrist": {"effort": 1.0}}, "unknown joint 'wrist'; known joints: shoulder, elbow"),
        ({"elbow": {"torque": 1.0}}, "sets torque; set some of lower, upper, velocity, effort, locked"),
        ({"elbow": {"effort": float("nan")}}, "joint 'elbow': <limit> has effort=\"nan\""),
        ({"elbow": 3.0}, "sets 3.0"),
    ]:
        with pytest.raises(RobotError, match=re.escape(words)):
            articulation_from_urdf(PLAIN, overrides=overrides)


def test_locked_joint_is_a_fixed_one_at_its_position() -> None:
    """A joint locked by an override needs no limits, may be a mimic one, and its link is lumped where it is held."""
    full = articulation_from_urdf(PLAIN)
    for source in (PLAIN, (FOLDER / "refused" / "mimic.urdf").read_text(), (FOLDER / "refused" / "no_limit.urdf").read_text()):
        robot = articulation_from_urdf(source, overrides={"elbow": {"locked": 0.7}})
        assert robot.joint_names == ("shoulder",) and robot.mass[0] == 5.0
        q, v, a = (np.array([value]) for value in (0.3, 0.8, -0.5))
        held = np.array([0.3, 0.7])
        assert np.allclose(rigid_body.tool_pose(robot, q)[0], rigid_body.tool_pose(full, held)[0], atol=1e-14)
        torque = rigid_body.inverse_dynamics(full, held, np.array([0.8, 0.0]), np.array([-0.5, 0.0]))
        assert rigid_body.inverse_dynamics(robot, q, v, a)[0] == pytest.approx(torque[0], abs=1e-12)
    with pytest.raises(RobotError, match='locked="nan"'):
        articulation_from_urdf(PLAIN, overrides={"elbow": {"locked": float("nan")}})


def test_sloppy_inertia_of_an_attached_part_does_not_matter() -> None:
    """A part fixed to the base or to a heavier body may have an inertia that no body has, as in published files."""
    part = '<inertial><mass value="0.01"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="3e-6"/></inertial>'
    for link in ("base_link", "tool"):
        robot = articulation_from_urdf(PLAIN.replace(f'<link name="{link}"/>', f'<link name="{link}">{part}</link>'))
        assert robot.mass[1] == (2.01 if link == "tool" else 2.0)


def test_fixed_joints_cannot_be_overridden() -> None:
    """Overriding the limits of a joint that does not move is an error and not silence."""
    with pytest.raises(RobotError, match="unknown joint 'mount'; known joints: shoulder, elbow"):
        articulation_from_urdf(PLAIN, overrides={"mount": {"effort": 1.0}})


def test_name_can_be_given() -> None:
    """The robot's name is that of the file unless another is given."""
    assert articulation_from_urdf(PLAIN).name == "arm"
    assert articulation_from_urdf(PLAIN, name="left_arm").name == "left_arm"


def test_small_calibrated_angles_survive_snapping() -> None:
    """A calibration of 1e-4 rad on a quarter turn is kept to 1e-11 and the frame stays a rotation."""
    c, s = np.cos(1e-4), np.sin(1e-4)
    calibrated = np.array([[c, -s, 0.0], [0.0, 0.0, -1.0], [s, c, 0.0]])
    noisy = calibrated + 3e-8 * np.array([[0, 0, 1], [1, -1, 0], [0, 0, -1]])
    snapped = snapped_rotation(noisy)
    assert np.abs(snapped - calibrated).max() < 1e-11
    assert np.abs(snapped @ snapped.T - np.eye(3)).max() < 1e-15
    assert np.count_nonzero(snapped) == 5


def test_missing_pinocchio_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Pinocchio a URDF cannot be read, and the error says what to install or do instead."""
    monkeypatch.setitem(sys.modules, "pinocchio", None)
    with pytest.raises(RobotError, match="needs Pinocchio"):
        articulation_from_urdf(PLAIN)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_mutated_urdf_is_refused_or_is_a_checked_robot(data: st.DataObject) -> None:
    """Cutting, doubling or overwriting any piece of a URDF gives a RobotError or a robot of finite numbers, never another exception."""
    text = PLAIN
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start, min(len(text), start + 60)))
        piece = data.draw(st.sampled_from(["", text[start:end] * 2, "0", "-1", "1e999", '"', "<", "link", "\x00", "é"]))
        text = text[:start] + piece + text[end:]
    try:
        robot = articulation_from_urdf(text)
    except RobotError:
        return
    assert np.isfinite(robot.mass).all() and (robot.mass > 0).all() and (robot.effort_limit > 0).all()
