"""What a map measures: one workload (application, robot, batch, frames) and how each choice does on it.

The timed boundary is the application's whole work on the device, replayed from a captured graph: all iterations of a
Levenberg-Marquardt search, or kinematics, factorisation, all response columns and the contact sweeps.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from branch_mpc.bench.iteration import timed
from branch_mpc.errors import SettingError
from branch_mpc.examples.choices import Choice, Planned
from branch_mpc.examples.contact_response import ContactResponse, falling
from branch_mpc.examples.inverse_kinematics import IkWeights, InverseKinematics, reachable
from branch_mpc.examples.levenberg_marquardt import SearchSettings, captured, sample_configurations
from branch_mpc.examples.targets import EffectorPoses, effector_poses
from branch_mpc.examples.trajectory_ik import TrajectoryIk, TrajectoryWeights, smooth_targets
from branch_mpc.oracle import contact as contact_twin
from branch_mpc.oracle import pose_search
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_model import TreeModel

APPLICATIONS = ("ik", "trajectory", "contact")
GATES = {"ik": 1e-3, "trajectory": 1e-3, "contact": 1e-3}
"""Largest residual of a row that passes: m for inverse kinematics, relative for contact response."""
UNITS = {"ik": "m", "trajectory": "m", "contact": "relative"}
CHECKED = 3
"""Instances that are compared with the twin; every instance is checked to be finite."""


@dataclass(frozen=True)
class Workload:
    """One cell of a map."""

    application: str
    """One of `APPLICATIONS`."""
    tree: TreeModel
    """The robot."""
    batch: int
    """Problems, trajectories or worlds."""
    frames: int = 1
    """Frames of a trajectory."""

    @property
    def label(self) -> str:
        """The cell in words."""
        return f"{self.application}, {self.tree.name}, B = {self.batch}" + (f", T = {self.frames}" if self.frames > 1 else "")


@dataclass(frozen=True)
class Built:
    """A choice, compiled for a workload."""

    launch: Callable[[], None]
    """The application's whole work: launches only."""
    answer: Callable[[], np.ndarray]
    """What the last run found: effector positions [m] or response columns, shape (batch, ...)."""
    planned: Planned
    device: Any


class Case:
    """The data of a workload, and its reference: the float64 twin on the first instances.

    Attributes:
        reference: What the twin finds, shape (CHECKED or fewer, ...), or None when the first choice that runs sets it.
    """

    def __init__(self, workload: Workload, *, twins: bool = True) -> None:
        self.workload, tree, batch = workload, workload.tree, workload.batch
        if workload.application not in APPLICATIONS:
            raise SettingError(f"application '{workload.application}' does not exist", f"choose one of {', '.join(APPLICATIONS)}")
        rng = np.random.default_rng(3)
        self.targets = _targets(workload)
        self.q = sample_configurations(tree, batch, rng, 0.3)
        self.velocity = falling(tree, batch, rng)
        self.reference = self._twin() if twins else None
        self.reference_name = "float64 twin" if twins else "first choice that ran"

    def build(self, choice: Choice, device: str) -> Built:
        """Plan and compile a choice.

        Raises:
            BranchMpcError: The choice does not apply, or does not fit.
        """
        w = self.workload
        if w.application == "contact":
            response = ContactResponse(w.tree, w.batch, choice=choice, device=device)
            response.set_state(self.q, self.velocity)
            return self._built(response.launch, lambda: _contact_answer(response), response)
        assert self.targets is not None
        if w.application == "ik":
            solver = InverseKinematics(w.tree, w.batch, choice=choice, device=device)
            solver.set_targets(self.targets)
            return self._built(solver.launch, lambda: effector_poses(w.tree, solver.chosen.numpy(), device).position, solver.search)
        path = TrajectoryIk(w.tree, w.batch, w.frames, choice=choice, device=device)
        path.set_targets(self.targets)
        search = path.search
        return self._built(search.launch, lambda: effector_poses(w.tree, search.accepted.numpy(), device).position, search)

    def residual(self, answer: np.ndarray) -> float:
        """Return how far an answer is from the reference: m, or relative; inf when any number of it is not finite."""
        if not np.isfinite(answer).all():
            return np.inf
        if self.reference is None:
            self.reference = answer[:CHECKED].copy()
        difference = np.abs(answer[: len(self.reference)] - self.reference)
        if self.workload.application == "contact":
            return float(difference.max() / np.abs(self.reference).max())
        return float(np.linalg.norm(difference, axis=-1).max())

    def _built(self, launch: Callable[[], None], answer: Callable[[], np.ndarray], owner: Any) -> Built:
        return Built(launch, answer, owner.planned, owner.solver.device)

    def _twin(self) -> np.ndarray:
        w = self.workload
        count = min(CHECKED if w.application != "trajectory" else 1, w.batch)
        if w.application == "contact":
            columns = [contact_twin.response_columns(w.tree, q) for q in self.q[:count].astype(np.float32).astype(float)]
            return np.array([column.T for column in columns])
        assert self.targets is not None
        found = []
        for instance in range(count):
            lead = (-1, len(w.tree.effector_names), 3)
            position, rotation = self.targets.position[instance].reshape(lead), self.targets.rotation[instance].reshape(-1, 4)
            matrices = np.array([twin.rotation_of_quaternion(q) for q in rotation]).reshape(*lead, 3)
            start = np.repeat(w.tree.nominal[None], len(position), axis=0)
            iterations = SearchSettings().iterations if w.application == "ik" else 32
            q, _ = pose_search.search(w.tree, start, pose_search.PoseTargets(position, matrices, **_weights(w)), iterations=iterations)
            reached = [[twin.effector_pose(w.tree, frame, e)[1] for e in range(lead[1])] for frame in q]
            found.append(np.array(reached).reshape(self.targets.position[instance].shape))
        return np.array(found)


