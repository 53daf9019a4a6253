"""Scalar expressions as a hash-consed graph: arithmetic written once and emitted as code.

Rigid-body algorithms, and the residuals of a user, run on `Scalar` objects instead of numbers. Constants fold and structural
zeros vanish while the graph is built, equal expressions are one node, derivatives are taken on the graph (`derivative`), and
`emit_text` turns the live part of it into straight-line code.
"""

import math
from collections.abc import Callable, Sequence
from typing import Union

Number = Union["Scalar", float, int]
UNARY: dict[str, Callable[[float], float]] = {
    "reciprocal": lambda x: 1.0 / x,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "sqrt": math.sqrt,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "asin": math.asin,
    "acos": math.acos,
    "sign": lambda x: -1.0 if x < 0.0 else 1.0,
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "min": min,
    "max": max,
    "atan2": math.atan2,
    "less": lambda x, y: float(x < y),
    "at_most": lambda x, y: float(x <= y),
}


class Graph:
    """Nodes of one trace, in evaluation order."""

    def __init__(self) -> None:
        self.operation: list[str] = []
        """Per node: 'constant', 'input', 'add', 'sub', 'mul', 'neg', 'reciprocal', or a key of `UNARY`, `BINARY` or 'where'."""
        self.operands: list[tuple[int, ...]] = []
        """Per node: indices of the operands, all smaller than the node's own."""
        self.value: list[float | str | None] = []
        """Per node: value of a constant, name of an input."""
        self._known: dict[tuple, int] = {}

    def node(self, operation: str, operands: tuple[int, ...] = (), value: float | str | None = None) -> "Scalar":
        """Return the node of this operation, making it only if it does not exist."""
        key = (operation, operands, value)
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.operation)
            self.operation.append(operation)
            self.operands.append(operands)
            self.value.append(value)
        return Scalar(self, index)

    def constant(self, value: float) -> "Scalar":
        """Return a constant; -0.0 becomes 0.0."""
        return self.node("constant", value=float(value) + 0.0)

    def inputs(self, name: str, count: int) -> list["Scalar"]:
        """Return `count` inputs called name0, name1, ..."""
        return [self.node("input", value=f"{name}{i}") for i in range(count)]

    def scalar(self, value: Number) -> "Scalar":
        """Return `value` as a node of this graph."""
        return value if isinstance(value, Scalar) else self.constant(float(value))


