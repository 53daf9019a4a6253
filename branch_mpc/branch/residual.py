"""Residuals written as Python functions: their Jacobian is taken on the graph of a trace, and emitted as straight-line code.

A residual is a function of bodies, single unknowns and data. While it is traced a body's pose moves with its twist x about the value
in `pose`, and an unknown d.value about zero; the derivatives are taken there.
"""

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import warp as wp

from branch_mpc.branch.arrays import scalar_type, scalars
from branch_mpc.branch.blocks import TWIST
from branch_mpc.branch.symbols import (
    SHIM,
    Matrix,
    Quaternion,
    Vector,
    atan2,
    cross,
    dot,
    maximum,
    quat_inverse,
    quat_rotate,
    quat_to_matrix,
    sqrt,
    where,
)
from branch_mpc.derivative import gradient, replaced
from branch_mpc.emit_text import cpp
from branch_mpc.errors import ProblemError
from branch_mpc.expression import Graph, Number, Scalar

POSE = 7  # numbers of a pose: position, quaternion xyzw


@dataclass(frozen=True)
class Body:
    """A body in a residual.

    Attributes:
        position: Origin of the body in the world [m].
        quaternion: Its orientation, unit, xyzw.
        twist: The unknown x_b (6,), zero at the point of linearisation.
    """

    position: Vector
    quaternion: Quaternion
    twist: Vector

    @property
    def rotation(self) -> Matrix:
        """Rotation from body to world axes."""
        return quat_to_matrix(self.quaternion)


@dataclass(frozen=True)
class Dof:
    """A single unknown in a residual.

    Attributes:
        q: Value where the problem is linearised, from `q` of the tangents.
        value: The unknown, zero at the point of linearisation.
    """

    q: Any
    value: Any


def position(body: Body, point: Any) -> Any:
    """World position of a point given in body axes."""
    return body.position + quat_rotate(body.quaternion, Vector(*point))


def rotation(body: Body) -> Any:
    """Rotation from body to world axes."""
    return body.rotation


def rotation_error(body: Body, target: Any) -> Any:
    """log(R R_target^T) in world axes [rad], for a unit quaternion.

    Source: Sola, Deray, Atchuthan, A micro Lie theory (2018), equation 133, halved angle by atan2.
    """
    turned = body.quaternion * quat_inverse(Quaternion(*target))
    sign = where(turned[3] < 0.0, -1.0, 1.0)  # the shorter way round
    axis, cosine = Vector(*turned.items[:3]) * sign, turned[3] * sign
    square = maximum(dot(axis, axis), 1e-10)  # below, 2 / cosine is exact to float32 and its derivative is finite
    sine = sqrt(square)
    return axis * where(dot(axis, axis) < 1e-10, 2.0 / cosine, 2.0 * atan2(sine, cosine) / sine)


@dataclass(frozen=True, eq=False)
class Residual:
    """A residual function; made by `residual`.

    Attributes:
        function: The user's function.
        name: Its name.
        arguments: Annotation by argument name.
        width: Numbers it returns, None where it has no return annotation.
    """

    function: Callable[..., Any]
    name: str
    arguments: dict[str, Any]
    width: int | None

    @property
    def blocks(self) -> dict[str, int]:
        """Width of every argument that is a body or an unknown."""
        return {name: TWIST if kind is Body else 1 for name, kind in self.arguments.items() if kind in (Body, Dof)}

    @property
    def data(self) -> dict[str, tuple[int, ...]]:
        """Shape of every other argument."""
        return {
            name: () if kind is float or kind in (wp.float32, wp.float64) else tuple(kind._shape_)
            for name, kind in self.arguments.items()
            if kind not in (Body, Dof)
        }


def residual(function: Callable[..., Any]) -> Residual:
    """Make a residual of a Python function whose arguments are annotated br.Body, br.Dof, float or Warp vectors and matrices.

    It is written as Warp code without loops over data and without `if` on data (use wp.where). The problem adds
    1/2 weight |residual|^2.

    Raises:
        ProblemError: An argument without annotation, or of a type that no residual takes, or no body and no unknown.
    """
    hints = inspect.get_annotations(function, eval_str=True)
    wanted = hints.pop("return", None)
    names = list(inspect.signature(function).parameters)
    for name in names:
        kind = hints.get(name)
        if kind not in (Body, Dof, float) and (kind is None or not isinstance(kind, type) or scalar_type(kind) is None):
            found = f"argument '{name}' of residual '{function.__name__}' is annotated {kind!r}"
            raise ProblemError(found, "annotate br.Body, br.Dof, float, wp.vec3 or another Warp vector or matrix")
    if "weight" in hints:
        raise ProblemError(f"residual '{function.__name__}' has an argument 'weight'", "call it otherwise: problem.add takes weight=")
    width = None if wanted is None else 1 if wanted is float or scalars(wanted) == 1 else scalars(wanted)
    made = Residual(function, function.__name__, {name: hints[name] for name in names}, width)
    if not made.blocks:
        raise ProblemError(f"residual '{made.name}' has no br.Body and no br.Dof", "annotate what it depends on")
    return made


