"""The comparison with OSQP: both sides get the same ticks and are judged by the same cost."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from branch_mpc.baseline import OsqpController, OsqpPlanner
from branch_mpc.bench.compare import print_table, run_compare, wrenches
from branch_mpc.bench.compare_figure import save_compare_picture
from branch_mpc.bench.compare_table import format_compare
from branch_mpc.bench.compare_ticks import OpenGate, Tick, TickRecorder, closed_loop, spread
from branch_mpc.errors import DeviceError, RobotError, SettingError
from branch_mpc.mpc.plan import JointSample
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.optimal_control.reference import Approach, figure8_for
from branch_mpc.plant import SimulatedArm
from branch_mpc.robot import load_robot, ready_configuration

NUMBERS = ("solve_ms_p50", "solve_ms_p99", "merit", "kkt_residual", "tracking_rms_mm", "tick_ms_p50")


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """A comparison on a short horizon, a tenth of a second and four ticks."""
    return run_compare(MpcSettings(knots=8, device="cpu"), "indy7", (1, 3), 4, duration=0.1)


def test_both_sides_have_every_number(result: dict[str, Any]) -> None:
    """For each batch size both sides report finite numbers, and the whole is one JSON object."""
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for side in ("ours", "osqp"):
        assert list(result[side]) == ["1", "3"]
        for numbers in result[side].values():
            assert all(np.isfinite(numbers[name]) for name in NUMBERS)
    assert result["boundary"] == "host to host"
    assert set(result["speedup"]) == {"1", "3"}
    assert {"osqp", "pin", "warp-lang", "numpy", "python"} <= set(result["versions"])


def test_merits_agree(result: dict[str, Any]) -> None:
    """From the same warm starts one iteration of either gives the same merit: float32 costs less than OSQP's tolerance may."""
    for batch in ("1", "3"):
        ours, osqp = (result[side][batch]["merit"] for side in ("ours", "osqp"))
        assert ours == pytest.approx(osqp, rel=1e-5)


def test_loops_track_alike(result: dict[str, Any]) -> None:
    """Both close the loop on the same reference with the same error to a micrometre."""
    for batch in ("1", "3"):
        ours, osqp = (result[side][batch]["tracking_rms_mm"] for side in ("ours", "osqp"))
        assert ours == pytest.approx(osqp, abs=1e-3)


def test_osqp_time_is_split(result: dict[str, Any]) -> None:
    """OSQP's own run time and the time of the terms are parts of the whole, and the ratios are made of them."""
    for batch, numbers in result["osqp"].items():
        parts = [numbers[name] for name in ("osqp_ms_p50", "linearisation_ms_p50", "line_search_ms_p50")]
        assert min(parts) > 0.0
        ours = result["ours"][batch]["solve_ms_p50"]
        assert result["speedup"][batch] == pytest.approx(numbers["solve_ms_p50"] / ours)
        assert result["speedup_over_osqp_alone"][batch] == pytest.approx(numbers["osqp_ms_p50"] / ours)


