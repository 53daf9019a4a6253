"""Knots, references, objective: the quadratic terms of every knot, as generated kernels."""
