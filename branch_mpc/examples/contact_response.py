"""Contact response of a robot: `python -m branch_mpc.examples.contact_response`.

How an impulse at one contact changes the velocity of the whole robot, M^-1 J^T, column by column, and the impulses that
keep the contacts from sinking and slipping: a projected Gauss-Seidel solve over J M^-1 J^T. The inertia is stated once, as
the sum of the bodies' kinetic energies over their twists; the dense plan then factors the joint-space mass matrix, the tree
plan the articulated bodies (Featherstone, RBDA 2008, chapters 6 and 7).
"""

import argparse
import sys
import time

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.errors import ProblemError
from branch_mpc.examples import kernels
from branch_mpc.examples.choices import DENSE_SERIAL, PLANS, SCHEDULES, Choice, planned
from branch_mpc.examples.levenberg_marquardt import captured, sample_configurations
from branch_mpc.kinematics import TreeKinematics
from branch_mpc.robot.tree_library import load_tree, tree_names
from branch_mpc.robot.tree_model import TreeModel


class ResponseProblem:
    """Inertia and contacts of a robot in many worlds, as a Branch problem; compiles nothing.

    Attributes:
        q: Configurations, (instances, coordinates) float32.
        pose: Frames of the bodies, (instances, bodies) transformf.
        inertia: Their spatial inertias, (instances, bodies) spatial_matrixf.
        u: Tangents; x: twists of the bodies; touched: those of the bodies with contacts.
        problem: The Branch problem: kinetic energy.
    """

    def __init__(self, tree: TreeModel, instances: int, device: str = "cpu", damping: float = 0.0) -> None:
        if not tree.effector_names:
            raise ProblemError(f"robot '{tree.name}' has no effector", "name the frames that touch the ground")
        self.tree, self.instances, self.kinematics = tree, instances, TreeKinematics(tree, device)
        self.device = self.kinematics.device
        self.loaded = sorted(set(tree.effector_bodies))
        with wp.ScopedDevice(self.device):
            self.q = wp.array(np.broadcast_to(tree.nominal, (instances, tree.coordinates)), dtype=wp.float32)
            self.pose = wp.zeros((instances, tree.bodies), dtype=wp.transformf)
            self.S = wp.zeros((instances, tree.dof), dtype=wp.spatial_vectorf)
            self.inertia = wp.zeros((instances, tree.bodies), dtype=wp.spatial_matrixf)
        topology = br.Topology(parents=tree.parents, dofs=tree.widths, names=tree.body_names)
        self.u = br.tangents(topology, instances=instances, frames=1)
        self.x = br.twists(self.u, S=self.S, pose=self.pose, coordinates="world")
        self.touched = self.x[[tree.body_names[body] for body in self.loaded]]
        self.problem = br.Problem()
        self.problem.add(br.quadratic(self.x, H=self.inertia, g=None))
        if damping > 0.0:
            self.problem.add(br.damping(self.u, weight=damping))

    def refresh(self) -> None:
        """Poses, motion subspaces and inertias at q: two launches."""
        self.kinematics.forward(self.q, self.pose, self.S)
        self.kinematics.inertias(self.pose, self.inertia)


