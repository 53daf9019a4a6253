"""Batched SQP on the torque form of the tracking problem: GATO's algorithm, complete.

Unknowns per knot are x_k = [q_k; v_k] and u_k, the dynamics are constraints. One iteration linearises every knot, forms the Schur
complement on the costates with its preconditioner, solves it by PCG or through Branch, recovers the step, evaluates eight step
lengths and takes the best one. A problem whose linear solve finds nothing to do is frozen for the rest of the solve.
"""

from collections.abc import Callable

import numpy as np
import warp as wp

from branch_mpc.errors import SettingError
from branch_mpc.optimal_control.kernels import REAL
from branch_mpc.optimal_control.torque_kernels import CANDIDATES, torque_kernels
from branch_mpc.optimal_control.tracking_code import weight_vector
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation
from branch_mpc.sqp import torque_line_search, torque_pcg, torque_recovery, torque_schur
from branch_mpc.sqp.solver import check_device
from branch_mpc.sqp.torque_arrays import TorqueArrays
from branch_mpc.sqp.torque_direct import DirectCostateSolver
from branch_mpc.sqp.torque_settings import LINEAR_SOLVERS, TorqueSettings
from branch_mpc.sqp.torque_statistics import STAGES, StageClock, TorqueResult, TorqueStatistics


