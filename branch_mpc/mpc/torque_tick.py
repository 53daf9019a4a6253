"""Kernels of a control tick that only the torque form has: its warm start, its outputs, and a report of its linear solves."""

from functools import cache
from typing import Any

from branch_mpc.dynamics import rigid_body
from branch_mpc.dynamics.emit import cpp
from branch_mpc.optimal_control.native import native_kernel
from branch_mpc.robot.articulation import Articulation

WARM_START = """
const int knots = X.shape[1], n = U.shape[2];
const size_t at = (size_t)problem * knots + knot, at_u = (size_t)problem * (knots - 1) + knot;
const bool cold = shift.data[0] < 0.0f;
const int whole = (int)floorf(shift.data[0]);
const float part = shift.data[0] - (float)whole;
auto row = [&](int k, int last) { return k < last ? k : last; };
const float* const early = state.data + (size_t)row(knot + whole, knots - 1) * 2 * n;
const float* const late = state.data + (size_t)row(knot + whole + 1, knots - 1) * 2 * n;
for (int i = 0; i < 2 * n; ++i) {
    const float first = x0.data[(size_t)problem * 2 * n + i];
    X.data[at * 2 * n + i] = knot == 0 || cold ? first : (1.0f - part) * early[i] + part * late[i];
}
if (knot < knots - 1) for (int i = 0; i < n; ++i) {
    const float a = torque.data[(size_t)row(knot + whole, knots - 2) * n + i];
    const float b = torque.data[(size_t)row(knot + whole + 1, knots - 2) * n + i];
    U.data[at_u * n + i] = cold ? seed.data[i] : (1.0f - part) * a + part * b;
}
"""

LINEAR = """
int most = 0;
for (int k = 0; k < iterations.shape[0]; ++k) most = wp::max(most, iterations.data[k * iterations.shape[1] + problem]);
linear.data[problem] = (float)most;
"""


@cache
def warm_start_kernel() -> Any:
    """Kernel (problems, knots): the previous plan shifted by `shift` knots, torques as means over the shifted intervals, the tail repeated.

    Without one (negative shift), the measured state at every knot and the torque `seed`. Knot 0 is the row's own predicted state.
    """
    arrays = {"state": 2, "torque": 2, "shift": 1, "seed": 1, "x0": 2, "X": 3, "U": 3}
    types = {name: f"float32 {count}" for name, count in arrays.items()}
    return native_kernel("torque_warm_start", WARM_START, types, indices=("problem", "knot"))


@cache
def linear_kernel() -> Any:
    """Kernel (problems): most linear iterations of each row in this tick."""
    return native_kernel("torque_linear", LINEAR, {"iterations": "int32 2", "linear": "float32 1"}, indices=("problem",))


def outputs_kernel(articulation: Articulation) -> Any:
    """Kernel (knots): state, torque and tool position of the selected row."""
    n = articulation.dof
    trace = rigid_body.start(articulation)
    at = rigid_body.frames(trace)
    results = [(f"tool.data[(size_t)knot * 3 + {r}]", x) for r, x in enumerate(at.tool_translation)]
    text = f"""
constexpr int n = {n};
const int knots = X.shape[1];
const size_t problem = (size_t)selected.data[0];
const float* const x = X.data + (problem * knots + knot) * 2 * n;
{{
{cpp(results, {f"q{i}": f"x[{i}]" for i in range(n)})}
}}
for (int i = 0; i < 2 * n; ++i) state.data[(size_t)knot * 2 * n + i] = x[i];
const size_t row = problem * (knots - 1) + knot;
if (knot < knots - 1) for (int i = 0; i < n; ++i) torque.data[(size_t)knot * n + i] = U.data[row * n + i];
"""
    arrays = {"selected": "int32 1"} | {
        name: f"float32 {count}" for name, count in {"X": 3, "U": 3, "state": 2, "torque": 2, "tool": 2}.items()
    }
    return native_kernel("torque_outputs", text, arrays, indices=("knot",))
