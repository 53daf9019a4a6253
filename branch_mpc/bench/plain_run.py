"""The figure-8 without ROS: simulated robot, controller and guard in one process, in lockstep."""

import dataclasses
from collections.abc import Callable

import numpy as np

from branch_mpc.bench.closed_loop import Lockstep, Push
from branch_mpc.bench.facts import run_facts
from branch_mpc.bench.progress import Progress
from branch_mpc.bench.record import Recording
from branch_mpc.bench.start import reference_from, start_configuration
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.guard import Guard
from branch_mpc.optimal_control.reference import Approach
from branch_mpc.robot import Articulation, load_robot
from branch_mpc.ros.settings import NodeSettings, PlantSettings

BOUNDARY = "host to host: joint state in to plan out, whole tick"


@dataclasses.dataclass(frozen=True)
class FigureRun:
    """What to run: the parameters of both nodes, whether they run as nodes or not."""

    node: NodeSettings = dataclasses.field(default_factory=lambda: NodeSettings(robot="indy7"))
    """Controller, guard and reference."""
    plant: PlantSettings = dataclasses.field(default_factory=PlantSettings)
    """Start, push, friction and payload of the simulated robot; its robot and rate are the node's."""
    duration: float = 6.0
    """Time after the approach [s]."""
    target: tuple[float, ...] | None = None
    """A point to hold instead of the figure [m]."""

    @property
    def length(self) -> float:
        """Length of the run, approach included [s]."""
        return self.node.reference.approach + self.duration

    @property
    def push(self) -> Push:
        """The unmodelled force on the tool."""
        x, y, z = self.plant.push or (0.0, 0.0, 0.0)
        return Push((x, y, z), self.plant.push_at)


def prepare(run: FigureRun) -> tuple[Articulation, HostDynamics, np.ndarray]:
    """Return the robot of a run, its dynamics and where it starts, shape (n,) [rad | m].

    Raises:
        BranchMpcError: A robot, a start or a target that cannot be used.
    """
    arm = load_robot(run.node.robot, run.node.tool or None)
    dynamics = HostDynamics(arm)
    q = start_configuration(arm.name, dynamics, run.plant.start)
    reference_of(run, q, dynamics)  # a bad target is found before anything starts
    return arm, dynamics, q


def reference_of(run: FigureRun, q: np.ndarray, dynamics: HostDynamics) -> Approach:
    """Return the reference of a run that starts at q, shape (n,) [rad | m]."""
    settings = run.node.reference
    return reference_from(dynamics.articulation.name, q, dynamics, settings.period, settings.approach, run.target)


def lockstep(run: FigureRun, tell: Callable[[str], None]) -> tuple[Lockstep, dict[str, object]]:
    """Build the loop of a run and the facts about it; compiles the controller's kernels.

    Args:
        run: What to run.
        tell: Called with a line before each slow stage.

    Raises:
        BranchMpcError: A robot, setting, device or target that cannot be used.
    """
    arm, dynamics, q = prepare(run)
    # Slow imports: a wrong robot or target is reported before they begin.
    from branch_mpc.sqp.quiet import start_warp_quietly

    start_warp_quietly()
    from branch_mpc.mpc.controller import Controller
    from branch_mpc.plant import SimulatedArm

    node, plant = run.node, run.plant
    controller = Controller(arm, node.mpc, nominal=q, progress=tell)
    period = 1.0 / node.rate
    guard = Guard(arm, node.guard, dynamics.gravity, dynamics.mass_matrix, period)
    simulated = SimulatedArm(arm, q, substep=plant.substep, friction=plant.friction, payload=plant.payload)
    reference = reference_of(run, q, dynamics)
    loop = Lockstep(arm, simulated, controller, guard, reference, push=run.push, period=period, prestream=node.guard.prestream)
    device, policy = controller.device_name, controller.policy.reason
    return loop, run_facts(node.mpc, device=device, policy=policy, boundary=BOUNDARY, transport="none (lockstep)", period=period)


def run_lockstep(run: FigureRun, progress: Progress) -> Recording:
    """Run the figure-8 in lockstep and return the recording.

    Raises:
        BranchMpcError: A robot, setting, device or target that cannot be used.
    """
    loop, facts = lockstep(run, lambda text: progress(text))

    def tell(time: float, error: float) -> None:
        progress(f"lockstep {time:5.2f} of {run.length:.2f} s, tool {1e3 * error:.2f} mm from its target", topic="motion")

    recording = loop.run(run.length, run.node.reference.approach, tell)
    return dataclasses.replace(recording, facts={**facts, **disturbance(run)})


def disturbance(run: FigureRun) -> dict[str, object]:
    """Return the facts about what the controller did not know."""
    plant = run.plant
    return {"push": list(run.push.force), "push_at": run.push.start, "payload": plant.payload, "friction": plant.friction}
