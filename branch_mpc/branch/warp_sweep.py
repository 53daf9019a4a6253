"""C++ text of the Riccati sweep of a chain of double integrators, one warp an instance.

Unknowns are scaled to (q, h v, h^2 a), which makes A = [1 1; 0 1] and B = [1/2; 1] of every joint and leaves no product with h.

Lanes        lane = (half, column): columns are n of q, n of v and the gradient (2n + 1 <= 16, so n <= 7); half 0 holds the rows of
             joints 0..R-1 of q and of v, half 1 those of joints R..2R-1, R = ceil(n / 2). B'P and A'P A are then sums inside a lane
             after one shuffle of 2R numbers from the q column to the v column of the same joint. An odd n has one row of padding.
Registers    the value function: 2R numbers a lane; the frame's terms: 4R, loaded one frame ahead, which hides the L2 cache.
Shared       SCRATCH numbers: the pivot block Qaa by column, Qax before (Y) and after (Y2) elimination of the first half.
Pivot        every lane inverts Qaa as two blocks of R rows by cofactors: two dependent reciprocals a frame instead of n roots. The
             smallest leading minor tells whether it is positive definite.
Symmetry     P - Y' Qaa^-1 Y is formed from the same Y on both sides; forming K' Qaa K or Qxa K lets an unsymmetric part grow with the
             horizon until nothing is left of it at 64 frames.
Cost         about 310 instructions and 540 cycles a frame and direction backward, 120 forward (n = 6, H200).

Source: Rawlings, Mayne, Diehl, Model Predictive Control (2017), section 8.8.
"""

SCRATCH = 96 * 4
GAIN_STRIDE = 20  # numbers between rows of gains: eight lanes that read 16 bytes each of their own row meet no bank twice
LARGEST = 7


def gain_size(n: int) -> int:
    """Numbers of a frame's gains: (n or n + 1 rows) of [q, v, offset] and padding."""
    return (n + n % 2) * GAIN_STRIDE


# [m_rr] symmetric, given as full arrays; the function returns the smallest leading minor.
INVERSES = {
    1: "o[0][0] = reciprocal(m[0][0]); return m[0][0];",
    2: """const real det = m[0][0] * m[1][1] - m[1][0] * m[1][0], r = reciprocal(det);
    o[0][0] = m[1][1] * r; o[1][1] = m[0][0] * r; o[0][1] = o[1][0] = -m[1][0] * r;
    return wp::min(m[0][0], det);""",
    3: """const real c00 = m[1][1] * m[2][2] - m[2][1] * m[2][1], c10 = m[2][0] * m[2][1] - m[1][0] * m[2][2];
    const real c20 = m[1][0] * m[2][1] - m[1][1] * m[2][0], c22 = m[0][0] * m[1][1] - m[1][0] * m[1][0];
    const real det = m[0][0] * c00 + m[1][0] * c10 + m[2][0] * c20, r = reciprocal(det);
    o[0][0] = c00 * r; o[1][1] = (m[0][0] * m[2][2] - m[2][0] * m[2][0]) * r; o[2][2] = c22 * r;
    o[0][1] = o[1][0] = c10 * r; o[0][2] = o[2][0] = c20 * r; o[1][2] = o[2][1] = (m[1][0] * m[2][0] - m[0][0] * m[2][1]) * r;
    return wp::min(wp::min(m[0][0], c22), det);""",
    4: """const real da = m[0][0] * m[1][1] - m[1][0] * m[1][0], ra = reciprocal(da);
    const real a00 = m[1][1] * ra, a10 = -m[1][0] * ra, a11 = m[0][0] * ra;
    const real t00 = m[2][0] * a00 + m[2][1] * a10, t01 = m[2][0] * a10 + m[2][1] * a11;
    const real t10 = m[3][0] * a00 + m[3][1] * a10, t11 = m[3][0] * a10 + m[3][1] * a11;
    const real s00 = m[2][2] - t00 * m[2][0] - t01 * m[2][1], s10 = m[3][2] - t10 * m[2][0] - t11 * m[2][1];
    const real s11 = m[3][3] - t10 * m[3][0] - t11 * m[3][1], ds = s00 * s11 - s10 * s10, rs = reciprocal(ds);
    const real b00 = s11 * rs, b10 = -s10 * rs, b11 = s00 * rs;
    const real u00 = b00 * t00 + b10 * t10, u01 = b00 * t01 + b10 * t11, u10 = b10 * t00 + b11 * t10, u11 = b10 * t01 + b11 * t11;
    o[2][2] = b00; o[3][2] = o[2][3] = b10; o[3][3] = b11;
    o[2][0] = o[0][2] = -u00; o[2][1] = o[1][2] = -u01; o[3][0] = o[0][3] = -u10; o[3][1] = o[1][3] = -u11;
    o[0][0] = a00 + t00 * u00 + t10 * u10; o[1][0] = o[0][1] = a10 + t00 * u01 + t10 * u11; o[1][1] = a11 + t01 * u01 + t11 * u11;
    return wp::min(wp::min(m[0][0], da), wp::min(s00, ds));""",
}

