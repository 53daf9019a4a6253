"""C++ text of the stage cost of one knot of the torque form, one thread a knot: value, slopes and curvatures.

The objective is that of CostWeights. Barriers are relaxed log barriers (Hauser and Saccon 2006): -log d down to
d = RELAXATION from the limit, then the parabola with the same value, slope and curvature.
"""

import numpy as np

from branch_mpc.dynamics.emit import CPP_TYPE
from branch_mpc.optimal_control.tracking_code import RELAXATION
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation

HEADER = """
using real = @real;
constexpr int n = @n;
const bool last = knot == knots - 1;
// adds one side of the barrier at distance d: `product` collects the arguments of the logarithms
auto barrier = [](real d, real sign, real& product, real& extra, real& slope, real& curvature) {
    constexpr real delta = real(@delta);
    if (d > delta) {
        const real r = real(1) / d;
        product *= d; slope -= sign * r; curvature += r * r;
    } else {
        const real r = (d - real(2) * delta) / delta;
        product *= delta; extra += real(0.5) * (r * r - real(1)); slope += sign * r / delta; curvature += real(1) / (delta * delta);
    }
};
const real w_tool = last ? weights.data[1] : weights.data[0], w_v = weights.data[2], w_u = last ? real(0) : weights.data[3];
const real w_post = weights.data[4], b_q = weights.data[5], b_v = weights.data[6], b_u = last ? real(0) : weights.data[7];
const real* const goal = targets.data + (size_t)knot * 3;
const real* const wrench = wrenches.data + (size_t)problem * 6;
"""

QUADRATIC = """
const real error[3] = {p[0] - goal[0], p[1] - goal[1], p[2] - goal[2]};
real value = real(0.5) * w_tool * (error[0] * error[0] + error[1] * error[1] + error[2] * error[2]);
real slope_q[n], slope_v[n], slope_u[n], curvature_q[n], curvature_v[n], curvature_u[n];
for (int i = 0; i < n; ++i) {
    const real away = q[i] - nominal.data[i];
    slope_q[i] = w_post * away; slope_v[i] = w_v * v[i]; slope_u[i] = w_u * u[i];
    curvature_q[i] = w_post; curvature_v[i] = w_v; curvature_u[i] = w_u;
    value += real(0.5) * (w_post * away * away + w_v * v[i] * v[i] + w_u * u[i] * u[i]);
}
"""


def header(n: int, dtype: str) -> str:
    """Types, weights and the barrier; the body has `problem`, `knot`, `knots` and the arrays of the problem."""
    return HEADER.replace("@real", CPP_TYPE[dtype]).replace("@n", str(n)).replace("@delta", repr(RELAXATION))


def cost(articulation: Articulation, weights: CostWeights, dtype: str) -> str:
    """Statements that turn q, v, u and p into `error`, `value`, and slope_* and curvature_* of q, v and u."""
    speed, effort = articulation.velocity_limit - weights.velocity_margin, articulation.effort_limit - weights.torque_margin
    position = articulation.position_lower + weights.position_margin, articulation.position_upper - weights.position_margin
    text = QUADRATIC
    for name, (lower, upper) in {"q": position, "v": (-speed, speed), "u": (-effort, effort)}.items():
        text += _barriers(name, lower, upper, dtype)
    return text


def _barriers(name: str, lower: np.ndarray, upper: np.ndarray, dtype: str) -> str:
    """Barriers of one quantity; four joints share a logarithm, whose argument then stays inside float32's range."""
    joints = [i for i in range(len(lower)) if np.isfinite(lower[i]) or np.isfinite(upper[i])]
    suffix = "f" if dtype == "float32" else ""
    text = f"if (b_{name} > real(0)) {{\n"
    for first in range(0, len(joints), 4):
        text += "{ real product = real(1), extra = real(0);\n"
        for i in joints[first : first + 4]:
            text += "{ real slope = real(0), curvature = real(0);\n"
            for bound, sign, distance in ((lower[i], 1, "{x} - ({b})"), (upper[i], -1, "({b}) - {x}")):
                if np.isfinite(bound):
                    away = distance.format(x=f"{name}[{i}]", b=f"{float(bound)!r}{suffix}")
                    text += f"barrier({away}, real({sign}), product, extra, slope, curvature);\n"
            text += f"slope_{name}[{i}] += b_{name} * slope; curvature_{name}[{i}] += b_{name} * curvature; }}\n"
        text += f"value += b_{name} * (extra - wp::log(product)); }}\n"
    return text + "}\n"
