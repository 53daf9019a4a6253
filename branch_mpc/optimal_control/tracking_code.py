"""C++ text of one group of knots of the tracking problem: cost, gradient, Gauss-Newton Hessian.

The text is the body of a Warp native function, the same for CPU and CUDA. It is straight-line inside the
robot's dynamics (traced, constants folded) and loops with fixed bounds around it. A group is L consecutive
(problem, knot) pairs, one per SIMD lane; L = 1 where there are no lanes (see `lanes`).

Objective (GATO's, see `weights.CostWeights`), in the acceleration form: the unknowns of a knot are
z = [q; v; a] and the torque is u = ID(q, v, a, w), so with G = du/dz and J = dp/dq

    gradient = G' (w_u u + phi'_u) + [w_k J' e + w_post (q - q_nom) + phi'_q; w_v v + phi'_v; 0]
    Hessian  = G' (w_u + phi''_u) G + blockdiag(w_k J' J + w_post + phi''_q, w_v + phi''_v, 0).

phi is the relaxed log barrier (Hauser and Saccon 2006): -log d down to d = RELAXATION from the limit, below
that a quadratic with the same value, slope and curvature; inside it equals GATO's barrier, outside it stays
convex where GATO's gradient changes sign.
"""

import numpy as np

from branch_mpc.dynamics import rigid_body
from branch_mpc.dynamics.emit import cpp
from branch_mpc.optimal_control.lanes import prelude
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation

RELAXATION = 1e-3  # rad, rad/s or Nm: far inside the margins, so that the barrier is GATO's wherever GATO's is valid
WEIGHT_COUNT = 8


def weight_vector(weights: CostWeights) -> np.ndarray:
    """Return the weights in the order the kernels read them, shape (8,)."""
    costs = ("tool_position", "tool_position_terminal", "velocity", "torque", "posture")
    names = (*costs, "position_barrier", "velocity_barrier", "torque_barrier")
    return np.array([getattr(weights, name) for name in names])


HEADER = """
constexpr int n = @n;
// adds one side of a relaxed log barrier at distance d: `product` collects exp(-phi) of the log part
auto barrier = [](real d, number sign, real& product, real& extra, real& slope, real& curvature) {
    constexpr number delta = number(@delta);
    const auto inside = d > delta;
    const real near = inside ? d : real(delta);
    const real r = number(1) / near;
    const real s = (d - number(2) * delta) / delta;  // slope of the parabola times delta
    product *= near;
    extra += inside ? real(0) : number(0.5) * (s * s - number(1));
    slope -= sign * (inside ? r : -s / delta);
    curvature += r * r;
};
const int count = problems * knots;
int index[L], knot[L], problem[L];
real w_tool, w_u, b_u;
for (int s = 0; s < L; ++s) {
    index[s] = group * L + s < count ? group * L + s : count - 1;
    problem[s] = index[s] / knots;
    knot[s] = index[s] - problem[s] * knots;
    const bool last = knot[s] == knots - 1;
    set(w_tool, s, last ? weights.data[1] : weights.data[0]);
    set(w_u, s, last ? number(0) : weights.data[3]);
    set(b_u, s, last ? number(0) : weights.data[7]);
}
const int valid = count - group * L < L ? count - group * L : L;
const number w_v = weights.data[2], w_post = weights.data[4], b_q = weights.data[5], b_v = weights.data[6];
const bool torque_barrier = weights.data[7] > number(0);
real goal[3], wrench[6];
for (int s = 0; s < L; ++s) {
    for (int r = 0; r < 3; ++r) set(goal[r], s, targets.data[(size_t)knot[s] * 3 + r]);
    for (int r = 0; r < 6; ++r) set(wrench[r], s, wrenches.data[(size_t)problem[s] * 6 + r]);
}
"""


def header(n: int, lanes: int, dtype: str) -> str:
    """Constants, the barrier, and which knot each lane of group `group` works on; lanes past the end repeat the last knot."""
    return prelude(lanes, dtype) + HEADER.replace("@n", str(n)).replace("@delta", repr(RELAXATION))


def state_loads(n: int) -> dict[str, str]:
    """C++ expressions of the inputs of the dynamics: local arrays q, v, a and the wrench."""
    return {f"{name}{i}": f"{name}[{i}]" for name in ("q", "v", "a") for i in range(n)} | {f"w{i}": f"wrench[{i}]" for i in range(6)}


