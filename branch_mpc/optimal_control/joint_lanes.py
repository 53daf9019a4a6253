"""C++ text of the knot function that gives every joint of a serial arm a lane: cost, and with derivatives gradient and Hessian.

Eight lanes a knot, four knots a warp, lane = joint (n <= 8); nothing is generated for a robot, its constants come from a table
(`joint_table`). World-frame inverse dynamics and its analytical derivatives:

    scans over the chain by shuffles of width 8: prefix product of the link transforms (3 steps), prefix sums of velocity and
    acceleration, suffix sums of 27 numbers (force 6, inertia 6, first moment 3, Coriolis block 9, momentum 3);
    S, Psid = v x S, Psidd = a x S + v x Psid of every joint are shared with the group, and each lane forms its column of dtau/dq,
    dtau/dv, dtau/da (upper part) and its row (lower part) by dot products with them.

The Coriolis matrix needs 12 numbers in the world frame: 2 B a = 2 [w^ (J - tr J / 2) + (h . u) 1 - u h'] a in the angular block,
2 a x F in the force row; the other two blocks vanish.

World wrench (force f, moment m) at the tool p_e: tau_j -= z_j . m + j_j . f with j the tool's Jacobian, and

    d/dq_i:   z_j . (f x j_i)   for i >= j,      z_i . (m x z_j + f x j_j)   for i < j (z of a prismatic joint is zero).

Shared memory a knot: G by column (n torque rows and 3 tool rows, 12 numbers a column) and H; registers about 80 with derivatives,
60 without; 1,900 instructions a warp with derivatives (n = 6).

Source: Singh, Russell, Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra" (2022);
Featherstone, Rigid Body Dynamics Algorithms (2008), chapters 2 and 5; objective as in `tracking_code`.
"""

from branch_mpc.optimal_control.tracking_code import RELAXATION

G_STRIDE = 12  # numbers of a column of G: up to 8 torques and 3 of the tool; whole 16-byte words


def scratch_size(n: int) -> int:
    """Numbers of shared memory that a knot with derivatives needs beside its H and g."""
    return 3 * n * G_STRIDE


HELPERS = """
constexpr int n = @n;
const int j = lane & 7, jj = j < n ? j : 0;
const bool on = j < n;
struct V3 {
    real x, y, z;
    CUDA_CALLABLE V3 operator+(const V3& b) const { return V3{x + b.x, y + b.y, z + b.z}; }
    CUDA_CALLABLE V3 operator-(const V3& b) const { return V3{x - b.x, y - b.y, z - b.z}; }
    CUDA_CALLABLE V3 operator*(real s) const { return V3{s * x, s * y, s * z}; }
};
struct S6 { real xx, xy, xz, yy, yz, zz; };
auto cross = [](const V3& a, const V3& b) -> V3 { return V3{a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; };
auto dot3 = [](const V3& a, const V3& b) -> real { return a.x * b.x + a.y * b.y + a.z * b.z; };
auto times = [](const S6& s, const V3& a) -> V3 {
    return V3{s.xx * a.x + s.xy * a.y + s.xz * a.z, s.xy * a.x + s.yy * a.y + s.yz * a.z, s.xz * a.x + s.yz * a.y + s.zz * a.z};
};
auto turned = [](const real* R, const V3& a) -> V3 {
    return V3{R[0] * a.x + R[1] * a.y + R[2] * a.z, R[3] * a.x + R[4] * a.y + R[5] * a.z, R[6] * a.x + R[7] * a.y + R[8] * a.z};
};
auto prefix_sum = [&](auto& x) {
    WP_PRAGMA_UNROLL
    for (int o = 1; o < 8; o *= 2) {
        WP_PRAGMA_UNROLL
        for (int c = 0; c < (int)(sizeof(x) / sizeof(real)); ++c) { const real t = up(x[c], o); if (j >= o) x[c] += t; }
    }
};
auto suffix_sum = [&](auto& x) {
    WP_PRAGMA_UNROLL
    for (int o = 1; o < 8; o *= 2) {
        WP_PRAGMA_UNROLL
        for (int c = 0; c < (int)(sizeof(x) / sizeof(real)); ++c) { const real t = down(x[c], o); if (j + o < 8) x[c] += t; }
    }
};
auto group_sum = [&](real x) -> real {
    WP_PRAGMA_UNROLL
    for (int o = 1; o < 8; o *= 2) x += shuffle(x, lane ^ o);
    return x;
};
// Cody and Waite (1980) and minimax polynomials: 1e-7 for |x| < 100, no slow path and no stack
auto sine_cosine = [](real x, real& s, real& c) {
    const real k = rintf(x * real(0.63661977236758));
    const int quarter = (int)k;
    real r = x - k * real(1.5703125);
    r = r - k * real(4.837512969970703e-4);
    r = r - k * real(7.54978995489188216e-8);
    const real z = r * r;
    const real sp = ((real(-1.9515295891e-4) * z + real(8.3321608736e-3)) * z + real(-1.6666654611e-1)) * z * r + r;
    const real cp = ((real(2.443315711809948e-5) * z + real(-1.388731625493765e-3)) * z + real(4.166664568298827e-2)) * (z * z)
        + (real(1) - real(0.5) * z);
    s = quarter & 1 ? cp : sp;
    c = quarter & 1 ? sp : cp;
    if (quarter & 2) s = -s;
    if ((quarter + 1) & 2) c = -c;
};
// one side of the relaxed log barrier of `tracking_code`; a bound at UNBOUNDED is none
auto barrier = [&](real d, real sign, real& product, real& extra, real& slope, real& curvature) {
    constexpr real delta = real(@delta);
    const bool far = d > real(1e29), inside = d > delta;
    const real near = far ? real(1) : inside ? d : delta;
    const real r = far ? real(0) : reciprocal(near), s = (d - 2 * delta) * (1 / delta);
    product *= near;
    extra += inside ? real(0) : real(0.5) * (s * s - 1);
    slope -= sign * (inside ? r : -s * (1 / delta));
    curvature += r * r;
};
"""

