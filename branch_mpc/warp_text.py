"""C++ text that lets one body run as CUDA warps and, for tests, as fibers of Warp's CPU blocks.

On CUDA the functions are single instructions: shuffles, warp barriers, approximate reciprocals. On fibers a shuffle goes through an
exchange buffer of one number a thread with a block barrier on each side, so there every thread of the block must take part:
`only_warp(0)` is true for all of them, and warps repeat each other's work with the same numbers in the same places.
"""

FULL = "0xffffffffu"

PRELUDE = """
using real = wp::float32;
const int thread = WP_TILE_THREAD_IDX, lane = thread & 31, warp = thread >> 5;
constexpr int threads = WP_TILE_BLOCK_DIM;
real* const shared = (real*)storage.data.ptr;
#if defined(__CUDA_ARCH__)
using Four = float4;  // one 16-byte access
// of the lane `source` of the warp
auto shuffle = [](real x, int source) -> real { return __shfl_sync(0xffffffffu, x, source); };
// of the lane `offset` before or after in the group of eight; a lane without one gets its own
auto up = [](real x, int offset) -> real { return __shfl_up_sync(0xffffffffu, x, offset, 8); };
auto down = [](real x, int offset) -> real { return __shfl_down_sync(0xffffffffu, x, offset, 8); };
// of the lane `source` of the group of eight
auto of_group = [](real x, int source) -> real { return __shfl_sync(0xffffffffu, x, source, 8); };
auto warp_sync = []() { __syncwarp(); };
auto only_warp = [&](int which) -> bool { return warp == which; };
auto reciprocal = [](real x) -> real { real r; asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(r) : "f"(x)); return r; };
auto reciprocal_root = [](real x) -> real { return rsqrtf(x); };
auto logarithm = [](real x) -> real { return __logf(x); };
#else
struct Four { real x, y, z, w; };  // storage of fibers is aligned to numbers only
real* const exchange = shared + @exchange;
auto shuffle = [&](real x, int source) -> real {
    exchange[thread] = x; WP_TILE_SYNC();
    const real y = exchange[(thread & ~31) + source]; WP_TILE_SYNC();
    return y;
};
auto up = [&](real x, int offset) -> real { return shuffle(x, (lane & 7) >= offset ? lane - offset : lane); };
auto down = [&](real x, int offset) -> real { return shuffle(x, (lane & 7) + offset < 8 ? lane + offset : lane); };
auto of_group = [&](real x, int source) -> real { return shuffle(x, (lane & 24) + source); };
auto warp_sync = []() { WP_TILE_SYNC(); };
auto only_warp = [&](int) -> bool { return true; };
auto reciprocal = [](real x) -> real { return 1 / x; };
auto reciprocal_root = [](real x) -> real { return 1 / wp::sqrt(x); };
auto logarithm = [](real x) -> real { return wp::log(x); };
#endif
"""


def prelude(exchange: int) -> str:
    """Types and functions of a body that gets tile storage `storage`.

    Args:
        exchange: Where the fibers' exchange buffer starts in the storage [numbers]; it needs one number a thread.
    """
    return PRELUDE.replace("@exchange", str(exchange))