def dynamics(articulation: Articulation, dtype: str, *, derivatives: bool) -> str:
    """Block that fills tau[n], p[3] and, with derivatives, G[n][3n] and J[3][n]."""
    n = articulation.dof
    trace = rigid_body.start(articulation)
    at = rigid_body.frames(trace)
    torque = rigid_body.inverse_dynamics(trace, at)
    outputs = [(f"p[{r}]", x) for r, x in enumerate(at.tool_translation)] + [(f"tau[{i}]", x) for i, x in enumerate(torque)]
    declarations = "real tau[n], p[3];"
    if derivatives:
        declarations += " real G[n][3 * n], J[3][n];"
        G = rigid_body.derivatives(trace, torque, [*trace.q, *trace.v, *trace.a])
        J = rigid_body.tool_jacobian(trace, at)[:3]
        outputs += [(f"J[{r}][{j}]", x) for r, row in enumerate(J) for j, x in enumerate(row)]
        outputs += [(f"G[{i}][{j}]", x) for i, row in enumerate(G) for j, x in enumerate(row)]
    text = cpp(outputs, state_loads(n), dtype, kind="real", call="lane_{function}({x})")
    return f"{declarations}\n{{\n{text}\n}}\n"


def cost(articulation: Articulation, weights: CostWeights, dtype: str) -> str:
    """Block that turns q, v, tau, p into `value`, and slope_*/curvature_* of the barriers and the torque."""
    lower = {"q": articulation.position_lower + weights.position_margin, "v": weights.velocity_margin - articulation.velocity_limit}
    upper = {"q": articulation.position_upper - weights.position_margin, "v": articulation.velocity_limit - weights.velocity_margin}
    lower["tau"], upper["tau"] = weights.torque_margin - articulation.effort_limit, articulation.effort_limit - weights.torque_margin
    lines = [
        "const real error[3] = {p[0] - goal[0], p[1] - goal[1], p[2] - goal[2]};",
        "real value = number(0.5) * w_tool * (error[0] * error[0] + error[1] * error[1] + error[2] * error[2]);",
        "real slope_q[n], slope_v[n], slope_u[n], curvature_q[n], curvature_v[n], curvature_u[n];",
        "for (int i = 0; i < n; ++i) {",
        "    const real away = q[i] - nominal.data[i];",
        "    slope_q[i] = w_post * away; slope_v[i] = w_v * v[i]; slope_u[i] = w_u * tau[i];",
        "    curvature_q[i] = real(w_post); curvature_v[i] = real(w_v); curvature_u[i] = w_u;",
        "    value += number(0.5) * (w_post * away * away + w_v * v[i] * v[i] + w_u * tau[i] * tau[i]);",
        "}",
    ]
    barriers = (("q", "b_q", "b_q > number(0)", "q"), ("v", "b_v", "b_v > number(0)", "v"), ("tau", "b_u", "torque_barrier", "u"))
    for quantity, weight, used, target in barriers:
        lines += _barriers(quantity, weight, used, target, lower[quantity], upper[quantity], dtype)
    return "\n".join(lines) + "\n"


def _barriers(quantity: str, weight: str, used: str, target: str, lower: np.ndarray, upper: np.ndarray, dtype: str) -> list[str]:
    """Barrier lines of one quantity; four joints share a logarithm, whose argument then stays inside float32's range."""
    joints = [i for i in range(len(lower)) if np.isfinite(lower[i]) or np.isfinite(upper[i])]
    if not joints:
        return []
    suffix = "f" if dtype == "float32" else ""
    lines = [f"if ({used}) {{"]
    for first in range(0, len(joints), 4):
        lines.append("    { real product = real(1), extra = real(0);")
        for i in joints[first : first + 4]:
            lines.append("    { real slope = real(0), curvature = real(0);")
            for bound, sign, distance in ((lower[i], "number(1)", "{x} - ({b})"), (upper[i], "number(-1)", "({b}) - {x}")):
                if np.isfinite(bound):
                    away = distance.format(x=f"{quantity}[{i}]", b=f"{float(bound)!r}{suffix}")
                    lines.append(f"    barrier({away}, {sign}, product, extra, slope, curvature);")
            lines.append(f"    slope_{target}[{i}] += {weight} * slope; curvature_{target}[{i}] += {weight} * curvature; }}")
        lines.append(f"    value += {weight} * (extra - lane_log(product)); }}")
    return [*lines, "}"]