# A joint's constants stay in registers; the rest is read where it is used.
TABLE_READ = """
const Four* const rows = (const Four*)table.data + j;
const Four t0 = rows[0], t1 = rows[8], t2 = rows[16], t3 = rows[24], t4 = rows[32];
const Four t5 = rows[40], t6 = rows[48], t7 = rows[56], t8 = rows[64];
const real Rt[9] = {t0.x, t0.y, t0.z, t0.w, t1.x, t1.y, t1.z, t1.w, t2.x};
const V3 place = {t2.y, t2.z, t2.w}, center = {t3.y, t3.z, t3.w}, tool_offset = {t7.x, t7.y, t7.z}, gravity = {t8.x, t8.y, t8.z};
const S6 inertia = {t4.x, t4.y, t4.z, t4.w, t5.x, t5.y};
const real mass = t3.x, lower = t5.z, upper = t5.w, mass_beyond = t6.x, revolute = t6.y, speed_limit = t6.z, effort_limit = t6.w;
const int tool = (int)t7.w;
"""

WEIGHTS_READ = """
const real w_v = weights.data[2], w_post = weights.data[4], b_q = weights.data[5], b_v = weights.data[6];
const real rest = on ? nominal.data[jj] : real(0);
"""

# Of knot `k` of problem `problem`; `last` is its last knot.
KNOT_READ = """
const bool last = k == knots - 1;
const real w_tool = last ? weights.data[1] : weights.data[0];
const real w_u = last ? real(0) : weights.data[3], b_u = last ? real(0) : weights.data[7];
const V3 goal = {targets.data[3 * k], targets.data[3 * k + 1], targets.data[3 * k + 2]};
const real* const world = wrenches.data + (size_t)problem * 6;
const V3 force = {world[0], world[1], world[2]}, moment = {world[3], world[4], world[5]};
"""

KINEMATICS = """
real s, c;
sine_cosine(revolute * q, s, c);
real R[9];
V3 p = place + V3{Rt[2], Rt[5], Rt[8]} * ((1 - revolute) * q);
WP_PRAGMA_UNROLL
for (int r = 0; r < 3; ++r) {
    R[3 * r] = c * Rt[3 * r] + s * Rt[3 * r + 1];
    R[3 * r + 1] = c * Rt[3 * r + 1] - s * Rt[3 * r];
    R[3 * r + 2] = Rt[3 * r + 2];
}
WP_PRAGMA_UNROLL
for (int o = 1; o < 8; o *= 2) {
    real U[9], N[9];
    WP_PRAGMA_UNROLL
    for (int i = 0; i < 9; ++i) U[i] = up(R[i], o);
    const V3 u = {up(p.x, o), up(p.y, o), up(p.z, o)};
    WP_PRAGMA_UNROLL
    for (int r = 0; r < 3; ++r) {
        WP_PRAGMA_UNROLL
        for (int k = 0; k < 3; ++k) N[3 * r + k] = U[3 * r] * R[k] + U[3 * r + 1] * R[3 + k] + U[3 * r + 2] * R[6 + k];
    }
    const V3 moved = u + turned(U, p);
    const bool inner = j >= o;
    p.x = inner ? moved.x : p.x; p.y = inner ? moved.y : p.y; p.z = inner ? moved.z : p.z;
    WP_PRAGMA_UNROLL
    for (int i = 0; i < 9; ++i) R[i] = inner ? N[i] : R[i];
}
const V3 axis = {R[2], R[5], R[8]}, z = axis * revolute;
V3 pe = p + turned(R, tool_offset);
pe.x = of_group(pe.x, tool); pe.y = of_group(pe.y, tool); pe.z = of_group(pe.z, tool);
"""

