"""Derivatives on the graph of a trace: reverse mode, and replacing inputs by values."""

from collections.abc import Mapping, Sequence

from branch_mpc.expression import Graph, Number, Scalar, live


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


def replaced(outputs: Sequence[Scalar], values: Mapping[int, Number]) -> list[Scalar]:
    """Return the outputs with nodes replaced by values, folded again.

    Args:
        outputs: Nodes.
        values: New value per index of a replaced node, usually an input.
    """
    graph = outputs[0].graph
    made = {index: graph.scalar(value) for index, value in values.items()}
    for index in live(outputs):
        if index in made:
            continue
        operands = graph.operands[index]
        if all(made[k].index == k for k in operands):
            made[index] = Scalar(graph, index)
        else:
            made[index] = _again(graph.operation[index], [made[k] for k in operands])
    return [made[output.index] for output in outputs]


def _again(operation: str, x: list[Scalar]) -> Scalar:
    if operation == "add":
        return x[0] + x[1]
    if operation == "sub":
        return x[0] - x[1]
    if operation == "mul":
        return x[0] * x[1]
    if operation == "neg":
        return -x[0]
    if operation == "where":
        return x[0].where(x[1], x[2])
    return x[0].unary(operation) if len(x) == 1 else x[0].binary(operation, x[1])


def _partials(graph: Graph, index: int) -> list[tuple[int, Number]]:
    operation, operands = graph.operation[index], graph.operands[index]
    if not operands:
        return []
    x = [Scalar(graph, operand) for operand in operands]
    own = Scalar(graph, index)
    return list(zip(operands, _rules(operation, own, x), strict=True))


def _rules(operation: str, own: Scalar, x: list[Scalar]) -> list[Number]:
    """Partial derivatives of a node with respect to its operands; one-sided where there is a kink."""
    first = x[0]
    if operation == "add":
        return [1.0, 1.0]
    if operation == "sub":
        return [1.0, -1.0]
    if operation == "mul":
        return [x[1], x[0]]
    if operation == "neg":
        return [-1.0]
    if operation == "where":
        return [0.0, first.where(1.0, 0.0), first.where(0.0, 1.0)]
    if len(x) == 2:
        return _binary_rules(operation, first, x[1])
    return [_unary_rule(operation, own, first)]


def _binary_rules(operation: str, x: Scalar, y: Scalar) -> list[Number]:
    if operation == "max":
        return [(y < x).where(1.0, 0.0), (y < x).where(0.0, 1.0)]
    if operation == "min":
        return [(x < y).where(1.0, 0.0), (x < y).where(0.0, 1.0)]
    if operation == "atan2":
        scale = (x * x + y * y).reciprocal()
        return [y * scale, -(x * scale)]
    return [0.0, 0.0]  # comparisons


def _unary_rule(operation: str, own: Scalar, x: Scalar) -> Number:
    if operation == "sin":
        return x.cos()
    if operation == "cos":
        return -x.sin()
    if operation == "tan":
        return 1.0 + own * own
    if operation == "sqrt":
        return 0.5 * own.reciprocal()
    if operation == "abs":
        return x.unary("sign")
    if operation == "exp":
        return own
    if operation == "log":
        return x.reciprocal()
    if operation == "sign":
        return 0.0
    if operation == "reciprocal":
        return -(own * own)
    root = (1.0 - x * x).unary("sqrt").reciprocal()
    return root if operation == "asin" else -root
