"""Vectors, matrices and quaternions of traced scalars, and the `wp` that a residual sees while it is traced."""

import math
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from branch_mpc.expression import Number, Scalar


class Vector:
    """Numbers that add, scale and index like a Warp vector."""

    def __init__(self, *items: Any) -> None:
        self.items: list[Any] = _flat(items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def __getattr__(self, name: str) -> Any:
        if name in ("x", "y", "z", "w") and "xyzw".index(name) < len(self.items):
            return self.items["xyzw".index(name)]
        raise AttributeError(name)

    def __add__(self, other: "Vector") -> Any:
        return type(self)(*(a + b for a, b in zip(self, other, strict=True)))

    def __sub__(self, other: "Vector") -> Any:
        return type(self)(*(a - b for a, b in zip(self, other, strict=True)))

    def __neg__(self) -> Any:
        return type(self)(*(-a for a in self))

    def __mul__(self, factor: Any) -> Any:
        if isinstance(factor, Vector | Matrix):
            raise TypeError("a vector times a vector or matrix has no meaning in Warp; use wp.dot, wp.cross, wp.cw_mul or matrix * vector")
        return type(self)(*(a * factor for a in self))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Any:
        return type(self)(*(a / divisor for a in self))


class Quaternion(Vector):
    """(x, y, z, w), multiplied as Hamilton's."""

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Quaternion):
            return super().__mul__(other)
        (ax, ay, az, aw), (bx, by, bz, bw) = self, other
        return Quaternion(
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by + ay * bw + az * bx - ax * bz,
            aw * bz + az * bw + ax * by - ay * bx,
            aw * bw - ax * bx - ay * by - az * bz,
        )


class Matrix:
    """Rows of numbers, multiplied like a Warp matrix."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self.rows = [list(row) for row in rows]

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index[0]][index[1]] if isinstance(index, tuple) else Vector(*self.rows[index])

    def __add__(self, other: "Matrix") -> "Matrix":
        return Matrix([[a + b for a, b in zip(p, q, strict=True)] for p, q in zip(self.rows, other.rows, strict=True)])

    def __sub__(self, other: "Matrix") -> "Matrix":
        return Matrix([[a - b for a, b in zip(p, q, strict=True)] for p, q in zip(self.rows, other.rows, strict=True)])

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Matrix):
            return Matrix([[dot(row, column) for column in zip(*other.rows, strict=True)] for row in self.rows])
        if isinstance(other, Vector):
            return Vector(*(dot(row, other) for row in self.rows))
        return Matrix([[a * other for a in row] for row in self.rows])

    __matmul__ = __mul__

    def __rmul__(self, factor: Number) -> "Matrix":
        return Matrix([[a * factor for a in row] for row in self.rows])


def _flat(items: Sequence[Any]) -> list[Any]:
    return list(items[0]) if len(items) == 1 and isinstance(items[0], Vector | tuple | list) else list(items)


def dot(a: Any, b: Any) -> Any:
    """Sum of products."""
    total: Any = 0.0
    for x, y in zip(a, b, strict=True):
        total = x * y + total
    return total


def cross(a: Vector, b: Vector) -> Vector:
    """Vector product."""
    (ax, ay, az), (bx, by, bz) = a, b
    return Vector(ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx)


def quat_rotate(q: Quaternion, p: Vector) -> Vector:
    """P turned by the unit quaternion q."""
    axis = Vector(*q.items[:3])
    twice = 2.0 * cross(axis, p)
    return p + twice * q[3] + cross(axis, twice)


def quat_inverse(q: Quaternion) -> Quaternion:
    """Conjugate of a unit quaternion."""
    return Quaternion(-q[0], -q[1], -q[2], q[3])


def quat_to_matrix(q: Quaternion) -> Matrix:
    """Rotation matrix of a unit quaternion."""
    columns = [quat_rotate(q, Vector(*(float(i == k) for i in range(3)))) for k in range(3)]
    return Matrix([[column[i] for column in columns] for i in range(3)])


def unary(name: str) -> Callable[[Any], Any]:
    """A function of one number, for scalars and plain numbers."""
    plain = {"abs": abs, "sign": lambda x: -1.0 if x < 0 else 1.0}.get(name) or getattr(math, name)
    return lambda x: x.unary(name) if isinstance(x, Scalar) else plain(x)


def _pair(name: str) -> Callable[[Any, Any], Any]:
    plain: Callable[[Any, Any], Any] = {"min": min, "max": max, "atan2": math.atan2}[name]

    def call(x: Any, y: Any) -> Any:
        if isinstance(x, Vector):
            return type(x)(*(call(a, b) for a, b in zip(x, y, strict=True)))
        if isinstance(x, Scalar):
            return x.binary(name, y)
        return y.graph.scalar(x).binary(name, y) if isinstance(y, Scalar) else plain(x, y)

    return call


minimum, maximum, atan2, sqrt = _pair("min"), _pair("max"), _pair("atan2"), unary("sqrt")


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition is true, else `no`."""
    if isinstance(yes, Vector):
        return type(yes)(*(where(condition, a, b) for a, b in zip(yes, no, strict=True)))
    if isinstance(condition, Scalar):
        return condition.where(yes, no)
    return yes if condition else no


