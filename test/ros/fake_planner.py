"""A controller without kernels: plans to rest where the arm is, and remembers what it was asked."""

from types import SimpleNamespace

import numpy as np

from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.mpc.plan import Plan, SolveStatus


class FakePlanner:
    """Gravity compensation with a damped pull to where it was reset, as a plan."""

    device_name = "none"
    policy = SimpleNamespace(reason="fake")

    def __init__(self, robot, settings, nominal=None, progress=lambda text: None, gravity=None):
        """Prepare; `gravity` replaces the robot's own."""
        progress("faking")
        self.settings, self.robot = settings, robot
        self._gravity = gravity or HostDynamics(robot).gravity
        self.epoch, self.tick, self.calls, self.sent_commands, self.weights = 0, 0, [], [], settings.weights
        self.broken = None

    def reset(self, sample):
        """Raise the epoch."""
        self.epoch, self.tick = self.epoch + 1, 0

    def sent(self, time, torque):
        """Remember."""
        self.sent_commands.append((time, torque))

    def set_weights(self, weights):
        """Remember."""
        self.weights = weights

    def step(self, sample, start, targets):
        """Return a plan that rests at the sample; call `broken` instead when it is set."""
        self.tick += 1
        self.calls.append((sample, start, targets))
        if self.broken is not None:
            return self.broken(self)
        N, n = self.settings.knots, len(sample.position)
        return Plan(
            epoch=self.epoch,
            tick=self.tick,
            start=start,
            step=self.settings.step,
            position=np.tile(sample.position, (N, 1)),
            velocity=np.zeros((N, n)),
            torque=np.tile(self._gravity(sample.position) - 0.02 * sample.velocity, (N - 1, 1)),
            tool=np.asarray(targets, dtype=float),
            wrench=np.zeros(6),
            row=0,
            status=SolveStatus.SOLVED,
            merit=-1.0,
            kkt_residual=1e-4,
            step_size=1.0,
            regularisation=0.0,
            solve_time=1e-4,
        )