DYNAMICS = """
const V3 e = pe - goal;
const V3 l = revolute > real(0) ? cross(p, axis) : axis;
const real carries = on && j <= tool ? real(1) : real(0);
const V3 jc = (revolute > real(0) ? cross(axis, pe - p) : axis) * carries;
real x6[6] = {v * z.x, v * z.y, v * z.z, v * l.x, v * l.y, v * l.z};
prefix_sum(x6);
const V3 w = {x6[0], x6[1], x6[2]}, u = {x6[3], x6[4], x6[5]};
const V3 wp_ = w - z * v, up_ = u - l * v;
const V3 da = cross(wp_, z), dl = cross(wp_, l) + cross(up_, z);
const V3 own_w = z * a + da * v, own_l = l * a + dl * v;
real a6[6] = {own_w.x, own_w.y, own_w.z, own_l.x, own_l.y, own_l.z};
prefix_sum(a6);
const V3 aw = {a6[0], a6[1], a6[2]}, al = V3{a6[3], a6[4], a6[5]} - gravity;
const V3 hc = p + turned(R, center);
V3 hm = hc * mass;
S6 J;
{
    const V3 r0 = {R[0], R[1], R[2]}, r1 = {R[3], R[4], R[5]}, r2 = {R[6], R[7], R[8]};
    const V3 i0 = times(inertia, r0), i1 = times(inertia, r1), i2 = times(inertia, r2);
    const real d = dot3(hm, hc);
    J.xx = dot3(i0, r0) + d - hm.x * hc.x; J.xy = dot3(i0, r1) - hm.x * hc.y; J.xz = dot3(i0, r2) - hm.x * hc.z;
    J.yy = dot3(i1, r1) + d - hm.y * hc.y; J.yz = dot3(i1, r2) - hm.y * hc.z; J.zz = dot3(i2, r2) + d - hm.z * hc.z;
}
const V3 Nv = times(J, w) + cross(hm, u), Fv = u * mass + cross(w, hm);
V3 fn = times(J, aw) + cross(hm, al) + cross(w, Nv) + cross(u, Fv), ff = al * mass + cross(aw, hm) + cross(w, Fv);
"""

SUM_FORCE = """
{
    real f6[6] = {fn.x, fn.y, fn.z, ff.x, ff.y, ff.z};
    suffix_sum(f6);
    fn = V3{f6[0], f6[1], f6[2]}; ff = V3{f6[3], f6[4], f6[5]};
}
"""

SUM_ALL = """
V3 b0, b1, b2, F;
{
    const real half_trace = real(0.5) * (J.xx + J.yy + J.zz), hu = dot3(hm, u);
    b0 = cross(w, V3{J.xx - half_trace, J.xy, J.xz}); b1 = cross(w, V3{J.xy, J.yy - half_trace, J.yz});
    b2 = cross(w, V3{J.xz, J.yz, J.zz - half_trace});
    b0 = b0 - u * hm.x; b1 = b1 - u * hm.y; b2 = b2 - u * hm.z;
    b0.x += hu; b1.y += hu; b2.z += hu;
    real y[27] = {fn.x, fn.y, fn.z, ff.x, ff.y, ff.z, J.xx, J.xy, J.xz, J.yy, J.yz, J.zz, hm.x, hm.y, hm.z,
                  b0.x, b0.y, b0.z, b1.x, b1.y, b1.z, b2.x, b2.y, b2.z, Fv.x, Fv.y, Fv.z};
    suffix_sum(y);
    fn = V3{y[0], y[1], y[2]}; ff = V3{y[3], y[4], y[5]}; J = S6{y[6], y[7], y[8], y[9], y[10], y[11]}; hm = V3{y[12], y[13], y[14]};
    b0 = V3{y[15], y[16], y[17]}; b1 = V3{y[18], y[19], y[20]}; b2 = V3{y[21], y[22], y[23]}; F = V3{y[24], y[25], y[26]};
}
"""

