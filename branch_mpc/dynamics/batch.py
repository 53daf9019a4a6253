"""Kinematics and dynamics of one articulation for a batch of states on a Warp device."""

from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from branch_mpc.dynamics import rigid_body
from branch_mpc.dynamics.emit import cpp
from branch_mpc.dynamics.expression import Number
from branch_mpc.errors import SettingError
from branch_mpc.robot.articulation import Articulation

REAL = {"float32": wp.float32, "float64": wp.float64}
INPUTS = ("q", "v", "a", "u", "w")


def kernel(articulation: Articulation, outputs: list[Number], dtype: str = "float32") -> Any:
    """Kernel (batch) that evaluates traced scalars of one robot at every state.

    Args:
        articulation: The robot, n joints.
        outputs: Traced scalars of the inputs q, v, a, u (n each) and w (6).
        dtype: 'float32' or 'float64'.
    """
    real, n = REAL[dtype], articulation.dof
    widths = {name: 6 if name == "w" else n for name in INPUTS}
    loads = {f"{name}{i}": f"{name}.data[(size_t)row * {width} + {i}]" for name, width in widths.items() for i in range(width)}
    body = cpp([(f"result.data[(size_t)row * {len(outputs)} + {i}]", value) for i, value in enumerate(outputs)], loads, dtype)

    @wp.func_native(body)
    def evaluate_row(
        q: wp.array(dtype=real, ndim=2),
        v: wp.array(dtype=real, ndim=2),
        a: wp.array(dtype=real, ndim=2),
        u: wp.array(dtype=real, ndim=2),
        w: wp.array(dtype=real, ndim=2),
        result: wp.array(dtype=real, ndim=2),
        row: int,
    ): ...

    @wp.kernel(enable_backward=False, grid_stride=False, module="unique", module_options={"max_unroll": 0})
    def evaluate_dynamics(
        q: wp.array(dtype=real, ndim=2),  # (batch, n) joint positions [rad | m]
        v: wp.array(dtype=real, ndim=2),  # (batch, n) joint velocities [rad/s | m/s]
        a: wp.array(dtype=real, ndim=2),  # (batch, n) joint accelerations [rad/s^2 | m/s^2]
        u: wp.array(dtype=real, ndim=2),  # (batch, n) joint torques [Nm | N]
        w: wp.array(dtype=real, ndim=2),  # (batch, 6) world force and moment on the tool [N, Nm]
        # outputs
        result: wp.array(dtype=real, ndim=2),  # (batch, outputs)
    ):
        row = wp.tid()
        evaluate_row(q, v, a, u, w, result, row)

    return evaluate_dynamics


class BatchDynamics:
    """Evaluates one quantity for many states at once; a quantity compiles when it is first asked for.

    Inputs are NumPy arrays (batch, n) and wrenches (batch, 6); results are NumPy arrays of the device's precision.
    """

    def __init__(self, articulation: Articulation, device: str = "cpu", dtype: str = "float32") -> None:
        """Trace the robot; nothing is compiled yet.

        Args:
            articulation: The robot, n joints.
            device: Name of a Warp device.
            dtype: 'float32' or 'float64'.
        """
        self.articulation, self._device, self._dtype = articulation, device, dtype
        self._trace = rigid_body.start(articulation)
        self._at = rigid_body.frames(self._trace)

    def forward_kinematics(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return tool positions [m], shape (batch, 3), and rotations, shape (batch, 3, 3)."""
        values = self._evaluate(self._tool_kernel, 12, q=q)
        return values[:, :3], values[:, 3:].reshape(-1, 3, 3)

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Return tool Jacobians, rows (linear, angular), base axes, shape (batch, 6, n)."""
        n = self.articulation.dof
        return self._evaluate(self._jacobian_kernel, 6 * n, q=q).reshape(-1, 6, n)

    def inverse_dynamics(self, q: np.ndarray, v: np.ndarray, a: np.ndarray, w: np.ndarray | None = None) -> np.ndarray:
        """Return torques M a + b(q, v) - J' w, shape (batch, n)."""
        return self._evaluate(self._torque_kernel, self.articulation.dof, q=q, v=v, a=a, w=w)

    def inverse_dynamics_derivatives(self, q: np.ndarray, v: np.ndarray, a: np.ndarray, w: np.ndarray | None = None) -> np.ndarray:
        """Return the derivatives of the torques with respect to (q, v, a), shape (batch, n, 3n); w is fixed in the world."""
        n = self.articulation.dof
        return self._evaluate(self._derivative_kernel, 3 * n * n, q=q, v=v, a=a, w=w).reshape(-1, n, 3 * n)

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """Return joint-space inertias, shape (batch, n, n)."""
        n = self.articulation.dof
        return self._evaluate(self._mass_kernel, n * n, q=q).reshape(-1, n, n)

    def forward_dynamics(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, w: np.ndarray | None = None) -> np.ndarray:
        """Return joint accelerations under torques u, shape (batch, n)."""
        return self._evaluate(self._acceleration_kernel, self.articulation.dof, q=q, v=v, u=u, w=w)

    @cached_property
    def _tool_kernel(self) -> Any:
        return self._kernel([*self._at.tool_translation, *(x for row in self._at.tool_rotation for x in row)])

    @cached_property
    def _jacobian_kernel(self) -> Any:
        return self._kernel([x for row in rigid_body.tool_jacobian(self._trace, self._at) for x in row])

    @cached_property
    def _torque_kernel(self) -> Any:
        return self._kernel(rigid_body.inverse_dynamics(self._trace, self._at))

    @cached_property
    def _derivative_kernel(self) -> Any:
        torque = rigid_body.inverse_dynamics(self._trace, self._at)
        inputs = [*self._trace.q, *self._trace.v, *self._trace.a]
        return self._kernel([x for row in rigid_body.derivatives(self._trace, torque, inputs) for x in row])

    @cached_property
    def _mass_kernel(self) -> Any:
        return self._kernel([x for row in rigid_body.mass_matrix(self._trace, self._at) for x in row])

    @cached_property
    def _acceleration_kernel(self) -> Any:
        return self._kernel(rigid_body.forward_dynamics(self._trace, self._at))

    def _kernel(self, outputs: list[Number]) -> Any:
        return kernel(self.articulation, outputs, self._dtype)

    def _evaluate(self, compiled: Any, count: int, **inputs: np.ndarray | None) -> np.ndarray:
        batch, n, real = np.shape(inputs["q"])[0], self.articulation.dof, REAL[self._dtype]
        arrays = []
        for name in INPUTS:
            width = 6 if name == "w" else n
            value = inputs.get(name)
            if value is not None and np.shape(value) != (batch, width):
                raise SettingError(f"'{name}' has shape {np.shape(value)}", f"give ({batch}, {width})")
            arrays.append(wp.array(np.zeros((batch, width)) if value is None else value, dtype=real, device=self._device))
        result = wp.zeros((batch, count), dtype=real, device=self._device)
        wp.launch(compiled, dim=batch, inputs=arrays, outputs=[result], device=self._device)
        return result.numpy()
