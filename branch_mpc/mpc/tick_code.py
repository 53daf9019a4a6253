"""C++ text of the tick's robot-dependent kernels: prediction under each hypothesis, and the published outputs."""

from branch_mpc.dynamics import rigid_body
from branch_mpc.dynamics.emit import CPP_TYPE, cpp
from branch_mpc.optimal_control.lanes import prelude
from branch_mpc.robot.articulation import Articulation

PREDICT = """
constexpr int n = @n, segments = @segments;
int row[L];
for (int s = 0; s < L; ++s) row[s] = group * L + s < problems ? group * L + s : problems - 1;
const int valid = problems - group * L < L ? problems - group * L : L;
real wrench[6];
for (int s = 0; s < L; ++s) for (int r = 0; r < 6; ++r) set(wrench[r], s, wrenches.data[(size_t)row[s] * 6 + r]);
for (int phase = 0; phase < 2; ++phase) {
    real q0[n], v0[n], q[n], v[n], a[n];
    const number* from = states.data + phase * 2 * n;
    for (int i = 0; i < n; ++i) { q0[i] = real(from[i]); v0[i] = real(from[n + i]); a[i] = real(0); }
    for (int s = 0; s < segments; ++s) {
        const number length = durations.data[phase * segments + s];
        const number* torque = torques.data + (size_t)(phase * segments + s) * n;
        const int count = (int)(length / number(@substep) + number(0.999));
        for (int k = 0; k < 2 * count; ++k) {
            const number h = length / number(count);
            const bool middle = k & 1;  // even passes evaluate the slope at the start, odd ones at the midpoint
            for (int i = 0; i < n; ++i) {
                q[i] = middle ? q0[i] + number(0.5) * h * v0[i] : q0[i];
                v[i] = middle ? v0[i] + number(0.5) * h * a[i] : v0[i];
            }
            {
@dynamics
            }
            if (middle) for (int i = 0; i < n; ++i) { q0[i] += h * v[i]; v0[i] += h * a[i]; }
        }
    }
    if (phase == 0) {
        real score = real(0);
        for (int i = 0; i < n; ++i) {
            const real miss = (v0[i] - states.data[3 * n + i]) * scale.data[i];
            score += miss * miss;
        }
        for (int s = 0; s < valid; ++s) scores.data[row[s]] = get(score, s);
    } else {
        for (int s = 0; s < valid; ++s) {
            number* x = x0.data + (size_t)row[s] * 2 * n;
            for (int i = 0; i < n; ++i) { x[i] = get(q0[i], s); x[n + i] = get(v0[i], s); }
        }
    }
}
"""


def predict_body(articulation: Articulation, dtype: str, segments: int, substep: float, lanes: int = 1) -> str:
    """Body that rolls a group of rows forward twice under their own wrenches, by midpoint (RK2) steps of forward dynamics.

    First from the previous measurement to the present one, which scores the hypotheses; then from the present
    measurement to the time at which the new command takes effect, which compensates the delay. Rows differ in their
    wrench alone, so their loops run in step and a group fills the SIMD lanes.
    """
    n = articulation.dof
    trace = rigid_body.start(articulation)
    acceleration = rigid_body.forward_dynamics(trace, rigid_body.frames(trace))
    loads = {f"q{i}": f"q[{i}]" for i in range(n)} | {f"v{i}": f"v[{i}]" for i in range(n)}
    loads |= {f"u{i}": f"real(torque[{i}])" for i in range(n)} | {f"w{i}": f"wrench[{i}]" for i in range(6)}
    dynamics = cpp([(f"a[{i}]", x) for i, x in enumerate(acceleration)], loads, dtype, kind="real", call="lane_{function}({x})")
    body = PREDICT.replace("@n", str(n)).replace("@segments", str(segments)).replace("@substep", repr(substep))
    return prelude(lanes, dtype) + body.replace("@dynamics", dynamics)


def outputs_body(articulation: Articulation, dtype: str) -> str:
    """Body that writes state, torque and tool position of one knot of the selected row."""
    n, real = articulation.dof, CPP_TYPE[dtype]
    trace = rigid_body.start(articulation)
    at = rigid_body.frames(trace)
    results = [(f"p[{r}]", x) for r, x in enumerate(at.tool_translation)]
    results += [(f"tau[{i}]", x) for i, x in enumerate(rigid_body.inverse_dynamics(trace, at))]
    loads = {f"q{i}": f"x[{i}]" for i in range(n)} | {f"v{i}": f"x[{n + i}]" for i in range(n)}
    loads |= {f"a{i}": f"acceleration[{i}]" for i in range(n)} | {f"w{i}": f"wrench[{i}]" for i in range(6)}
    return f"""
using real = {real};
constexpr int n = {n};
const bool last = knot == knots - 1;
const size_t problem = (size_t)selected.data[0];
const real* x = X.data + (problem * knots + knot) * 2 * n;
const real* acceleration = A.data + (problem * (knots - 1) + (last ? knot - 1 : knot)) * n;
const real* wrench = wrenches.data + problem * 6;
real tau[n], p[3];
{{
{cpp(results, loads, dtype)}
}}
for (int i = 0; i < 2 * n; ++i) state.data[(size_t)knot * 2 * n + i] = x[i];
for (int r = 0; r < 3; ++r) tool.data[(size_t)knot * 3 + r] = p[r];
if (!last) for (int i = 0; i < n; ++i) torque_out.data[(size_t)knot * n + i] = tau[i];
"""
