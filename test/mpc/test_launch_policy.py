"""The launch policy: published rules, measured rows, forced values, reasons; what a device is."""

import json

import numpy as np
import pytest

from branch_mpc.cli import main
from branch_mpc.errors import DeviceError, SettingError
from branch_mpc.mpc.device_facts import DeviceFacts, detect_jetson, facts_named
from branch_mpc.mpc.launch_policy import choose, is_cold
from branch_mpc.mpc.settings import PolicySettings
from branch_mpc.mpc.tuning_table import TuningRow, TuningTable, load_table, table_for

CPU = DeviceFacts("CPU", True)
ROW = TuningRow("GPU", 90, "indy7", 32, 8, "torque", "direct", "chronological", "cooperative", 128, "float32", 123.4, -3.2)


def gpu(architecture, jetson=False):
    """A CUDA device of one SM architecture."""
    return DeviceFacts("GPU", False, architecture, jetson)


@pytest.mark.parametrize(("architecture", "block"), [(72, 32), (87, 32), (86, 64), (89, 64), (90, 64), (120, 64)])
def test_merit_block_is_32_on_jetson_and_64_elsewhere(architecture, block):
    """GATO's measured rule: 32 threads on sm_72 and sm_87, 64 on every other architecture."""
    assert choose(gpu(architecture), knots=32, batch=8).merit_block == block


def test_merit_block_is_32_on_a_jetson_of_any_architecture():
    """A Jetson module newer than the rule has few SMs too, and the reason says why."""
    policy = choose(gpu(110, jetson=True), knots=32, batch=8)
    assert policy.merit_block == 32 and "sm_110, a Jetson has few SMs" in policy.reason


@pytest.mark.parametrize(
    ("knots", "solver", "cold"), [(32, "pcg", "direct_first"), (255, "pcg", "direct_first"), (256, "direct", "direct")]
)
def test_torque_form_is_direct_from_256_knots_and_first_on_cold_ticks(knots, solver, cold):
    """PCG below the published horizon with the direct solve in the first iteration of cold ticks, direct from it on."""
    policy = choose(gpu(90), knots=knots, batch=1, formulation="torque")
    assert (policy.linear_solver, policy.cold_linear_solver) == (solver, cold)


def test_a_forced_linear_solver_holds_on_cold_ticks_too():
    """What a parameter forces is never replaced."""
    policy = choose(CPU, knots=32, batch=1, formulation="torque", forced=PolicySettings(linear_solver="pcg"))
    assert (policy.linear_solver, policy.cold_linear_solver) == ("pcg", "pcg")


@pytest.mark.parametrize(
    ("error", "iterations", "cold"), [(None, 5, True), (0.05, 5, False), (0.11, 5, True), (0.05, 200, True), (np.nan, 5, True)]
)
def test_cold_ticks(error, iterations, cold):
    """Cold: no previous plan, more than 0.1 off its prediction, a prediction that is not a number, or PCG at its cap."""
    assert is_cold(error, iterations, 200) is cold


def test_acceleration_form_is_always_direct():
    """There is no Schur complement to iterate on, and asking for PCG is refused by name."""
    assert choose(gpu(87), knots=32, batch=1).linear_solver == "direct"
    with pytest.raises(SettingError, match=r"policy.linear_solver' is 'pcg'"):
        choose(CPU, knots=32, batch=8, forced=PolicySettings(linear_solver="pcg"))


def test_cpu_runs_one_thread_an_instance_and_gpu_one_block():
    """The CPU takes the serial schedule, a GPU the fused one."""
    assert choose(CPU, knots=32, batch=8).schedule == "serial"
    assert choose(gpu(90), knots=32, batch=8).schedule == "fused"


def test_forced_values_win_and_say_so():
    """Each forced choice replaces the table's and the reason names it as forced; the others keep theirs."""
    policy = choose(CPU, knots=32, batch=8, forced=PolicySettings(order="dense", merit_block=128))
    assert (policy.order, policy.merit_block, policy.schedule) == ("dense", 128, "serial")
    assert "order dense (forced by parameter)" in policy.reason
    assert "merit_block 128 (forced by parameter)" in policy.reason
    assert "schedule serial (one thread" in policy.reason


def test_merit_block_must_be_whole_warps():
    """A block that is not a multiple of 32 is refused by name."""
    with pytest.raises(SettingError, match=r"policy.merit_block' is 48"):
        choose(CPU, knots=32, batch=8, forced=PolicySettings(merit_block=48))


