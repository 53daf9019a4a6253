"""Random robots for tests: any tree of revolute and prismatic joints that the package supports."""

import numpy as np

from branch_mpc.robot.articulation import Articulation


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    """Return a uniformly distributed rotation matrix (unit quaternion of Gaussian direction), shape (3, 3)."""
    w, x, y, z = (quaternion := rng.normal(size=4)) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def random_articulation(rng: np.random.Generator, dof: int, branched: bool = True, prismatic: bool = True) -> Articulation:
    """Return a random robot.

    Joints are numbered depth first. Frames and axes are a mix of arbitrary ones and of those that real robots have (axes
    along a coordinate, quarter turns), because generated code treats zeros and ones apart. Masses are 0.5 to 5 kg and the
    bodies about 0.2 m in size.

    Args:
        rng: Seeded source of randomness; equal seeds give equal robots.
        dof: Number of joints n, at least 1.
        branched: Let joints hang on any earlier link, else a chain.
        prismatic: Let about a third of the joints be prismatic, else all are revolute or continuous.
    """
    parents: list[int] = []
    for joint in range(dof):
        branch = [joint - 1]  # the last link and its ancestors down to the base: where depth-first numbering may go on
        while branch[-1] >= 0:
            branch.append(parents[branch[-1]])
        parents.append(int(rng.choice(branch)) if branched and rng.random() < 0.5 else joint - 1)
    kinds = ["revolute", "continuous", "prismatic"] if prismatic else ["revolute", "continuous"]
    joint_types = [str(kind) for kind in rng.choice(kinds, size=dof)]
    limit = np.array([np.inf if kind == "continuous" else 3.0 for kind in joint_types])
    return Articulation(
        name=f"random{dof}",
        joint_names=tuple(f"joint{joint}" for joint in range(dof)),
        joint_types=tuple(joint_types),
        parents=tuple(parents),
        rotation=np.array([_random_frame(rng) for _ in range(dof)]),
        translation=rng.uniform(-0.4, 0.4, size=(dof, 3)) * (rng.random((dof, 3)) < 0.7),
        axis=np.array([_random_axis(rng) for _ in range(dof)]),
        mass=rng.uniform(0.5, 5.0, size=dof),
        center_of_mass=rng.uniform(-0.2, 0.2, size=(dof, 3)),
        inertia=np.array([_random_inertia(rng) for _ in range(dof)]),
        position_lower=-limit,
        position_upper=limit,
        velocity_limit=rng.uniform(1.0, 4.0, size=dof),
        effort_limit=rng.uniform(20.0, 300.0, size=dof),
        tool_name="tool",
        tool_link=int(rng.integers(dof)) if branched else dof - 1,
        tool_rotation=_random_frame(rng),
        tool_translation=rng.uniform(-0.2, 0.2, size=3),
        base_name="base",
        gravity=np.array([0.0, 0.0, -9.81]) if rng.random() < 0.5 else random_rotation(rng) @ np.array([0.0, 0.0, -9.81]),
    )


def _random_frame(rng: np.random.Generator) -> np.ndarray:
    if rng.random() < 0.5:
        return random_rotation(rng)
    signed = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], size=(3, 1))
    return signed * np.linalg.det(signed) + 0.0  # a quarter turn; + 0.0 turns -0.0 into 0.0


def _random_axis(rng: np.random.Generator) -> np.ndarray:
    axis = rng.normal(size=3) if rng.random() < 0.4 else np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
    return axis / np.linalg.norm(axis) + 0.0


def _random_inertia(rng: np.random.Generator) -> np.ndarray:
    """Inertia of a solid box with a random turn, [kg m^2]."""
    x, y, z = rng.uniform(0.05, 0.2, size=3) ** 2
    turn = _random_frame(rng)
    inertia = turn @ np.diag(rng.uniform(0.5, 5.0) / 3.0 * np.array([y + z, x + z, x + y])) @ turn.T
    return (inertia + inertia.T) / 2.0
