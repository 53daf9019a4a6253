"""The warp sweep as front bodies of the fused schedule: chains of double integrators, one warp an instance.

`applies` says when it replaces the general body, which remains for everything else. The text is in `warp_sweep`. Gains go through
global memory between `factor` and `solve`, which are launches of their own.
"""

import numpy as np
import warp as wp

from branch_mpc.branch import warp_sweep
from branch_mpc.branch.plan import Plan
from branch_mpc.branch.program import Program
from branch_mpc.branch.text import literal
from branch_mpc.warp_text import prelude

BLOCK = 32


def step_of(plan: Plan) -> float:
    """Return h if the relation is q+ = q + h v + h^2/2 a, v+ = v + h a of every joint, else 0."""
    relation = plan.relation
    A, B, n = relation.A.constant, relation.B.constant, relation.inputs.width
    if A is None or B is None or relation.c is not None or relation.states.width != 2 * n:
        return 0.0
    eye, h = np.eye(n), float(A[0, n])
    expected = np.block([[eye, h * eye], [0 * eye, eye]]), np.vstack([0.5 * h * h * eye, h * eye])
    same = h > 0 and np.allclose(A, expected[0], rtol=1e-12, atol=0) and np.allclose(B, expected[1], rtol=1e-12, atol=0)
    return h if same else 0.0


def applies(plan: Plan, kind: str, block_dim: int, device: wp.Device) -> bool:
    """True when the fused schedule of this plan runs as warp sweeps on this device (on the CPU: on fibers, for tests)."""
    problem = plan.problem
    lanes = device.is_cuda or bool(getattr(wp.config, "enable_cpu_blocks", False))
    if not (lanes and kind == "fused" and plan.kind == "chronological" and block_dim == BLOCK and problem.dtype is wp.float32):
        return False
    if len(problem.quadratics) != 1 or len(problem.dampings) > 1 or plan.relation.inputs.width > warp_sweep.LARGEST:
        return False
    return step_of(plan) > 0.0


def workspace(plan: Plan) -> int:
    """Numbers of global memory per instance: the gains."""
    return plan.relation.inputs.frames * warp_sweep.gain_size(plan.relation.inputs.width)


def programs(plan: Plan) -> tuple[Program, Program]:
    """The factor and solve kernels."""
    return _factor(plan), _solve(plan)


def _start(plan: Plan, scratch: int) -> str:
    n, frames = plan.relation.inputs.width, plan.relation.states.frames
    text = "if (active.data[instance] == 0@skip) return;\n" + prelude(scratch) + warp_sweep.sizes(n)
    text += f"using T = real;\nconstexpr int frames = {frames};\nconstexpr real h = {literal(step_of(plan))};\n"
    return text + "real* const gains = work.data + (size_t)instance * (frames - 1) * GAINS;\n"


def _factor(plan: Plan) -> Program:
    n, damping = plan.relation.inputs.width, ("real(0)",) * 3
    text = _start(plan, warp_sweep.SCRATCH).replace("@skip", "")
    text += "real* const scratch = shared;\nint fail; real largest, decrease;\n"
    text += "const real* const sweep_H = H0.data + (size_t)instance * frames * SZ * SZ;\n"
    text += "const real* const sweep_g = g0.data + (size_t)instance * frames * SZ;\n"
    if plan.problem.dampings:
        scale = plan.problem.dampings[0].scale
        text += f"constexpr real scale[SZ] = {{{', '.join(literal(float(value)) for value in scale)}}};\n"
        text += "const real weight = rho0.data[instance];\n"
        powers = ("", " / (h * h)", " / (h * h * h * h)")
        damping = tuple(f"weight * scale[{at} + r]{power}" for at, power in zip(("0", "SN", "2 * SN"), powers, strict=True))
    text += warp_sweep.backward(n, damping)
    text += "if (thread == 0) {\n    pivot_failed.data[instance] = fail;\n"
    text += "    if (!fail) { gradient.data[instance] = largest; predicted_decrease.data[instance] = decrease; }\n}\n"
    return Program("factor", text, warp_sweep.SCRATCH + BLOCK, False)


def _solve(plan: Plan) -> Program:
    initial = plan.relation.initial is not None
    text = _start(plan, 0).replace("@skip", " || pivot_failed.data[instance] != 0")
    text += "real* const states = states_out.data + (size_t)instance * frames * 2 * SN;\n"
    text += "real* const inputs = inputs_out.data + (size_t)instance * (frames - 1) * SN;\n"
    for name, offset in (("start_q", ""), ("start_v", "SN + ")):
        value = f"lane < SN ? initial.data[(size_t)instance * 2 * SN + {offset}lane] : real(0)" if initial else "real(0)"
        text += f"const real {name} = {value};\n"
    store = "if (lane < SN) { states[k * 2 * SN + lane] = step_q; states[k * 2 * SN + SN + lane] = step_v;"
    store += " if (k < frames - 1) inputs[k * SN + lane] = step_a; }"
    return Program("solve", text + warp_sweep.forward(store), BLOCK, False)