def test_table_shows_losses_as_losses(result: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The table names every side and batch, states the boundary, and says slower where it is slower."""
    print_table(result)
    text = capsys.readouterr().out
    assert all(label in text for label in ("M = 1, ours", "M = 3, osqp", "host to host", "one SQP iteration"))
    slow = {**result, "speedup": {"1": 0.5, "3": 2.0}}
    assert "M = 1: 2.0 times slower than" in format_compare(slow)
    assert "M = 3: 2.0 times faster than" in format_compare(slow)


def test_picture_is_written_whole(result: dict[str, Any], tmp_path: Path) -> None:
    """The picture appears under its name in a new folder, and nothing else does."""
    path = save_compare_picture(result, tmp_path / "new" / "compare.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [item.name for item in path.parent.iterdir()] == ["compare.png"]
    with pytest.raises(SettingError, match=r"not a \.png"):
        save_compare_picture(result, tmp_path / "compare.txt")


def test_recorded_warm_start_is_the_shifted_plan() -> None:
    """What the recorder keeps is the previous plan's accelerations one interval later, and zeros at the start."""
    arm, q = load_robot("indy7"), ready_configuration("indy7")
    plant, planner = SimulatedArm(arm, q), OsqpPlanner(arm, MpcSettings(knots=8, batch=1), q)
    plans, step = [], planner.step
    planner.step = lambda *given: plans.append(step(*given)) or plans[-1]  # type: ignore[func-returns-value, method-assign]
    reference = Approach(plant.tool(), figure8_for("indy7"), 2.0)
    recording, ticks = closed_loop(arm, plant, planner, reference, duration=0.05, approach=0.0)
    assert len(ticks) == len(plans) == 5
    assert not ticks[0].warm.any()
    for tick, plan in zip(ticks[1:], plans, strict=False):
        a = np.diff(plan.velocity, axis=0) / 0.01
        np.testing.assert_allclose(tick.warm, a[[1, 2, 3, 4, 5, 6, 6]], atol=1e-9)
    np.testing.assert_array_equal([tick.x0[:6] for tick in ticks], recording.motion.position)


def test_recorded_ticks_reproduce_the_loop() -> None:
    """Solving a recorded tick again gives the torque that the loop applied: nothing that mattered was left out."""
    arm, q, settings = load_robot("indy7"), ready_configuration("indy7"), MpcSettings(knots=8, batch=1)
    plant = SimulatedArm(arm, q)
    reference = Approach(plant.tool(), figure8_for("indy7"), 2.0)
    recording, ticks = closed_loop(arm, plant, OsqpPlanner(arm, settings, q), reference, duration=0.05, approach=0.0)
    solver = OsqpController(arm, settings, q)
    for tick, torque in zip(ticks, recording.motion.torque, strict=True):
        again = solver.solve(tick.x0, tick.targets, np.zeros(6), tick.warm).torque
        np.testing.assert_allclose(again, torque, rtol=1e-9, atol=1e-9)  # the warm start is read back from velocities


def test_recorder_forgets_the_plan_on_reset() -> None:
    """After a reset the warm start is zero again."""
    arm, q = load_robot("indy7"), ready_configuration("indy7")
    recorder = TickRecorder(OsqpPlanner(arm, MpcSettings(knots=4, batch=1)))
    sample, targets = JointSample(0.0, q, np.ones(6)), np.tile(SimulatedArm(arm, q).tool(), (4, 1))
    for _ in range(2):
        recorder.reset(sample)
        recorder.step(sample, 0.0, targets)
    assert not recorder.ticks[-1].warm.any()


def test_open_gate_keeps_the_last_finite_torque() -> None:
    """A plan that is not finite does not leave, and nothing leaves before the first plan."""
    arm, q = load_robot("indy7"), ready_configuration("indy7")
    planner, gate, sample = OsqpPlanner(arm, MpcSettings(knots=4, batch=1)), OpenGate(6), JointSample(0.0, q, np.zeros(6))
    assert gate.cold
    assert not gate.command(0.0).publish
    plan = planner.step(sample, 0.0, np.tile(SimulatedArm(arm, q).tool(), (4, 1)))
    gate.plan(plan, 0.0)
    np.testing.assert_array_equal(gate.command(0.0).torque, plan.torque[0])
    plan.torque[:] = np.nan
    gate.plan(plan, 0.0)
    assert not gate.command(0.0).publish
    assert np.isfinite(gate.command(0.0).torque).all()
    assert not gate.cold


def test_ticks_are_spread_over_the_whole_loop() -> None:
    """The chosen ticks keep their order, hold the first and the last, and are all there are when there are few."""
    ticks = [Tick(np.array([float(i)]), np.zeros((1, 3)), np.zeros((0, 1))) for i in range(100)]
    chosen = [tick.x0[0] for tick in spread(ticks, 5)]
    assert (chosen[0], chosen[-1], len(chosen)) == (0.0, 99.0, 5)
    assert sorted(chosen) == chosen
    assert spread(ticks, 1000) == ticks


def test_rows_assume_different_forces() -> None:
    """Row 0 assumes nothing, the others forces of the radius in different directions."""
    rows = wrenches(8, 5.0)
    assert not rows[0].any()
    np.testing.assert_allclose(np.linalg.norm(rows[1:], axis=1), 5.0, rtol=1e-12)
    assert len(np.unique(rows, axis=0)) == 8
    assert wrenches(1, 5.0).shape == (1, 6)


@pytest.mark.parametrize(
    ("robot", "batches", "ticks", "device", "error"),
    [
        ("indy7", (), 4, "cpu", SettingError),
        ("indy7", (0,), 4, "cpu", SettingError),
        ("indy7", (1,), 0, "cpu", SettingError),
        ("indy77", (1,), 4, "cpu", RobotError),
        ("indy7", (1,), 4, "cuda:99", DeviceError),
    ],
)
def test_bad_arguments_are_named(robot: str, batches: tuple[int, ...], ticks: int, device: str, error: type[Exception]) -> None:
    """No batch, no ticks, an unknown robot or device raise the typed error before anything is run."""
    with pytest.raises(error):
        run_compare(MpcSettings(knots=8, device=device), robot, batches, ticks)
