"""C++ text of one knot of the torque form: cost, discrete dynamics and their derivatives, defect.

Unknowns of a knot are x = [q; v] and u; the dynamics x+ = f_h(x, u) are a constraint with defect c = x+ - f_h(x, u).
Continuous dynamics a = M^-1 (u - b(q, v) + J' w) with a world wrench w; its derivatives are taken at that acceleration,
da/dq = -M^-1 dID/dq, da/dv = -M^-1 dID/dv, da/du = M^-1 (Carpentier and Mansard 2018, eq. 4), J' w included in ID.
Integrators are GATO's: Euler, semi-implicit Euler, 'trapezoidal' (constant acceleration over the interval), Runge-Kutta 4.
"""

import dataclasses

from branch_mpc.dynamics import rigid_body
from branch_mpc.dynamics.emit import cpp
from branch_mpc.optimal_control.torque_cost import cost, header
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation

INTEGRATORS = ("euler", "semi_implicit", "trapezoidal", "rk4")
# q+ = q + h v + factor h^2 a for the integrators of one evaluation; v+ = v + h a
POSITION_FACTOR = {"euler": "real(0)", "semi_implicit": "real(1)", "trapezoidal": "real(0.5)"}


def kinematics(articulation: Articulation, dtype: str, *, jacobian: bool) -> str:
    """Block that fills p[3] and, with `jacobian`, J[3][n] at q[n]."""
    trace = rigid_body.start(articulation)
    at = rigid_body.frames(trace)
    outputs = [(f"p[{r}]", x) for r, x in enumerate(at.tool_translation)]
    if jacobian:
        rows = rigid_body.tool_jacobian(trace, at)[:3]
        outputs += [(f"J[{r}][{j}]", x) for r, row in enumerate(rows) for j, x in enumerate(row)]
    loads = {f"q{i}": f"q[{i}]" for i in range(articulation.dof)}
    return f"real p[3]{', J[3][n]' if jacobian else ''};\n{{\n{cpp(outputs, loads, dtype)}\n}}\n"


def acceleration(articulation: Articulation, dtype: str, *, derivatives: bool) -> str:
    """Statements that fill acc[n] at (qs, vs, u) and, with `derivatives`, Mi[n][n] = da/du and G[n][2n] = dID/d(q, v)."""
    n = articulation.dof
    trace = rigid_body.start(articulation)
    at = rigid_body.frames(trace)
    forward = rigid_body.forward_dynamics(trace, at)
    outputs = [(f"acc[{i}]", x) for i, x in enumerate(forward)]
    loads = {f"{name}{i}": f"{array}[{i}]" for name, array in (("q", "qs"), ("v", "vs"), ("u", "u")) for i in range(n)}
    loads |= {f"w{i}": f"wrench[{i}]" for i in range(6)}
    if derivatives:
        inverse = rigid_body.derivatives(trace, forward, trace.torque)
        # inputs made after the nodes of `forward`, and so read after acc is stored
        solved = dataclasses.replace(trace, a=trace.graph.inputs("s", n))
        loads |= {f"s{i}": f"acc[{i}]" for i in range(n)}
        G = rigid_body.derivatives(solved, rigid_body.inverse_dynamics(solved, at), [*trace.q, *trace.v])
        outputs += [(f"Mi[{i}][{j}]", x) for i, row in enumerate(inverse) for j, x in enumerate(row)]
        outputs += [(f"G[{i}][{j}]", x) for i, row in enumerate(G) for j, x in enumerate(row)]
    return f"{{\n{cpp(outputs, loads, dtype)}\n}}\n"


def step(articulation: Articulation, dtype: str, integrator: str) -> str:
    """Statements that fill fq[n], fv[n] = f_h(x, u) from q, v, u; h is `step.data[0]`."""
    dynamics = acceleration(articulation, dtype, derivatives=False)
    begin = "const real h = step.data[0];\nreal fq[n], fv[n], qs[n], vs[n], acc[n];\n"
    if integrator != "rk4":
        text = f"for (int i = 0; i < n; ++i) {{ qs[i] = q[i]; vs[i] = v[i]; }}\n{dynamics}"
        text += f"const real second = {POSITION_FACTOR[integrator]} * h * h;\n"
        return begin + text + "for (int i = 0; i < n; ++i) { fq[i] = q[i] + h * v[i] + second * acc[i]; fv[i] = v[i] + h * acc[i]; }\n"
    return (
        begin
        + f"""
for (int i = 0; i < n; ++i) {{ fq[i] = q[i]; fv[i] = v[i]; vs[i] = real(0); acc[i] = real(0); }}
for (int stage = 0; stage < 4; ++stage) {{
    const real ahead = (stage == 0 ? real(0) : stage == 3 ? real(1) : real(0.5)) * h;
    const real weight = (stage == 0 || stage == 3 ? real(1) : real(2)) / real(6) * h;
    for (int i = 0; i < n; ++i) {{ qs[i] = q[i] + ahead * vs[i]; vs[i] = v[i] + ahead * acc[i]; }}
{dynamics}
    for (int i = 0; i < n; ++i) {{ fq[i] += weight * vs[i]; fv[i] += weight * acc[i]; }}
}}
"""
    )