COST = """
const real tau = dot3(z, fn) + dot3(l, ff) - carries * dot3(z, moment) - dot3(jc, force);
torque = tau;
const real away = q - rest;
real slope_q = w_post * away, slope_v = w_v * v, slope_u = w_u * tau, curvature_q = w_post, curvature_v = w_v, curvature_u = w_u;
{
    real value = real(0.5) * (w_post * away * away + w_v * v * v + w_u * tau * tau);
    auto both = [&](real x, real low, real high, real weight, real& slope, real& curvature) {
        real product = real(1), extra = real(0), ds = real(0), dc = real(0);
        barrier(x - low, real(1), product, extra, ds, dc);
        barrier(high - x, real(-1), product, extra, ds, dc);
        value += weight * (extra - logarithm(product));
        slope += weight * ds;
        curvature += weight * dc;
    };
    if (b_q > real(0)) both(q, lower, upper, b_q, slope_q, curvature_q);
    if (b_v > real(0)) both(v, -speed_limit, speed_limit, b_v, slope_v, curvature_v);
    if (weights.data[7] > real(0)) both(tau, -effort_limit, effort_limit, b_u, slope_u, curvature_u);
    cost = on ? value : real(0);
    if (j == 0) cost += real(0.5) * w_tool * dot3(e, e);
}
"""

