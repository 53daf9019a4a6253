"""The kernels of a residual term: its quadratic approximation and its cost, one thread per (evaluation, instance)."""

from dataclasses import dataclass

import numpy as np

from branch_mpc.branch.arrays import Strided
from branch_mpc.branch.blocks import Twists
from branch_mpc.branch.program import Program
from branch_mpc.branch.residual import Body, gauss_newton
from branch_mpc.branch.residual_term import ResidualTerm


@dataclass(frozen=True, eq=False)
class ResidualCode:
    """Programs and inputs of a term.

    Attributes:
        linearize: Fills the slots and the costs.
        evaluate: Fills the costs.
        arrays: Array by its name in the code.
        index: Where each evaluation reads its blocks: (evaluations, block arguments), numbers from the start of an instance.
    """

    linearize: Program
    evaluate: Program
    arrays: dict[str, Strided]
    index: np.ndarray


def code(term: ResidualTerm, dtype: str) -> ResidualCode:
    """Generate the kernels of a term.

    Raises:
        ProblemError: The residual cannot be traced or returns the wrong width.
    """
    residual, (frames, blocks) = term.residual, term.shape
    full, cost, _ = gauss_newton(residual, term.coordinates, dtype)
    arrays, index, text = {}, [], f"using T = wp::{dtype};\nconst int frame = group / {blocks}, block = group % {blocks};\n"
    for name, view in term.blocks.items():
        owner = view.owner
        data = owner.pose if isinstance(owner, Twists) else owner.q
        assert data is not None
        span = 7 if residual.arguments[name] is Body else 1
        at = np.array(view.frames)[:, None] * data.strides[1] + np.array(view.members)[None, :] * span
        index.append(np.broadcast_to(at, term.shape).ravel())
        arrays[f"data_{name}"] = data
        entry = f"index.data[group * {len(term.blocks)} + {len(index) - 1}]"
        text += f"const T* const p_{name} = data_{name}.data + (size_t)cell * {data.strides[0]} + {entry};\n"
    for name, data in (*term.data.items(), ("weight", term.weight)):
        arrays[f"data_{name}"] = data
        s = data.strides
        text += f"const T* const p_{name} = data_{name}.data + (size_t)cell * {s[0]} + frame * {s[1]} + block * {s[2]};\n"
    text += "const T weight = p_weight[0];\nT& cost = costs.data[(size_t)cell * EVALUATIONS + group];\n".replace(
        "EVALUATIONS", str(frames * blocks)
    )
    slot = f"T* const H = slots.data + ((size_t)cell * {frames * blocks} + group) * {term.slot};\nT* const g = H + {term.width**2};\n"
    return ResidualCode(
        Program("linearize", text + slot + full, 0, True),
        Program("evaluate", text + cost, 0, True),
        arrays,
        np.stack(index, axis=1).astype(np.int32),
    )
