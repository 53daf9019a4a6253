"""Warp kernels of a control tick around the SQP iterations."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from branch_mpc.mpc import tick_code
from branch_mpc.robot.articulation import Articulation

OPTIONS = {"enable_backward": False, "grid_stride": False, "module": "unique", "module_options": {"max_unroll": 0}}


@dataclass(frozen=True)
class TickKernels:
    """Kernels of a tick; launch dimensions in brackets."""

    predict: Any
    """(groups): score of each hypothesis, and the state when the new command takes effect."""
    warm_start: Any
    """(problems): the previous plan, shifted by the elapsed time, as every row's start."""
    select: Any
    """(1): the row whose hypothesis explains the measurement best."""
    outputs: Any
    """(knots): state, torque and tool position of the selected row."""
    lanes: int
    """Rows in a group of `predict`."""

    def groups(self, problems: int) -> int:
        """Number of groups of a batch."""
        return -(-problems // self.lanes)


def tick_kernels(articulation: Articulation, segments: int, substep: float, *, lanes: int = 1) -> TickKernels:
    """Make the kernels of one robot in float32.

    Args:
        articulation: The robot, n joints.
        segments: Longest replay of sent commands.
        substep: Longest integration step of the prediction [s].
        lanes: Rows that a thread predicts at once: 1, or `lanes.LANES` on the CPU.
    """
    predict = _predict(articulation, segments, substep, lanes)
    return TickKernels(predict, _warm_start(), _select(), _outputs(articulation), lanes)


def _predict(articulation: Articulation, segments: int, substep: float, lanes: int) -> Any:
    @wp.func_native(tick_code.predict_body(articulation, "float32", segments, substep, lanes))
    def predict_rows(
        states: wp.array(dtype=float, ndim=2),
        durations: wp.array(dtype=float, ndim=2),
        torques: wp.array(dtype=float, ndim=3),
        wrenches: wp.array(dtype=float, ndim=2),
        scale: wp.array(dtype=float),
        scores: wp.array(dtype=float),
        x0: wp.array(dtype=float, ndim=2),
        group: int,
        problems: int,
    ): ...

    @wp.kernel(**OPTIONS)
    def predict(
        states: wp.array(dtype=float, ndim=2),  # (2, 2n) previous and present measured state [q; v]
        durations: wp.array(dtype=float, ndim=2),  # (2, segments) replayed command lengths: previous to present, present to start [s]
        torques: wp.array(dtype=float, ndim=3),  # (2, segments, n) replayed torques
        wrenches: wp.array(dtype=float, ndim=2),  # (problems, 6) world force and moment on the tool
        scale: wp.array(dtype=float),  # (n,) scale of each joint's velocity residual
        # outputs
        scores: wp.array(dtype=float),  # (problems,) scaled squared prediction error
        x0: wp.array(dtype=float, ndim=2),  # (problems, 2n) state when the new command takes effect
    ):
        group = wp.tid()
        predict_rows(states, durations, torques, wrenches, scale, scores, x0, group, scores.shape[0])

    return predict


def _warm_start() -> Any:
    @wp.kernel(**OPTIONS)
    def warm_start(
        best: wp.array(dtype=float, ndim=2),  # (knots - 1, n) accelerations of the previous plan
        shift: wp.array(dtype=float),  # (1,) knots between the starts of the plans; negative: no previous plan
        # outputs
        A: wp.array(dtype=float, ndim=3),  # (problems, knots - 1, n)
    ):
        problem = wp.tid()
        last = best.shape[0] - 1
        whole = int(wp.floor(shift[0]))
        part = shift[0] - float(whole)
        for k in range(best.shape[0]):
            early = wp.min(k + whole, last)
            late = wp.min(k + whole + 1, last)
            for i in range(best.shape[1]):
                a = float(0.0)
                if shift[0] >= 0.0:
                    # the mean of the previous, piecewise constant accelerations over the shifted interval
                    a = (1.0 - part) * best[early, i] + part * best[late, i]
                A[problem, k, i] = a

    return warm_start


def _select() -> Any:
    @wp.kernel(**OPTIONS)
    def select(
        scores: wp.array(dtype=float),  # (problems,)
        scored: wp.array(dtype=float),  # (1,) 0: no previous measurement, row 0 is taken
        merit: wp.array(dtype=float),  # (problems,)
        kkt: wp.array(dtype=float),  # (problems,)
        step_size: wp.array(dtype=float),  # (problems,)
        damping: wp.array(dtype=float),  # (problems,)
        pivot_failed: wp.array(dtype=wp.int32),  # (problems,)
        A: wp.array(dtype=float, ndim=3),  # (problems, knots - 1, n)
        # outputs
        selected: wp.array(dtype=wp.int32),  # (1,) row
        summary: wp.array(dtype=float),  # (6,) row, merit, KKT residual, step size, damping, pivot failed
        best: wp.array(dtype=float, ndim=2),  # (knots - 1, n)
    ):
        row = int(0)
        if scored[0] > 0.0:
            lowest = float(wp.inf)
            for m in range(scores.shape[0]):
                # a row without a finite plan cannot win, however well it explains the motion
                if scores[m] < lowest and wp.isfinite(merit[m]):
                    lowest = scores[m]
                    row = m
        selected[0] = row
        summary[0] = float(row)
        summary[1] = merit[row]
        summary[2] = kkt[row]
        summary[3] = step_size[row]
        summary[4] = damping[row]
        summary[5] = float(pivot_failed[row])
        for k in range(best.shape[0]):
            for i in range(best.shape[1]):
                best[k, i] = A[row, k, i]

    return select


def _outputs(articulation: Articulation) -> Any:
    @wp.func_native(tick_code.outputs_body(articulation, "float32"))
    def knot_outputs(
        selected: wp.array(dtype=wp.int32),
        X: wp.array(dtype=float, ndim=3),
        A: wp.array(dtype=float, ndim=3),
        wrenches: wp.array(dtype=float, ndim=2),
        state: wp.array(dtype=float, ndim=2),
        torque_out: wp.array(dtype=float, ndim=2),
        tool: wp.array(dtype=float, ndim=2),
        knot: int,
        knots: int,
    ): ...

    @wp.kernel(**OPTIONS)
    def outputs(
        selected: wp.array(dtype=wp.int32),  # (1,) row
        X: wp.array(dtype=float, ndim=3),  # (problems, knots, 2n) states
        A: wp.array(dtype=float, ndim=3),  # (problems, knots - 1, n) accelerations
        wrenches: wp.array(dtype=float, ndim=2),  # (problems, 6)
        # outputs
        state: wp.array(dtype=float, ndim=2),  # (knots, 2n) selected states
        torque: wp.array(dtype=float, ndim=2),  # (knots - 1, n) selected torques
        tool: wp.array(dtype=float, ndim=2),  # (knots, 3) selected tool positions
    ):
        knot = wp.tid()
        knot_outputs(selected, X, A, wrenches, state, torque, tool, knot, X.shape[1])

    return outputs