def _matrix(rows: int, columns: int) -> Callable[..., Matrix]:
    def make(*items: Any) -> Matrix:
        flat = [0.0] * (rows * columns) if not items else list(items)
        if len(flat) != rows * columns:
            raise TypeError(f"a matrix of {rows} x {columns} takes {rows * columns} numbers")
        return Matrix([flat[i * columns : (i + 1) * columns] for i in range(rows)])

    return make


def _vector(width: int, kind: type = Vector) -> Callable[..., Vector]:
    def make(*items: Any) -> Vector:
        flat = _flat(items) if items else [0.0] * width
        return kind(*(flat * width if len(flat) == 1 else flat))

    return make


def _length(v: Vector) -> Any:
    return sqrt(dot(v, v))


def _normalize(v: Vector) -> Any:
    return v / _length(v)


def _power(x: Any, exponent: Any) -> Any:
    if isinstance(exponent, Scalar) or float(exponent) != int(exponent):
        return unary("exp")(exponent * unary("log")(x))
    result: Any = 1.0
    for _ in range(abs(int(exponent))):
        result = result * x
    return result if exponent >= 0 else 1.0 / result


def _identity(n: int, dtype: Any = None) -> Matrix:
    return Matrix([[float(i == j) for j in range(n)] for i in range(n)])


class _Warp(types.SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        raise TypeError(f"wp.{name} cannot be traced")


SHIM = _Warp(
    **{name: unary(name) for name in ("sin", "cos", "tan", "sqrt", "abs", "exp", "log", "asin", "acos", "sign")},
    **{f"vec{n}{suffix}": _vector(n) for n in (2, 3, 4) for suffix in ("", "f", "d")},
    **{f"mat{n}{n}{suffix}": _matrix(n, n) for n in (2, 3, 4) for suffix in ("", "f", "d")},
    **{f"quat{suffix}": _vector(4, Quaternion) for suffix in ("", "f", "d")},
    **{f"spatial_vector{suffix}": _vector(6) for suffix in ("", "f", "d")},
    spatial_top=lambda v: Vector(*v.items[:3]),
    spatial_bottom=lambda v: Vector(*v.items[3:]),
    min=minimum,
    max=maximum,
    atan2=atan2,
    where=where,
    clamp=lambda x, low, high: minimum(maximum(x, low), high),
    pow=_power,
    dot=dot,
    cross=cross,
    length=_length,
    length_sq=lambda v: dot(v, v),
    normalize=_normalize,
    cw_mul=lambda a, b: Vector(*(x * y for x, y in zip(a, b, strict=True))),
    transpose=lambda m: Matrix(list(zip(*m.rows, strict=True))),
    identity=_identity,
    skew=lambda v: Matrix([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]]),
    quat_rotate=quat_rotate,
    quat_rotate_inv=lambda q, p: quat_rotate(quat_inverse(q), p),
    quat_inverse=quat_inverse,
    quat_to_matrix=quat_to_matrix,
    quat_identity=lambda dtype=None: Quaternion(0.0, 0.0, 0.0, 1.0),
    float32=lambda x: x,
    float64=lambda x: x,
    PI=math.pi,
    pi=math.pi,
)
