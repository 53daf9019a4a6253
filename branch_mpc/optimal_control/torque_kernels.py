"""Warp kernels of the torque form for one robot."""

from dataclasses import dataclass
from typing import Any

from branch_mpc.errors import SettingError
from branch_mpc.optimal_control import torque_code
from branch_mpc.optimal_control.native import native_kernel
from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.robot.articulation import Articulation

CANDIDATES = 8
"""Step lengths 2^0 .. 2^-7 of the line search."""

PROBLEM = {"x0": 2, "wrenches": 2, "targets": 2, "weights": 1, "nominal": 1, "step": 1}
"""Dimensions of the arrays that state the problem: (problems, 2n), (problems, 6), (knots, 3), (8,), (n,), (1,)."""
BLOCKS = {"Q": 4, "Qi": 4, "Qv": 3, "R": 3, "gx": 3, "gu": 3, "A_out": 4, "B_out": 4, "c": 3, "costs": 2, "defects": 2}
"""Dimensions of the KKT blocks: Q + rho 1 and its inverse (problems, knots, n, n), Qv (.., n), R (problems, knots - 1, n),
gradients gx (problems, knots, 2n) and gu (.., n), A (problems, knots - 1, 2n, 2n), B (.., 2n, n), c (problems, knots, 2n)."""


@dataclass(frozen=True)
class TorqueKernels:
    """Kernels that evaluate the torque form; launch dimensions in brackets."""

    terms: Any
    """(problems, knots): KKT blocks, costs and defects at the iterate."""
    merit: Any
    """(problems, candidates, knots): cost and defect of every knot at every candidate."""
    merit_fused: Any
    """(problems, knots): the same, one thread walking the candidates of its knot."""


def torque_kernels(articulation: Articulation, weights: CostWeights, integrator: str, dtype: str = "float32") -> TorqueKernels:
    """Make the kernels of one robot; the margins of `weights` are compiled in, its weights are an argument.

    Args:
        articulation: The robot, n joints.
        weights: Margins of the barriers.
        integrator: One of torque_code.INTEGRATORS.
        dtype: 'float32' or 'float64'.

    Raises:
        SettingError: An unknown integrator.
    """
    if integrator not in torque_code.INTEGRATORS:
        raise SettingError(f"integrator '{integrator}' does not exist", f"choose one of {', '.join(torque_code.INTEGRATORS)}")
    body = torque_code.merit_body(articulation, weights, dtype, integrator)
    one = f"const int knots = X.shape[1], candidates = {CANDIDATES}, first = candidate_index, end = candidate_index + 1;\n"
    all_of = f"const int knots = X.shape[1], candidates = {CANDIDATES}, first = 0, end = {CANDIDATES};\n"
    iterate = _arrays({"X": 3, "U": 3}, dtype)
    merit = {**iterate, **_arrays({"dX": 3, "dU": 3, **PROBLEM}, dtype), **_flags("active", "failed")}
    merit |= _arrays({"costs": 3, "defects": 3}, dtype)
    terms = {**iterate, **_arrays({**PROBLEM, "rho": 1}, dtype), **_flags("active"), **_arrays(BLOCKS, dtype), **_flags("failed")}
    knots = "const int knots = X.shape[1];\n"
    return TorqueKernels(
        native_kernel(
            "torque_terms", knots + torque_code.terms_body(articulation, weights, dtype, integrator), terms, indices=("problem", "knot")
        ),
        native_kernel("torque_merit", one + body, merit, indices=("problem", "candidate_index", "knot")),
        native_kernel("torque_merit_fused", all_of + body, merit, indices=("problem", "knot")),
    )


def _arrays(dimensions: dict[str, int], dtype: str) -> dict[str, str]:
    return {name: f"{dtype} {count}" for name, count in dimensions.items()}


def _flags(*names: str) -> dict[str, str]:
    return {name: "int32 1" for name in names}
