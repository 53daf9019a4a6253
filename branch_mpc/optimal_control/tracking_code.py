"""C++ text of one knot of the tracking problem: cost, gradient, Gauss-Newton Hessian.

The text is the body of a Warp native function, the same for CPU and CUDA. It is straight-line inside the
robot's dynamics (traced, constants folded) and loops with fixed bounds around it.

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
from branch_mpc.dynamics.emit import CPP_TYPE, cpp
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation

RELAXATION = 1e-3  # rad, rad/s or Nm: far inside the margins, so that the barrier is GATO's wherever GATO's is valid
WEIGHT_COUNT = 8


def weight_vector(weights: CostWeights) -> np.ndarray:
    """Return the weights in the order the kernels read them, shape (8,), float32."""
    costs = ("tool_position", "tool_position_terminal", "velocity", "torque", "posture")
    names = (*costs, "position_barrier", "velocity_barrier", "torque_barrier")
    return np.array([getattr(weights, name) for name in names])


def header(n: int, dtype: str) -> str:
    """Constants and the barrier of every body below."""
    real = CPP_TYPE[dtype]
    return f"""
using real = {real};
constexpr int n = {n};
const bool last = knot == knots - 1;
// adds one side of a relaxed log barrier at distance d: `product` collects exp(-phi) of the log part
auto barrier = [](real d, real sign, real& product, real& extra, real& slope, real& curvature) {{
    constexpr real delta = real({RELAXATION!r});
    if (d > delta) {{
        const real r = real(1) / d;
        product *= d; slope -= sign * r; curvature += r * r;
    }} else {{
        const real r = (d - real(2) * delta) / delta;
        product *= delta; extra += real(0.5) * (r * r - real(1)); slope += sign * r / delta; curvature += real(1) / (delta * delta);
    }}
}};
const real w_tool = last ? weights.data[1] : weights.data[0], w_v = weights.data[2], w_u = last ? real(0) : weights.data[3];
const real w_post = weights.data[4], b_q = weights.data[5], b_v = weights.data[6], b_u = last ? real(0) : weights.data[7];
const real* goal = targets.data + (size_t)knot * 3;
const real* wrench = wrenches.data + (size_t)problem * 6;
"""


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
    return f"{declarations}\n{{\n{cpp(outputs, state_loads(n), dtype)}\n}}\n"


def cost(articulation: Articulation, weights: CostWeights, dtype: str) -> str:
    """Block that turns q, v, tau, p into `value`, and slope_*/curvature_* of the barriers and the torque."""
    real = CPP_TYPE[dtype]
    lower = {"q": articulation.position_lower + weights.position_margin, "v": weights.velocity_margin - articulation.velocity_limit}
    upper = {"q": articulation.position_upper - weights.position_margin, "v": articulation.velocity_limit - weights.velocity_margin}
    lower["tau"], upper["tau"] = weights.torque_margin - articulation.effort_limit, articulation.effort_limit - weights.torque_margin
    lines = [
        f"const {real} error[3] = {{p[0] - goal[0], p[1] - goal[1], p[2] - goal[2]}};",
        "real value = real(0.5) * w_tool * (error[0] * error[0] + error[1] * error[1] + error[2] * error[2]);",
        "real slope_q[n], slope_v[n], slope_u[n], curvature_q[n], curvature_v[n], curvature_u[n];",
        "for (int i = 0; i < n; ++i) {",
        "    const real away = q[i] - nominal.data[i];",
        "    slope_q[i] = w_post * away; slope_v[i] = w_v * v[i]; slope_u[i] = w_u * tau[i];",
        "    curvature_q[i] = w_post; curvature_v[i] = w_v; curvature_u[i] = w_u;",
        "    value += real(0.5) * (w_post * away * away + w_v * v[i] * v[i] + w_u * tau[i] * tau[i]);",
        "}",
    ]
    for quantity, weight, target in (("q", "b_q", "q"), ("v", "b_v", "v"), ("tau", "b_u", "u")):
        lines += _barriers(quantity, weight, target, lower[quantity], upper[quantity], dtype)
    return "\n".join(lines) + "\n"


def _barriers(quantity: str, weight: str, target: str, lower: np.ndarray, upper: np.ndarray, dtype: str) -> list[str]:
    """Barrier lines of one quantity; four joints share a logarithm, whose argument then stays inside float32's range."""
    joints = [i for i in range(len(lower)) if np.isfinite(lower[i]) or np.isfinite(upper[i])]
    if not joints:
        return []
    suffix = "f" if dtype == "float32" else ""
    lines = [f"if ({weight} > real(0)) {{"]
    for first in range(0, len(joints), 4):
        lines.append("    { real product = real(1), extra = real(0);")
        for i in joints[first : first + 4]:
            lines.append("    { real slope = real(0), curvature = real(0);")
            for bound, sign, distance in ((lower[i], "real(1)", "{x} - ({b})"), (upper[i], "real(-1)", "({b}) - {x}")):
                if np.isfinite(bound):
                    away = distance.format(x=f"{quantity}[{i}]", b=f"{float(bound)!r}{suffix}")
                    lines.append(f"    barrier({away}, {sign}, product, extra, slope, curvature);")
            lines.append(f"    slope_{target}[{i}] += {weight} * slope; curvature_{target}[{i}] += {weight} * curvature; }}")
        lines.append(f"    value += {weight} * (extra - wp::log(product)); }}")
    return [*lines, "}"]


