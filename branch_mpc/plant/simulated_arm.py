"""A simulated torque-controlled arm, to close the loop when there is no robot."""

import numpy as np
import pinocchio as pin

from branch_mpc.errors import BranchMpcError
from branch_mpc.robot.articulation import Articulation
from branch_mpc.robot.pinocchio_model import pinocchio_model

# A remainder below this part of a substep is rounding of the caller's clock and not time to simulate.
_TIME_ROUNDING = 1e-6


class SimulatedArm:
    """The arm as a differential equation, M(q) a + b(q, v) + d v = tau + J(q)^T w, integrated with held torque.

    Accelerations come from Pinocchio's articulated-body algorithm in float64 and time from the classical Runge-Kutta
    method of order four (Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, Table II.1.2), so that
    nothing is shared with the dynamics generated for the controller or with its integrator: a mistake there shows here as
    a tracking error. The world wrench is taken through the Jacobian of every stage. There are no stops and no contacts:
    limits are counted and not enforced, except that torques saturate as a drive does. Equal calls give equal states.

    State: time, position, velocity, held torque, wrench and the counters of `limit_violations`.
    """

    def __init__(
        self,
        articulation: Articulation,
        q0: np.ndarray,
        v0: np.ndarray | None = None,
        substep: float = 1e-3,
        wrench: np.ndarray | None = None,
        *,
        saturate: bool = True,
        friction: float | np.ndarray = 0.0,
        payload: float = 0.0,
    ) -> None:
        """Put the arm at a state, with zero held torque.

        Args:
            articulation: The robot.
            q0: Initial joint positions [rad | m], shape (n,).
            v0: Initial joint velocities [rad/s | m/s], shape (n,); default zero.
            substep: Integration step [s].
            wrench: Force [N] and moment [Nm] on the tool at the tool origin, base axes, shape (6,); default zero.
            saturate: Clip held torques at the effort limits, as a drive does.
            friction: Viscous friction d of the joints [Nm s/rad | N s/m], one number or shape (n,).
            payload: Point mass at the tool origin that the controller does not know [kg].

        Raises:
            BranchMpcError: A number that is not finite, of the wrong shape or of the wrong sign.
        """
        n = articulation.dof
        self._articulation, self._saturate = articulation, saturate
        self._model, self._tool = pinocchio_model(articulation)
        self._substep, self._payload = float(substep), float(payload)
        if not 0.0 < self._substep < np.inf:
            raise BranchMpcError(f"the substep of the simulated arm is {substep} s", "give a positive number of seconds")
        if not 0.0 <= self._payload < np.inf:
            raise BranchMpcError(f"the payload of the simulated arm is {payload} kg", "give zero or a positive mass")
        self._friction = _checked("friction", np.full(n, friction) if np.ndim(friction) == 0 else np.asarray(friction), n)
        if (self._friction < 0).any():
            raise BranchMpcError(f"the friction of the simulated arm is {friction}", "give zero or positive numbers")
        if self._payload > 0:
            point = pin.Inertia(self._payload, articulation.tool_translation, np.zeros((3, 3)))
            self._model.appendBodyToJoint(articulation.tool_link + 1, point, pin.SE3.Identity())
        self._data = self._model.createData()
        self._time = 0.0
        self._position = _checked("initial position", q0, n)
        self._velocity = _checked("initial velocity", np.zeros(n) if v0 is None else v0, n)
        self._requested = np.zeros(n)
        self._torque = np.zeros(n)
        self._violations = {"position": 0, "velocity": 0, "torque": 0}
        self.wrench = np.zeros(6) if wrench is None else wrench

    @property
    def time(self) -> float:
        """Simulated time since construction [s]."""
        return self._time

    @property
    def position(self) -> np.ndarray:
        """Joint positions [rad | m], a copy of shape (n,)."""
        return self._position.copy()

    @property
    def velocity(self) -> np.ndarray:
        """Joint velocities [rad/s | m/s], a copy of shape (n,)."""
        return self._velocity.copy()

    @property
    def torque(self) -> np.ndarray:
        """Torque that acts, after saturation [Nm | N], a copy of shape (n,)."""
        return self._torque.copy()

    @property
    def wrench(self) -> np.ndarray:
        """Force [N] and moment [Nm] on the tool at the tool origin, base axes, a copy of shape (6,); settable."""
        return self._wrench.copy()

    @wrench.setter
    def wrench(self, value: np.ndarray) -> None:
        self._wrench = _checked("wrench", value, 6)
        self._pushed = bool(self._wrench.any())

    @property
    def limit_violations(self) -> dict[str, int]:
        """Substeps so far that ended outside the 'position' or 'velocity' limits or were asked for more than the 'torque' limits.

        With saturation on, the count of 'torque' is how many substeps the drive saturated.
        """
        return dict(self._violations)

    def apply(self, torque: np.ndarray) -> None:
        """Hold a joint torque from now on.

        Args:
            torque: Joint torques [Nm | N], shape (n,).

        Raises:
            BranchMpcError: Wrong shape or a number that is not finite; the torque held before stays.
        """
        self._requested = _checked("torque", torque, self._articulation.dof)
        limit = self._articulation.effort_limit
        self._torque = np.clip(self._requested, -limit, limit) if self._saturate else self._requested

    def advance(self, duration: float) -> None:
        """Let time pass with the held torque and wrench, in substeps and a shorter last one for what remains.

        Args:
            duration: How long [s], zero or more.

        Raises:
            BranchMpcError: Negative or not finite duration, or the motion is no longer finite (the last finite state is kept).
        """
        if not 0.0 <= duration < np.inf:
            raise BranchMpcError(f"the simulated arm was to advance by {duration} s", "give zero or a positive number of seconds")
        whole = int(duration / self._substep + _TIME_ROUNDING)
        rest = duration - whole * self._substep
        with np.errstate(over="ignore", invalid="ignore"):  # a diverging motion is reported by _step
            for _ in range(whole):
                self._step(self._substep)
            if rest > _TIME_ROUNDING * self._substep:
                self._step(rest)
            else:
                self._time += rest  # rounding of the caller's clock, kept so that long runs do not drift from it

    def tool(self) -> np.ndarray:
        """Return the position of the tool origin in the base frame [m], shape (3,)."""
        pin.forwardKinematics(self._model, self._data, self._position)
        return np.array(pin.updateFramePlacement(self._model, self._data, self._tool).translation)

    def acceleration(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return joint accelerations under the held torque and wrench [rad/s^2 | m/s^2], shape (n,).

        Args:
            q: Joint positions [rad | m], shape (n,).
            v: Joint velocities [rad/s | m/s], shape (n,).
        """
        force = self._torque - self._friction * v
        if self._pushed:
            frame = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
            jacobian = pin.computeFrameJacobian(self._model, self._data, q, self._tool, frame)
            force = force + jacobian.reshape(6, -1).T @ self._wrench
        return np.array(pin.aba(self._model, self._data, q, v, force))

    def _step(self, h: float) -> None:
        q, v = self._position, self._velocity
        v1, a1 = v, self.acceleration(q, v)
        v2 = v + h / 2 * a1
        a2 = self.acceleration(q + h / 2 * v1, v2)
        v3 = v + h / 2 * a2
        a3 = self.acceleration(q + h / 2 * v2, v3)
        v4 = v + h * a3
        a4 = self.acceleration(q + h * v3, v4)
        position = q + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
        velocity = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        if not (np.isfinite(position).all() and np.isfinite(velocity).all()):
            raise BranchMpcError(f"the simulated arm diverged at t = {self._time:.3f} s", "apply smaller torques or take a smaller substep")
        self._position, self._velocity = position, velocity
        self._time += h
        self._count()

    def _count(self) -> None:
        robot = self._articulation
        outside = (self._position < robot.position_lower) | (self._position > robot.position_upper)
        self._violations["position"] += bool(outside.any())
        self._violations["velocity"] += bool((np.abs(self._velocity) > robot.velocity_limit).any())
        self._violations["torque"] += bool((np.abs(self._requested) > robot.effort_limit).any())


def _checked(what: str, value: np.ndarray, size: int) -> np.ndarray:
    vector = np.array(value, dtype=float)
    if vector.shape != (size,):
        raise BranchMpcError(f"the {what} of the simulated arm has shape {vector.shape}", f"give {size} numbers")
    if not np.isfinite(vector).all():
        raise BranchMpcError(f"the {what} of the simulated arm is {vector.tolist()}", "give finite numbers")
    return vector
