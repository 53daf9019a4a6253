"""The scalar tracer: folding, sharing, derivatives and emitted code."""

import math

import numpy as np
import pytest

from branch_mpc.dynamics.emit import cpp
from branch_mpc.dynamics.expression import Graph, gradient, operation_count
from branch_mpc.dynamics.host import compiled


def test_constants_and_structural_zeros_fold():
    """Arithmetic with 0, 1 and constants leaves no node behind."""
    graph = Graph()
    (x,) = graph.inputs("x", 1)
    assert (x * 0.0).constant == 0.0
    assert (x * 1.0).index == x.index
    assert (x + 0.0).index == x.index
    assert (x - x).constant == 0.0
    negative = -x
    assert (-negative).index == x.index
    assert (2.0 * (3.0 * x)).index == (6.0 * x).index
    assert graph.constant(math.pi).cos().constant == math.cos(math.pi)


def test_equal_expressions_are_one_node():
    """The same expression written twice, operands in any order, costs its operations once."""
    graph = Graph()
    x, y = graph.inputs("x", 2)
    assert operation_count([x * y + y.sin(), y.sin() + y * x]) == 3


def test_gradient_equals_central_differences():
    """Reverse-mode derivatives of every operation equal central differences to 1e-8."""
    graph = Graph()
    x = graph.inputs("x", 3)
    f = (x[0] * x[1]).sin() * x[2].cos() - (x[0] * x[0] + 2.0).reciprocal() + (-x[1]) * x[2] - x[0]
    value, slope = compiled([f], {"x": 3}), compiled(gradient(f, x), {"x": 3})
    at, step = np.array([0.3, -0.7, 1.1]), 1e-5
    numeric = [(value(at + step * e)[0] - value(at - step * e)[0]) / (2 * step) for e in np.eye(3)]
    assert np.allclose(slope(at), numeric, atol=1e-8)


@pytest.mark.parametrize("functions", [math, np], ids=["floats", "arrays"])
def test_host_code_takes_floats_and_arrays(functions):
    """The same trace runs on floats through math and on arrays through NumPy."""
    graph = Graph()
    x = graph.inputs("x", 2)
    function = compiled([x[0].sin() + x[1], 3.0], {"x": 2}, functions)
    if functions is math:
        assert function([0.5, 1.0]) == (math.sin(0.5) + 1.0, 3.0)
    else:
        assert np.array_equal(function([np.array([0.5, 0.1]), np.ones(2)])[0], np.sin([0.5, 0.1]) + 1.0)


def test_cpp_literals_keep_every_bit():
    """A float64 constant is written with all its digits, so kernels that differ in the last bit differ in text."""
    graph = Graph()
    (x,) = graph.inputs("x", 1)
    texts = [cpp([("y", factor * x)], {"x0": "x[0]"}, "float64") for factor in (1.1, math.nextafter(1.1, 2.0))]
    assert texts[0] != texts[1]
    assert "1.1 *" in texts[0] or "* 1.1" in texts[0]