# D[i][j] = da_i / d(q, v)_j at the present evaluation
SLOPES = """
for (int i = 0; i < n; ++i) for (int j = 0; j < 2 * n; ++j) {
    real sum = real(0);
    for (int l = 0; l < n; ++l) sum += Mi[i][l] * G[l][j];
    D[i][j] = -sum;
}
"""

LINEAR_ONE = """
for (int i = 0; i < n; ++i) {
    for (int j = 0; j < 2 * n; ++j) {
        A[i][j] = second * D[i][j] + (i == j ? real(1) : real(0)) + (j == n + i ? h : real(0));
        A[n + i][j] = h * D[i][j] + (j == n + i ? real(1) : real(0));
    }
    for (int j = 0; j < n; ++j) { B[i][j] = second * Mi[i][j]; B[n + i][j] = h * Mi[i][j]; }
}
"""


def linear_step(articulation: Articulation, dtype: str, integrator: str) -> str:
    """Statements that fill fq, fv, A[2n][2n] = df/dx and B[2n][n] = df/du."""
    dynamics = acceleration(articulation, dtype, derivatives=True)
    begin = "const real h = step.data[0];\nreal fq[n], fv[n], qs[n], vs[n], acc[n];\n"
    begin += "real Mi[n][n], G[n][2 * n], D[n][2 * n], A[2 * n][2 * n], B[2 * n][n];\n"
    if integrator != "rk4":
        text = f"for (int i = 0; i < n; ++i) {{ qs[i] = q[i]; vs[i] = v[i]; }}\n{dynamics}{SLOPES}"
        text += f"const real second = {POSITION_FACTOR[integrator]} * h * h;\n{LINEAR_ONE}"
        return begin + text + "for (int i = 0; i < n; ++i) { fq[i] = q[i] + h * v[i] + second * acc[i]; fv[i] = v[i] + h * acc[i]; }\n"
    # S = d(qs, vs)/d(x, u) of the stage; K = its slope d(vs, acc)/d(x, u), the chain rule through the four stages
    return (
        begin
        + f"""
real S[2 * n][3 * n], K[2 * n][3 * n];
for (int i = 0; i < n; ++i) {{ fq[i] = q[i]; fv[i] = v[i]; vs[i] = real(0); acc[i] = real(0); }}
for (int i = 0; i < 2 * n; ++i) for (int j = 0; j < 3 * n; ++j) {{
    K[i][j] = real(0);
    if (j < 2 * n) A[i][j] = i == j ? real(1) : real(0); else B[i][j - 2 * n] = real(0);
}}
for (int stage = 0; stage < 4; ++stage) {{
    const real ahead = (stage == 0 ? real(0) : stage == 3 ? real(1) : real(0.5)) * h;
    const real weight = (stage == 0 || stage == 3 ? real(1) : real(2)) / real(6) * h;
    for (int i = 0; i < n; ++i) {{ qs[i] = q[i] + ahead * vs[i]; vs[i] = v[i] + ahead * acc[i]; }}
    for (int i = 0; i < 2 * n; ++i) for (int j = 0; j < 3 * n; ++j) S[i][j] = ahead * K[i][j] + (i == j ? real(1) : real(0));
{dynamics}{SLOPES}
    for (int i = 0; i < n; ++i) for (int j = 0; j < 3 * n; ++j) {{
        real sum = j < 2 * n ? real(0) : Mi[i][j - 2 * n];
        for (int l = 0; l < 2 * n; ++l) sum += D[i][l] * S[l][j];
        K[i][j] = S[n + i][j]; K[n + i][j] = sum;
    }}
    for (int i = 0; i < n; ++i) {{ fq[i] += weight * vs[i]; fv[i] += weight * acc[i]; }}
    for (int i = 0; i < 2 * n; ++i) for (int j = 0; j < 3 * n; ++j) {{
        if (j < 2 * n) A[i][j] += weight * K[i][j]; else B[i][j - 2 * n] += weight * K[i][j];
    }}
}}
"""
    )


LOAD = """
if (active.data[problem] == 0) return;
real q[n], v[n], u[n];
const size_t at = (size_t)problem * knots + knot, at_u = (size_t)problem * (knots - 1) + (last ? 0 : knot);
for (int i = 0; i < n; ++i) {
    q[i] = X.data[at * 2 * n + i]; v[i] = X.data[at * 2 * n + n + i];
    u[i] = last ? real(0) : U.data[at_u * n + i];
}
"""

