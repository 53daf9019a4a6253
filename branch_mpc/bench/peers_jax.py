"""PyRoki with jaxls (public repositories, not on PyPI) on our problems.

The residuals are ours, written with PyRoki's kinematics, so that both minimise one objective: position, rotation vector,
limits, and for trajectories velocity and posture.
"""

import io
from typing import Any

import numpy as np

from branch_mpc.bench.peers_problem import PeerProblem, PeerSolve, arm_only, urdf_of
from branch_mpc.examples.inverse_kinematics import IkWeights
from branch_mpc.examples.trajectory_ik import TrajectoryWeights
from branch_mpc.robot.tree_model import TreeModel


def prepare(problem: PeerProblem) -> PeerSolve:
    """Return a jitted solver with all iterations, batched by vmap.

    Raises:
        ProblemError: A robot with several effectors or a free base.
        ImportError: PyRoki, jaxls or JAX is not installed.
    """
    import jax
    import jax.numpy as jnp
    import loguru
    import pyroki
    import yourdfpy

    loguru.logger.disable("jaxls")
    arm_only(problem, "PyRoki")
    tree = problem.tree
    urdf = yourdfpy.URDF.load(io.StringIO(urdf_of(tree)), load_meshes=False, build_scene_graph=True)
    robot = pyroki.Robot.from_urdf(urdf)
    columns = [tree.body_names.index(name) for name in robot.joints.actuated_names]
    solve = _trajectory(problem, robot, tree, columns) if problem.frames > 1 else _poses(problem, robot, tree, columns)
    position = jnp.array(problem.targets.position[..., 0, :], dtype=jnp.float32)
    rotation = jnp.array(problem.targets.rotation[..., 0, :][..., [3, 0, 1, 2]], dtype=jnp.float32)
    compiled = jax.jit(solve)
    found: list[Any] = []

    def run() -> None:
        found[:] = [compiled(position, rotation)]

    def answer() -> np.ndarray:
        values = np.asarray(found[0])
        q = np.broadcast_to(tree.nominal, (*values.shape[:-1], tree.coordinates)).copy()
        q[..., columns] = values
        return q

    return PeerSolve(run, lambda: jax.block_until_ready(found), answer, "device, jitted")


def _costs(jaxls: Any, problem: PeerProblem, robot: Any, weights: IkWeights | TrajectoryWeights) -> tuple[Any, Any]:
    """Residuals of a pose and of the limits, as functions of (values, variable, ...)."""
    import jax.numpy as jnp
    import jaxlie

    link = robot.links.names.index(problem.tree.effector_names[0])

    def pose(values: Any, variable: Any, position: Any, rotation: Any) -> Any:
        frame = jaxlie.SE3(robot.forward_kinematics(values[variable])[link])
        turn = (frame.rotation() @ jaxlie.SO3(rotation).inverse()).log()
        return jnp.concatenate([np.sqrt(weights.position) * (position - frame.translation()), np.sqrt(weights.rotation) * turn])

    def limit(values: Any, variable: Any) -> Any:
        q = values[variable]
        over, under = q - robot.joints.upper_limits, robot.joints.lower_limits - q
        return np.sqrt(weights.limit) * (jnp.maximum(over, 0.0) + jnp.maximum(under, 0.0))

    return jaxls.Cost.factory(pose), jaxls.Cost.factory(limit)


def _poses(problem: PeerProblem, robot: Any, tree: TreeModel, columns: list[int]) -> Any:
    import jax
    import jax.numpy as jnp
    import jaxls

    pose, limit = _costs(jaxls, problem, robot, IkWeights())
    starts = jnp.array(problem.starts[:, columns], dtype=jnp.float32)
    variable = robot.joint_var_cls(0)

    def one(start: Any, position: Any, rotation: Any) -> tuple[Any, Any]:
        costs = [pose(variable, position, rotation), limit(variable)]
        solution, report = (
            jaxls.LeastSquaresProblem(costs, [variable])
            .analyze()
            .solve(
                initial_vals=jaxls.VarValues.make([variable.with_value(start)]),
                verbose=False,
                linear_solver="dense_cholesky",
                termination=jaxls.TerminationConfig(max_iterations=problem.iterations, early_termination=False),
                return_summary=True,
            )
        )
        return solution[variable], report.cost_history[-1]

    def solve(position: Any, rotation: Any) -> Any:
        each = jax.vmap(jax.vmap(one, in_axes=(0, None, None)), in_axes=(None, 0, 0))
        q, cost = each(starts, position, rotation)
        return jnp.take_along_axis(q, jnp.argmin(cost, axis=1)[:, None, None], axis=1)[:, 0]

    return solve


def _trajectory(problem: PeerProblem, robot: Any, tree: TreeModel, columns: list[int]) -> Any:
    import jax
    import jax.numpy as jnp
    import jaxls

    weights = TrajectoryWeights()
    pose, limit = _costs(jaxls, problem, robot, weights)
    rest = jnp.array(tree.nominal[columns], dtype=jnp.float32)
    frames = jnp.arange(problem.frames)
    variable = robot.joint_var_cls

    @jaxls.Cost.factory
    def speed(values: Any, before: Any, after: Any) -> Any:
        return np.sqrt(weights.smooth) * weights.rate * (values[after] - values[before])

    @jaxls.Cost.factory
    def posture(values: Any, which: Any) -> Any:
        return np.sqrt(weights.posture) * (values[which] - rest)

    def one(position: Any, rotation: Any) -> Any:
        every = variable(frames)
        costs = [pose(every, position, rotation), limit(every), posture(every), speed(variable(frames[:-1]), variable(frames[1:]))]
        solution = (
            jaxls.LeastSquaresProblem(costs, [every])
            .analyze()
            .solve(
                initial_vals=jaxls.VarValues.make([every.with_value(jnp.tile(rest, (problem.frames, 1)))]),
                verbose=False,
                termination=jaxls.TerminationConfig(max_iterations=problem.iterations, early_termination=False),
            )
        )
        return solution[every]

    return lambda position, rotation: jax.vmap(one)(position, rotation)