class ContactResponse:
    """Contacts at the effectors of a robot, in many worlds at once.

    Attributes:
        velocity: Velocities without contact, (instances, dof).
        after: Velocities with contact, (instances, dof).
        columns: M^-1 J^T, (instances, 3 contacts, dof): velocity of the robot for a unit impulse at a contact.
        planned: Plan and schedule.
    """

    def __init__(
        self,
        tree: TreeModel,
        instances: int,
        *,
        choice: Choice = DENSE_SERIAL,
        device: str = "cpu",
        friction: float = 0.7,
        sweeps: int = 30,
        damping: float = 0.0,
    ) -> None:
        if friction < 0.0 or sweeps < 1:
            raise ProblemError(f"friction is {friction:g}, sweeps {sweeps}", "give a friction not under 0 and at least one sweep")
        self.tree, self.instances, self.friction, self.sweeps = tree, instances, friction, sweeps
        self.world = ResponseProblem(tree, instances, device, damping)
        self.device, contacts = self.world.device, len(tree.effector_bodies)
        with wp.ScopedDevice(self.device):
            self._bodies = wp.array(tree.effector_bodies, dtype=wp.int32)
            self._points = wp.array(tree.effector_translation, dtype=wp.vec3f)
            self._blocks = wp.array([self.world.loaded.index(body) for body in tree.effector_bodies], dtype=wp.int32)
            self._supports = wp.array(supports(tree), dtype=wp.int32)
            self.velocity, self.after = (wp.zeros((instances, tree.dof), dtype=wp.float32) for _ in range(2))
            self._slip, self._impulse = (wp.zeros(instances * 3 * contacts, dtype=wp.float32) for _ in range(2))
            self._matrix = wp.zeros(instances * (3 * contacts) ** 2, dtype=wp.float32)
        self._line, self._square = self._layout(3 * contacts), self._layout((3 * contacts) ** 2)
        self.planned = planned(self.world.problem, self.world.u, choice)
        self.solver = br.compile(self.planned.plan, self.planned.schedule, device=self.device)
        u, touched, count = self.world.u, self.world.touched, 3 * contacts
        self._response = self.solver.columns(count, given=touched, wanted=[u, touched])
        vectors = (instances, count, len(self.world.loaded))
        self._loads = _seen_as(self._response.rhs, wp.spatial_vectorf, vectors)
        self._twists = _seen_as(self._response.solution(touched), wp.spatial_vectorf, vectors)
        self.columns = _seen_as(self._response.solution(u), wp.float32, (instances, count, tree.dof))

    def set_state(self, q: np.ndarray, velocity: np.ndarray) -> None:
        """Take over configurations, (instances, coordinates), and velocities without contact, (instances, dof), or broadcast to it.

        Raises:
            ProblemError: Another shape, or numbers that are not finite.
        """
        for label, array, value in (("configurations", self.world.q, q), ("velocities", self.velocity, velocity)):
            if not np.isfinite(value).all():
                raise ProblemError(f"{label} hold a number that is not finite", "give finite numbers")
            try:
                array.assign(np.ascontiguousarray(np.broadcast_to(value, array.shape), dtype=np.float32))
            except ValueError as error:
                raise ProblemError(f"{label} have shape {np.shape(value)}, expected {tuple(array.shape)}", "shape them so") from error

    def launch_response(self) -> None:
        """Kinematics, factorisation and all columns: launches only."""
        columns = 3 * len(self.tree.effector_bodies)
        self.world.refresh()
        inputs = [self.world.pose, self._bodies, self._points, self._blocks, self._loads]
        wp.launch(kernels.contact_loads, (self.instances, columns), inputs, device=self.device)
        self.solver.linearize()
        self.solver.factor()
        self._response.solve()
        inputs = [self._loads, self._twists, self._blocks, self._square, self._matrix]
        wp.launch(kernels.contact_matrix, (self.instances, columns, columns), inputs, device=self.device)

    def launch(self) -> None:
        """Response and contact solve: launches only, may be captured."""
        columns = 3 * len(self.tree.effector_bodies)
        self.launch_response()
        inputs = [self.world.S, self._supports, self._loads, self._blocks, self.velocity, self._line, self._slip]
        wp.launch(kernels.contact_velocity, (self.instances, columns), inputs, device=self.device)
        self._impulse.zero_()
        inputs = [self._matrix, self._slip, columns, self.friction, self.sweeps, self._square, self._line, self._impulse]
        wp.launch(kernels.project_sweeps, self.instances, inputs, device=self.device)
        inputs = [self.columns, self._impulse, self.velocity, self._line, self.after]
        wp.launch(kernels.respond, (self.instances, self.tree.dof), inputs, device=self.device)

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Solve the contacts and return impulses [Ns], (instances, contacts, 3), and velocities with contact, (instances, dof)."""
        if not hasattr(self, "_replay"):
            self._replay = captured(self.launch, self.device)
        self._replay()
        impulse = self._numbers(self._impulse, self._line).reshape(self.instances, -1, 3)
        return impulse, self.after.numpy().astype(float)

    def matrix(self) -> np.ndarray:
        """Return J M^-1 J^T [1/kg] of the last solve, (instances, 3 contacts, 3 contacts): contacts, each x, y, z of the world."""
        count = 3 * len(self.tree.effector_bodies)
        return self._numbers(self._matrix, self._square).reshape(self.instances, count, count)

    def _layout(self, count: int) -> kernels.Layout:
        """Place of `count` numbers an instance: instances side by side for the threads of a GPU."""
        layout = kernels.Layout()
        layout.stride, layout.pitch = (1, count) if self.device.is_cpu else (self.instances, 1)
        return layout

    def _numbers(self, array: wp.array, layout: kernels.Layout) -> np.ndarray:
        """Numbers of every instance, float64 (instances, ...)."""
        values = array.numpy().astype(float)
        return values.reshape(self.instances, -1) if layout.stride == 1 else values.reshape(-1, self.instances).T


def _seen_as(array: wp.array, dtype: type, shape: tuple[int, ...]) -> wp.array:
    """The same memory with other axes."""
    return wp.array(ptr=array.ptr, dtype=dtype, shape=shape, device=array.device, copy=False)


def supports(tree: TreeModel) -> np.ndarray:
    """Return which degrees of freedom move which effector, shape (effectors, dof) of 0 and 1."""
    table = np.zeros((len(tree.effector_bodies), tree.dof), dtype=np.int32)
    for effector, carrier in enumerate(tree.effector_bodies):
        body = carrier
        while body >= 0:
            table[effector, tree.dof_start[body] : tree.dof_start[body] + tree.widths[body]] = 1
            body = tree.parents[body]
    return table


def main(arguments: list[str] | None = None) -> int:
    """Let robots fall onto their effectors and print the impulses."""
    parser = argparse.ArgumentParser(prog="branch_mpc.examples.contact_response", description=__doc__.split("\n\n")[0])
    parser.add_argument("--robot", default="iiwa14", help=f"{', '.join(tree_names())}, or a file (default iiwa14)")
    parser.add_argument("--batch", type=int, default=16, help="worlds (default 16)")
    parser.add_argument("--plan", choices=PLANS[:2], default="dense")
    parser.add_argument("--schedule", choices=SCHEDULES, default="serial")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    tree = load_tree(options.robot)
    solver = ContactResponse(tree, options.batch, choice=Choice(options.plan, options.schedule), device=options.device)
    print(solver.planned.plan.report(), solver.planned.schedule.report(), sep="\n")
    rng = np.random.default_rng(0)
    solver.set_state(sample_configurations(tree, options.batch, rng, 0.3), falling(tree, options.batch, rng))
    solver.solve()
    begun = time.perf_counter()
    impulse, _ = solver.solve()
    elapsed = time.perf_counter() - begun
    print(
        f"{tree.name}: {impulse.shape[1]} contacts in {options.batch} worlds, largest normal impulse {impulse[..., 2].max():.3g} Ns, "
        f"{1e3 * elapsed:.3g} ms for response and {solver.sweeps} sweeps"
    )
    return 0 if np.isfinite(impulse).all() else 1


def falling(tree: TreeModel, instances: int, rng: np.random.Generator) -> np.ndarray:
    """Return velocities that take the robot down, shape (instances, dof): 1 m/s of a free base, 0.5 at random of every joint."""
    velocity = 0.5 * rng.normal(size=(instances, tree.dof))
    for body, kind in enumerate(tree.joint_types):
        if kind == "free":
            velocity[:, tree.dof_start[body] : tree.dof_start[body] + 6] = [0.3, 0.0, -1.0, 0.0, 0.0, 0.0]
    return velocity


if __name__ == "__main__":
    sys.exit(main())