BLOCKS = """
real* const Qk = Q.data + at * n * n; real* const Qik = Qi.data + at * n * n;
real L[n][n], inverse[n][n];
bool positive = true;
for (int j = 0; j < n; ++j) {
    real slope = slope_q[j];
    for (int r = 0; r < 3; ++r) slope += w_tool * J[r][j] * error[r];
    gx.data[at * 2 * n + j] = slope; gx.data[at * 2 * n + n + j] = slope_v[j];
    Qv.data[at * n + j] = curvature_v[j];
    for (int l = 0; l < n; ++l) {
        const real sum = J[0][j] * J[0][l] + J[1][j] * J[1][l] + J[2][j] * J[2][l];
        Qk[j * n + l] = w_tool * sum + (j == l ? curvature_q[j] + rho.data[problem] : real(0));
    }
}
// inverse of Q + rho 1 through its Cholesky factor
for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
        real sum = Qk[i * n + j];
        for (int l = 0; l < j; ++l) sum -= L[i][l] * L[j][l];
        if (i == j) { positive = positive && sum > real(0); L[j][j] = real(1) / wp::sqrt(sum); } else L[i][j] = sum * L[j][j];
    }
}
for (int j = 0; j < n; ++j) for (int i = 0; i < n; ++i) {
    real sum = i == j ? real(1) : real(0);
    for (int l = j; l < i; ++l) sum -= L[i][l] * inverse[l][j];
    inverse[i][j] = i < j ? real(0) : sum * L[i][i];
}
for (int j = 0; j < n; ++j) for (int i = 0; i < n; ++i) {
    real sum = real(0);
    for (int l = (i > j ? i : j); l < n; ++l) sum += inverse[l][i] * inverse[l][j];
    Qik[i * n + j] = sum;
}
costs.data[at] = value;
real defect = real(0);
if (knot == 0) for (int i = 0; i < 2 * n; ++i) {
    const real miss = X.data[at * 2 * n + i] - x0.data[(size_t)problem * 2 * n + i];
    c.data[at * 2 * n + i] = miss; defect += wp::abs(miss);
}
"""

STORE_DYNAMICS = """
    for (int i = 0; i < n; ++i) {
        gu.data[at_u * n + i] = slope_u[i]; R.data[at_u * n + i] = curvature_u[i];
        const real miss_q = X.data[(at + 1) * 2 * n + i] - fq[i], miss_v = X.data[(at + 1) * 2 * n + n + i] - fv[i];
        c.data[(at + 1) * 2 * n + i] = miss_q; c.data[(at + 1) * 2 * n + n + i] = miss_v;
        defect += wp::abs(miss_q) + wp::abs(miss_v);
    }
    for (int i = 0; i < 2 * n; ++i) {
        for (int j = 0; j < 2 * n; ++j) A_out.data[(at_u * 2 * n + i) * 2 * n + j] = A[i][j];
        for (int j = 0; j < n; ++j) B_out.data[(at_u * 2 * n + i) * n + j] = B[i][j];
    }
"""


def terms_body(articulation: Articulation, weights: CostWeights, dtype: str, integrator: str) -> str:
    """Body that writes the KKT blocks of one knot: Q + rho, its inverse, R, gradients, A, B, the defect and the cost."""
    text = header(articulation.dof, dtype) + LOAD
    text += kinematics(articulation, dtype, jacobian=True) + cost(articulation, weights, dtype) + BLOCKS
    text += f"if (!last) {{\n{linear_step(articulation, dtype, integrator)}{STORE_DYNAMICS}}}\n"
    return text + "defects.data[at] = defect;\nif (!positive) failed.data[problem] = 1;\n"


CANDIDATE = """
if (active.data[problem] == 0 || failed.data[problem] != 0) return;
const size_t at = (size_t)problem * knots + knot, at_u = (size_t)problem * (knots - 1) + (last ? 0 : knot);
for (int candidate = first; candidate < end; ++candidate) {
const real alpha = real(1) / real(1 << candidate);
real q[n], v[n], u[n];
for (int i = 0; i < n; ++i) {
    q[i] = X.data[at * 2 * n + i] + alpha * dX.data[at * 2 * n + i];
    v[i] = X.data[at * 2 * n + n + i] + alpha * dX.data[at * 2 * n + n + i];
    u[i] = last ? real(0) : U.data[at_u * n + i] + alpha * dU.data[at_u * n + i];
}
"""

STORE_CANDIDATE = """
    for (int i = 0; i < n; ++i) {
        const size_t next = (at + 1) * 2 * n + i;
        defect += wp::abs(X.data[next] + alpha * dX.data[next] - fq[i]) + wp::abs(X.data[next + n] + alpha * dX.data[next + n] - fv[i]);
    }
"""


def merit_body(articulation: Articulation, weights: CostWeights, dtype: str, integrator: str) -> str:
    """Body that writes cost and L1 defect of one knot for the line-search candidates first..end-1."""
    text = header(articulation.dof, dtype) + CANDIDATE + kinematics(articulation, dtype, jacobian=False)
    text += cost(articulation, weights, dtype) + "real defect = real(0);\n"
    text += "if (knot == 0) for (int i = 0; i < n; ++i)\n"
    text += (
        "    defect += wp::abs(q[i] - x0.data[(size_t)problem * 2 * n + i]) + wp::abs(v[i] - x0.data[(size_t)problem * 2 * n + n + i]);\n"
    )
    text += f"if (!last) {{\n{step(articulation, dtype, integrator)}{STORE_CANDIDATE}}}\n"
    text += "const size_t to = ((size_t)problem * candidates + candidate) * knots + knot;\n"
    return text + "costs.data[to] = value; defects.data[to] = defect;\n}\n"
