"""The same dynamics on the host, in float64, without Warp: for the guard's fallback, the plant's checks and tests."""

import math
from collections.abc import Callable

import numpy as np

from branch_mpc.dynamics import rigid_body
from branch_mpc.dynamics.emit import python
from branch_mpc.dynamics.expression import Number
from branch_mpc.robot.articulation import Articulation

ZERO_WRENCH = np.zeros(6)


def compiled(outputs: list[Number], inputs: dict[str, int], functions: object = math) -> Callable[..., tuple]:
    """Return a Python function of the inputs (one sequence per name) that returns the outputs in order.

    Args:
        outputs: Traced scalars.
        inputs: Number of scalars of each input, by name, in argument order.
        functions: Module of `sin` and `cos`: `math` for floats, `numpy` for arrays of any shape.
    """
    loads = {f"{name}{i}": f"{name}[{i}]" for name, count in inputs.items() for i in range(count)}
    body = python([(f"y{i}", value) for i, value in enumerate(outputs)], loads)
    results = " ".join(f"y{i}," for i in range(len(outputs)))
    source = [f"def function({', '.join(inputs)}):", *("    " + line for line in body), f"    return ({results})"]
    scope = {"sin": functions.sin, "cos": functions.cos}  # type: ignore[attr-defined]
    exec(compile("\n".join(source), "<branch_mpc host dynamics>", "exec"), scope)
    return scope["function"]


class HostDynamics:
    """Kinematics and dynamics of one articulation in float64 (RBDA Tables 5.1 and 6.2, traced)."""

    def __init__(self, articulation: Articulation) -> None:
        self.articulation = articulation
        n = articulation.dof
        trace = rigid_body.start(articulation)
        at = rigid_body.frames(trace)
        self._tool = compiled([*at.tool_translation, *(x for row in at.tool_rotation for x in row)], {"q": n})
        self._jacobian = compiled([x for row in rigid_body.tool_jacobian(trace, at) for x in row], {"q": n})
        self._torque = compiled(rigid_body.inverse_dynamics(trace, at), {"q": n, "v": n, "a": n, "w": 6})
        still = rigid_body.inverse_dynamics(trace, at, acceleration=False, velocity=False, wrench=False)
        self._gravity = compiled(still, {"q": n})
        self._mass = compiled([x for row in rigid_body.mass_matrix(trace, at) for x in row], {"q": n})

    def tool(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tool position [m], shape (3,), and rotation, shape (3, 3), in the base frame at q, shape (n,)."""
        values = np.array(self._tool(_floats(q)))
        return values[:3], values[3:].reshape(3, 3)

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Return the tool Jacobian, rows (linear, angular), base axes, shape (6, n)."""
        return np.array(self._jacobian(_floats(q))).reshape(6, -1)

    def inverse_dynamics(self, q: np.ndarray, v: np.ndarray, a: np.ndarray, wrench: np.ndarray = ZERO_WRENCH) -> np.ndarray:
        """Return the torques M a + b(q, v) - J' w, shape (n,), for a world wrench (force, moment) on the tool."""
        return np.array(self._torque(_floats(q), _floats(v), _floats(a), _floats(wrench)))

    def gravity(self, q: np.ndarray) -> np.ndarray:
        """Return the torques that hold the arm still at q, shape (n,)."""
        return np.array(self._gravity(_floats(q)))

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """Return the joint-space inertia at q, shape (n, n)."""
        n = self.articulation.dof
        return np.array(self._mass(_floats(q))).reshape(n, n)


def _floats(x: np.ndarray) -> list[float]:
    # Python floats run the generated code three times faster than NumPy scalars do.
    return np.asarray(x, dtype=float).tolist()
