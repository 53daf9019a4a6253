"""The receding-horizon controller: one graph per tick from measured state to selected plan."""

import functools
import time
from collections.abc import Callable

import numpy as np
import warp as wp

from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.errors import SettingError
from branch_mpc.mpc.device_facts import facts_of
from branch_mpc.mpc.forms import make_form
from branch_mpc.mpc.hypotheses import ForceSphere
from branch_mpc.mpc.kernels import tick_kernels
from branch_mpc.mpc.launch_policy import LaunchPolicy, choose, is_cold
from branch_mpc.mpc.plan import JointSample, Plan, SolveStatus
from branch_mpc.mpc.sent_commands import SEGMENTS, SentCommands
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.mpc.tick_arrays import Block
from branch_mpc.mpc.tuning_table import table_for
from branch_mpc.optimal_control.lanes import LANES
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation
from branch_mpc.sqp.solver import check_device

PREDICTION_SUBSTEP = 2.5e-3  # s; RK2 steps of this length stay within 1e-5 rad/s of 0.1 ms steps on a 10 ms tick of the Indy7


class Controller:
    """Tracks tool targets; stateful in the warm start, the damping, the hypotheses and the sent commands, all cleared by `reset`.

    A tick on the device: roll every hypothesis from the previous to the present measurement (score) and from there over the
    commands already sent to the time the new one takes effect; shift the previous plan by the elapsed time; SQP iterations;
    select the row that explains the motion; write the outputs.
    """

    def __init__(
        self,
        articulation: Articulation,
        settings: MpcSettings,
        nominal: np.ndarray | None = None,
        *,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Choose the launch policy, compile, capture.

        Args:
            articulation: The robot, n joints.
            settings: The controller's settings.
            nominal: Nominal posture, shape (n,); zeros by default. Only the posture weight uses it.
            progress: Called with a line of text before each slow stage.

        Raises:
            DeviceError: The device does not exist.
            SettingError: Settings that do not fit together.
            PlanError: The elimination plan or schedule does not fit the device.
        """
        self.articulation, self.settings = articulation, settings
        self._device = check_device(settings.device)
        self.device_name = f"{self._device.name} ({self._device})" if self._device.is_cuda else "CPU"
        self.policy: LaunchPolicy = choose(
            facts_of(self._device),
            knots=settings.knots,
            batch=settings.batch,
            formulation=settings.formulation,
            forced=settings.policy,
            robot=articulation.name,
            table=table_for(settings.policy.tuning),
        )
        progress("generating and compiling the solver")
        self._form = make_form(articulation, settings, self.policy, nominal, self._device, formulation=settings.formulation)
        self._solver = self._form.solver
        self._host = HostDynamics(articulation)
        self._hypotheses = ForceSphere(settings.batch, settings.hypotheses)
        self._sent = SentCommands(articulation.dof)
        self._allocate()
        progress("compiling the control tick")
        self._kernels = tick_kernels(articulation, SEGMENTS, PREDICTION_SUBSTEP, lanes=LANES if self._device.is_cpu else 1)
        self._runs = {name: self._solver.capture(functools.partial(self._launch, name)) for name in self._form.variants}
        self.epoch = 0
        n = articulation.dof
        self.reset(JointSample(0.0, np.zeros(n), np.zeros(n)))

    def _allocate(self) -> None:
        M, N, n = self.settings.batch, self.settings.knots, self.articulation.dof
        shapes_in = {"states": (2, 2 * n), "durations": (2, SEGMENTS), "torques": (2, SEGMENTS, n), "shift": (1,), "scored": (1,)}
        shapes_in |= {"wrenches": (M, 6), "targets": (N, 3), "scale": (n,)}
        self._in = Block(shapes_in | self._form.inputs, self._device)
        shapes_out = {"summary": (6,), "scores": (M,), "state": (N, 2 * n), "torque": (N - 1, n), "tool": (N, 3)}
        self._out = Block(shapes_out | self._form.outputs, self._device)
        self._selected = wp.zeros(1, dtype=wp.int32, device=self._device)
        self._best = wp.zeros((N - 1, n), dtype=wp.float32, device=self._device)
        # the solver reads the tick's inputs where they arrive
        self._solver.wrenches, self._solver.targets = self._in.device["wrenches"], self._in.device["targets"]

    def _launch(self, variant: str) -> None:
        """Every launch of a tick, in order; captured once for each linear solver that a tick may take."""
        M, d, out, kernels = self.settings.batch, self._in.device, self._out.device, self._kernels

        def launch(kernel: object, dim: int, inputs: list, outputs: list) -> None:
            wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self._device)

        self._in.upload()
        replay = [d["states"], d["durations"], d["torques"], d["wrenches"], d["scale"]]
        launch(kernels.predict, kernels.groups(M), replay, [out["scores"], self._solver.x0])
        self._form.launch_warm_start(kernels, self._best, d, out)
        self._form.launch_iterations(variant)
        launch(kernels.select, 1, [out["scores"], d["scored"], *self._form.state], [self._selected, out["summary"], self._best])
        self._form.launch_outputs(kernels, self._selected, d, out)
        self._out.download()

    @property
    def wrench_estimate(self) -> np.ndarray:
        """Estimated world wrench (force, moment) on the tool, shape (6,) [N, Nm]."""
        return self._hypotheses.estimate.copy()

    def set_weights(self, weights: CostWeights) -> None:
        """Change the objective's weights from the next tick on.

        Raises:
            SettingError: A margin, which is compiled in, differs.
        """
        self._solver.set_weights(weights)

    def reset(self, sample: JointSample) -> None:
        """Start anew from a measured state: cold start, no disturbance, and the gravity torque as the command so far.

        Args:
            sample: The arm's state, taken to be at rest.
        """
        self.epoch += 1
        self._tick = 0
        self._solver.reset()
        self._hypotheses.reset()
        self._previous: JointSample | None = None
        self._start: float | None = None
        position = np.nan_to_num(np.asarray(sample.position, dtype=float), posinf=0.0, neginf=0.0)
        self._sent.clear(self._host.gravity(position))
        # A velocity miss counts by the kinetic energy it is worth, so that a light wrist does not outweigh the shoulder.
        self._in.host["scale"][:] = np.sqrt(np.diag(self._host.mass_matrix(position)))

    def sent(self, time: float, torque: np.ndarray) -> None:
        """Record a command that was really sent.

        Args:
            time: When it takes effect, controller clock [s].
            torque: Joint torques, shape (n,) [Nm | N].
        """
        self._sent.add(time, torque)

    def step(self, sample: JointSample, start: float, targets: np.ndarray) -> Plan:
        """Solve one tick. Never raises on bad numbers: they give status NOT_FINITE and leave the controller cold.

        Args:
            sample: Newest measurement.
            start: When the new command takes effect, controller clock [s].
            targets: Tool targets of the knots, shape (N, 3) [m]; knot k is at `start + k * step`.

        Raises:
            SettingError: `targets` or the sample have the wrong shape (a programming error, not a run-time condition).
        """
        begun = time.perf_counter()
        self._tick += 1
        finite = self._fill(sample, start, targets)
        if finite:
            self._runs[self._variant(sample)]()
            wp.synchronize_device(self._device)
        plan = self._plan(sample, start, finite, begun)
        if plan.status is SolveStatus.NOT_FINITE:
            self._solver.reset()  # a poisoned warm start must not reach the next tick
            self._start, self._previous = None, None
        else:
            if self._in.host["scored"][0] > 0.0:
                self._hypotheses.update(plan.row)
            self._start, self._previous = start, sample
        return plan

    def _fill(self, sample: JointSample, start: float, targets: np.ndarray) -> bool:
        """Write the tick's inputs; False if they are not finite."""
        host, n = self._in.host, self.articulation.dof
        if np.shape(targets) != host["targets"].shape or np.shape(sample.position) != (n,) or np.shape(sample.velocity) != (n,):
            shapes = f"targets {np.shape(targets)}, position {np.shape(sample.position)}, velocity {np.shape(sample.velocity)}"
            raise SettingError(f"tick with {shapes}", f"give targets {host['targets'].shape} and joint arrays ({n},)")
        previous = self._previous
        host["states"][1, :n], host["states"][1, n:] = sample.position, sample.velocity
        host["states"][0] = host["states"][1]
        scored = previous is not None and sample.time > previous.time
        if scored and previous is not None:
            host["states"][0, :n], host["states"][0, n:] = previous.position, previous.velocity
            self._sent.fill(previous.time, sample.time, host["durations"][0], host["torques"][0])
        else:
            host["durations"][0] = 0.0
        self._sent.fill(sample.time, start, host["durations"][1], host["torques"][1])
        host["shift"][0] = -1.0 if self._start is None or start < self._start else (start - self._start) / self.settings.step
        host["scored"][0] = float(scored)
        if "seed" in host and host["shift"][0] < 0.0:
            host["seed"][:] = self._host.gravity(np.nan_to_num(np.asarray(sample.position, dtype=float), posinf=0.0, neginf=0.0))
        host["wrenches"][:] = self._hypotheses.propose()
        host["targets"][:] = targets
        names = ("states", "durations", "torques", "shift", "targets", "wrenches")
        return bool(np.isfinite(start)) and all(np.isfinite(host[name]).all() for name in names)

    def _variant(self, sample: JointSample) -> str:
        """The linear solver of this tick."""
        if self.settings.formulation != "torque" or self.policy.cold_linear_solver == self.policy.linear_solver:
            return self.policy.linear_solver
        error = None
        if self._start is not None:
            # the previous plan at the time of the measurement, between its knots
            planned, last = self._out.host["state"], self.settings.knots - 1
            at = min(max((sample.time - self._start) / self.settings.step, 0.0), float(last))
            k = min(int(at), last - 1)
            state = planned[k] + (at - k) * (planned[k + 1] - planned[k])
            error = float(np.linalg.norm(np.concatenate([sample.position, sample.velocity]) - state))
        cold = is_cold(error, int(self._out.host["linear"].max()), self.settings.torque.pcg_cap)
        return self.policy.cold_linear_solver if cold else self.policy.linear_solver

    def _plan(self, sample: JointSample, start: float, finite: bool, begun: float) -> Plan:
        out, n = self._out.host, self.articulation.dof
        row, merit, kkt, step_size, damping, pivot_failed = out["summary"].tolist()
        status = self._status(finite, kkt, step_size, pivot_failed)
        state = out["state"].astype(float)
        return Plan(
            epoch=self.epoch,
            tick=self._tick,
            start=start,
            step=self.settings.step,
            position=state[:, :n],
            velocity=state[:, n:],
            torque=out["torque"].astype(float),
            tool=out["tool"].astype(float),
            wrench=self._in.host["wrenches"][int(row)].astype(float),
            row=int(row),
            status=status,
            merit=merit,
            kkt_residual=kkt,
            step_size=step_size,
            regularisation=damping,
            solve_time=time.perf_counter() - begun,
            iterations=self.settings.iterations,
            converged=status is not SolveStatus.NOT_FINITE and kkt <= self.settings.kkt_tolerance,
            scores=out["scores"].astype(float),
        )

    def _status(self, finite: bool, kkt: float, step_size: float, pivot_failed: float) -> SolveStatus:
        out = self._out.host
        if not finite or not all(np.isfinite(out[name]).all() for name in ("summary", "state", "torque", "tool")):
            return SolveStatus.NOT_FINITE
        if step_size > 0.0 or kkt <= self.settings.kkt_tolerance:
            return SolveStatus.SOLVED
        return SolveStatus.PIVOT_FAILED if pivot_failed else SolveStatus.STALLED
