"""From what went over DDS to a recording, on messages made by hand."""

import numpy as np
import pytest

from branch_mpc.bench.record import Recording, metrics, tracking_error
from branch_mpc.bench.streams import State, Status, Streams, recording_of
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import BranchMpcError
from branch_mpc.optimal_control.reference import Hold
from branch_mpc.robot import load_robot, ready_configuration

BEGAN = 5_000_000_000
"""ROS time at which the reference begins [ns]."""
Q = ready_configuration("indy7")
DYNAMICS = HostDynamics(load_robot("indy7"))


def status(stamp: int, mode: str, epoch: int = 1, overruns: int = 0, reason: str = "") -> Status:
    """A status whose solve took 1 ms."""
    solve = {"solve_time": 1e-3, "merit": -1.0, "kkt_residual": 1e-4, "step_size": 1.0, "row": 0, "status": "solved", "wrench": [0.0] * 6}
    return Status(stamp, mode, reason, epoch, overruns, solve)


def streams(with_torque: bool = True) -> Streams:
    """Half a second before the reference and one second of it, states every 2 ms, ticks every 10 ms, resting at the start pose."""
    torque = np.ones(6) if with_torque else None
    made = Streams(starts={1: BEGAN})
    made.states = [State(BEGAN + 2_000_000 * k, Q, np.zeros(6), torque) for k in range(-250, 501)]
    made.commands = [(BEGAN + 10_000_000 * k, np.full(6, float(k))) for k in range(101)]
    made.statuses = [
        status(BEGAN + 10_000_000 * k, "tracking" if k >= 0 else "hold", int(k >= 0), 3 if k < 50 else 5) for k in range(-50, 101)
    ]
    return made


def record(what: Streams) -> Recording:
    """The recording of one second with half a second of approach."""
    reference = Hold(DYNAMICS.tool(Q)[0] + [0.001, 0.0, 0.0])
    return recording_of(what, DYNAMICS, reference, approach=0.5, length=1.0, period=0.01)


def test_times_count_from_the_first_plan() -> None:
    """The motion and the ticks begin where the first plan of the epoch begins; what came before is left out."""
    recording = record(streams())
    assert recording.motion.time[0] == 0.0
    assert recording.motion.time[-1] == pytest.approx(1.0)
    assert (len(recording.motion.time), len(recording.solves.time)) == (501, 101)
    np.testing.assert_allclose(tracking_error(recording.motion), 1e-3, atol=1e-12)


def test_only_overruns_of_the_run_count() -> None:
    """Overruns from before the arm tracked are not those of the run."""
    assert metrics(record(streams()))["overruns"] == 2


def test_a_repeated_state_counts_once() -> None:
    """A plant in lockstep sends a state again until it is answered: it is one sample."""
    doubled = streams()
    doubled.states = [state for state in doubled.states for _ in range(2)]
    assert len(record(doubled).motion.time) == 501


def test_commands_stand_in_for_torques_that_a_robot_does_not_report() -> None:
    """Without efforts in the joint states the last command that had arrived is the torque in force."""
    motion = record(streams(with_torque=False)).motion
    np.testing.assert_array_equal(motion.torque[:, 0], np.floor(np.round(motion.time * 100.0, 6)))


def test_a_lost_first_plan_is_an_error() -> None:
    """Without the first plan nobody knows when the reference began, so nothing is reported."""
    lost = streams()
    lost.starts.clear()
    assert lost.began() is None
    with pytest.raises(BranchMpcError, match="first plan was lost"):
        record(lost)


def test_leaving_the_reference_is_noticed_with_its_reason() -> None:
    """A stop in the middle is named; the hold before the start is not one."""
    stopped = streams()
    assert stopped.problem() == ""
    stopped.statuses.append(status(BEGAN + 1_010_000_000, "stopping", reason="no joint state for 0.100 s"))
    assert stopped.problem() == "stopping: no joint state for 0.100 s"
