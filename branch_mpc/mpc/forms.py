"""The two forms of the optimal control problem as the control tick sees them: a solver, its warm start, its outputs."""

from typing import Any

import numpy as np
import warp as wp

from branch_mpc.mpc.kernels import TickKernels
from branch_mpc.mpc.launch_policy import LaunchPolicy
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.mpc.torque_tick import linear_kernel, outputs_kernel, warm_start_kernel
from branch_mpc.robot.articulation import Articulation
from branch_mpc.sqp.solver import SqpSolver
from branch_mpc.sqp.torque_solver import TorqueSolver

Views = dict[str, wp.array]


class AccelerationForm:
    """States follow from accelerations; one way to solve a tick, 'direct'."""

    variants = ("direct",)

    def __init__(
        self, articulation: Articulation, settings: MpcSettings, policy: LaunchPolicy, nominal: np.ndarray | None, device: wp.Device
    ) -> None:
        """Generate and compile the solver; see `SqpSolver` for what it raises."""
        self._iterations, self._knots, self._device = settings.iterations, settings.knots, device
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.outputs: dict[str, tuple[int, ...]] = {}
        self.solver = SqpSolver(
            articulation,
            knots=settings.knots,
            step=settings.step,
            batch=settings.batch,
            weights=settings.weights,
            nominal=nominal,
            device=str(device),
            iterations=settings.iterations,
            retries=settings.retries,
            order=policy.order,
            schedule=policy.schedule,
            merit_block=policy.merit_block,
        )

    def launch_warm_start(self, kernels: TickKernels, best: wp.array, d: Views, out: Views) -> None:
        """Launch the shift of the previous plan's accelerations and the roll-out of the states."""
        if self.solver.block is not None:
            self._previous = best, d["shift"]  # the block that iterates begins with both
            return
        wp.launch(kernels.warm_start, dim=self.solver.batch, inputs=[best, d["shift"]], outputs=[self.solver.A], device=self._device)
        self.solver.launch_rollout()

    def launch_iterations(self, variant: str) -> None:
        """Launch the SQP iterations of a tick."""
        if self.solver.block is not None:
            self.solver.launch_shifted(*self._previous)
            return
        for _ in range(self._iterations):
            self.solver.launch_iteration()

    @property
    def state(self) -> list[wp.array]:
        """What `select` reads: merit, KKT residual, step size, regularisation, pivot flags, and the unknowns of the intervals."""
        solver = self.solver
        return [solver.merit, solver.kkt, solver.step_size, solver.damping, solver.linear.pivot_failed, solver.A]

    def launch_outputs(self, kernels: TickKernels, selected: wp.array, d: Views, out: Views) -> None:
        """Launch the outputs of the selected row."""
        inputs = [selected, self.solver.X, self.solver.A, d["wrenches"]]
        wp.launch(kernels.outputs, dim=self._knots, inputs=inputs, outputs=[out["state"], out["torque"], out["tool"]], device=self._device)


class TorqueForm:
    """States and torques are unknowns, the dynamics a constraint; warm and cold ticks may take different linear solvers."""

    def __init__(
        self, articulation: Articulation, settings: MpcSettings, policy: LaunchPolicy, nominal: np.ndarray | None, device: wp.Device
    ) -> None:
        """Generate and compile the solver; see `TorqueSolver` for what it raises."""
        self._device, n = device, articulation.dof
        self.variants = tuple(dict.fromkeys((policy.linear_solver, policy.cold_linear_solver)))
        self.inputs: dict[str, tuple[int, ...]] = {"seed": (n,)}
        self.outputs: dict[str, tuple[int, ...]] = {"linear": (settings.batch,)}
        self._outputs = outputs_kernel(articulation)
        self.solver = TorqueSolver(
            articulation,
            knots=settings.knots,
            step=settings.step,
            batch=settings.batch,
            weights=settings.weights,
            settings=settings.torque,
            nominal=nominal,
            device=str(device),
            iterations=settings.iterations,
            linear_solvers=self.variants,
            order=policy.order,
            schedule=policy.schedule,
            merit_block=policy.merit_block,
            reduction=policy.reduction,
        )

    def launch_warm_start(self, kernels: TickKernels, best: wp.array, d: Views, out: Views) -> None:
        """Launch the shift of the previous plan's states and torques, which are still in the tick's outputs."""
        solver = self.solver
        inputs = [out["state"], out["torque"], d["shift"], d["seed"], solver.x0]
        dim = solver.batch, solver.knots
        wp.launch(warm_start_kernel(), dim=dim, inputs=inputs, outputs=[solver.X, solver.U], device=self._device)

    def launch_iterations(self, variant: str) -> None:
        """Launch the SQP iterations of a tick with one linear solver."""
        self.solver.launch_solve(variant)

    @property
    def state(self) -> list[wp.array]:
        """What `select` reads, as for the acceleration form."""
        solver = self.solver
        return [solver.merit, solver.kkt, solver.step_size, solver.rho, solver.pivot_failed, solver.U]

    def launch_outputs(self, kernels: TickKernels, selected: wp.array, d: Views, out: Views) -> None:
        """Launch the outputs of the selected row and the report of the linear solves."""
        solver = self.solver
        results = [out["state"], out["torque"], out["tool"]]
        wp.launch(self._outputs, dim=solver.knots, inputs=[selected, solver.X, solver.U], outputs=results, device=self._device)
        wp.launch(linear_kernel(), dim=solver.batch, inputs=[solver.linear_iterations], outputs=[out["linear"]], device=self._device)


Form = AccelerationForm | TorqueForm


def make_form(*arguments: Any, formulation: str) -> Form:
    """Return the form of this name, made from (articulation, settings, policy, nominal, device)."""
    return TorqueForm(*arguments) if formulation == "torque" else AccelerationForm(*arguments)
