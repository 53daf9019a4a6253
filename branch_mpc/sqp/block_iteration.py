"""SQP iterations of the acceleration form in one launch: a block a problem, for serial arms of up to seven joints in float32.

Lanes        eight a knot (lane = joint) for terms and merit, in passes where the block has fewer than 8 N; the block's first warp
             sweeps (branch/warp_sweep.py) while the others wait at a barrier.
Shared       where one pass covers the horizon ("on chip"), H and g stay in shared memory and are never written to global memory; the
             scratch of the terms is reused for gains and steps. With passes H goes through global memory, read back from the L2 cache.
Registers    at most 128 by launch bounds, which allows blocks of 256 to share an SM in pairs, blocks of 128 in fours.
Order        every sum has a fixed order; all lanes compute the decisions of the line search from the same numbers, so control flow
             is the same in the whole block and results do not depend on the launch.

The text also starts a tick: the shift of the previous plan and the roll-out of the states.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from branch_mpc.branch import warp_sweep
from branch_mpc.optimal_control import joint_lanes
from branch_mpc.sqp.kernels import CANDIDATES, DAMPING_FACTOR, DAMPING_MAX, DAMPING_MIN, NOISE
from branch_mpc.warp_text import prelude

OPTIONS = {"enable_backward": False, "grid_stride": False, "module": "unique", "module_options": {"max_unroll": 0}}
SHARED_MEMORY = 227 << 10
STEP_SIZE = 32  # numbers of a knot's step in shared memory: (dq, dv, da, -) of eight joints
KEEP, ROLL_OUT, SHIFT = 0, 1, 2  # how a launch starts: from X and A, from A, from the previous plan


@dataclass(frozen=True)
class BlockShape:
    """Sizes of a block.

    Attributes:
        n: Joints.
        knots: Knots N.
        threads: Lanes of the block.
    """

    n: int
    knots: int
    threads: int

    @property
    def on_chip(self) -> bool:
        """True when one pass covers the horizon."""
        return self.threads >= 8 * self.knots

    @property
    def regions(self) -> dict[str, int]:
        """Sizes of the parts of the shared memory, each a multiple of 4 numbers."""
        groups, n = self.threads // 8, self.n
        scratch, hessian, gradient = groups * joint_lanes.scratch_size(n), groups * 9 * n * n, groups * 3 * n
        sweep = self.knots * (warp_sweep.gain_size(n) + STEP_SIZE)
        apart = {"scratch": max(scratch, sweep), "hessian": hessian, "gradient": gradient}
        if not self.on_chip:
            apart["scratch"] = max(scratch, sweep - hessian - gradient)  # nothing of the terms is needed when the sweep begins
        apart |= {"sweep": warp_sweep.SCRATCH, "costs": 3 * self.knots, "flags": 4, "exchange": self.threads}
        return {name: -(-size // 4) * 4 for name, size in apart.items()}

    @property
    def shared(self) -> int:
        """Numbers of shared memory."""
        return sum(self.regions.values())

    def at(self, name: str) -> int:
        """Where a part starts."""
        names = list(self.regions)
        return sum(self.regions[other] for other in names[: names.index(name)])


def block_shape(n: int, knots: int, batch: int, processors: int) -> BlockShape | None:
    """Choose the lanes of a block, or None where the horizon does not fit.

    While every problem has its share of an SM, a lane for every joint and knot is fastest; beyond, 128 lanes let four problems share
    an SM, so that their sweeps overlap.

    Args:
        n: Joints.
        knots: Knots N.
        batch: Problems M.
        processors: SMs of the device.
    """
    if n > warp_sweep.LARGEST:
        return None
    wide = 32 * -(-min(8 * knots, 512) // 32)
    threads = wide if batch <= processors * (2 if wide <= 256 else 1) else min(wide, 128)
    shapes = (BlockShape(n, knots, threads), BlockShape(n, knots, min(threads, 128)))
    return next((shape for shape in shapes if 4 * shape.shared <= SHARED_MEMORY), None)


START = """
constexpr int knots = @knots, GROUPS = threads / 8, HSIZE = 9 * n * n;
constexpr bool ON_CHIP = GROUPS >= knots;
const real h = step.data[0];
real* const x_own = X.data + (size_t)problem * knots * 2 * n;
real* const a_own = A.data + (size_t)problem * (knots - 1) * n;
real* const scratch = shared + @sweep;
real* const gains = shared;
real* const steps = shared + knots * GAINS;
real* const stage = shared + @costs;  // costs at the iterate, then of two candidates in turn
real* const flags = shared + @flags;
const int group = thread >> 3;
if (start != 0) {
    real* const staged = steps;
    const real moved = shift.data[0];
    const int whole = (int)wp::floor(moved);
    const real part = moved - real(whole);
    for (int i = thread; i < (knots - 1) * n; i += threads) {
        const int k = i / n, joint = i - k * n;
        real value = real(0);
        if (start == 1) value = a_own[i];
        else if (moved >= real(0)) {
            // the mean of the previous, piecewise constant accelerations over the shifted interval
            const int early = wp::min(k + whole, knots - 2), late = wp::min(k + whole + 1, knots - 2);
            value = (1 - part) * best.data[early * n + joint] + part * best.data[late * n + joint];
        }
        staged[i] = value;
        a_own[i] = value;
    }
    WP_TILE_SYNC();
    if (thread < n) {
        real q = x0.data[(size_t)problem * 2 * n + thread], v = x0.data[(size_t)problem * 2 * n + n + thread];
        x_own[thread] = q; x_own[n + thread] = v;
        for (int k = 0; k < knots - 1; ++k) {
            const real a = staged[k * n + thread];
            q = q + h * (v + real(0.5) * h * a);
            v = v + h * a;
            x_own[(k + 1) * 2 * n + thread] = q; x_own[(k + 1) * 2 * n + n + thread] = v;
        }
    }
    WP_TILE_SYNC();
}
auto total = [&](const real* from, bool magnitudes) -> double {
    double part[4] = {0.0, 0.0, 0.0, 0.0};
    WP_PRAGMA_NO_UNROLL
    for (int k = 0; k < knots; k += 4) {
        WP_PRAGMA_UNROLL
        for (int i = 0; i < 4; ++i) {
            const real c = k + i < knots ? from[k + i] : real(0);
            part[i] += (double)(magnitudes ? wp::abs(c) : c);
        }
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
};
real rho = damping.data[problem], stationarity = gradient.data[problem], residual = kkt.data[problem], decrease = real(0);
int fail = 0;
"""

TERMS = """
WP_PRAGMA_NO_UNROLL
for (int pass = 0; pass < knots; pass += GROUPS) {
    const int k = pass + group < knots ? pass + group : knots - 1;
    @read
    const real q = on ? x_own[k * 2 * n + jj] : real(0), v = on ? x_own[k * 2 * n + n + jj] : real(0);
    const real a = on && !last ? a_own[k * n + jj] : real(0);
    real* const Gk = shared + group * 3 * n * @gs;
    real* const Hk = shared + @hessian + group * HSIZE;
    real* const gk = shared + @gradient + group * 3 * n;
    real cost, torque;
    @knot
    cost = group_sum(cost);
    if (j == 0 && pass + group < knots) stage[k] = cost;
    if (!ON_CHIP) {
        WP_TILE_SYNC();
        const int valid = knots - pass < GROUPS ? knots - pass : GROUPS;
        const size_t first = (size_t)problem * knots + pass;
        for (int i = thread; i < valid * HSIZE; i += threads) H.data[first * HSIZE + i] = shared[@hessian + i];
        for (int i = thread; i < valid * 3 * n; i += threads) g.data[first * 3 * n + i] = shared[@gradient + i];
        WP_TILE_SYNC();
    }
}
WP_TILE_SYNC();
"""

SWEEP = """
if (only_warp(0)) {
    const real* const sweep_H = ON_CHIP ? shared + @hessian : H.data + (size_t)problem * knots * HSIZE;
    const real* const sweep_g = ON_CHIP ? shared + @gradient : g.data + (size_t)problem * knots * 3 * n;
    constexpr int frames = knots;
    int fail; real largest, decrease;
    @backward
    const real start_q = real(0), start_v = real(0);
    @forward
    if (lane == 0) { flags[0] = real(fail); flags[1] = largest; flags[2] = decrease; }
}
WP_TILE_SYNC();
fail = (int)flags[0];
if (!fail) { stationarity = flags[1]; decrease = flags[2]; }
"""

MERIT = """
real* const tried = stage + knots * (1 + (candidate & 1));
WP_PRAGMA_NO_UNROLL
for (int pass = 0; pass < knots; pass += GROUPS) {
    const int k = pass + group < knots ? pass + group : knots - 1;
    @read
    const Four d = *(const Four*)(steps + k * 32 + jj * 4);
    const real q = on ? x_own[k * 2 * n + jj] + alpha * d.x : real(0), v = on ? x_own[k * 2 * n + n + jj] + alpha * d.y : real(0);
    const real a = on && !last ? a_own[k * n + jj] + alpha * d.z : real(0);
    real cost, torque;
    @knot
    cost = group_sum(cost);
    if (j == 0 && pass + group < knots) tried[k] = cost;
}
WP_TILE_SYNC();
"""

ITERATE = """
WP_PRAGMA_NO_UNROLL
for (int iteration = 0; iteration < iterations; ++iteration) {
    {
        @terms
    }
    real value = real(total(stage, false)), size = real(0);
    const real magnitude = real(total(stage, true)), slack = real(@noise) * magnitude;
    bool open = true;
    WP_PRAGMA_NO_UNROLL
    for (int attempt = 0; attempt <= retries && open; ++attempt) {
        {
            @sweep
        }
        if (attempt == 0) residual = stationarity;
        // Near the optimum the true decrease is below the rounding of the sum: there a step within the noise is taken.
        real bound = decrease <= slack ? value + slack : value;
        int chosen = -1;
        WP_PRAGMA_NO_UNROLL
        for (int candidate = 0; candidate < @candidates && fail == 0 && chosen != 0; ++candidate) {
            const real alpha = reciprocal((real)(1 << candidate));
            {
                @merit
                const real sum = real(total(tried, false));
                if (sum <= bound) { bound = sum; chosen = candidate; }  // false for NaN
            }
        }
        if (chosen >= 0) {
            const real alpha = reciprocal((real)(1 << chosen));
            for (int i = thread; i < knots * 8; i += threads) {
                const int k = i >> 3, joint = i & 7;
                if (joint < n) {
                    const Four d = *(const Four*)(steps + k * 32 + joint * 4);
                    x_own[k * 2 * n + joint] += alpha * d.x;
                    x_own[k * 2 * n + n + joint] += alpha * d.y;
                    if (k < knots - 1) a_own[k * n + joint] += alpha * d.z;
                }
            }
            open = false;
            value = bound;
            size = alpha;
            rho = rho / real(@factor);
            if (rho < real(@least)) rho = real(0);
        } else {
            rho = wp::min(wp::max(rho * real(@factor), real(@least)), real(@most));
        }
        WP_TILE_SYNC();
    }
    if (thread == 0) {
        active.data[problem] = open ? 1 : 0; merit.data[problem] = value; spread.data[problem] = magnitude; step_size.data[problem] = size;
    }
}
WP_TILE_SYNC();
if (thread == 0) {
    damping.data[problem] = rho; gradient.data[problem] = stationarity; kkt.data[problem] = residual;
    predicted_decrease.data[problem] = decrease; pivot_failed.data[problem] = fail;
}
"""


def body(shape: BlockShape) -> str:
    """The text of a block."""
    # damping acts on (q, h v, h^2 a), the sweep's own unknowns, with weight rho each
    store = "if (lane < 8) *(Four*)(steps + k * 32 + lane * 4) = Four{step_q, step_v, step_a, real(0)};"
    parts = {"terms": TERMS, "sweep": SWEEP, "merit": MERIT}
    parts["terms"] = parts["terms"].replace("@read", joint_lanes.KNOT_READ).replace("@knot", joint_lanes.knot(derivatives=True))
    parts["merit"] = parts["merit"].replace("@read", joint_lanes.KNOT_READ).replace("@knot", joint_lanes.knot(derivatives=False))
    backward = warp_sweep.backward(shape.n, ("rho", "rho", "rho"))
    parts["sweep"] = parts["sweep"].replace("@backward", backward).replace("@forward", warp_sweep.forward(store))
    text = ITERATE
    for name, part in parts.items():
        text = text.replace(f"@{name}\n", part)
    text = prelude(shape.at("exchange")) + joint_lanes.helpers(shape.n) + warp_sweep.sizes(shape.n) + START + text
    for name in ("hessian", "gradient", "sweep", "costs", "flags"):
        text = text.replace(f"@{name}", str(shape.at(name)))
    constants = {"knots": shape.knots, "candidates": CANDIDATES, "noise": NOISE, "least": DAMPING_MIN, "most": DAMPING_MAX}
    constants |= {"factor": DAMPING_FACTOR, "gs": joint_lanes.G_STRIDE}
    for key, constant in constants.items():
        text = text.replace(f"@{key}", repr(constant))
    return text


@wp.struct
class IterationArrays:
    """Arrays of the iterations: the problem, the iterate, and what they report; shapes as in `SqpSolver`."""

    x0: wp.array(dtype=float, ndim=2)
    X: wp.array(dtype=float, ndim=3)
    A: wp.array(dtype=float, ndim=3)
    wrenches: wp.array(dtype=float, ndim=2)
    targets: wp.array(dtype=float, ndim=2)
    weights: wp.array(dtype=float)
    nominal: wp.array(dtype=float)
    table: wp.array(dtype=float, ndim=3)
    step: wp.array(dtype=float)
    H: wp.array(dtype=float, ndim=4)
    g: wp.array(dtype=float, ndim=3)
    active: wp.array(dtype=wp.int32)
    pivot_failed: wp.array(dtype=wp.int32)
    merit: wp.array(dtype=float)
    spread: wp.array(dtype=float)
    step_size: wp.array(dtype=float)
    damping: wp.array(dtype=float)
    kkt: wp.array(dtype=float)
    gradient: wp.array(dtype=float)
    predicted_decrease: wp.array(dtype=float)


NAMES = tuple(IterationArrays.vars)


@cache
def iteration_kernel(shape: BlockShape) -> Any:
    """The kernel of one block shape: launched tiled, [problems], with (arrays, best, shift, start, iterations, retries)."""
    text = "".join(f"const auto& {name} = arrays.{name};\n" for name in NAMES) + body(shape)
    size, per_processor = shape.shared, max(1, 512 // shape.threads)

    @wp.func_native(text)
    def iterate(
        arrays: IterationArrays,
        best: wp.array(dtype=float, ndim=2),
        shift: wp.array(dtype=float),
        start: int,
        iterations: int,
        retries: int,
        problem: int,
        storage: Any,
    ): ...

    @wp.kernel(**OPTIONS, launch_bounds=(shape.threads, per_processor))
    def sqp_block_iteration(
        arrays: IterationArrays,
        best: wp.array(dtype=float, ndim=2),  # (knots - 1, n) accelerations of the previous plan, for start = SHIFT
        shift: wp.array(dtype=float),  # (1,) knots between the starts of the plans; negative: no previous plan
        start: int,  # KEEP, ROLL_OUT or SHIFT
        iterations: int,
        retries: int,
    ):
        problem = wp.tid()
        storage = wp.tile_empty(shape=size, dtype=float, storage="shared")
        iterate(arrays, best, shift, start, iterations, retries, problem, storage)

    return sqp_block_iteration