class Scalar:
    """A node with arithmetic; combining it with a number or another node gives a node."""

    __slots__ = ("graph", "index")

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph, self.index = graph, index

    @property
    def constant(self) -> float | None:
        """Value of a constant node, None for others."""
        return self.graph.value[self.index] if self.graph.operation[self.index] == "constant" else None  # type: ignore[return-value]

    def _operand(self, operation: str, position: int = 0) -> "Scalar | None":
        """Return an operand if this node is that operation."""
        if self.graph.operation[self.index] != operation:
            return None
        return Scalar(self.graph, self.graph.operands[self.index][position])

    def __add__(self, other: Number) -> "Scalar":
        x, y = self, self.graph.scalar(other)
        if x.constant is not None and y.constant is not None:
            return x.graph.constant(x.constant + y.constant)
        if x.constant == 0:
            return y
        if y.constant == 0:
            return x
        if (inner := y._operand("neg")) is not None:
            return x - inner
        if (inner := x._operand("neg")) is not None:
            return y - inner
        return x.graph.node("add", (min(x.index, y.index), max(x.index, y.index)))

    def __sub__(self, other: Number) -> "Scalar":
        x, y = self, self.graph.scalar(other)
        if x.constant is not None and y.constant is not None:
            return x.graph.constant(x.constant - y.constant)
        if y.constant == 0:
            return x
        if x.constant == 0:
            return -y
        if x.index == y.index:
            return x.graph.constant(0.0)
        if (inner := y._operand("neg")) is not None:
            return x + inner
        return x.graph.node("sub", (x.index, y.index))

    def __mul__(self, other: Number) -> "Scalar":
        x, y = self, self.graph.scalar(other)
        if x.constant is not None and y.constant is not None:
            return x.graph.constant(x.constant * y.constant)
        for factor, rest in ((x, y), (y, x)):
            if factor.constant is not None:
                return _scaled(factor.constant, rest)
        for first, second in ((x, y), (y, x)):
            if (inner := first._operand("neg")) is not None:
                return -(inner * second)
        return x.graph.node("mul", (min(x.index, y.index), max(x.index, y.index)))

    def __neg__(self) -> "Scalar":
        if self.constant is not None:
            return self.graph.constant(-self.constant)
        if (inner := self._operand("neg")) is not None:
            return inner
        if (left := self._operand("sub")) is not None:
            right = self._operand("sub", 1)
            assert right is not None
            return self.graph.node("sub", (right.index, left.index))
        return self.graph.node("neg", (self.index,))

    def reciprocal(self) -> "Scalar":
        """Return 1 / self."""
        return self.unary("reciprocal")

    def sin(self) -> "Scalar":
        """Return the sine."""
        return self.unary("sin")

    def cos(self) -> "Scalar":
        """Return the cosine."""
        return self.unary("cos")

    def unary(self, operation: str) -> "Scalar":
        """Return a function of `UNARY`; it is folded where the result is finite."""
        if self.constant is not None:
            return self.graph.constant(UNARY[operation](self.constant))
        return self.graph.node(operation, (self.index,))

    def binary(self, operation: str, other: Number) -> "Scalar":
        """Return a function of `BINARY` of self and other."""
        y = self.graph.scalar(other)
        if self.constant is not None and y.constant is not None:
            return self.graph.constant(BINARY[operation](self.constant, y.constant))
        return self.graph.node(operation, (self.index, y.index))

    def where(self, yes: Number, no: Number) -> "Scalar":
        """Return `yes` where self is not zero, else `no`."""
        a, b = self.graph.scalar(yes), self.graph.scalar(no)
        if self.constant is not None:
            return a if self.constant != 0.0 else b
        return a if a.index == b.index else self.graph.node("where", (self.index, a.index, b.index))

    def __truediv__(self, other: Number) -> "Scalar":
        return self * self.graph.scalar(other).reciprocal()

    def __rtruediv__(self, other: Number) -> "Scalar":
        return self.graph.scalar(other) * self.reciprocal()

    def __lt__(self, other: Number) -> "Scalar":
        return self.binary("less", other)

    def __gt__(self, other: Number) -> "Scalar":
        return self.graph.scalar(other).binary("less", self)

    def __le__(self, other: Number) -> "Scalar":
        return self.binary("at_most", other)

    def __ge__(self, other: Number) -> "Scalar":
        return self.graph.scalar(other).binary("at_most", self)

    def __bool__(self) -> bool:
        if self.constant is None:
            raise TypeError("the branch taken depends on a value that is not known while tracing")
        return self.constant != 0.0

    def __radd__(self, other: Number) -> "Scalar":
        return self + other

    def __rsub__(self, other: Number) -> "Scalar":
        return self.graph.scalar(other) - self

    def __rmul__(self, other: Number) -> "Scalar":
        return self * other


def _scaled(factor: float, x: Scalar) -> Scalar:
    """Return factor * x with 0, 1, -1, signs and nested factors folded."""
    if factor == 0.0:
        return x.graph.constant(0.0)
    if factor == 1.0:
        return x
    if factor == -1.0:
        return -x
    if (inner := x._operand("neg")) is not None:
        return _scaled(-factor, inner)
    for position in (0, 1):
        part = x._operand("mul", position)
        if part is not None and part.constant is not None:
            other = x._operand("mul", 1 - position)
            assert other is not None
            return _scaled(factor * part.constant, other)
    graph = x.graph
    constant = graph.constant(factor)
    return graph.node("mul", (min(constant.index, x.index), max(constant.index, x.index)))


def live(outputs: Sequence[Scalar]) -> list[int]:
    """Return the nodes that the outputs need, in evaluation order."""
    graph = outputs[0].graph
    seen: set[int] = set()
    stack = [output.index for output in outputs]
    while stack:
        index = stack.pop()
        if index not in seen:
            seen.add(index)
            stack.extend(graph.operands[index])
    return sorted(seen)


def operation_count(outputs: Sequence[Scalar]) -> int:
    """Return how many arithmetic operations the outputs need."""
    graph = outputs[0].graph
    return sum(graph.operation[index] not in ("constant", "input") for index in live(outputs))
