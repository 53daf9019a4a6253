"""Scalar expressions as a hash-consed graph: the arithmetic of a robot, written once and emitted as code.

Rigid-body algorithms run on `Scalar` objects instead of numbers. Constants fold and structural zeros
vanish while the graph is built, equal expressions are one node, derivatives are taken on the graph
(reverse mode), and `emit` turns the live part of it into straight-line code.
"""

import math
from collections.abc import Callable, Sequence
from typing import Union

Number = Union["Scalar", float, int]


class Graph:
    """Nodes of one trace, in evaluation order."""

    def __init__(self) -> None:
        self.operation: list[str] = []
        """Per node: 'constant', 'input', 'add', 'sub', 'mul', 'neg', 'reciprocal', 'sin' or 'cos'."""
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
        return self._unary("reciprocal", lambda value: 1.0 / value)

    def sin(self) -> "Scalar":
        """Return the sine."""
        return self._unary("sin", math.sin)

    def cos(self) -> "Scalar":
        """Return the cosine."""
        return self._unary("cos", math.cos)

    def _unary(self, operation: str, fold: Callable[[float], float]) -> "Scalar":
        if self.constant is not None:
            return self.graph.constant(fold(self.constant))
        return self.graph.node(operation, (self.index,))

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


def gradient(output: Scalar, inputs: Sequence[Scalar]) -> list[Scalar]:
    """Return the derivatives of one output with respect to inputs, by the reverse mode on the graph.

    Args:
        output: The differentiated node.
        inputs: Input nodes.
    """
    graph = output.graph
    depends = {x.index for x in inputs}
    order = []
    for index in live([output]):
        if index in depends or any(k in depends for k in graph.operands[index]):
            depends.add(index)
            order.append(index)
    adjoint: dict[int, Scalar] = {output.index: graph.constant(1.0)}
    for index in reversed(order):
        bar = adjoint.get(index)
        if bar is None or bar.constant == 0:
            continue
        for operand, partial in _partials(graph, index):
            if operand in depends:
                term = bar * partial
                adjoint[operand] = adjoint[operand] + term if operand in adjoint else term
    zero = graph.constant(0.0)
    return [adjoint.get(x.index, zero) for x in inputs]


def _partials(graph: Graph, index: int) -> list[tuple[int, Number]]:
    operation, operands = graph.operation[index], graph.operands[index]
    if not operands:
        return []
    x = Scalar(graph, operands[0])
    if operation == "add":
        return [(operands[0], 1.0), (operands[1], 1.0)]
    if operation == "sub":
        return [(operands[0], 1.0), (operands[1], -1.0)]
    if operation == "mul":
        return [(operands[0], Scalar(graph, operands[1])), (operands[1], Scalar(graph, operands[0]))]
    if operation == "neg":
        return [(operands[0], -1.0)]
    if operation == "sin":
        return [(operands[0], x.cos())]
    if operation == "cos":
        return [(operands[0], -x.sin())]
    own = Scalar(graph, index)
    return [(operands[0], -(own * own))]  # reciprocal
