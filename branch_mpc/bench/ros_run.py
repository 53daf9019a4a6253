"""The figure-8 as real ROS 2 processes: plant_node and mpc_node over DDS, recorded from outside."""

import dataclasses
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from branch_mpc.bench.facts import run_facts
from branch_mpc.bench.plain_run import FigureRun, disturbance, prepare, reference_of
from branch_mpc.bench.processes import NodeProcess, confine
from branch_mpc.bench.progress import Progress
from branch_mpc.bench.record import Recording
from branch_mpc.bench.streams import recording_of, with_facts
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import BranchMpcError, InputTimeout
from branch_mpc.robot import robot_names
from branch_mpc.ros.settings import NodeSettings, PlantSettings, parameters
from branch_mpc.sqp.quiet import start_warp_quietly

if TYPE_CHECKING:
    from branch_mpc.bench.ros_recorder import Recorder

BOUNDARY = "host to host in mpc_node: joint state in to plan out, whole tick"
INPUT_PATIENCE = 10.0
"""Longest wait for the first joint state [s]; discovery alone takes up to 3 s."""
COMPILE_PATIENCE = 600.0
"""Longest wait for the kernels [s]."""
SILENCE = 5.0
"""A run in which nothing comes for so long has ended [s]."""


def run_ros(run: FigureRun, use_plant: bool, progress: Progress) -> Recording:
    """Run the figure-8 over DDS and return the recording.

    Args:
        run: What to run.
        use_plant: Whether to simulate the robot; otherwise one must be publishing joint_states.
        progress: Where to say what is going on.

    Raises:
        BranchMpcError: ROS is missing, a robot, setting, device or target cannot be used, or a node failed.
        InputTimeout: No joint states came.
    """
    require_ros()
    _, dynamics, start = prepare(run)
    check_device(run.node.mpc.device)
    # A robot of the user's is where the user's environment says; a simulated one keeps to itself.
    domain = confine() if use_plant else int(os.environ.get("ROS_DOMAIN_ID") or 0)
    from branch_mpc.bench.ros_recorder import Recorder

    with tempfile.TemporaryDirectory(prefix="branch_mpc-") as folder:
        recorder, nodes = Recorder(dynamics.articulation), list[NodeProcess]()
        try:
            for name in ("plant_node", "mpc_node") if use_plant else ("mpc_node",):
                nodes.append(NodeProcess(name, node_arguments(name, run, start, Path(folder)), Path(folder)))
            return Session(run, dynamics, recorder, nodes, progress, domain).record()
        finally:
            # The controller first: it stops the arm, which takes joint states.
            for node in reversed(nodes):
                node.stop(patience=run.node.guard.stop_time + 6.0)
            recorder.close()


def require_ros() -> None:
    """Find out whether ROS can be used.

    Raises:
        BranchMpcError: rclpy or this package's message types are missing.
    """
    remedy = "use --no-ros, source ROS 2, or pip install 'branch_mpc[ros]'"
    try:
        import rclpy  # noqa: F401
    except ImportError as error:
        raise BranchMpcError(f"ROS 2 was not found ({error})", remedy) from error
    try:
        import branch_mpc.msg  # noqa: F401
    except ImportError as error:
        raise BranchMpcError(
            "the message types of branch_mpc are not built", "use --no-ros, or install with make setup or colcon build"
        ) from error


def check_device(device: str) -> None:
    """Find out whether a compute device exists, before a node is started for it.

    Raises:
        DeviceError: It does not.
    """
    start_warp_quietly()
    from branch_mpc.sqp.solver import check_device as check

    check(device)


def node_arguments(name: str, run: FigureRun, start: np.ndarray, folder: Path) -> list[str]:
    """Write a node's parameter file and return the words of its command line."""
    settings: Any
    # The nodes have another working directory.
    robot = run.node.robot if run.node.robot in robot_names() else str(Path(run.node.robot).absolute())
    if name == "mpc_node":
        kind = "figure8" if run.target is None else "target"
        reference = dataclasses.replace(run.node.reference, kind=kind)
        # Every tick is reported; the lifecycle is the recorder's, so that nothing happens before it listens.
        settings = dataclasses.replace(
            run.node, robot=robot, reference=reference, status_rate=run.node.rate, autostart=False, duration=0.0, input_timeout=0.0
        )
    else:
        ours: dict[str, Any] = {"robot": robot, "tool": run.node.tool, "rate": run.node.rate, "lockstep": run.node.lockstep}
        settings = dataclasses.replace(run.plant, start=tuple(start.tolist()), **ours)
    file = folder / f"{name}.yaml"
    file.write_text(parameter_file(name, settings))
    return ["--ros-args", "--params-file", str(file)]


def parameter_file(name: str, settings: NodeSettings | PlantSettings) -> str:
    """Return the text of a ROS 2 parameter file that gives a node all of its parameters."""
    # ROS has no empty array of a known type, and an empty one is the default of all that may be empty.
    values = {key: list(value) if isinstance(value, tuple) else value for key, (value, _) in parameters(settings).items() if value != ()}
    return yaml.safe_dump({f"/**/{name}": {"ros__parameters": values}})


