"""The generated message types."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.ros
NAMES = ("MpcStatus", "MpcPlan")


def filled(kind: type) -> Any:
    """Return a message of `kind` with every field set to something else than its default."""
    message = kind()
    for name, field in kind.get_fields_and_field_types().items():
        setattr(message, name, sample(field, getattr(message, name)))
    return message


def sample(field: str, default: Any) -> Any:
    if field.startswith("sequence<"):
        return [sample(field[9:-1], None) for _ in range(3)]
    if "/" in field:
        package, name = field.split("/")
        return filled(getattr(__import__(f"{package}.msg", fromlist=[name]), name))
    return {"string": "text", "boolean": True, "double": 1.5}.get(field, 7)


@pytest.mark.parametrize("name", NAMES)
def test_message_survives_a_round_trip(name: str) -> None:
    """Serialised and read back, every field of the message is the same."""
    from rclpy.serialization import deserialize_message, serialize_message

    import branch_mpc.msg

    kind = getattr(branch_mpc.msg, name)
    message = filled(kind)
    assert deserialize_message(serialize_message(message), kind) == message
    assert message != kind()


def test_every_message_file_is_built(root: Path) -> None:
    """branch_mpc.msg holds a type for each file of msg/ with the fields written there; reinstall after changing one."""
    import branch_mpc.msg

    assert {path.stem for path in root.glob("msg/*.msg")} == set(NAMES)
    for path in root.glob("msg/*.msg"):
        lines = [line.split("#")[0] for line in path.read_text().splitlines()]
        fields = [match[1] for line in lines if (match := re.fullmatch(r"[\w/]+(?:\[\])? +([a-z]\w*)\s*", line))]
        assert list(getattr(branch_mpc.msg, path.stem).get_fields_and_field_types()) == fields


def test_modes_are_numbered_without_gaps() -> None:
    """MpcStatus.mode takes eight values, 0 to 7, each with a name."""
    from branch_mpc.msg import MpcStatus

    modes = ["UNCONFIGURED", "INACTIVE", "WAITING", "HOLD", "TRACKING", "DEGRADED", "STOPPING", "FAULT"]
    assert [getattr(MpcStatus, mode) for mode in modes] == list(range(8))


def test_plan_takes_flattened_arrays() -> None:
    """A (knots, joints) NumPy array, flattened, is read back element by element as the comment of the message says."""
    from branch_mpc.msg import MpcPlan

    position = np.arange(12.0).reshape(4, 3)
    plan = MpcPlan(knots=4, joint_names=["a", "b", "c"], position=position.ravel())
    assert plan.position[2 * len(plan.joint_names) + 1] == position[2, 1]