DERIVATIVES = """
constexpr int GS = @gs, HALF = (n + 1) / 2, WORDS = (n + 6) / 4, WORDS_U = (n + 3) / 4;
const V3 awp = aw - own_w, alp = al - own_l;
const V3 dda = cross(awp, z) + cross(wp_, da), ddl = cross(awp, l) + cross(alp, z) + cross(wp_, dl) + cross(up_, da);
const V3 t1n = times(J, z) + cross(hm, l), t1f = l * mass_beyond + cross(z, hm);
const V3 Bz = b0 * z.x + b1 * z.y + b2 * z.z, Bd = b0 * da.x + b1 * da.y + b2 * da.z;
const V3 t2n = (Bz + times(J, da) + cross(hm, dl)) * 2, t2f = (cross(z, F) + dl * mass_beyond + cross(da, hm)) * 2;
const V3 t3n = Bd * 2 + times(J, dda) + cross(hm, ddl) + cross(z, fn) + cross(l, ff) + cross(force, jc);
const V3 t3f = cross(da, F) * 2 + ddl * mass_beyond + cross(dda, hm) + cross(z, ff);
const V3 t4 = (V3{dot3(b0, z), dot3(b1, z), dot3(b2, z)} + cross(F, l)) * 2;
const V3 turn = cross(moment, z) * carries + cross(force, jc);
// rows of G are scaled by the root of their curvature, so that H is symmetric to the last bit
const real inverse_root = curvature_u > real(0) ? reciprocal_root(curvature_u) : real(0), root = curvature_u * inverse_root;
const real tool_root = w_tool > real(0) ? w_tool * reciprocal_root(w_tool) : real(0);
real* const Sk = Hk + (4 - ((Hk - shared) & 3)) % 4;  // 20 numbers a joint, in H's place until H is written
Four* const Sv = (Four*)Sk;
if (on) {
    Sv[j * 5] = Four{z.x, z.y, z.z, l.x}; Sv[j * 5 + 1] = Four{l.y, l.z, da.x, da.y}; Sv[j * 5 + 2] = Four{da.z, dl.x, dl.y, dl.z};
    Sv[j * 5 + 3] = Four{dda.x, dda.y, dda.z, ddl.x}; Sv[j * 5 + 4] = Four{ddl.y, ddl.z, root, slope_u * inverse_root};
}
warp_sync();
real r[n];
WP_PRAGMA_UNROLL
for (int i = 0; i < n; ++i) {
    const Four A = Sv[i * 5], B = Sv[i * 5 + 1], C = Sv[i * 5 + 2], D = Sv[i * 5 + 3], E = Sv[i * 5 + 4];
    const V3 zi = {A.x, A.y, A.z}, li = {A.w, B.x, B.y}, di = {B.z, B.w, C.x};
    const V3 dli = {C.y, C.z, C.w}, ddi = {D.x, D.y, D.z}, ddli = {D.w, E.x, E.y};
    r[i] = E.w;
    const real m_ij = dot3(zi, t1n) + dot3(li, t1f);
    // row i of column j: i no farther out than j; row j of column i: i nearer the base
    if (i <= j && on) {
        Gk[j * GS + i] = E.z * (dot3(zi, t3n) + dot3(li, t3f));
        Gk[(n + j) * GS + i] = E.z * (dot3(zi, t2n) + dot3(li, t2f));
        Gk[(2 * n + j) * GS + i] = E.z * m_ij;
    }
    if (i < j && on) {
        Gk[i * GS + j] = root * (dot3(t1n, ddi) + dot3(t1f, ddli) + dot3(t4, di) + dot3(turn, zi));
        Gk[(n + i) * GS + j] = root * (2 * (dot3(t1n, di) + dot3(t1f, dli)) + dot3(t4, zi));
        Gk[(2 * n + i) * GS + j] = root * m_ij;
    }
}
if (on) { Gk[j * GS + n] = tool_root * jc.x; Gk[j * GS + n + 1] = tool_root * jc.y; Gk[j * GS + n + 2] = tool_root * jc.z; }
warp_sync();
{
    // this lane's columns of q, v and a
    const int column = on ? j : 0;
    real cq[4 * WORDS], cv[4 * WORDS_U], ca[4 * WORDS_U];
    auto words = [&](real* to, const real* from, int count) {
        WP_PRAGMA_UNROLL
        for (int i = 0; i < count; ++i) {
            const Four f = ((const Four*)from)[i];
            to[4 * i] = f.x; to[4 * i + 1] = f.y; to[4 * i + 2] = f.z; to[4 * i + 3] = f.w;
        }
    };
    words(cq, Gk + column * GS, WORDS); words(cv, Gk + (n + column) * GS, WORDS_U); words(ca, Gk + (2 * n + column) * GS, WORDS_U);
    real gq = slope_q + tool_root * (cq[n] * e.x + cq[n + 1] * e.y + cq[n + 2] * e.z), gv = slope_v, ga = real(0);
    WP_PRAGMA_UNROLL
    for (int i = 0; i < n; ++i) { gq += cq[i] * r[i]; gv += cv[i] * r[i]; ga += ca[i] * r[i]; }
    if (on) { gk[j] = gq; gk[n + j] = gv; gk[2 * n + j] = ga; }
    WP_PRAGMA_UNROLL
    for (int half = 0; half < 2; ++half) {
        real hq[3][HALF], hv[3][HALF], ha[3][HALF];
        WP_PRAGMA_UNROLL
        for (int t = 0; t < 3; ++t) {
            WP_PRAGMA_UNROLL
            for (int i = 0; i < HALF; ++i) {
                const int row = HALF * half + i < n ? HALF * half + i : n - 1;
                real G[4 * WORDS];
                words(G, Gk + (t * n + row) * GS, t == 0 ? WORDS : WORDS_U);
                real a_q = G[0] * cq[0], a_v = G[0] * cv[0], a_a = G[0] * ca[0];
                WP_PRAGMA_UNROLL
                for (int m = 1; m < n; ++m) { a_q += G[m] * cq[m]; a_v += G[m] * cv[m]; a_a += G[m] * ca[m]; }
                if (t == 0) { a_q += G[n] * cq[n] + G[n + 1] * cq[n + 1] + G[n + 2] * cq[n + 2]; if (row == j) a_q += curvature_q; }
                if (t == 1 && row == j) a_v += curvature_v;
                hq[t][i] = a_q; hv[t][i] = a_v; ha[t][i] = a_a;
            }
        }
        WP_PRAGMA_UNROLL
        for (int t = 0; t < 3; ++t) {
            WP_PRAGMA_UNROLL
            for (int i = 0; i < HALF; ++i) {
                if (HALF * half + i < n && on) {
                    real* const row = Hk + (t * n + HALF * half + i) * 3 * n + j;
                    row[0] = hq[t][i]; row[n] = hv[t][i]; row[2 * n] = ha[t][i];
                }
            }
        }
    }
}
"""


def helpers(n: int) -> str:
    """Lane numbers, three-vectors, scans, sine and barrier, and the constants of the lane's joint; once a body."""
    return HELPERS.replace("@n", str(n)).replace("@delta", repr(RELAXATION)) + TABLE_READ + WEIGHTS_READ


def knot(*, derivatives: bool) -> str:
    """The knot function as a block.

    Reads q, v, a of the lane's joint (zero past the last joint) and what `KNOT_READ` declares; sets `cost`, the lane's share of the
    knot's cost (its group's sum is the cost), and `torque`. With derivatives it writes the knot's Hessian to Hk (3n, 3n) and its
    gradient to gk (3n), both in shared memory, with the scratch Gk (`scratch_size` numbers, 16-byte aligned).
    """
    parts = [KINEMATICS, DYNAMICS, SUM_ALL if derivatives else SUM_FORCE, COST]
    if derivatives:
        parts.append(DERIVATIVES.replace("@gs", str(G_STRIDE)))
    return "{\n" + "".join(parts) + "}\n"