def test_dense_order_is_refused_on_the_costates():
    """The torque form eliminates costates, which have no dense order here."""
    with pytest.raises(SettingError, match=r"policy.order' is 'dense'"):
        choose(CPU, knots=32, batch=8, formulation="torque", forced=PolicySettings(order="dense"))


def test_measured_row_wins_over_the_rules_but_not_over_parameters():
    """A row of exactly this case gives every choice with its time; another batch, robot or device does not match."""
    table, case = TuningTable((ROW,)), {"knots": 32, "batch": 8, "formulation": "torque", "robot": "indy7"}
    policy = choose(gpu(90), **case, table=table)
    assert (policy.linear_solver, policy.schedule, policy.merit_block, policy.reduction) == ("direct", "cooperative", 128, "float32")
    assert "schedule cooperative (measured on this device, 123 us)" in policy.reason
    assert choose(gpu(90), **case, table=table, forced=PolicySettings(schedule="serial")).schedule == "serial"
    for other in ({**case, "batch": 9}, {**case, "robot": "iiwa14"}, {**case, "formulation": "acceleration"}):
        assert choose(gpu(90), **other, table=table).schedule == "fused"
    assert choose(gpu(87), **case, table=table).schedule == "fused"


def test_table_goes_through_its_file(tmp_path):
    """Saved and loaded, rows are equal; a newer row replaces the older one of its case and leaves the others."""
    other = TuningRow("CPU", 0, "iiwa14", 64, 1, "acceleration", "direct", "chronological", "serial", 64, "float64", 1.0, 0.0)
    newer = TuningRow(*ROW.case, "pcg", "chronological", "fused", 32, "float64", 99.0, -3.2)
    TuningTable((ROW, other)).merged([newer]).save(path := tmp_path / "deep" / "tuning.json")
    assert load_table(path).rows == (other, newer)
    assert table_for(str(path)) == load_table(path) and table_for("none") is None


def test_user_table_is_found_and_is_optional(tmp_path, monkeypatch):
    """'auto' reads ~/.config/branch_mpc/tuning.json (or XDG_CONFIG_HOME's) if there is one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert table_for("auto") is None
    TuningTable((ROW,)).save(tmp_path / "branch_mpc" / "tuning.json")
    assert table_for("auto").rows == (ROW,)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2, "rows": []}', '{"version": 1, "rows": [{"device": 3}]}', '{"version": 1, "rows": [{"x": 1}]}']
)
def test_a_broken_table_is_one_error_with_a_remedy(tmp_path, text):
    """A file that is not a table of this version is refused with its path and what to do."""
    path = tmp_path / "tuning.json"
    path.write_text(text)
    with pytest.raises(SettingError, match=r"tuning.json' .*branch_mpc tune again"):
        load_table(path)


@pytest.mark.parametrize(
    ("model", "driver", "jetson"),
    [
        ("NVIDIA Jetson AGX Orin Developer Kit\0", True, True),
        ("NVIDIA Jetson Nano\0", False, True),
        ("Some Carrier Board\0", True, True),
        ("Raspberry Pi 5\0", False, False),
        (None, False, False),
    ],
)
def test_jetson_is_known_by_device_tree_or_driver(model, driver, jetson):
    """The device tree's model or the nvgpu driver make a Jetson; a desktop has neither, and nvidia-smi is never asked."""
    assert detect_jetson(lambda path: model, lambda path: driver and path.endswith("nvgpu")) is jetson


def test_devices_by_name():
    """An architecture stands for a device that is not here; other names are left to Warp; nonsense is refused."""
    assert facts_named("sm_87").jetson and facts_named("sm87").architecture == 87 and not facts_named("sm_90").jetson
    assert facts_named("cpu").is_cpu and facts_named("cuda:0") is None
    with pytest.raises(DeviceError, match="'sm_huge' does not exist"):
        facts_named("sm_huge")


def test_policy_command_prints_json(capsys):
    """`branch_mpc policy --device sm_87 --knots 256 --batch 16 --formulation torque --json` has the keys and choices of the issue."""
    assert main("policy --device sm_87 --knots 256 --batch 16 --formulation torque --set policy.tuning=none --json".split()) == 0
    policy = json.loads(capsys.readouterr().out)
    assert {"merit_block", "linear_solver", "plan", "schedule", "reason"} <= set(policy)
    assert (policy["merit_block"], policy["linear_solver"], policy["plan"], policy["schedule"]) == (32, "direct", "chronological", "fused")


def test_policy_command_names_a_wrong_device(capsys):
    """A device that does not exist is one line with the remedy and exit code 2."""
    assert main(["policy", "--device", "cuda:9"]) == 2
    assert "device 'cuda:9' does not exist" in capsys.readouterr().err
