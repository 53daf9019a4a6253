"""Slow float64 NumPy twins, written from the textbooks and not from the kernels. No room imports them."""