ASSEMBLE = """
real* h = H.data + ((size_t)problem * knots + knot) * 9 * n * n;
real* gradient = g.data + ((size_t)problem * knots + knot) * 3 * n;
for (int j = 0; j < 3 * n; ++j) {
    // a whole row, not its lower half: the loop over a fixed length is what the compiler turns into vector code
    real row[3 * n] = {};
    real slope = real(0);
    for (int i = 0; i < n; ++i) {
        const real t = curvature_u[i] * G[i][j];
        slope += slope_u[i] * G[i][j];
        for (int l = 0; l < 3 * n; ++l) row[l] += t * G[i][l];
    }
    if (j < n) {
        for (int r = 0; r < 3; ++r) {
            const real t = w_tool * J[r][j];
            slope += t * error[r];
            for (int l = 0; l < n; ++l) row[l] += t * J[r][l];
        }
        slope += slope_q[j];
        row[j] += curvature_q[j];
    } else if (j < 2 * n) {
        slope += slope_v[j - n];
        row[j] += curvature_v[j - n];
    }
    gradient[j] = slope;
    for (int l = 0; l < 3 * n; ++l) h[j * 3 * n + l] = row[l];
}
costs.data[(size_t)problem * knots + knot] = value;
"""

LOAD_ITERATE = """
real q[n], v[n], a[n];
{
    const real* x = X.data + ((size_t)problem * knots + knot) * 2 * n;
    const real* acceleration = A.data + ((size_t)problem * (knots - 1) + (last ? 0 : knot)) * n;
    for (int i = 0; i < n; ++i) { q[i] = x[i]; v[i] = x[n + i]; a[i] = last ? real(0) : acceleration[i]; }
}
"""

LOAD_CANDIDATE = """
real q[n], v[n], a[n];
{
    const size_t at = ((size_t)problem * knots + knot) * 2 * n, at_a = ((size_t)problem * (knots - 1) + (last ? 0 : knot)) * n;
    const real* x = X.data + at; const real* dx = dX.data + at;
    const real* acceleration = A.data + at_a; const real* da = dA.data + at_a;
    for (int i = 0; i < n; ++i) {
        q[i] = x[i] + alpha * dx[i]; v[i] = x[n + i] + alpha * dx[n + i];
        a[i] = last ? real(0) : acceleration[i] + alpha * da[i];
    }
}
"""

STORE_CANDIDATE = """
costs.data[((size_t)problem * candidates + candidate) * knots + knot] = value;
"""


def terms_body(articulation: Articulation, weights: CostWeights, dtype: str = "float32") -> str:
    """Body that writes H, g and the cost of one knot of one problem."""
    start = header(articulation.dof, dtype) + LOAD_ITERATE
    return start + dynamics(articulation, dtype, derivatives=True) + cost(articulation, weights, dtype) + ASSEMBLE


def merit_body(articulation: Articulation, weights: CostWeights, dtype: str = "float32") -> str:
    """Body that writes the cost of one knot of one line-search candidate."""
    start = header(articulation.dof, dtype) + LOAD_CANDIDATE
    return start + dynamics(articulation, dtype, derivatives=False) + cost(articulation, weights, dtype) + STORE_CANDIDATE