SIZES = """
constexpr int SN = @n, SR = (SN + 1) / 2, SC = 2 * SN, SZ = 3 * SN, GAIN_ROW = @gain_row, GAINS = 2 * SR * GAIN_ROW;
auto element = [](const Four& f, int i) -> real { return i == 0 ? f.x : i == 1 ? f.y : i == 2 ? f.z : f.w; };
auto pack = [](const real (&x)[SR]) -> Four {
    Four f; f.x = x[0]; f.y = SR > 1 ? x[SR > 1 ? 1 : 0] : real(0); f.z = SR > 2 ? x[SR > 2 ? 2 : 0] : real(0);
    f.w = SR > 3 ? x[SR > 3 ? 3 : 0] : real(0); return f;
};
"""

# Reads: sweep_H, sweep_g (of this instance), frames, h, damping_q/v/a (numbers added to the diagonals, scaled by the caller's text),
# scratch, gains. Writes: gains, fail, largest (|dV/da|), decrease.
BACKWARD = """
const int half = lane >> 4, cc = lane & 15, column = cc < SC ? cc : SC;
const bool is_v = column >= SN && column < SC, is_state = column < SC;
const int source = is_v ? lane - SN : lane;
const real shift = is_v ? real(1) : real(0), ih = 1 / h, ih2 = ih * ih;
Four* const S4 = (Four*)scratch;  // Q: half * 8 + joint; Y: 16 + half * 16 + column; Y2: 48 + column; 64 + lane takes what nobody reads
Four* const put_q = is_v ? S4 + half * 8 + (column - SN) : S4 + 64 + lane;
Four* const put_y = S4 + 16 + lane;
Four* const put_y2 = half == 0 && cc < SC ? S4 + 48 + column : S4 + 64 + lane;
const Four* const get_y = S4 + 16 + SR * half;
const Four* const get_y2 = S4 + 48 + SR * half;
const Four* const own_y = S4 + 16 + cc;
const bool writes = cc <= SC;
real* put_gain = writes ? gains + (size_t)(frames - 2) * GAINS + SR * half * GAIN_ROW + column : scratch + 64 * 4 + lane * 4;
const int gain_step = writes ? GAINS : 0, gain_row = writes ? GAIN_ROW : 1;
// where this lane's numbers of a frame lie: rows of q, v and a of its column, and of the a block
const real* const from = is_state ? sweep_H : sweep_g;
const int from_step = is_state ? SZ * SZ : SZ;
int at_q[SR], at_v[SR], at_a[SR], at_aa[SR];
real add_q[SR], add_v[SR], add_aa[SR];
WP_PRAGMA_UNROLL
for (int i = 0; i < SR; ++i) {
    const int row = SR * half + i, r = row < SN ? row : SN - 1, joint = is_v ? column - SN : 0;
    auto entry = [&](int a, int b) -> int { return a >= b ? a * SZ + b : b * SZ + a; };  // the lower triangle
    at_q[i] = is_state ? entry(r, column) : r;
    at_v[i] = is_state ? entry(SN + r, column) : SN + r;
    at_a[i] = is_state ? entry(2 * SN + r, column) : 2 * SN + r;
    at_aa[i] = entry(2 * SN + r, 2 * SN + joint);
    add_q[i] = column == row && row < SN ? @damp_q : real(0);
    add_v[i] = is_v && joint == row ? @damp_v : real(0);
    add_aa[i] = is_v && joint == row ? @damp_a : real(0);
}
const real scale_q = is_v ? ih : real(1), scale_v = scale_q * ih, scale_a = scale_q * ih2, scale_aa = ih2 * ih2;
real hq[SR], hv[SR], ha[SR], haa[SR];
auto load = [&](int k) {
    const real* const p = from + (size_t)k * from_step;
    const real* const paa = sweep_H + (size_t)k * SZ * SZ;
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) { hq[i] = p[at_q[i]]; hv[i] = p[at_v[i]]; ha[i] = p[at_a[i]]; haa[i] = paa[at_aa[i]]; }
    if (SN % 2 && half) { hq[SR - 1] = real(0); hv[SR - 1] = real(0); ha[SR - 1] = real(0); haa[SR - 1] = real(0); }
};
auto inverse = [&](const real (&m)[SR][SR], real (&o)[SR][SR]) -> real {
    @inverse
};
if (SN % 2 && lane < 2) {  // the padding of an odd n: a pivot 1 that is coupled to nothing
    real unit[SR];
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) unit[i] = lane == 1 && i == SR - 1 ? real(1) : real(0);
    S4[lane * 8 + SN] = pack(unit);
}
real Pq[SR], Pv[SR];
load(frames - 1);
WP_PRAGMA_UNROLL
for (int i = 0; i < SR; ++i) { Pq[i] = scale_q * hq[i] + add_q[i]; Pv[i] = scale_v * hv[i] + add_v[i]; }
load(frames - 2);
real steepest = real(0), halves = real(0);
int pivot_frame = -1, broken_frame = -1;
WP_PRAGMA_NO_UNROLL
for (int k = frames - 2; k >= 0; --k) {
    real tq[SR], tv[SR], PAq[SR], PAv[SR], qa[SR], qaa[SR], nq[SR], nv[SR];
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) { tq[i] = shuffle(Pq[i], source); tv[i] = shuffle(Pv[i], source); }
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) {
        const real bq = real(0.5) * tq[i] + Pq[i], bv = real(0.5) * tv[i] + Pv[i];
        qaa[i] = scale_aa * haa[i] + (real(0.5) * bq + (bv + add_aa[i]));
        PAq[i] = shift * tq[i] + Pq[i];
        PAv[i] = shift * tv[i] + Pv[i];
        qa[i] = scale_a * ha[i] + (real(0.5) * PAq[i] + PAv[i]);
        nq[i] = scale_q * hq[i] + (PAq[i] + add_q[i]);
        nv[i] = scale_v * hv[i] + (PAv[i] + PAq[i] + add_v[i]);
        steepest = wp::max(steepest, wp::abs(qa[i]));
    }
    *put_q = pack(qaa);
    *put_y = pack(qa);
    if (k > 0) load(k - 1);
    warp_sync();
    real Q1[SR][SR], B[SR][SR], E[SR][SR], I1[SR][SR], I2[SR][SR], T[SR][SR], S[SR][SR], y1[SR], y2[SR], z1[SR], z2[SR];
    WP_PRAGMA_UNROLL
    for (int j = 0; j < SR; ++j) {
        const Four fq = S4[j], fb = S4[8 + j], fe = S4[8 + SR + j];
        WP_PRAGMA_UNROLL
        for (int i = 0; i < SR; ++i) { Q1[i][j] = element(fq, i); B[i][j] = element(fb, i); E[i][j] = element(fe, i); }
    }
    const Four o1 = own_y[0], o2 = own_y[16];
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) y1[i] = element(o1, i);
    const real minor = inverse(Q1, I1);
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) {
        WP_PRAGMA_UNROLL
        for (int j = 0; j < SR; ++j) {
            real sum = I1[j][0] * B[i][0];
            WP_PRAGMA_UNROLL
            for (int l = 1; l < SR; ++l) sum += I1[j][l] * B[i][l];
            T[i][j] = sum;  // row i of the second half times the inverse of the first block
        }
        real sum = element(o2, i);
        WP_PRAGMA_UNROLL
        for (int l = 0; l < SR; ++l) sum -= T[i][l] * y1[l];
        y2[i] = sum;
    }
    *put_y2 = pack(y2);
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) {
        WP_PRAGMA_UNROLL
        for (int j = 0; j <= i; ++j) {
            real sum = E[i][j];
            WP_PRAGMA_UNROLL
            for (int l = 0; l < SR; ++l) sum -= T[i][l] * B[j][l];
            S[i][j] = sum; S[j][i] = sum;
        }
    }
    const real second = inverse(S, I2);
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) {
        z1[i] = I1[i][0] * y1[0]; z2[i] = I2[i][0] * y2[0];
        WP_PRAGMA_UNROLL
        for (int l = 1; l < SR; ++l) { z1[i] += I1[i][l] * y1[l]; z2[i] += I2[i][l] * y2[l]; }
    }
    const real smallest = wp::min(minor, second);
    if (pivot_frame < 0 && !(minor > real(0) && second > real(0) && smallest * real(0) == real(0))) pivot_frame = k;
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) {
        const Four a = get_y[i], b = get_y[SN + i];
        WP_PRAGMA_UNROLL
        for (int l = 0; l < SR; ++l) { nq[i] -= element(a, l) * z1[l]; nv[i] -= element(b, l) * z1[l]; }
    }
    warp_sync();
    real check = real(0), energy = real(0);
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SR; ++i) {
        const Four a = get_y2[i], b = get_y2[SN + i];
        WP_PRAGMA_UNROLL
        for (int l = 0; l < SR; ++l) { nq[i] -= element(a, l) * z2[l]; nv[i] -= element(b, l) * z2[l]; }
        Pq[i] = nq[i]; Pv[i] = nv[i];
        real x1 = z1[i];
        WP_PRAGMA_UNROLL
        for (int l = 0; l < SR; ++l) x1 -= T[l][i] * z2[l];
        put_gain[i * gain_row] = half ? z2[i] : x1;
        check += z1[i] + z2[i];
        energy += y1[i] * z1[i] + y2[i] * z2[i];
    }
    if (SN % 2 && half) { Pq[SR - 1] = real(0); Pv[SR - 1] = real(0); }
    halves += energy;
    if (broken_frame < 0 && !(check * real(0) == real(0))) broken_frame = k;
    put_gain -= gain_step;
}
warp_sync();
// the frame nearest to the end that failed tells why: a pivot, or a right-hand side that is not finite
real worst = real(broken_frame);
WP_PRAGMA_UNROLL
for (int o = 16; o > 0; o /= 2) worst = wp::max(worst, shuffle(worst, lane ^ o));
fail = pivot_frame >= 0 && real(pivot_frame) >= worst ? 1 : worst >= real(0) ? 2 : 0;
largest = wp::max(shuffle(steepest, SC), shuffle(steepest, 16 + SC)) * h * h;
decrease = real(0.5) * shuffle(halves, SC);
"""

