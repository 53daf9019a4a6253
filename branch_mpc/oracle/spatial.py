"""Spatial vector algebra: the few operators of Featherstone's chapter 2 that the twins need, complex numbers allowed.

Vectors are (angular; linear). Equation numbers: R. Featherstone, Rigid Body Dynamics Algorithms (RBDA), Springer 2008.
"""

import numpy as np


def skew(vector: np.ndarray) -> np.ndarray:
    """Return the matrix of the cross product, vector x (RBDA eq. 2.23), shape (3, 3)."""
    x, y, z = vector
    zero = 0.0 * x
    return np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]])


def motion_cross(velocity: np.ndarray) -> np.ndarray:
    """Return the spatial cross product with a motion vector, v x (RBDA eq. 2.31), shape (6, 6)."""
    angular, linear = skew(velocity[:3]), skew(velocity[3:])
    return np.block([[angular, np.zeros((3, 3))], [linear, angular]])


def motion_transform(rotation: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Return X that takes motion vectors from the parent to the link whose frame is given (RBDA eq. 2.24), shape (6, 6).

    Its transpose takes forces from the link to the parent (RBDA eq. 2.25).
    """
    turn = rotation.T
    return np.block([[turn, np.zeros((3, 3))], [-turn @ skew(origin), turn]])
