"""The launch policy: published rules, forced values, reasons."""

import pytest

from branch_mpc.errors import SettingError
from branch_mpc.mpc.launch_policy import DeviceFacts, choose
from branch_mpc.mpc.settings import PolicySettings

CPU = DeviceFacts("CPU", True)


def gpu(architecture):
    """A CUDA device of one SM architecture."""
    return DeviceFacts("GPU", False, architecture)


@pytest.mark.parametrize(("architecture", "block"), [(72, 32), (87, 32), (86, 64), (89, 64), (90, 64), (120, 64)])
def test_merit_block_is_32_on_jetson_and_64_elsewhere(architecture, block):
    """GATO's measured rule: 32 threads on sm_72 and sm_87, 64 on every other architecture."""
    assert choose(gpu(architecture), knots=32, batch=8).merit_block == block


@pytest.mark.parametrize(("knots", "solver"), [(32, "pcg"), (255, "pcg"), (256, "direct"), (512, "direct")])
def test_torque_form_is_direct_from_256_knots_and_on_cold_ticks(knots, solver):
    """PCG below the published horizon with the direct solve on cold ticks, direct from it on."""
    policy = choose(gpu(90), knots=knots, batch=1, formulation="torque")
    assert (policy.linear_solver, policy.cold_linear_solver) == (solver, "direct")


def test_acceleration_form_is_always_direct():
    """There is no Schur complement to iterate on."""
    assert choose(gpu(87), knots=32, batch=1).linear_solver == "direct"


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
