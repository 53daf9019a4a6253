"""Batched SQP on the acceleration form of the tracking problem.

Unknowns per knot are x_k = [q_k; v_k] and a_k; x_{k+1} = A x_k + B a_k is linear, so the dynamics hold at every
iterate and the merit is the objective itself. One iteration linearises every knot, solves the quadratic problem
through Branch, tries the full step and, only if that is refused, the halvings down to 2^-7; if all are refused, or
a pivot failed, the damping is raised and the problem is factored again, up to `retries` times.

On CUDA serial arms of up to eight joints are linearised with a lane per joint, and in float32 under the fused schedule arms of up to
seven joints run all their iterations in one launch (`block_iteration`); everything else is a sequence of launches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp

import branch_mpc.branch as br
from branch_mpc.errors import DeviceError, SettingError
from branch_mpc.optimal_control.joint_table import is_serial_arm, joint_table
from branch_mpc.optimal_control.kernels import REAL, TrackingKernels, tracking_kernels
from branch_mpc.optimal_control.lane_kernels import BLOCK as LANE_BLOCK
from branch_mpc.optimal_control.lane_kernels import lane_kernels
from branch_mpc.optimal_control.lanes import LANES
from branch_mpc.optimal_control.tracking_code import weight_vector
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation
from branch_mpc.sqp import block_kernels
from branch_mpc.sqp.block_iteration import KEEP, NAMES, ROLL_OUT, SHIFT, BlockShape, IterationArrays, block_shape, iteration_kernel
from branch_mpc.sqp.kernels import CANDIDATES, sqp_kernels


@dataclass(frozen=True)
class SqpResult:
    """Host copies of a batch of M solves."""

    position: np.ndarray
    """Joint positions, shape (M, N, n) [rad | m]."""
    velocity: np.ndarray
    """Joint velocities, shape (M, N, n) [rad/s | m/s]."""
    acceleration: np.ndarray
    """Joint accelerations, shape (M, N-1, n) [rad/s^2 | m/s^2]."""
    merit: np.ndarray
    """Objective at the result, shape (M,)."""
    kkt_residual: np.ndarray
    """Largest |dV/da| at the last linearisation, shape (M,)."""
    step_size: np.ndarray
    """Last accepted step length, 0 when refused, shape (M,)."""
    damping: np.ndarray
    """Damping after the solve, shape (M,)."""
    pivot_failed: np.ndarray
    """True where the last factorisation failed, shape (M,)."""


def check_device(name: str) -> wp.Device:
    """Return the Warp device of this name; 'auto' is the first CUDA device, else the CPU.

    Raises:
        DeviceError: There is no such device.
    """
    wp.init()
    if name == "auto":
        return wp.get_device("cuda:0" if wp.is_cuda_available() else "cpu")
    known = [str(device) for device in wp.get_devices()]
    if name not in known:
        raise DeviceError(f"device '{name}' does not exist", f"choose one of {', '.join(known)}")
    return wp.get_device(name)


class SqpSolver:
    """Solves M tracking problems of one robot at once. Stateful in the damping only, cleared by `reset`."""

    def __init__(
        self,
        articulation: Articulation,
        *,
        knots: int,
        step: float,
        batch: int,
        weights: CostWeights,
        nominal: np.ndarray | None = None,
        device: str = "cpu",
        iterations: int = 1,
        retries: int = 1,
        order: str = "chronological",
        schedule: str = "serial",
        merit_block: int = 64,
        dtype: str = "float32",
    ) -> None:
        """Plan, generate and compile.

        Args:
            articulation: The robot, n joints.
            knots: Knots N of the horizon, at least 2.
            step: Time between knots h [s].
            batch: Problems M.
            weights: Objective; its margins are compiled in, its weights may change later (`set_weights`).
            nominal: Nominal posture, shape (n,); zeros by default.
            device: Name of a Warp device.
            iterations: SQP iterations of a `solve`.
            retries: Factorisations with more damping after a refused step, per iteration.
            order: Elimination order, 'chronological' or 'dense'.
            schedule: 'serial', 'cooperative' or 'fused'.
            merit_block: Threads in a block of the term and merit kernels.
            dtype: 'float32' or 'float64'.

        Raises:
            SettingError: A size out of range.
            DeviceError: The device does not exist.
            PlanError: The plan is over the memory budget or the schedule does not fit the device.
        """
        if knots < 2 or batch < 1 or not step > 0:
            raise SettingError(f"knots {knots}, batch {batch}, step {step}", "give at least 2 knots, 1 problem and a positive step")
        self.device = check_device(device)
        self.articulation, self.knots, self.batch, self.step = articulation, knots, batch, step
        self.iterations, self.retries = iterations, retries
        self.merit_block, self._real, self._margins = merit_block, REAL[dtype], weights
        self._allocate()
        lanes = LANES if self.device.is_cpu and dtype == "float32" else 1
        self._kernels: TrackingKernels = tracking_kernels(articulation, weights, dtype, lanes=lanes)
        self._loop = sqp_kernels(self._real)
        self._choose_lanes(order, schedule)
        self.linear = br.compile(*self._plan(order, schedule), device=str(self.device), dtype=self._real)
        self.dX, self.dA = (self.linear.solution(block) for block in self._blocks)
        self.set_weights(weights)
        self.nominal.assign(np.zeros(articulation.dof) if nominal is None else nominal)

    def _choose_lanes(self, order: str, schedule: str) -> None:
        """Lanes exist on CUDA and on fibers (for tests): a lane per joint for terms and merit, a block for whole iterations."""
        self._lanes = self.device.is_cuda or bool(getattr(wp.config, "enable_cpu_blocks", False))
        arm, n = self.articulation, self.articulation.dof
        self._joint_lanes = lane_kernels(n) if self._lanes and self._real is wp.float32 and is_serial_arm(arm) else None
        self.block: BlockShape | None = None
        """Shape of the block that runs a problem's iterations in one launch; None where they are launches of their own."""
        if self._joint_lanes is not None:
            self._table = wp.array(joint_table(arm, self._margins), dtype=wp.float32, device=self.device)
            if (order, schedule) == ("chronological", "fused"):
                self.block = block_shape(n, self.knots, self.batch, self.device.sm_count if self.device.is_cuda else 1)

    def _allocate(self) -> None:
        """Allocate every array of the solver; nothing is allocated later."""
        M, N, n, real = self.batch, self.knots, self.articulation.dof, self._real

        def zeros(*shape: int, dtype: type = real) -> wp.array:
            return wp.zeros(shape, dtype=dtype, device=self.device)

        self.x0, self.wrenches, self.targets = zeros(M, 2 * n), zeros(M, 6), zeros(N, 3)
        self.X, self.A = zeros(M, N, 2 * n), zeros(M, N - 1, n)
        self.H, self.g, self.costs = zeros(M, N, 3 * n, 3 * n), zeros(M, N, 3 * n), zeros(M, N)
        self.candidate_costs = zeros(M, CANDIDATES, N)
        self.merit, self.spread, self.step_size, self.damping, self.kkt = (zeros(M) for _ in range(5))
        self.weights, self.nominal = zeros(8), zeros(n)
        self._step_array = wp.array([self.step], dtype=real, device=self.device)

    def _plan(self, order: str, schedule: str) -> tuple[br.Plan, br.Schedule]:
        """State the quadratic problem of an iteration and how it is eliminated."""
        n, h = self.articulation.dof, self.step
        eye = np.eye(n)
        problem = br.Problem(instances=self.batch)
        a = problem.inputs("acceleration", width=n, frames=self.knots - 1)
        transition = np.block([[eye, h * eye], [0 * eye, eye]])
        x = problem.states("state", a, A=transition, B=np.vstack([0.5 * h * h * eye, h * eye]))
        problem.add(br.quadratic(x, a, H=self.H, g=self.g))
        # In the scaled unknowns (q, h v, h^2 a), which share a unit; weights differ by 1e8 between q and a otherwise.
        problem.add(br.damping(x, a, scale=np.repeat([1.0, h**2, h**4], n), weight=self.damping))
        self._blocks = (x, a)
        orders = {"chronological": lambda: br.order.frames(a, time="chronological"), "dense": lambda: br.order.dense(a)}
        plan = br.plan(problem, orders[order]())
        schedules = {"serial": br.Schedule.serial, "cooperative": br.Schedule.cooperative, "fused": br.Schedule.fused}
        return plan, schedules[schedule](plan)

    def set_weights(self, weights: CostWeights) -> None:
        """Change the weights between solves; the margins must be those of the constructor.

        Raises:
            SettingError: A margin differs.
        """
        for name in ("position_margin", "velocity_margin", "torque_margin"):
            if getattr(weights, name) != getattr(self._margins, name):
                raise SettingError(f"parameter 'weights.{name}' cannot change while running", "make a new solver")
        self.weights.assign(weight_vector(weights))

    def reset(self) -> None:
        """Forget the damping of earlier solves."""
        self.damping.zero_()

    def launch_rollout(self) -> None:
        """Launch X from x0 and A."""
        kernel, dim = self._loop["rollout"], (self.batch,)
        if self._lanes:
            kernel, dim = block_kernels.block_kernels(self._real)["rollout"], (self.batch, self.articulation.dof)
        wp.launch(kernel, dim=dim, inputs=[self.x0, self.A, self._step_array], outputs=[self.X], device=self.device)

    def launch_solve(self) -> None:
        """Launch the roll-out of A and the iterations of a solve."""
        if self.block is not None:
            self.launch_block(ROLL_OUT, self.iterations)
            return
        self.launch_rollout()
        for _ in range(self.iterations):
            self.launch_iteration()

    def launch_shifted(self, best: wp.array, shift: wp.array) -> None:
        """Launch the start from the previous plan, the roll-out and the iterations of a solve; only where `block` is not None.

        Args:
            best: Accelerations of the previous plan, shape (N-1, n).
            shift: Knots between the starts of the plans, shape (1,); negative: no previous plan.
        """
        self.launch_block(SHIFT, self.iterations, best, shift)

    def launch_block(self, start: int, iterations: int, best: wp.array | None = None, shift: wp.array | None = None) -> None:
        """Launch iterations as one kernel; see `block_iteration`."""
        assert self.block is not None
        arrays, linear = IterationArrays(), self.linear
        own = {"table": self._table, "step": self._step_array, "active": linear.active, "pivot_failed": linear.pivot_failed}
        own |= {"gradient": linear.gradient, "predicted_decrease": linear.predicted_decrease}
        for name in NAMES:
            setattr(arrays, name, own[name] if name in own else getattr(self, name))
        plan = [self.A[0] if best is None else best, self._step_array if shift is None else shift]
        inputs = [arrays, *plan, start, iterations, self.retries]
        kernel = iteration_kernel(self.block)
        wp.launch_tiled(kernel, dim=[self.batch], inputs=inputs, device=self.device, block_dim=self.block.threads)

    def launch_iteration(self) -> None:
        """Launch one SQP iteration on (X, A); captured into a graph by the caller."""
        if self.block is not None:
            self.launch_block(KEEP, 1)
            return
        self.launch_terms()
        outputs = [self.linear.active, self.merit, self.spread, self.step_size]
        self._launch_loop("begin", [self.costs], outputs)
        for attempt in range(1 + self.retries):
            self.launch_direction()
            for first, count in ((0, 1), (1, CANDIDATES - 1)):
                self.launch_merit(first, count)
                self._launch_line_search(first, count, attempt)

    def launch_terms(self) -> None:
        """Launch the linearisation: H, g and cost of every knot at (X, A)."""
        inputs, outputs = [self.X, self.A, *self._data], [self.H, self.g, self.costs]
        if self._joint_lanes is not None:
            self._launch_tiled(self._joint_lanes.terms, [self._joint_lanes.groups(self.batch, self.knots)], [*inputs, self._table], outputs)
            return
        self._launch(self._kernels.terms, self._kernels.groups(self.batch, self.knots), inputs, outputs)

    def launch_direction(self) -> None:
        """Launch factorisation and solve of the quadratic problem of every active problem: the step (dX, dA)."""
        self.linear.factor()
        self.linear.solve()

    def launch_merit(self, first: int, count: int) -> None:
        """Launch the costs of the candidates 2^-first, ..., 2^-(first + count - 1) of every active problem."""
        inputs = [self.X, self.A, self.dX, self.dA, *self._data, self.linear.active, first]
        if self._joint_lanes is not None:
            dim = [count, self._joint_lanes.groups(self.batch, self.knots)]
            self._launch_tiled(self._joint_lanes.merit, dim, [*inputs, self._table], [self.candidate_costs])
            return
        self._launch(self._kernels.merit, (count, self._kernels.groups(self.batch, self.knots)), inputs, [self.candidate_costs])

    def _launch_line_search(self, first: int, count: int, attempt: int) -> None:
        linear = self.linear
        model = [linear.predicted_decrease, linear.gradient, linear.pivot_failed]
        inputs = [self.candidate_costs, self.spread, *model, self.dX, self.dA, first, count, attempt]
        outputs = [linear.active, self.merit, self.step_size, self.damping, self.kkt, self.X, self.A]
        self._launch_loop("line_search", inputs, outputs)

    @property
    def _data(self) -> list[wp.array]:
        """Arrays that state the problem, in the kernels' order; read when launches are recorded."""
        return [self.wrenches, self.targets, self.weights, self.nominal]

    def _launch(self, kernel: object, dim: int | tuple[int, ...], inputs: list, outputs: list) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self.device, block_dim=self.merit_block)

    def _launch_tiled(self, kernel: object, dim: list[int], inputs: list, outputs: list, block: int = LANE_BLOCK) -> None:
        wp.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self.device, block_dim=block)

    def _launch_loop(self, name: str, inputs: list, outputs: list) -> None:
        """Launch a kernel of the loop: a thread a problem on the CPU, a warp a problem where there are lanes."""
        if self._lanes:
            self._launch_tiled(block_kernels.block_kernels(self._real)[name], [self.batch], inputs, outputs, block_kernels.BLOCK)
        else:
            self._launch(self._loop[name], self.batch, inputs, outputs)

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Record launches once and return a function that replays them."""
        launches()  # loads every module; loading inside a capture is not possible on all drivers
        with wp.ScopedCapture(device=self.device) as capture:
            launches()
        return lambda: wp.capture_launch(capture.graph)

    def solve(
        self, x0: np.ndarray, targets: np.ndarray, wrenches: np.ndarray | None = None, acceleration: np.ndarray | None = None
    ) -> SqpResult:
        """Solve from a warm start and return host copies.

        Args:
            x0: First states [q; v], shape (M, 2n) or (2n,).
            targets: Tool targets, shape (N, 3) [m].
            wrenches: World (force, moment) on the tool of each problem, shape (M, 6); zeros by default.
            acceleration: Warm start, shape (M, N-1, n) or (N-1, n); zeros by default: hold.
        """
        self._write(self.x0, x0)
        self._write(self.targets, targets)
        self._write(self.wrenches, 0.0 if wrenches is None else wrenches)
        self._write(self.A, 0.0 if acceleration is None else acceleration)
        self.replay()
        return self.result()

    def _write(self, array: wp.array, value: np.ndarray | float) -> None:
        """Copy a value, broadcast over problems, into a device array; on the CPU straight into its memory."""
        if self.device.is_cpu:
            array.numpy()[...] = value
        else:
            array.assign(np.broadcast_to(np.asarray(value, dtype=wp.dtype_to_numpy(self._real)), array.shape))

    def replay(self) -> None:
        """Roll out and iterate on the arrays as they are, through a graph captured on the first call."""
        if not hasattr(self, "_graph"):
            warm = self.A.numpy().copy(), self.damping.numpy().copy()
            self._graph = self.capture(self.launch_solve)
            self.A.assign(warm[0])
            self.damping.assign(warm[1])
        self._graph()

    def result(self) -> SqpResult:
        """Return host copies of the arrays."""
        wp.synchronize_device(self.device)
        X, n = self.X.numpy().copy(), self.articulation.dof
        values = (self.A, self.merit, self.kkt, self.step_size, self.damping)
        return SqpResult(X[..., :n], X[..., n:], *(array.numpy().copy() for array in values), self.linear.pivot_failed.numpy() != 0)
