"""The figure-8 without ROS: simulated robot, controller and guard in one process, in lockstep."""

import dataclasses
from collections.abc import Callable

from branch_mpc.bench.closed_loop import Lockstep, Push
from branch_mpc.bench.facts import run_facts
from branch_mpc.bench.progress import Progress
from branch_mpc.bench.record import Recording
from branch_mpc.bench.start import reference_from, start_configuration
from branch_mpc.dynamics.host import HostDynamics
from branch_mpc.guard import Guard, GuardSettings
from branch_mpc.mpc.settings import MpcSettings
from branch_mpc.robot.library import load_robot

BOUNDARY = "host to host: joint state in to plan out, whole tick"


@dataclasses.dataclass(frozen=True)
class FigureRun:
    """What to run."""

    robot: str = "indy7"
    """Name of a robot, or the path of its file."""
    tool: str | None = None
    """Link of the tool, None for the only leaf."""
    mpc: MpcSettings = dataclasses.field(default_factory=MpcSettings)
    """The controller."""
    guard: GuardSettings = dataclasses.field(default_factory=GuardSettings)
    """The guard."""
    rate: float = 100.0
    """Control ticks a second [Hz]."""
    period: float = 6.0
    """Time of one figure [s]."""
    target: tuple[float, ...] | None = None
    """A point to hold instead of the figure [m]."""
    approach: float = 2.0
    """Time from the start pose to the figure [s]."""
    duration: float = 6.0
    """Time on the figure [s]."""
    push: Push = dataclasses.field(default_factory=Push)
    """Unknown force on the tool."""


def lockstep(run: FigureRun, tell: Callable[[str], None]) -> tuple[Lockstep, dict[str, object]]:
    """Build the loop of a run and the facts about it; compiles the controller's kernels.

    Args:
        run: What to run.
        tell: Called with a line before each slow stage.

    Raises:
        BranchMpcError: A robot, setting, device or target that cannot be used.
    """
    arm = load_robot(run.robot, run.tool)
    dynamics = HostDynamics(arm)
    q = start_configuration(run.robot, dynamics)
    reference = reference_from(run.robot, q, dynamics, run.period, run.approach, run.target)
    # Slow imports: a wrong robot or target is reported before they begin.
    from branch_mpc.bench.quiet import start_warp_quietly

    start_warp_quietly()
    from branch_mpc.mpc.controller import Controller
    from branch_mpc.plant import SimulatedArm

    controller = Controller(arm, run.mpc, nominal=q, progress=tell)
    period = 1.0 / run.rate
    guard = Guard(arm, run.guard, dynamics.gravity, dynamics.mass_matrix, period)
    loop = Lockstep(arm, SimulatedArm(arm, q), controller, guard, reference, push=run.push, period=period, prestream=run.guard.prestream)
    facts = run_facts(
        run.mpc,
        device=controller.device_name,
        policy=controller.policy.reason,
        boundary=BOUNDARY,
        transport="none (lockstep)",
        period=period,
    )
    return loop, facts


def run_lockstep(run: FigureRun, progress: Progress) -> Recording:
    """Run the figure-8 in lockstep and return the recording.

    Raises:
        BranchMpcError: A robot, setting, device or target that cannot be used.
    """
    loop, facts = lockstep(run, lambda text: progress(text))
    total = run.approach + run.duration

    def tell(time: float, error: float) -> None:
        progress(f"lockstep {time:5.2f} of {total:.2f} s, tool {1e3 * error:.2f} mm from its target", topic="motion")

    recording = loop.run(total, run.approach, tell)
    return dataclasses.replace(recording, facts={**facts, "push": [*run.push.force, run.push.start]})