def gauss_newton(made: Residual, coordinates: str, dtype: str) -> tuple[str, str, int]:
    """Code of the quadratic approximation of a residual.

    Args:
        made: The residual.
        coordinates: What a twist means.
        dtype: 'float32' or 'float64'.

    Returns:
        Statements that fill H[m * m] (lower triangle), g[m] and cost from the pointers in_<argument> and the number `weight`; the same
        for the cost only; and the number of residuals.

    Raises:
        ProblemError: The function cannot be traced, returns the wrong width, or has no derivative.
    """
    graph, loads = Graph(), {"weight0": "weight"}
    weight = graph.inputs("weight", 1)[0]
    unknowns, values = [], {}
    for name, kind in made.arguments.items():
        if kind in (Body, Dof):
            local = graph.inputs(f"unknown_{name}_", made.blocks[name])
            unknowns += local
            if kind is Body:
                values[name] = _body(graph, name, local, coordinates, loads)
            else:
                values[name] = Dof(_inputs(graph, name, 1, loads)[0], local[0])
        else:
            values[name] = _data(graph, name, kind, loads)
    try:
        rows = [graph.scalar(v) for v in _rows(_trace(made.function)(**values))]
        _check_width(made, len(rows))
        zero = {x.index: 0.0 for x in unknowns}
        jacobian = [replaced([row, *gradient(row, unknowns)], zero) for row in rows]
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        remedy = "use the functions of wp that residuals may use, and wp.where instead of if"
        raise ProblemError(f"residual '{made.name}' cannot be traced: {error}", remedy) from error
    m = len(unknowns)
    outputs: list[tuple[str, Number]] = []
    for i in range(m):
        weighted = [weight * row[1 + i] for row in jacobian]
        outputs += [(f"H[{i * m + j}]", dot(weighted, [row[1 + j] for row in jacobian])) for j in range(i + 1)]
        outputs.append((f"g[{i}]", dot(weighted, [row[0] for row in jacobian])))
    cost: Number = 0.5 * weight * dot([row[0] for row in jacobian], [row[0] for row in jacobian])
    return cpp([*outputs, ("cost", cost)], loads, dtype), cpp([("cost", cost)], loads, dtype), len(rows)


def plain_function(made: Residual) -> Callable[..., Any]:
    """The residual on plain numbers: Body, Dof, Vector, Matrix and float in, numbers out."""
    return _trace(made.function)


def _inputs(graph: Graph, name: str, count: int, loads: dict[str, str]) -> list[Scalar]:
    loads |= {f"{name}_{i}": f"p_{name}[{i}]" for i in range(count)}
    return graph.inputs(f"{name}_", count)


def _body(graph: Graph, name: str, local: list[Scalar], coordinates: str, loads: dict[str, str]) -> Body:
    """Pose to first order in the twist."""
    pose = _inputs(graph, name, POSE, loads)
    linear, angular = Vector(*local[:3]), Vector(*local[3:])
    at, turn = Vector(*pose[:3]), Quaternion(*pose[3:])
    half = Quaternion(*(0.5 * w for w in angular), 0.0)
    if coordinates == "body":
        return Body(at + quat_rotate(turn, linear), turn + turn * half, Vector(*local))
    moved = at + linear + cross(angular, at) if coordinates == "world" else at + linear
    return Body(moved, turn + half * turn, Vector(*local))


def _data(graph: Graph, name: str, kind: Any, loads: dict[str, str]) -> Any:
    shape = () if kind is float else tuple(getattr(kind, "_shape_", ()))
    if not shape:
        return _inputs(graph, name, 1, loads)[0]
    values = _inputs(graph, name, scalars(kind), loads)
    if len(shape) == 2:
        return Matrix([values[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])])
    return Quaternion(*values) if "quat" in kind.__name__ else Vector(*values)


def _rows(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [row for part in value for row in _rows(part)]
    if isinstance(value, Matrix):
        return [entry for row in value.rows for entry in row]
    return list(value) if isinstance(value, Vector) else [value]


def _check_width(made: Residual, found: int) -> None:
    if made.width is not None and made.width != found:
        raise ProblemError(f"residual '{made.name}' returns {found} numbers, its annotation says {made.width}", "make them agree")


def _trace(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same code in a scope where `wp` is the shim; helpers of the same module see it too."""
    scope = dict(function.__globals__)
    for name, value in function.__globals__.items():
        if value is wp:
            scope[name] = SHIM
        elif isinstance(value, wp.Function) and isinstance(value.func, types.FunctionType):
            scope[name] = _again(value.func, scope)
        elif isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            scope[name] = _again(value, scope)
    return _again(function, scope)


def _again(function: Any, scope: dict[str, Any]) -> Any:
    cells = tuple(types.CellType(SHIM if cell.cell_contents is wp else cell.cell_contents) for cell in function.__closure__ or ())
    return types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
