"""Settings of the torque form; the defaults are GATO's."""

from dataclasses import dataclass

from branch_mpc.settings import param

LINEAR_SOLVERS = ("pcg", "direct", "direct_first")
"""'direct_first' takes the direct solve in the first SQP iteration and PCG in the others."""
RECOVERIES = ("auto", "costates", "rollout")
"""Where the step of the states comes from; 'auto' rolls out after a direct solve and takes the costates after PCG, as GATO does."""


@dataclass(frozen=True)
class TorqueSettings:
    """The torque form: unknowns are states and torques, the dynamics a constraint."""

    mu: float = param(10.0, low=0.0, doc="weight of the L1 defect in the merit")
    rho: float = param(0.01, low=1e-8, high=10.0, doc="first regularisation of the joint positions")
    adapt_rho: bool = param(True, doc="lower rho after an accepted step, raise it after a refused one")
    reset_rho: bool = param(True, doc="start every tick from the first rho")
    pcg_tolerance: float = param(1e-4, low=0.0, high=1.0, doc="relative decrease of r'Pr at which PCG stops")
    pcg_cap: int = param(200, low=1, high=100000, doc="most PCG iterations of a linear solve")
    solve_ratio: float = param(1.0, low=0.0, high=1.0, doc="share of converged problems at which the whole batch stops")
    integrator: str = param("trapezoidal", choices=("euler", "semi_implicit", "trapezoidal", "rk4"), doc="integrator of the dynamics")
    recovery: str = param("auto", choices=RECOVERIES, doc="step of the states: from the costates, or by roll-out of the torques")
    warm_costates: bool = param(True, doc="start PCG from the costates of the iteration before instead of from zero")
    merit_fused: bool = param(False, doc="one thread walks the line-search candidates of a knot instead of one each")
