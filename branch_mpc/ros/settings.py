"""Settings of the nodes, and their names as ROS parameters. No ROS is needed to read them."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from branch_mpc.errors import SettingError
from branch_mpc.guard import GuardSettings
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.settings import flatten, param, replace

S = TypeVar("S")

CONTROLLER = "mpc."
"""Prefix of the controller's settings inside `NodeSettings`; as parameters they have none: `knots`, `weights.torque`."""


@dataclass(frozen=True)
class ReferenceSettings:
    """Where the tool should go."""

    kind: str = param(
        "figure8", choices=("figure8", "hold", "target"), doc="figure8: the built-in figure; hold: stay; target: ~/target_pose"
    )
    period: float = param(6.0, low=0.1, high=3600.0, unit="s", doc="time of one figure")
    approach: float = param(2.0, low=0.05, high=3600.0, unit="s", doc="time from where the tool is to the figure or to a new target")


@dataclass(frozen=True)
class NodeSettings:
    """Parameters of mpc_node."""

    robot: str = param("", doc="robot: indy7, iiwa14 or the path of a .urdf or .json file; empty: the robot_description topic")
    tool: str = param("", doc="link of the tool frame; empty: the only leaf of the robot")
    base_frame: str = param("", doc="frame of targets, plans and markers; empty: the robot's base link")
    rate: float = param(100.0, low=1.0, high=1000.0, unit="Hz", doc="control ticks a second")
    sink: str = param("effort", choices=("effort", "trajectory"), doc="effort: Float64MultiArray; trajectory: JointTrajectory")
    trajectory_points: int = param(3, low=1, high=10, doc="points of a trajectory: so many periods after the last one the arm stops")
    duration: float = param(0.0, low=0.0, high=86400.0, unit="s", doc="the node ends after so much tracking, approach included; 0: never")
    input_timeout: float = param(0.0, low=0.0, high=3600.0, unit="s", doc="the node fails when an input takes longer to come; 0: it waits")
    status_rate: float = param(20.0, low=0.1, high=1000.0, unit="Hz", doc="messages a second on ~/status and ~/plan, at most `rate`")
    marker_rate: float = param(10.0, low=0.0, high=50.0, unit="Hz", doc="messages a second on ~/markers; 0: none")
    latency: float = param(0.0, low=0.0, high=0.2, unit="s", doc="time from the start of a tick to the effect of its command; 0: measured")
    rt_priority: int = param(0, low=0, high=98, doc="SCHED_FIFO priority of the process; 0: ordinary scheduling")
    lockstep: bool = param(False, doc="simulation only: one tick for every joint state, on the clock of its stamps")
    autostart: bool = param(True, doc="configure and activate at once; false: leave it to a lifecycle manager")
    reference: ReferenceSettings = dataclasses.field(default_factory=ReferenceSettings)
    guard: GuardSettings = dataclasses.field(default_factory=GuardSettings)
    mpc: MpcSettings = dataclasses.field(default_factory=MpcSettings)


@dataclass(frozen=True)
class PlantSettings:
    """Parameters of plant_node, the simulated robot."""

    robot: str = param("indy7", doc="robot: indy7, iiwa14 or the path of a .urdf or .json file")
    tool: str = param("", doc="link of the tool frame; empty: the only leaf of the robot")
    rate: float = param(100.0, low=1.0, high=1000.0, unit="Hz", doc="control ticks a second of mpc_node; the step in lockstep")
    state_rate: float = param(500.0, low=1.0, high=2000.0, unit="Hz", doc="joint states a second")
    substep: float = param(1e-3, low=1e-5, high=0.1, unit="s", doc="integration step")
    start: tuple[float, ...] = param((), doc="start configuration; empty: the robot's own, or the middle of its limits")
    push: tuple[float, ...] = param((), unit="N", doc="world force on the tool that the controller does not know; three numbers or none")
    push_at: float = param(0.0, low=0.0, high=86400.0, unit="s", doc="when the push begins, counted from the first command")
    payload: float = param(0.0, low=0.0, high=1000.0, unit="kg", doc="point mass at the tool that the controller does not know")
    friction: float = param(0.0, low=0.0, high=1000.0, unit="Nms/rad", doc="viscous friction of every joint")
    command_timeout: float = param(0.2, low=0.01, high=10.0, unit="s", doc="the brakes close when commands stop for longer")
    command_topic: str = param("mpc_node/commands", doc="topic of the torques")
    lockstep: bool = param(False, doc="time stands still until the command for the last state has come")
    rt_priority: int = param(0, low=0, high=98, doc="SCHED_FIFO priority of the process; 0: ordinary scheduling")


def parameters(settings: Any) -> dict[str, tuple[Any, dataclasses.Field[Any]]]:
    """Return (value, field) of every parameter by its ROS name."""
    return {name.removeprefix(CONTROLLER): (value, field) for name, value, field in flatten(settings)}


def with_values(settings: S, values: Mapping[str, Any], foreign: Iterable[str] = ()) -> S:
    """Return settings with parameters, by their ROS names, replaced and validated.

    Args:
        settings: What to start from.
        values: New values by ROS name.
        foreign: Names that belong to another node and are passed over: a file under `/**` is read by every node.

    Raises:
        SettingError: A name that does not exist (with the nearest one), a value of the wrong type or out of range.
    """
    full = {name.removeprefix(CONTROLLER): name for name, _, _ in flatten(settings)}
    foreign = set(foreign)
    for name in values:
        if name not in full and name not in foreign:
            near = difflib.get_close_matches(name, sorted(set(full) | foreign), n=1, cutoff=0.4)
            hint = f"did you mean '{near[0]}'?" if near else "`ros2 param list` names the parameters"
            raise SettingError(f"parameter '{name}' does not exist", hint)
    try:
        return replace(settings, {full[name]: value for name, value in values.items() if name in full})
    except SettingError as error:
        raise SettingError(error.problem.replace(f"'{CONTROLLER}", "'"), error.remedy) from None
