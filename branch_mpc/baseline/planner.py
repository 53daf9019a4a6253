"""The baseline as a receding-horizon planner: what `branch_mpc.mpc.controller.Controller` does around its solver, in NumPy."""

import time

import numpy as np
import pinocchio as pin

from branch_mpc.baseline.controller import OsqpController, OsqpResult
from branch_mpc.baseline.quadratic_program import OsqpSettings
from branch_mpc.mpc.hypotheses import ForceSphere
from branch_mpc.mpc.plan import JointSample, Plan, SolveStatus
from branch_mpc.mpc.sent_commands import SEGMENTS, SentCommands
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.pinocchio_model import pinocchio_model

SUBSTEP = 2.5e-3
"""Longest integration step of the prediction [s], the controller's."""


def shifted(accelerations: np.ndarray, shift: float) -> np.ndarray:
    """Return piecewise constant accelerations, shape (N-1, n), `shift` >= 0 intervals later; the last one stays.

    A fraction of an interval gives the mean over the shifted interval, as on the device.
    """
    last, whole = len(accelerations) - 1, int(np.floor(shift))
    early = np.minimum(np.arange(last + 1) + whole, last)
    part = shift - whole
    return (1.0 - part) * accelerations[early] + part * accelerations[np.minimum(early + 1, last)]


class OsqpPlanner:
    """Plans with `OsqpController`: the same hypotheses, scores, warm start and delay roll-forward as the device's controller.

    Stateful in the warm start, the hypotheses and the sent commands, all cleared by `reset`.

    Args:
        articulation: The arm.
        settings: Settings of the controller; device and policy are not used.
        nominal: Posture of the posture weight, shape (n,); zeros when None.
        solver: Settings of OSQP.
    """

    def __init__(
        self, articulation: Articulation, settings: MpcSettings, nominal: np.ndarray | None = None, solver: OsqpSettings | None = None
    ) -> None:
        self.articulation, self.settings = articulation, settings
        self._solver = OsqpController(articulation, settings, nominal, solver)
        self._model, self._frame = pinocchio_model(articulation)
        self._data = self._model.createData()
        self._hypotheses = ForceSphere(settings.batch, settings.hypotheses)
        self._sent = SentCommands(articulation.dof)
        self._epoch = 0
        self.reset(JointSample(0.0, np.zeros(articulation.dof), np.zeros(articulation.dof)))

    def reset(self, sample: JointSample) -> None:
        """Start anew from a state at rest: cold start, no disturbance, the gravity torque as the command so far."""
        self._epoch, self._tick = self._epoch + 1, 0
        self._hypotheses.reset()
        self._sent.clear(pin.computeGeneralizedGravity(self._model, self._data, sample.position).copy())
        inertia = pin.crba(self._model, self._data, sample.position)
        self._scale = np.sqrt(np.diag(inertia))
        self._previous: JointSample | None = None
        self._start = 0.0
        self._warm: np.ndarray | None = None

    def sent(self, time: float, torque: np.ndarray) -> None:
        """Record a command, shape (n,), that was really sent and takes effect at `time` [s]."""
        self._sent.add(time, torque)

    def step(self, sample: JointSample, start: float, targets: np.ndarray) -> Plan:
        """Solve a tick; arguments as of `branch_mpc.mpc.controller.Controller.step`.

        Raises:
            TargetError: Targets of the wrong length or not finite.
        """
        begun, N, n = time.perf_counter(), self.settings.knots, self.articulation.dof
        self._tick += 1
        wrenches = self._hypotheses.propose().copy()
        warm = np.zeros((N - 1, n)) if self._warm is None else shifted(self._warm, (start - self._start) / self.settings.step)
        now = np.r_[sample.position, sample.velocity]
        scores, previous = np.zeros(len(wrenches)), self._previous
        if previous is not None:
            before = np.r_[previous.position, previous.velocity]
            predicted = [self._predict(before, previous.time, sample.time, wrench) for wrench in wrenches]
            scores = np.array([np.sum(((x[n:] - sample.velocity) * self._scale) ** 2) for x in predicted])
        first = np.array([self._predict(now, sample.time, start, wrench) for wrench in wrenches])
        results = self._solver.solve_batch(first, targets, wrenches, warm, residual=False)
        row = int(np.argmin(scores)) if previous is not None else 0
        if previous is not None:
            self._hypotheses.update(row)
        self._previous, self._start, self._warm = sample, start, results[row].accelerations
        return self._plan(results[row], row, start, wrenches[row], scores, time.perf_counter() - begun)

    def _plan(self, best: OsqpResult, row: int, start: float, wrench: np.ndarray, scores: np.ndarray, elapsed: float) -> Plan:
        n, terms = self.articulation.dof, self._solver.terms
        torque = np.array([terms.torque(x, a, wrench) for x, a in zip(best.states, best.accelerations, strict=False)])
        return Plan(
            epoch=self._epoch,
            tick=self._tick,
            start=start,
            step=self.settings.step,
            position=best.states[:, :n],
            velocity=best.states[:, n:],
            torque=torque,
            tool=np.array([terms.tool(x) for x in best.states]),
            wrench=wrench,
            row=row,
            status=SolveStatus.SOLVED if best.step_size > 0.0 else SolveStatus.STALLED,
            merit=best.cost,
            kkt_residual=best.kkt_residual,
            step_size=best.step_size,
            regularisation=0.0,
            solve_time=elapsed,
            iterations=self.settings.iterations,
            scores=scores,
        )

    def _predict(self, x: np.ndarray, begin: float, end: float, wrench: np.ndarray) -> np.ndarray:
        """Return the state at `end` after the commands sent, from the state x, shape (2n,), at `begin`: midpoint steps."""
        n, durations, torques = self.articulation.dof, np.zeros(SEGMENTS), np.zeros((SEGMENTS, self.articulation.dof))
        self._sent.fill(begin, end, durations, torques)
        for length, torque in zip(durations, torques, strict=True):
            count = int(np.ceil(length / SUBSTEP - 1e-3))
            for _ in range(count):
                h = length / count
                middle = x + 0.5 * h * np.r_[x[n:], self._acceleration(x, torque, wrench)]
                x = x + h * np.r_[middle[n:], self._acceleration(middle, torque, wrench)]
        return x

    def _acceleration(self, x: np.ndarray, torque: np.ndarray, wrench: np.ndarray) -> np.ndarray:
        n = self.articulation.dof
        jacobian = pin.computeFrameJacobian(self._model, self._data, x[:n], self._frame, pin.LOCAL_WORLD_ALIGNED)
        return pin.aba(self._model, self._data, x[:n], x[n:], torque + jacobian.T @ wrench)