# Reads: gains, frames, h, start_q, start_v (unscaled first state of this lane's joint). Per frame it runs the text @store with the
# joint of the lane `r` (r < SN stores), frame k, and step_q, step_v, step_a unscaled; the last frame has step_a = 0.
FORWARD = """
{
    const int r = lane < SN ? lane : SN - 1;
    const real ih = 1 / h, ih2 = ih * ih;
    real x[2 * SN], own_q = start_q, own_v = h * start_v;
    WP_PRAGMA_UNROLL
    for (int i = 0; i < SN; ++i) { x[i] = shuffle(own_q, i); x[SN + i] = shuffle(own_v, i); }
    constexpr int WORDS = (SC + 4) / 4;
    const real* row = gains + r * GAIN_ROW;
    Four f[WORDS];
    WP_PRAGMA_UNROLL
    for (int w = 0; w < WORDS; ++w) f[w] = ((const Four*)row)[w];
    WP_PRAGMA_NO_UNROLL
    for (int k = 0; k < frames - 1; ++k) {
        if (k < frames - 2) row += GAINS;  // the last pass reads its own gains again
        Four next[WORDS];
        WP_PRAGMA_UNROLL
        for (int w = 0; w < WORDS; ++w) next[w] = ((const Four*)row)[w];
        real part[4] = {element(f[SC / 4], SC % 4), real(0), real(0), real(0)};
        WP_PRAGMA_UNROLL
        for (int i = 0; i < SC; ++i) part[i % 4] += element(f[i / 4], i % 4) * x[i];
        const real a = -((part[0] + part[1]) + (part[2] + part[3]));
        real y[SN];
        WP_PRAGMA_UNROLL
        for (int i = 0; i < SN; ++i) y[i] = shuffle(a, i);
        { const real step_q = own_q, step_v = own_v * ih, step_a = a * ih2; @store }
        own_q = own_q + own_v + real(0.5) * a;
        own_v += a;
        WP_PRAGMA_UNROLL
        for (int i = 0; i < SN; ++i) { x[i] = (x[i] + x[SN + i]) + real(0.5) * y[i]; x[SN + i] += y[i]; }
        WP_PRAGMA_UNROLL
        for (int w = 0; w < WORDS; ++w) f[w] = next[w];
    }
    { const int k = frames - 1; const real step_q = own_q, step_v = own_v * ih, step_a = real(0); @store }
}
"""


def sizes(n: int) -> str:
    """Constants and helpers that both directions need; once a body."""
    return SIZES.replace("@n", str(n)).replace("@gain_row", str(GAIN_STRIDE))


def backward(n: int, damping: tuple[str, str, str] = ("real(0)", "real(0)", "real(0)")) -> str:
    """The backward sweep.

    Args:
        n: Joints, at most `LARGEST`.
        damping: Expressions of what is added to the diagonal of q, h v and h^2 a of joint `r`, in the scaled unknowns.
    """
    text = BACKWARD.replace("@inverse", INVERSES[(n + 1) // 2])
    for name, expression in zip(("@damp_q", "@damp_v", "@damp_a"), damping, strict=True):
        text = text.replace(name, expression)
    return text


def forward(store: str) -> str:
    """The forward sweep; `store` is run once a frame, see `FORWARD`."""
    return FORWARD.replace("@store", store)
