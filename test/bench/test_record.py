"""The numbers made from a recorded run, on runs whose numbers are known."""

import dataclasses
import json
import math

import numpy as np
import pytest

from branch_mpc.bench.record import Motion, Recording, Solves, limit_violations, metrics
from branch_mpc.bench.table import format_table, to_json
from branch_mpc.robot.articulation import Articulation


def cartesian_arm() -> Articulation:
    """Three prismatic joints along x, y, z: +-1 m, 2 m/s, 30 N."""
    zeros, eyes = np.zeros((3, 3)), np.tile(np.eye(3), (3, 1, 1))
    return Articulation(
        name="cartesian",
        joint_names=("x", "y", "z"),
        joint_types=("prismatic",) * 3,
        parents=(-1, 0, 1),
        rotation=eyes,
        translation=zeros,
        axis=np.eye(3),
        mass=np.array([0.0, 0.0, 1.0]),
        center_of_mass=zeros,
        inertia=np.zeros((3, 3, 3)),
        position_lower=-np.ones(3),
        position_upper=np.ones(3),
        velocity_limit=np.full(3, 2.0),
        effort_limit=np.full(3, 30.0),
        tool_name="tool",
        tool_link=2,
        tool_rotation=np.eye(3),
        tool_translation=np.zeros(3),
    )


def solves(count: int) -> Solves:
    """Ticks of 1, 2, ..., count milliseconds."""
    time = 0.01 * np.arange(count)
    return Solves(
        time=time,
        solve_time=1e-3 * np.arange(1, count + 1),
        merit=-np.arange(count, dtype=float),
        kkt_residual=np.linspace(1.0, 3.0, count),
        step_size=np.ones(count),
        row=np.zeros(count, dtype=int),
        wrench=np.zeros((count, 6)),
        status=("solved",) * (count - 1) + ("stalled",),
        mode=("tracking",) * count,
    )


def recording(count: int = 100) -> Recording:
    """A tool 100 mm off during the approach and 3 mm off afterwards."""
    time = 0.01 * np.arange(count)
    offset = np.where(time[:, None] <= 0.5, [[0.1, 0.0, 0.0]], [[0.0, 0.003, 0.0]])
    zeros = np.zeros((count, 3))
    return Recording(cartesian_arm(), Motion(time, zeros, zeros, zeros, offset, zeros), solves(count), approach=0.5, period=0.01)


def test_tracking_error_leaves_the_approach_out() -> None:
    """RMS and maximum are those of the 3 mm after the approach (rounding only)."""
    numbers = metrics(recording())
    assert numbers["tracking_rms_mm"] == pytest.approx(3.0, abs=1e-12)
    assert numbers["tracking_max_mm"] == pytest.approx(3.0, abs=1e-12)


def test_percentiles_and_overruns_are_measured_ticks() -> None:
    """Percentiles are solve times that occurred; an overrun is a solve longer than the 10 ms period."""
    numbers = metrics(recording())
    assert [numbers[f"solve_ms_p{p}"] for p in (50, 95, 99)] == pytest.approx([50.0, 95.0, 99.0])
    assert numbers["overruns"] == 90
    assert numbers["ticks"] == 100
    assert numbers["merit"] == -99.0
    assert numbers["kkt_residual_last"] == 3.0
    assert numbers["solve_status"] == {"solved": 99, "stalled": 1}


def test_counted_overruns_win() -> None:
    """Overruns that a node counted are reported instead of the estimate from the solve times."""
    assert metrics(dataclasses.replace(recording(), overruns=7))["overruns"] == 7


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("position", 1.01, "position"),
        ("position", math.nan, "position"),
        ("velocity", -2.1, "velocity"),
        ("torque", 31.0, "torque"),
        ("torque", math.nan, "torque"),
    ],
)
def test_one_sample_out_of_limits_is_counted_once(name: str, value: float, kind: str) -> None:
    """A single joint out of limits, or not finite, in a single sample is one violation of its kind."""
    run = recording()
    array = np.zeros((100, 3))
    array[40, 1] = value
    counts = limit_violations(dataclasses.replace(run.motion, **{name: array}), run.articulation)
    assert counts == {key: int(key == kind) for key in ("position", "velocity", "torque")}


def test_a_value_on_its_limit_is_no_violation() -> None:
    """The limit itself, as float32, counts as inside."""
    run = recording()
    motion = dataclasses.replace(run.motion, torque=np.full((100, 3), np.float64(np.float32(30.0000001))), position=np.ones((100, 3)))
    assert sum(limit_violations(motion, run.articulation).values()) == 0


def test_a_continuous_joint_has_no_position_limit() -> None:
    """Infinite limits are never violated and give no NaN."""
    arm = dataclasses.replace(cartesian_arm(), position_lower=np.full(3, -np.inf), position_upper=np.full(3, np.inf))
    motion = dataclasses.replace(recording().motion, position=np.full((100, 3), 50.0))
    assert limit_violations(motion, arm)["position"] == 0


def test_an_empty_run_has_no_numbers_but_is_json() -> None:
    """A run without samples reports None, which is JSON's null, and its table can be printed."""
    empty, run = np.zeros((0, 3)), recording(2)
    nothing = np.zeros(0)
    motion = Motion(nothing, empty, empty, empty, empty, empty)
    blank = Solves(nothing, nothing, nothing, nothing, nothing, nothing, np.zeros((0, 6)), (), ())
    numbers = metrics(dataclasses.replace(run, motion=motion, solves=blank))
    assert json.loads(to_json(numbers))["tracking_rms_mm"] is None
    assert "-" in format_table(numbers)


def test_facts_and_numbers_share_one_json_object() -> None:
    """What states the boundary of the measurement travels in the same single line as the numbers."""
    run = dataclasses.replace(recording(), facts={"device": "cpu", "policy": "serial: one core", "batch": 8})
    text = to_json(metrics(run))
    assert "\n" not in text
    decoded = json.loads(text)
    for key in ("tracking_rms_mm", "tracking_max_mm", "ticks", "overruns", "solve_ms_p50", "solve_ms_p95", "solve_ms_p99"):
        assert isinstance(decoded[key], float | int), key
    assert (decoded["device"], decoded["policy"], decoded["batch"], decoded["limit_violations"]) == ("cpu", "serial: one core", 8, 0)


def test_numbers_that_are_not_finite_become_null() -> None:
    """A merit of NaN is reported as missing: JSON has no NaN."""
    run = recording()
    broken = dataclasses.replace(run.solves, merit=np.full(100, math.nan), kkt_residual=np.full(100, math.inf))
    numbers = json.loads(to_json(metrics(dataclasses.replace(run, solves=broken))))
    assert numbers["merit"] is None
    assert numbers["kkt_residual"] is None
