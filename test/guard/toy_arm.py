"""A three-joint toy arm with coupled inertia and gravity, the plans for it, and the checks every command must pass."""

from types import SimpleNamespace

import numpy as np

from branch_mpc.guard import Command, Guard, GuardSettings
from branch_mpc.mpc.plan import JointSample, Plan, SolveStatus

PERIOD = 0.01
MASS = np.array([[1.0, 0.3, 0.05], [0.3, 0.5, 0.1], [0.05, 0.1, 0.06]])
WEIGHT = np.array([20.0, 8.0, 1.0])
ROBOT = SimpleNamespace(
    joint_names=("shoulder", "elbow", "wrist"),
    position_lower=np.array([-2.0, -2.0, -2.5]),
    position_upper=np.array([2.0, 2.0, 2.5]),
    velocity_limit=np.array([2.0, 2.5, 3.0]),
    effort_limit=np.array([100.0, 50.0, 10.0]),
)
READY = np.array([0.5, -0.4, 0.2])


def gravity(q):
    """Return the torque that balances gravity at q."""
    return WEIGHT * np.sin(q)


def mass_matrix(q):
    """Return the constant mass matrix."""
    return MASS


class ToyArm:
    """M a + g(q) = tau, integrated in steps of a millisecond."""

    def __init__(self, q=READY, v=(0.0, 0.0, 0.0)):
        self.time, self.q, self.v = 0.0, np.array(q, float), np.array(v, float)

    def advance(self, torque, duration=PERIOD):
        """Hold a torque for a time."""
        for _ in range(round(duration / 1e-3)):
            self.v = self.v + 1e-3 * np.linalg.solve(MASS, torque - gravity(self.q))
            self.q = self.q + 1e-3 * self.v
        self.time += duration

    def sample(self):
        """Return the present state as a measurement."""
        return JointSample(self.time, self.q.copy(), self.v.copy())


def make_guard(**settings):
    """Return a guard of the toy arm; prestream 0 unless given, so that the second command holds."""
    return Guard(ROBOT, GuardSettings(**{"prestream": 0.0, **settings}), gravity, mass_matrix, PERIOD)


def make_plan(start, torque=None, epoch=1, tick=1, knots=12, status=SolveStatus.SOLVED, q=READY, **changes):
    """Return a plan that rests at q under `torque` (default: gravity's)."""
    torque = gravity(q) if torque is None else np.asarray(torque, float)
    values = {
        "epoch": epoch,
        "tick": tick,
        "start": start,
        "step": PERIOD,
        "position": np.tile(q, (knots, 1)),
        "velocity": np.zeros((knots, 3)),
        "torque": np.tile(torque, (knots - 1, 1)),
        "tool": np.zeros((knots, 3)),
        "wrench": np.zeros(6),
        "row": 0,
        "status": status,
        "merit": -1.0,
        "kkt_residual": 1e-4,
        "step_size": 1.0,
        "regularisation": 0.0,
        "solve_time": 1e-3,
    }
    return Plan(**{**values, **changes})


class Loop:
    """Guard and toy arm at 100 Hz; `plan(loop)` makes the plan of a tick, every command is checked."""

    def __init__(self, guard=None, arm=None, plan=lambda loop: make_plan(loop.now, epoch=loop.epoch, tick=loop.tick)):
        self.guard, self.arm, self.plan = guard or make_guard(), arm or ToyArm(), plan
        self.now, self.tick, self.epoch = 0.0, 0, 0
        self.states, self.watch, self.command = True, Watch(self.guard), None
        self.guard.activate(self.now)

    def run(self, ticks=1, until=None):
        """Run ticks, or until the mode `until` (at most `ticks`); return the last command."""
        for _ in range(ticks):
            self.tick += 1
            if self.states:
                self.guard.observe(self.arm.sample(), self.now)
            if self.guard.wants_plan and self.plan is not None:
                self.epoch += self.guard.cold
                self.guard.plan(self.plan(self), self.now)
            self.command = self.guard.command(self.now)
            self.watch(self.command)
            self.arm.advance(self.command.torque)
            self.now += PERIOD
            if until is not None and self.guard.mode is until:
                break
        return self.command


class Watch:
    """Raises unless a command is finite, within its limits, and within one rate step of the one before it."""

    def __init__(self, guard: Guard):
        self.limit = ROBOT.effort_limit * (1.0 - guard.settings.torque_margin)
        self.step = ROBOT.effort_limit * guard.settings.torque_rate * PERIOD
        self.last = None

    def __call__(self, command: Command) -> None:
        """Check one command."""
        for name in ("torque", "position", "velocity"):
            assert np.isfinite(getattr(command, name)).all(), f"{name} {getattr(command, name)}"
        if not command.publish:
            return
        assert (np.abs(command.torque) <= self.limit).all(), f"torque {command.torque} over {self.limit}"
        assert (command.position <= ROBOT.position_upper).all() and (command.position >= ROBOT.position_lower).all()
        assert (np.abs(command.velocity) <= ROBOT.velocity_limit).all()
        if self.last is not None:
            # 1e-9 Nm: rounding of last + step in float64.
            assert (np.abs(command.torque - self.last) <= self.step + 1e-9).all(), f"{self.last} -> {command.torque}"
        self.last = command.torque