ASSEMBLE = """
number* h[L];
number* gradient[L];
for (int s = 0; s < L; ++s) { h[s] = H.data + (size_t)index[s] * 9 * n * n; gradient[s] = g.data + (size_t)index[s] * 3 * n; }
for (int j = 0; j < 3 * n; ++j) {
    // One knot: a whole row, because a loop of fixed length is what the compiler turns into vector code. Lanes: the lower half.
    const int length = L == 1 ? 3 * n : j + 1;
    real row[3 * n];
    real slope = real(0), weighted[n];
    for (int i = 0; i < n; ++i) { weighted[i] = curvature_u[i] * G[i][j]; slope += slope_u[i] * G[i][j]; }
    for (int l = 0; l < length; ++l) {
        real sum = weighted[0] * G[0][l];
        for (int i = 1; i < n; ++i) sum += weighted[i] * G[i][l];
        row[l] = sum;
    }
    if (j < n) {
        for (int r = 0; r < 3; ++r) {
            const real t = w_tool * J[r][j];
            slope += t * error[r];
            for (int l = 0; l < (L == 1 ? n : j + 1); ++l) row[l] += t * J[r][l];
        }
        slope += slope_q[j];
        row[j] += curvature_q[j];
    } else if (j < 2 * n) {
        slope += slope_v[j - n];
        row[j] += curvature_v[j - n];
    }
    for (int s = 0; s < valid; ++s) {
        gradient[s][j] = get(slope, s);
        for (int l = 0; l < length; ++l) h[s][j * 3 * n + l] = get(row[l], s);
    }
}
for (int s = 0; s < valid; ++s) costs.data[index[s]] = get(value, s);
"""

LOAD_ITERATE = """
real q[n], v[n], a[n];
for (int s = 0; s < L; ++s) {
    const bool last = knot[s] == knots - 1;
    const number* x = X.data + (size_t)index[s] * 2 * n;
    const number* acceleration = A.data + ((size_t)problem[s] * (knots - 1) + (last ? 0 : knot[s])) * n;
    for (int i = 0; i < n; ++i) { set(q[i], s, x[i]); set(v[i], s, x[n + i]); set(a[i], s, last ? number(0) : acceleration[i]); }
}
"""

LOAD_CANDIDATE = """
bool wanted = false;
for (int s = 0; s < L; ++s) wanted = wanted || pending.data[problem[s]] != 0;
if (!wanted) return;
real q[n], v[n], a[n];
for (int s = 0; s < L; ++s) {
    const bool last = knot[s] == knots - 1;
    const size_t at = (size_t)index[s] * 2 * n, at_a = ((size_t)problem[s] * (knots - 1) + (last ? 0 : knot[s])) * n;
    const number* x = X.data + at; const number* dx = dX.data + at;
    const number* acceleration = A.data + at_a; const number* da = dA.data + at_a;
    for (int i = 0; i < n; ++i) {
        set(q[i], s, x[i] + alpha * dx[i]);
        set(v[i], s, x[n + i] + alpha * dx[n + i]);
        set(a[i], s, last ? number(0) : acceleration[i] + alpha * da[i]);
    }
}
"""

STORE_CANDIDATE = """
for (int s = 0; s < valid; ++s) {
    if (pending.data[problem[s]] != 0) costs.data[((size_t)problem[s] * candidates + candidate) * knots + knot[s]] = get(value, s);
}
"""


def terms_body(articulation: Articulation, weights: CostWeights, dtype: str = "float32", lanes: int = 1) -> str:
    """Body that writes H, g and the cost of a group of knots."""
    start = header(articulation.dof, lanes, dtype) + LOAD_ITERATE
    return start + dynamics(articulation, dtype, derivatives=True) + cost(articulation, weights, dtype) + ASSEMBLE


def merit_body(articulation: Articulation, weights: CostWeights, dtype: str = "float32", lanes: int = 1) -> str:
    """Body that writes the cost of a group of knots at one line-search candidate."""
    start = header(articulation.dof, lanes, dtype) + LOAD_CANDIDATE
    return start + dynamics(articulation, dtype, derivatives=False) + cost(articulation, weights, dtype) + STORE_CANDIDATE