def measure(case: Case, choice: Choice, device: str, *, budget: float, blocks: int = 5) -> dict[str, Any]:
    """Return the numbers of one choice on a workload.

    Args:
        case: The workload and its reference.
        choice: Plan and schedule.
        device: Where to run.
        budget: Time to spend on the timing [s].
        blocks: Blocks of replays; the median is over blocks.

    Raises:
        BranchMpcError: The choice does not apply, or does not fit.
    """
    begun = time.perf_counter()
    built = case.build(choice, device)
    compiled = time.perf_counter()
    replay = captured(built.launch, built.device)
    replay()
    wp.synchronize_device(built.device)
    first = time.perf_counter()
    residual = case.residual(built.answer())
    seconds = timed(replay, lambda: wp.synchronize_device(built.device), budget=budget, blocks=blocks)
    return {
        "us": 1e6 * float(np.median(seconds)),
        "us_min": 1e6 * min(seconds),
        "us_max": 1e6 * max(seconds),
        "residual": residual if np.isfinite(residual) else None,
        "passed": bool(residual <= GATES[case.workload.application]),
        "plan_ms": 1e3 * built.planned.seconds,
        "build_s": compiled - begun,
        "first_call_s": first - compiled,
        "depth": built.planned.plan.depth,
        "bytes_per_instance": built.planned.plan.bytes_per_instance,
        "launches": list(built.planned.schedule.launches),
    }


def _targets(workload: Workload) -> EffectorPoses | None:
    if workload.application == "ik":
        return reachable(workload.tree, workload.batch, spread=0.3)
    return smooth_targets(workload.tree, workload.batch, workload.frames) if workload.application == "trajectory" else None


def _weights(workload: Workload) -> dict[str, float]:
    """Weights of the twin: those of the application."""
    weights = IkWeights() if workload.application == "ik" else TrajectoryWeights()
    found = {f"{name}_weight": getattr(weights, name) for name in ("position", "rotation", "limit")}
    if isinstance(weights, TrajectoryWeights):
        found |= {"smooth_weight": weights.smooth, "posture_weight": weights.posture, "rate": weights.rate}
    return found


def _contact_answer(response: ContactResponse) -> np.ndarray:
    return response.columns.numpy().astype(float)