class TorqueSolver(TorqueArrays):
    """Solves M tracking problems of one robot at once.

    Stateful in the costates and in rho, both cleared by `reset`, rho alone by `reset_rho`; the trajectory is an argument and a result.
    """

    def __init__(
        self,
        articulation: Articulation,
        *,
        knots: int,
        step: float,
        batch: int,
        weights: CostWeights,
        settings: TorqueSettings | None = None,
        nominal: np.ndarray | None = None,
        device: str = "cpu",
        iterations: int = 1,
        linear_solvers: tuple[str, ...] = ("pcg",),
        order: str = "chronological",
        schedule: str = "serial",
        merit_block: int = 64,
        reduction: str = "float64",
        dtype: str = "float32",
    ) -> None:
        """Generate and compile.

        Args:
            articulation: The robot, n joints.
            knots: Knots N of the horizon, at least 2.
            step: Time between knots h [s].
            batch: Problems M.
            weights: Objective; its margins are compiled in, its weights may change later (`set_weights`).
            settings: Settings of the torque form; GATO's by default.
            nominal: Nominal posture, shape (n,); zeros by default.
            device: Name of a Warp device.
            iterations: SQP iterations K of a `solve`.
            linear_solvers: Those that may be asked for, of LINEAR_SOLVERS; the first is the default of `solve`.
            order: Elimination order of the direct solve.
            schedule: Its schedule: 'serial', 'cooperative' or 'fused'.
            merit_block: Threads in a block of the merit kernel; results do not depend on it.
            reduction: 'float64' or 'float32': sums of the merit.
            dtype: 'float32' or 'float64'.

        Raises:
            SettingError: A size out of range or an unknown name.
            DeviceError: The device does not exist.
            PlanError: The plan of the direct solve does not fit.
        """
        if knots < 2 or batch < 1 or not step > 0:
            raise SettingError(f"knots {knots}, batch {batch}, step {step}", "give at least 2 knots, 1 problem and a positive step")
        unknown = [name for name in linear_solvers if name not in LINEAR_SOLVERS]
        if unknown or not linear_solvers:
            raise SettingError(f"linear solvers {linear_solvers}", f"give some of {', '.join(LINEAR_SOLVERS)}")
        self.device = check_device(device)
        self.articulation, self.knots, self.batch, self.step, self.iterations = articulation, knots, batch, step, iterations
        self.settings = settings or TorqueSettings()
        self.linear_solvers, self.merit_block, self._margins = linear_solvers, merit_block, weights
        self._real = REAL[dtype]
        self._allocate(batch, knots, iterations, articulation.dof, step)
        self._kernels = torque_kernels(articulation, weights, self.settings.integrator, dtype)
        self._make_linear(dtype, order, schedule)
        n = articulation.dof
        self._recover, self._roll_out = torque_recovery.recover_kernel(n, dtype), torque_recovery.roll_out_kernel(n, dtype)
        self._residual = torque_recovery.residual_kernel(n, dtype)
        self._begin, self._search = torque_line_search.begin_kernel(dtype, reduction), torque_line_search.search_kernel(n, dtype, reduction)
        self._gate = torque_line_search.gate_kernel(dtype)
        self._graphs: dict[str, Callable[[], None]] = {}
        self.set_weights(weights)
        self.nominal.assign(np.zeros(n) if nominal is None else nominal)
        self.set_batch()
        self.reset()

    def _make_linear(self, dtype: str, order: str, schedule: str) -> None:
        """Kernels of the Schur complement and of the linear solvers that may be asked for."""
        n = self.articulation.dof
        self._schur, self._stair = torque_schur.schur_kernel(n, dtype), torque_schur.stair_kernel(n, dtype)
        self._pcg = torque_pcg.pcg_kernel(n, self.knots, dtype)
        self._pcg_block = torque_pcg.block_dim(2 * n * self.knots)
        self.direct: DirectCostateSolver | None = None
        if any(name != "pcg" for name in self.linear_solvers):
            arrays = self.S, self.gamma, self.dual, self.linear_iterations, self.failed
            self.direct = DirectCostateSolver(*arrays, order=order, schedule=schedule)
            self.active = self.direct.active

    def set_weights(self, weights: CostWeights) -> None:
        """Change the weights between solves; the margins must be those of the constructor.

        Raises:
            SettingError: A margin differs.
        """
        for name in ("position_margin", "velocity_margin", "torque_margin"):
            if getattr(weights, name) != getattr(self._margins, name):
                raise SettingError(f"parameter 'weights.{name}' cannot change while running", "make a new solver")
        self.weights.assign(weight_vector(weights))

    def set_batch(self, *, rho: np.ndarray | None = None, mu: np.ndarray | None = None, pcg_tolerance: np.ndarray | None = None) -> None:
        """Give each problem its own first rho, merit weight or PCG tolerance, shape (M,); those left out become the settings'."""
        given = ((self.first_rho, rho, "rho"), (self.mu, mu, "mu"), (self.tolerance, pcg_tolerance, "pcg_tolerance"))
        for array, value, name in given:
            array.assign(np.broadcast_to(getattr(self.settings, name) if value is None else value, (self.batch,)).astype(float))
        self.reset_rho()

    def reset_rho(self) -> None:
        """Set rho to its first value."""
        wp.copy(self.rho, self.first_rho)

    def reset(self) -> None:
        """Forget the costates and the rho of earlier solves."""
        self.dual.zero_()
        self.reset_rho()

    def launch_solve(self, linear_solver: str, mark: Callable[[], None] = lambda: None) -> None:
        """Launch K iterations on (X, U); captured into a graph by the caller. `mark` is called between the stages."""
        for array in (self.steps, self.linear_iterations, self.failed, self.kkt):
            array.zero_()
        self.active.fill_(1)
        if self.settings.reset_rho:
            self.reset_rho()
        for iteration in range(self.iterations):
            self._launch_iteration(iteration, linear_solver, mark)

    def _launch_iteration(self, iteration: int, linear_solver: str, mark: Callable[[], None]) -> None:
        M, N, s = self.batch, self.knots, self.settings
        problem = [self.x0, self.wrenches, self.targets, self.weights, self.nominal, self._step_array]
        blocks = [self.Q, self.Qi, self.Qv, self.R, self.gx, self.gu, self.A, self.B, self.c]
        mark()
        self._launch(
            self._kernels.terms, (M, N), [self.X, self.U, *problem, self.rho, self.active, *blocks, self.costs, self.defects, self.failed]
        )
        if iteration == 0:
            outputs = [self.merit, self.initial_merit, self.defect, self.step_size, self._factor]
            self._launch(self._begin, M, [self.costs, self.defects, self.mu, *outputs])
        mark()
        self._tiled(self._schur, (M, N), [*blocks, self.rho, self.active, self.S, self.P, self.gamma, self.failed], torque_schur.BLOCK_DIM)
        self._tiled(self._stair, (M, N), [self.active, self.S, self.P], torque_schur.BLOCK_DIM)
        mark()
        self._launch_linear(iteration, linear_solver)
        mark()
        merit = self._kernels.merit_fused if s.merit_fused else self._kernels.merit
        dim = (M, N) if s.merit_fused else (M, CANDIDATES, N)
        inputs = [self.X, self.U, self.dX, self.dU, *problem, self.active, self.failed]
        self._launch(merit, dim, [*inputs, self.candidate_costs, self.candidate_defects])
        mark()
        found = [self.candidate_costs, self.candidate_defects, self.mu, self.dX, self.dU]
        state = [self.merit, self.defect, self.step_size, self.rho, self._factor, self.X, self.U, self.steps, self.merits]
        flags = [self.active, self.failed, self.pivot_failed, iteration, int(s.adapt_rho)]
        self._tiled(self._search, (M,), [*found, *state, *flags], torque_line_search.BLOCK_DIM)
        mark()

    def _launch_linear(self, iteration: int, linear_solver: str) -> None:
        """Launch the linear solve, the recovery of the step and, in the last iteration, the KKT residual."""
        M, N, s = self.batch, self.knots, self.settings
        direct = linear_solver == "direct" or (linear_solver == "direct_first" and iteration == 0)
        if iteration == self.iterations - 1:
            inputs = [self.gx, self.gu, self.A, self.B, self.c]
            self._tiled(self._residual, (M,), [*inputs, self.kkt], torque_recovery.BLOCK_DIM)
        if not s.warm_costates:
            self.dual.zero_()
        system = [self.S, self.P, self.gamma, self.tolerance, self.active, self.dual, self._work, self.linear_iterations, self.failed]
        self._tiled(self._pcg, (M,), [*system, 0 if direct else s.pcg_cap, iteration], self._pcg_block)
        if direct:
            if self.direct is None:
                raise SettingError(f"linear solver '{linear_solver}' was not compiled", "name it in `linear_solvers`")
            self.direct.launch(iteration)
        if s.solve_ratio < 1.0:
            self._launch(self._gate, 1, [self.active, s.solve_ratio])
        inputs = [self.Qi, self.Qv, self.R, self.gx, self.gu, self.A, self.B, self.dual, self.active, self.failed]
        self._tiled(self._recover, (M, N), [*inputs, self.dX, self.dU], torque_recovery.BLOCK_DIM)
        if s.recovery == "rollout" or (s.recovery == "auto" and direct):
            inputs = [self.A, self.B, self.c, self.dU, self.active, self.failed]
            self._tiled(self._roll_out, (M,), [*inputs, self.dX], torque_recovery.BLOCK_DIM)

    def _launch(self, kernel: object, dim: int | tuple[int, ...], arguments: list) -> None:
        wp.launch(kernel, dim=dim, inputs=arguments, device=self.device, block_dim=self.merit_block)

    def _tiled(self, kernel: object, dim: tuple[int, ...], arguments: list, block_dim: int) -> None:
        wp.launch_tiled(kernel, dim=dim, inputs=arguments, device=self.device, block_dim=block_dim)

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Record launches once and return a function that replays them."""
        launches()  # loads every module; loading inside a capture is not possible on all drivers
        with wp.ScopedCapture(device=self.device) as capture:
            launches()
        return lambda: wp.capture_launch(capture.graph)

    def solve(
        self,
        x0: np.ndarray,
        targets: np.ndarray,
        wrenches: np.ndarray | None = None,
        states: np.ndarray | None = None,
        torques: np.ndarray | None = None,
        *,
        linear_solver: str | None = None,
        timed: bool = False,
    ) -> TorqueResult:
        """Solve from a warm start and return host copies.

        Args:
            x0: Measured states [q; v], shape (M, 2n) or (2n,).
            targets: Tool targets, shape (N, 3) [m].
            wrenches: World (force, moment) on the tool of each problem, shape (M, 6); zeros by default.
            states: Warm start, shape (M, N, 2n) or (N, 2n); `x0` at every knot by default.
            torques: Warm start, shape (M, N-1, n) or (N-1, n); zeros by default.
            linear_solver: One of those of the constructor; its first by default.
            timed: Launch stage by stage and report the stage times instead of replaying a graph.

        Raises:
            SettingError: A linear solver that was not compiled.
        """
        name = self.linear_solvers[0] if linear_solver is None else linear_solver
        if name not in self.linear_solvers:
            raise SettingError(f"linear solver '{name}' was not compiled", f"name it in `linear_solvers`; there are {self.linear_solvers}")
        seed = np.asarray(x0, dtype=float)[..., None, :] if states is None else states
        values = ((self.x0, x0), (self.targets, targets), (self.wrenches, wrenches), (self.X, seed), (self.U, torques))
        for array, value in values:
            self._write(array, 0.0 if value is None else value)
        if not timed:
            self.replay(name)
            return self.result(name)
        clock = StageClock(self.device)
        self.launch_solve(name, clock.mark)
        times = clock.times()
        width = len(STAGES) + 1  # with the gap between two iterations
        return self.result(name, np.array([times[k * width : k * width + len(STAGES)] for k in range(self.iterations)]))

    def _write(self, array: wp.array, value: np.ndarray | float) -> None:
        if self.device.is_cpu:
            array.numpy()[...] = value
        else:
            array.assign(np.broadcast_to(np.asarray(value, dtype=wp.dtype_to_numpy(self._real)), array.shape))

    def replay(self, linear_solver: str) -> None:
        """Iterate on the arrays as they are, through a graph captured on the first call."""
        if linear_solver not in self._graphs:
            state = (self.X, self.U, self.dual, self.rho)
            before = [array.numpy().copy() for array in state]
            self._graphs[linear_solver] = self.capture(lambda: self.launch_solve(linear_solver))
            for array, value in zip(state, before, strict=True):
                array.assign(value)
        self._graphs[linear_solver]()

    def result(self, linear_solver: str, stage_times: np.ndarray | None = None) -> TorqueResult:
        """Return host copies of the arrays."""
        wp.synchronize_device(self.device)
        X, n = self.X.numpy().copy(), self.articulation.dof
        arrays = (self.linear_iterations, self.steps, self.merits, self.initial_merit, self.merit, self.defect, self.kkt, self.rho)
        copies = (array.numpy().copy() for array in arrays)
        flags = self.pivot_failed.numpy() != 0, self.active.numpy() == 0
        times = np.zeros((0, len(STAGES))) if stage_times is None else stage_times
        return TorqueResult(X[..., :n], X[..., n:], self.U.numpy().copy(), TorqueStatistics(linear_solver, *copies, *flags, times))
