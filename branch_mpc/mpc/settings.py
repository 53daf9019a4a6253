"""Settings of the receding-horizon controller."""

import dataclasses
from dataclasses import dataclass

from branch_mpc.optimal_control.weights import CostWeights
from branch_mpc.settings import param
from branch_mpc.sqp.torque_settings import TorqueSettings

FORMULATIONS = ("acceleration", "torque")


@dataclass(frozen=True)
class HypothesisSettings:
    """Sampling of the disturbance hypotheses (world forces at the tool)."""

    radius: float = param(5.0, low=0.0, high=1000.0, unit="N", doc="first radius of the Fibonacci sphere around the estimate")
    radius_min: float = param(0.5, low=0.0, high=1000.0, unit="N", doc="smallest radius")
    radius_max: float = param(100.0, low=0.0, high=10000.0, unit="N", doc="largest radius")
    seed: int = param(0, low=0, doc="seed of the random rotations of the sphere")


@dataclass(frozen=True)
class PolicySettings:
    """Forced launch choices; 'auto' and 0 let the launch policy decide."""

    linear_solver: str = param("auto", choices=("auto", "direct", "pcg", "direct_first"), doc="linear solver of the SQP subproblem")
    order: str = param("auto", choices=("auto", "chronological", "dense"), doc="elimination order")
    schedule: str = param("auto", choices=("auto", "serial", "cooperative", "fused"), doc="kernel schedule")
    merit_block: int = param(0, low=0, high=1024, doc="threads in a block of the merit kernel, 0 for the policy's choice")
    reduction: str = param("auto", choices=("auto", "float64", "float32"), doc="precision of the merit's sums on the torque form")
    tuning: str = param("auto", doc="measured launch choices: a JSON file, 'none', or 'auto' for ~/.config/branch_mpc/tuning.json")


@dataclass(frozen=True)
class MpcSettings:
    """The controller: horizon, batch, solver, objective."""

    knots: int = param(32, low=2, high=512, doc="knots in the horizon")
    step: float = param(0.01, low=1e-4, high=0.5, unit="s", doc="time between knots")
    batch: int = param(8, low=1, high=4096, doc="problems in a batch: disturbance hypotheses")
    iterations: int = param(1, low=1, high=20, doc="SQP iterations a tick")
    retries: int = param(1, low=0, high=8, doc="attempts with more regularisation after a refused step, a tick's budget")
    kkt_tolerance: float = param(1e-3, low=0.0, doc="KKT residual under which a solve counts as converged")
    device: str = param("auto", doc="'cpu', 'cuda:0', or 'auto': the first CUDA device if there is one")
    formulation: str = param("acceleration", choices=FORMULATIONS, doc="form of the optimal control problem")
    weights: CostWeights = dataclasses.field(default_factory=CostWeights)
    hypotheses: HypothesisSettings = dataclasses.field(default_factory=HypothesisSettings)
    policy: PolicySettings = dataclasses.field(default_factory=PolicySettings)
    torque: TorqueSettings = dataclasses.field(default_factory=TorqueSettings)
