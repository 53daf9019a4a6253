"""Straight-line code from traced scalars: C++ for Warp native functions, Python for the host."""

from collections.abc import Callable, Mapping, Sequence

from branch_mpc.expression import Number, Scalar, live

COMPARISONS = {"less": "<", "at_most": "<="}
CPP_TYPE = {"float32": "float", "float64": "double"}


def cpp(
    outputs: Sequence[tuple[str, Number]],
    loads: Mapping[str, str],
    dtype: str = "float32",
    *,
    kind: str | None = None,
    call: str = "wp::{function}({x})",
) -> str:
    """C++ statements that compute the outputs.

    Args:
        outputs: (lvalue, scalar) pairs, stored as soon as they are known.
        loads: C++ expression of each input name.
        dtype: 'float32' or 'float64', the precision of literals.
        kind: C++ type of the temporaries, where it is not that of a literal: a vector of lanes.
        call: How 'sin' and 'cos' are called.
    """
    kind = kind or CPP_TYPE[dtype]

    def literal(value: float) -> str:
        text = repr(value)
        text += "f" if dtype == "float32" else ""
        return text if value >= 0 else f"({text})"

    return "\n".join(
        _statements(
            outputs,
            loads,
            literal,
            declare=f"const {kind} {{name}} = {{value}};",
            store="{name} = {value};",
            call=call,
            choose="({x} ? {yes} : {no})",
        )
    )


def python(outputs: Sequence[tuple[str, Number]], loads: Mapping[str, str]) -> list[str]:
    """Python statements that compute the outputs in float64; `sin` and `cos` are names of the caller's scope."""
    return _statements(
        outputs,
        loads,
        lambda value: f"({value!r})",
        declare="{name} = {value}",
        store="{name} = {value}",
        call="{function}({x})",
        choose="({yes} if {x} else {no})",
    )


def _statements(
    outputs: Sequence[tuple[str, Number]],
    loads: Mapping[str, str],
    literal: Callable[[float], str],
    *,
    declare: str,
    store: str,
    call: str,
    choose: str,
) -> list[str]:
    scalars = [value for _, value in outputs if isinstance(value, Scalar)]
    lines = [store.format(name=name, value=literal(float(value))) for name, value in outputs if not isinstance(value, Scalar)]
    if not scalars:
        return lines
    graph = scalars[0].graph
    order = live(scalars)
    uses = dict.fromkeys(order, 0)
    for index in order:
        for operand in graph.operands[index]:
            uses[operand] += 1
    stores: dict[int, list[str]] = {}
    for name, value in outputs:
        if isinstance(value, Scalar):
            stores.setdefault(value.index, []).append(name)
    text: dict[int, str] = {}
    for index in order:
        operation, operands = graph.operation[index], [text[operand] for operand in graph.operands[index]]
        if operation == "constant":
            text[index] = literal(graph.value[index])
        elif operation == "input":
            text[index] = f"in_{graph.value[index]}"
            lines.append(declare.format(name=text[index], value=loads[graph.value[index]]))
        else:
            value = _value(operation, operands, literal, call, choose)
            if uses[index] == 1 and index not in stores and operation in ("mul", "neg"):
                text[index] = f"({value})"  # a product used once stays in its sum, where it becomes a fused multiply-add
            else:
                text[index] = f"t{index}"
                lines.append(declare.format(name=text[index], value=value))
        lines.extend(store.format(name=name, value=text[index]) for name in stores.get(index, ()))
    return lines


def _value(operation: str, x: list[str], literal: Callable[[float], str], call: str, choose: str) -> str:
    infix = {"add": "+", "sub": "-", "mul": "*"}
    if operation in infix:
        return f"{x[0]} {infix[operation]} {x[1]}"
    if operation == "neg":
        return f"-{x[0]}"
    if operation == "reciprocal":
        return f"{literal(1.0)} / {x[0]}"
    if operation == "where":
        return choose.format(x=x[0], yes=x[1], no=x[2])
    if operation in COMPARISONS:
        return choose.format(x=f"{x[0]} {COMPARISONS[operation]} {x[1]}", yes=literal(1.0), no=literal(0.0))
    return call.format(function=operation, x=", ".join(x))
