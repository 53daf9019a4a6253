"""C++ text that lets one body serve one knot (CUDA, float64) or a group of knots in SIMD lanes (CPU, float32).

A body is written for the type `real`. In the scalar prelude `real` is one number; in the lane prelude it is a compiler
vector with one knot per lane, so that the same straight-line arithmetic runs on 16 knots at once. Comparison, `?:` and
arithmetic read the same for both; loads and stores go lane by lane through `get` and `set`.
"""

from branch_mpc.dynamics.emit import CPP_TYPE

LANES = 16  # one AVX-512 register; narrower units split it, which still beats one knot at a time

SCALAR = """
using number = {number};
using real = number;
constexpr int L = 1;
auto set = [](real& vector, int, number value) {{ vector = value; }};
auto get = [](const real& vector, int) -> number {{ return vector; }};
auto lane_sin = [](real x) -> real {{ return wp::sin(x); }};
auto lane_cos = [](real x) -> real {{ return wp::cos(x); }};
auto lane_log = [](real x) -> real {{ return wp::log(x); }};
"""

# sine, cosine: reduction by pi/2 in three parts (Cody and Waite 1980) and the polynomials of Cephes' sinf, cosf, logf
# (Moshier); error below 1e-7 for the angles and barrier products that occur (|x| < 100, x normal and positive).
VECTOR = """
using number = float;
constexpr int L = {lanes};
typedef float real __attribute__((ext_vector_type({lanes})));
typedef int whole __attribute__((ext_vector_type({lanes})));
auto set = [](real& vector, int lane, number value) {{ vector[lane] = value; }};
auto get = [](const real& vector, int lane) -> number {{ return vector[lane]; }};
auto turn = [](real x, real shift, whole quarters) -> real {{
    const real k = (x * 0.636619772f + 12582912.0f) - 12582912.0f;
    const real r = ((x - k * 1.5703125f) - k * 4.837512969970703e-4f) - k * 7.54978995489188216e-8f;
    const real z = r * r;
    const real s = r + r * z * (-1.6666654611e-1f + z * (8.3321608736e-3f - z * 1.9515295891e-4f));
    const real c = 1.0f - 0.5f * z + z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
    const whole q = __builtin_convertvector(k, whole) + quarters;
    const real value = (q & 1) != 0 ? c : s;
    return (q & 2) != 0 ? -value : value;
}};
auto lane_sin = [&](real x) -> real {{ return turn(x, real(0.0f), whole(0)); }};
auto lane_cos = [&](real x) -> real {{ return turn(x, real(0.0f), whole(1)); }};
auto lane_log = [](real x) -> real {{
    const whole bits = __builtin_bit_cast(whole, x);
    whole exponent = ((bits >> 23) & 0xff) - 126;
    real m = __builtin_bit_cast(real, (bits & 0x007fffff) | 0x3f000000);
    const whole small = m < 0.707106781186547524f;
    exponent = exponent + small;
    m = (small != 0 ? m + m : m) - 1.0f;
    const real z = m * m;
    real y = 7.0376836292e-2f * m - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f; y = y * m - 1.2420140846e-1f; y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f; y = y * m + 2.0000714765e-1f; y = y * m - 2.4999993993e-1f; y = y * m + 3.3333331174e-1f;
    const real e = __builtin_convertvector(exponent, real);
    return m + (m * z * y - 2.12194440e-4f * e - 0.5f * z) + 0.693359375f * e;
}};
"""


def prelude(lanes: int, dtype: str) -> str:
    """Types and functions of a body.

    Args:
        lanes: 1 for one knot, or the number of knots in a group (float32 on the CPU).
        dtype: 'float32' or 'float64'.
    """
    return SCALAR.format(number=CPP_TYPE[dtype]) if lanes == 1 else VECTOR.format(lanes=lanes)