class Session:
    """One run, from nodes that are starting to the recording."""

    def __init__(
        self, run: FigureRun, dynamics: HostDynamics, recorder: "Recorder", nodes: list[NodeProcess], progress: Progress, domain: int
    ) -> None:
        """Take over recorder and nodes; the caller ends them."""
        self._run, self._dynamics, self._recorder, self._nodes = run, dynamics, recorder, nodes
        self._progress, self._domain = progress, domain
        self._controller = nodes[-1]
        self._heard, self._count = 0.0, -1

    def record(self) -> Recording:
        """Configure, activate, listen until the run is over.

        Raises:
            BranchMpcError: A node failed, or the arm left the reference.
            InputTimeout: No joint states came.
        """
        self._start()
        self._follow()
        run, streams = self._run, self._recorder.streams
        period = 1.0 / run.node.rate
        began = streams.began()
        q = streams.state_at(0 if began is None else began).position
        reference = reference_of(run, q, self._dynamics)
        made = recording_of(streams, self._dynamics, reference, approach=run.node.reference.approach, length=run.length, period=period)
        facts = run_facts(
            run.node.mpc,
            device=self._recorder.device,
            policy=self._recorder.policy,
            boundary=BOUNDARY,
            transport=self._transport(),
            period=period,
        )
        return with_facts(made, {**facts, **disturbance(run)})

    def _start(self) -> None:
        recorder = self._recorder
        self._progress("starting the nodes")
        if not recorder.wait(lambda: recorder.streams.states, INPUT_PATIENCE, self._watch):
            raise InputTimeout(
                f"no joint states on 'joint_states' within {INPUT_PATIENCE:g} s", "start the robot's driver, or leave out --no-plant"
            )
        if not recorder.wait(recorder.reachable, 4.0 * INPUT_PATIENCE, self._watch):
            raise BranchMpcError("mpc_node did not start", "run python -m branch_mpc.ros.mpc_node to see why")
        self._transition(1, "configuring", COMPILE_PATIENCE)
        recorder.wait(recorder.connected, INPUT_PATIENCE, self._watch)
        # The graph knows of a connection a little before messages pass through it.
        recorder.wait(lambda: False, 0.3, self._watch)
        if self._run.target is not None:
            recorder.send_target(self._run.target, self._run.node.base_frame or self._dynamics.articulation.base_name, self._watch)
        self._transition(3, "activating", INPUT_PATIENCE)

    def _transition(self, transition: int, word: str, seconds: float) -> None:
        def watch() -> None:
            self._watch()
            self._progress(f"mpc_node: {self._controller.says() or word}")

        if not self._recorder.change(transition, seconds, watch):
            self._watch()
            raise self._controller.error()

    def _follow(self) -> None:
        recorder, run = self._recorder, self._run
        if not recorder.wait(lambda: recorder.streams.began() is not None, INPUT_PATIENCE + run.node.guard.prestream, self._watch):
            reason = next((status.reason for status in reversed(recorder.streams.statuses) if status.reason), "no reason given")
            raise BranchMpcError(f"the arm did not begin to track within {INPUT_PATIENCE:g} s: {reason}", "see joint states and limits")
        began = recorder.streams.began() or 0
        reference = reference_of(run, recorder.streams.state_at(began).position, self._dynamics)

        def watch() -> None:
            self._watch()
            self._check_progress()
            state = recorder.streams.states[-1]
            moment = (state.stamp - began) * 1e-9
            error = float(np.linalg.norm(self._dynamics.tool(state.position)[0] - reference.position(np.array([moment]))[0]))
            self._progress(f"DDS {max(0.0, moment):5.2f} of {run.length:.2f} s, tool {1e3 * error:.2f} mm from its target", topic="motion")

        def done() -> bool:
            return (recorder.streams.states[-1].stamp - began) * 1e-9 >= run.length

        recorder.wait(done, 20.0 * run.length + 60.0, watch)

    def _check_progress(self) -> None:
        streams, now = self._recorder.streams, time.monotonic()
        if problem := streams.problem():
            raise BranchMpcError(
                f"the arm left the reference, {problem}", "see the limits and timeouts of the guard (--set guard.NAME=VALUE)"
            )
        count = min(len(streams.states), len(streams.statuses))
        if count != self._count:
            self._count, self._heard = count, now
        elif now - self._heard > SILENCE:
            raise InputTimeout(f"nothing came for {SILENCE:g} s during the run", "see whether the robot's driver and mpc_node are running")

    def _watch(self) -> None:
        for node in self._nodes:
            node.check()

    def _transport(self) -> str:
        mode = "lockstep" if self._run.node.lockstep else "real time"
        return f"DDS, {mode}, ROS_DOMAIN_ID {self._domain}"
