"""Levenberg-Marquardt over configurations of a robot: the nonlinear loop around a Branch solver.

An instance is a problem of `frames` configurations; a single pose has one frame. Per iteration: linearise at the accepted
configurations, factor and solve (Branch), move, evaluate, and keep what lowers the cost. The whole search is one graph.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.errors import ProblemError
from branch_mpc.examples import kernels
from branch_mpc.examples.choices import Choice, planned
from branch_mpc.kinematics import TreeKinematics
from branch_mpc.robot.tree_model import TreeModel
from branch_mpc.settings import param


@dataclass(frozen=True)
class SearchSettings:
    """How a search damps and when it ends."""

    iterations: int = param(24, doc="steps tried", low=1, high=1000)
    damping: float = param(0.1, doc="first damping, added to the diagonal of the Hessian", low=1e-8, high=1e8)
    damping_min: float = param(1e-5, doc="least damping: float32 needs some on a redundant robot", low=1e-8, high=1.0)
    damping_max: float = param(1e6, doc="most damping", low=1.0, high=1e12)
    shrink: float = param(0.25, doc="factor of the damping after an accepted step", low=1e-3, high=1.0)
    grow: float = param(4.0, doc="factor of the damping after a refused step", low=1.0, high=1e3)


POSE_SEARCH, TRAJECTORY_SEARCH = SearchSettings(), SearchSettings(iterations=32)


class Poses:
    """Configurations of a robot, their kinematics, and a Branch problem over their tangents.

    Attributes:
        tree: The robot.
        q: Candidate configurations, (instances, frames, coordinates) float32: what the problem's terms are taken at.
        pose: Frames of the bodies, (instances, frames, bodies) transformf.
        u: Tangents; x: twists of the bodies (world axes, about the world origin).
        damping: Weight of the damping term, (instances,).
        problem: The Branch problem; its user adds terms on u and x.
    """

    def __init__(self, tree: TreeModel, instances: int, frames: int, device: str = "cpu") -> None:
        self.tree, self.instances, self.frames = tree, instances, frames
        self.kinematics = TreeKinematics(tree, device)
        self.device = self.kinematics.device
        lead = (instances, frames)
        with wp.ScopedDevice(self.device):
            self.q = wp.array(np.broadcast_to(tree.nominal, (*lead, tree.coordinates)), dtype=wp.float32)
            self.pose = wp.zeros((*lead, tree.bodies), dtype=wp.transformf)
            self.S = wp.zeros((*lead, tree.dof), dtype=wp.spatial_vectorf)
            self.joints = wp.zeros((*lead, tree.dof), dtype=wp.float32)
            self.damping = wp.zeros(instances, dtype=wp.float32)
        topology = br.Topology(parents=tree.parents, dofs=tree.widths, names=tree.body_names)
        self.u = br.tangents(topology, instances=instances, frames=frames, q=self.joints)
        self.x = br.twists(self.u, S=self.S, pose=self.pose, coordinates="world")
        self.problem = br.Problem()
        self.problem.add(br.damping(self.u, weight=self.damping))
        rows = instances * frames
        self._rows = [array.reshape((rows, array.shape[2])) for array in (self.q, self.pose, self.S, self.joints)]

    def forward(self, active: wp.array | None = None) -> None:
        """Refresh poses, motion subspaces and joint numbers at q: one launch. `active` (instances * frames,) may leave rows out."""
        q, pose, S, joints = self._rows
        self.kinematics.forward(q, pose, S, joints, active)

    def advance(self, base: wp.array, step: wp.array) -> None:
        """Set q to `base` moved along tangents, (instances, frames, dof), and refresh what follows from it: one launch."""
        rows = self.instances * self.frames
        q, pose, S, joints = self._rows
        self.kinematics.advance(base.reshape(tuple(q.shape)), step.reshape((rows, self.tree.dof)), q, pose, S, joints)


class Search:
    """A compiled Levenberg-Marquardt search.

    Attributes:
        poses: The configurations.
        accepted: Result, (instances, frames, coordinates) float32.
        cost: Half the weighted sum of squares at `accepted`, (instances,).
        solver: The Branch solver.
        planned: Its plan and schedule.
    """

    def __init__(self, poses: Poses, choice: Choice, settings: SearchSettings = POSE_SEARCH) -> None:
        self.poses, self.choice, self.settings = poses, choice, settings
        self.planned = planned(poses.problem, poses.u, choice)
        self.solver = br.compile(self.planned.plan, self.planned.schedule, device=poses.device)
        with wp.ScopedDevice(poses.device):
            self.start = wp.clone(poses.q)
            self.accepted = wp.zeros_like(poses.q)
            self._best = [wp.zeros(poses.instances, dtype=wp.float32) for _ in range(2)]
            self._refused = wp.zeros(poses.instances * poses.frames, dtype=wp.int32)
        self.cost = self._best[self.settings.iterations % 2]
        self._replay: Callable[[], None] | None = None

    def run(self, start: np.ndarray | None = None) -> None:
        """Search from `start`, (instances, frames, coordinates) or broadcast to it; default the start of the last run.

        Raises:
            ProblemError: A start of another shape, or one that is not finite.
        """
        if start is not None:
            if not np.isfinite(start).all():
                raise ProblemError("the start holds a number that is not finite", "start from finite configurations")
            try:
                values = np.ascontiguousarray(np.broadcast_to(start, self.start.shape), dtype=np.float32)
            except ValueError as error:
                raise ProblemError(f"the start has shape {np.shape(start)}, expected {tuple(self.start.shape)}", "shape it so") from error
            self.start.assign(values)
        if self._replay is None:
            self._replay = captured(self.launch, self.poses.device)
        self._replay()

    def launch(self) -> None:
        """All launches of a search: may be captured."""
        poses, settings, solver = self.poses, self.settings, self.solver
        dim, step = (poses.instances, poses.frames), solver.solution(poses.u)
        wp.copy(poses.q, self.start)
        poses.forward()
        solver.evaluate()
        state = [self.accepted, self._best[0], poses.damping]
        wp.launch(kernels.begin_search, dim, [poses.q, settings.damping, solver.cost, *state], device=poses.device)
        for iteration in range(settings.iterations):
            solver.linearize()
            solver.factor()
            solver.solve()
            poses.advance(self.accepted, step)
            solver.evaluate()
            self._settle(iteration)
            if iteration + 1 < settings.iterations:
                poses.forward(self._refused)

    def _settle(self, iteration: int) -> None:
        poses, s, solver = self.poses, self.settings, self.solver
        old, new = self._best[iteration % 2], self._best[1 - iteration % 2]
        inputs = [solver.cost, solver.pivot_failed, old, s.shrink, s.grow, s.damping_min, s.damping_max]
        outputs = [new, poses.damping, self.accepted, poses.q, self._refused]
        wp.launch(kernels.settle, (poses.instances, poses.frames), inputs + outputs, device=poses.device)


def captured(launches: Callable[[], None], device: Any) -> Callable[[], None]:
    """Record launches in a graph and return what replays them; runs them once on the way."""
    launches()  # loads every module: not every driver can load one while it captures
    with wp.ScopedCapture(device=device) as capture:
        launches()

    def replay(_owner: Callable[[], None] = launches) -> None:  # a graph does not keep the arrays of its launches alive
        wp.capture_launch(capture.graph)

    return replay


def sample_configurations(tree: TreeModel, count: int, rng: np.random.Generator, spread: float = 1.0) -> np.ndarray:
    """Return configurations around the nominal one, within the limits, shape (count, coordinates).

    Args:
        tree: The robot.
        count: How many.
        rng: Seeded source of randomness.
        spread: Part of the way from the nominal configuration to the limits (to half a turn where there is none); a free
            base moves up to 0.3 m and turns up to about 0.3 rad times it.
    """
    q = np.broadcast_to(tree.nominal, (count, tree.coordinates)).copy()
    for body, kind in enumerate(tree.joint_types):
        i, j = tree.coordinate_start[body], tree.dof_start[body]
        random = rng.uniform(-1.0, 1.0, (count, 6 if kind == "free" else 1)) * spread
        if kind == "free":
            q[:, i : i + 3] += 0.3 * random[:, :3]
            q[:, i + 3 : i + 6] += 0.15 * random[:, 3:]
            q[:, i + 3 : i + 7] /= np.linalg.norm(q[:, i + 3 : i + 7], axis=1, keepdims=True)
            continue
        room_down, room_up = (min(abs(bound[j] - tree.nominal[i]), np.pi) for bound in (tree.lower, tree.upper))
        q[:, i] += np.where(random[:, 0] < 0.0, room_down, room_up) * random[:, 0]
    return q
