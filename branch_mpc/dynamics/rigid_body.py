"""Rigid-body algorithms of one articulation on traced scalars.

The recursions are Featherstone's (Rigid Body Dynamics Algorithms, 2008) in link coordinates with motion
vectors (angular, linear) and force vectors (moment, force) kept as pairs of 3-vectors; the robot's constants
fold into the trace. Derivatives are taken on the trace, so there is nothing to keep in step by hand.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from branch_mpc.dynamics.expression import Graph, Number, Scalar, gradient
from branch_mpc.robot.articulation import Articulation

Vector = list[Number]
Matrix = list[list[Number]]
Pair = tuple[Vector, Vector]


def _sum(terms: Iterable[Number]) -> Number:
    total: Number = 0.0
    for term in terms:
        total = total + term
    return total


def _add(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def _sub(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def _scale(a: Vector, factor: Number) -> Vector:
    return [factor * x for x in a]


def _dot(a: Vector, b: Vector) -> Number:
    return _sum(x * y for x, y in zip(a, b, strict=True))


def _cross(a: Vector, b: Vector) -> Vector:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _product(A: Matrix, B: Matrix) -> Matrix:
    return [[_sum(A[i][k] * B[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def _transform(A: Matrix, x: Vector) -> Vector:
    return [_dot(row, x) for row in A]


def _transform_back(A: Matrix, x: Vector) -> Vector:
    return [_sum(A[k][i] * x[k] for k in range(3)) for i in range(3)]


@dataclass(frozen=True)
class Trace:
    """Inputs of a trace and the robot it belongs to."""

    graph: Graph
    articulation: Articulation
    q: list[Scalar]
    """Joint positions, n scalars."""
    v: list[Scalar]
    """Joint velocities, n scalars."""
    a: list[Scalar]
    """Joint accelerations, n scalars."""
    torque: list[Scalar]
    """Joint torques, n scalars."""
    wrench: list[Scalar]
    """World (force, moment) on the tool at the tool origin, 6 scalars."""


def start(articulation: Articulation) -> Trace:
    """Open a trace of one robot."""
    graph, n = Graph(), articulation.dof
    return Trace(graph, articulation, *(graph.inputs(name, n) for name in ("q", "v", "a", "u")), graph.inputs("w", 6))


@dataclass(frozen=True)
class Frames:
    """Placement of each link frame in its parent and of the tool in the base."""

    rotation: list[Matrix]
    translation: list[Vector]
    world_rotation: list[Matrix]
    world_translation: list[Vector]
    tool_rotation: Matrix
    tool_translation: Vector


def frames(trace: Trace) -> Frames:
    """Placements of all links (RBDA Table 4.1 for the joints) and of the tool."""
    robot = trace.articulation
    rotation: list[Matrix] = []
    translation: list[Vector] = []
    world_rotation: list[Matrix] = []
    world_translation: list[Vector] = []
    for i, parent in enumerate(robot.parents):
        fixed = robot.rotation[i].tolist()
        if robot.joint_types[i] == "prismatic":
            R, p = fixed, _add(robot.translation[i].tolist(), _scale((robot.rotation[i] @ robot.axis[i]).tolist(), trace.q[i]))
        else:
            R, p = _product(fixed, _axis_rotation(robot.axis[i], trace.q[i])), robot.translation[i].tolist()
        rotation.append(R)
        translation.append(p)
        world_rotation.append(R if parent < 0 else _product(world_rotation[parent], R))
        world_translation.append(p if parent < 0 else _add(world_translation[parent], _transform(world_rotation[parent], p)))
    link = robot.tool_link
    tool_rotation = _product(world_rotation[link], robot.tool_rotation.tolist())
    tool_translation = _add(world_translation[link], _transform(world_rotation[link], robot.tool_translation.tolist()))
    return Frames(rotation, translation, world_rotation, world_translation, tool_rotation, tool_translation)


def _axis_rotation(axis: np.ndarray, angle: Scalar) -> Matrix:
    """Rotation about a unit axis: a a' + cos (1 - a a') + sin [a]x (Rodrigues)."""
    outer, skew = np.outer(axis, axis), np.cross(np.eye(3), axis)
    c, s = angle.cos(), angle.sin()
    return [[float(outer[i, j]) + float((i == j) - outer[i, j]) * c + float(skew[i, j]) * s for j in range(3)] for i in range(3)]


def tool_jacobian(trace: Trace, at: Frames) -> list[list[Number]]:
    """Jacobian of the tool origin and orientation, rows (linear 3, angular 3), n columns, base axes."""
    robot = trace.articulation
    columns: list[list[Number]] = [[0.0] * 6 for _ in range(robot.dof)]
    link = robot.tool_link
    while link >= 0:
        axis = _transform(at.world_rotation[link], robot.axis[link].tolist())
        if robot.joint_types[link] == "prismatic":
            columns[link] = [*axis, 0.0, 0.0, 0.0]
        else:
            columns[link] = [*_cross(axis, _sub(at.tool_translation, at.world_translation[link])), *axis]
        link = robot.parents[link]
    return [[column[row] for column in columns] for row in range(6)]


def inverse_dynamics(trace: Trace, at: Frames, *, acceleration: bool = True, velocity: bool = True, wrench: bool = True) -> list[Number]:
    """Joint torques by the recursive Newton-Euler algorithm (RBDA Table 5.1) with a world wrench on the tool.

    Args:
        trace: The robot's trace.
        at: Placements of the links.
        acceleration: Use the accelerations; False takes zero.
        velocity: Use the velocities; False takes zero.
        wrench: Use the tool wrench; False takes zero.

    Returns:
        tau = M a + b(q, v) - J' w, n scalars [Nm | N].
    """
    robot = trace.articulation
    zero: Vector = [0.0] * 3
    motion: list[Pair] = []
    force: list[Pair] = []
    accelerations: list[Pair] = []
    for i, parent in enumerate(robot.parents):
        speed: Number = trace.v[i] if velocity else 0.0
        rate: Number = trace.a[i] if acceleration else 0.0
        base_motion = (zero, zero) if parent < 0 else motion[parent]
        base_acceleration = (zero, (-robot.gravity).tolist()) if parent < 0 else accelerations[parent]
        carried = _to_link(at, i, base_motion)
        joint = _joint(robot, i, speed)
        v = (_add(carried[0], joint[0]), _add(carried[1], joint[1]))
        a = _to_link(at, i, base_acceleration)
        for term in (_joint(robot, i, rate), _motion_cross(v, joint)):
            a = (_add(a[0], term[0]), _add(a[1], term[1]))
        gyroscopic = _force_cross(v, _momentum(robot, i, v))
        inertial = _momentum(robot, i, a)
        motion.append(v)
        accelerations.append(a)
        force.append((_add(inertial[0], gyroscopic[0]), _add(inertial[1], gyroscopic[1])))
    if wrench:
        into_link = at.world_rotation[robot.tool_link]
        push = _transform_back(into_link, list(trace.wrench[:3]))
        turn = _add(_transform_back(into_link, list(trace.wrench[3:])), _cross(robot.tool_translation.tolist(), push))
        moment, linear = force[robot.tool_link]
        force[robot.tool_link] = (_sub(moment, turn), _sub(linear, push))
    torque: list[Number] = [0.0] * robot.dof
    for i in reversed(range(robot.dof)):
        part = force[i][1] if robot.joint_types[i] == "prismatic" else force[i][0]
        torque[i] = _dot(robot.axis[i].tolist(), part)
        parent = robot.parents[i]
        if parent >= 0:
            carried = _to_parent(at, i, force[i])
            force[parent] = (_add(force[parent][0], carried[0]), _add(force[parent][1], carried[1]))
    return torque


def mass_matrix(trace: Trace, at: Frames) -> Matrix:
    """Joint-space inertia by the composite-rigid-body algorithm (RBDA Table 6.2), n x n, symmetric."""
    robot, n = trace.articulation, trace.articulation.dof
    composite: list[tuple[Matrix, Vector, Number]] = [_inertia(robot, i) for i in range(n)]
    M: Matrix = [[0.0] * n for _ in range(n)]
    for i in reversed(range(n)):
        angular, linear = _joint(robot, i, 1.0)
        rotational, first, mass = composite[i]
        F: Pair = (_add(_transform(rotational, angular), _cross(first, linear)), _sub(_scale(linear, mass), _cross(first, angular)))
        j = i
        while j >= 0:
            axis = _joint(robot, j, 1.0)
            M[i][j] = M[j][i] = _dot(axis[0], F[0]) + _dot(axis[1], F[1])
            F, j = _to_parent(at, j, F), robot.parents[j]
        if robot.parents[i] >= 0:
            composite[robot.parents[i]] = _merged(composite[robot.parents[i]], _inertia_in_parent(at, i, composite[i]))
    return M


def forward_dynamics(trace: Trace, at: Frames) -> list[Number]:
    """Joint accelerations M^-1 (u - b(q, v) + J' w) by an L D L' factorisation of M, n scalars."""
    bias = inverse_dynamics(trace, at, acceleration=False)
    M, n = mass_matrix(trace, at), trace.articulation.dof
    graph = trace.graph
    L: Matrix = [[0.0] * n for _ in range(n)]
    D: list[Scalar] = []
    inverse: list[Scalar] = []
    for j in range(n):
        D.append(graph.scalar(M[j][j] - _sum(L[j][k] * L[j][k] * D[k] for k in range(j))))
        inverse.append(D[j].reciprocal())
        for i in range(j + 1, n):
            L[i][j] = (M[i][j] - _sum(L[i][k] * (L[j][k] * D[k]) for k in range(j))) * inverse[j]
    x: list[Number] = [u - b for u, b in zip(trace.torque, bias, strict=True)]
    for i in range(n):
        x[i] = x[i] - _sum(L[i][k] * x[k] for k in range(i))
    x = [value * scale for value, scale in zip(x, inverse, strict=True)]
    for i in reversed(range(n)):
        x[i] = x[i] - _sum(L[k][i] * x[k] for k in range(i + 1, n))
    return x


def derivatives(trace: Trace, outputs: list[Number], inputs: list[Scalar]) -> Matrix:
    """Jacobian of outputs with respect to inputs, len(outputs) rows."""
    return [list(gradient(trace.graph.scalar(output), inputs)) for output in outputs]


def _joint(robot: Articulation, i: int, rate: Number) -> Pair:
    """Motion of joint i at a rate: S_i * rate in link coordinates."""
    moved, still = _scale(robot.axis[i].tolist(), rate), [0.0] * 3
    return (still, moved) if robot.joint_types[i] == "prismatic" else (moved, still)


def _to_link(at: Frames, i: int, motion: Pair) -> Pair:
    """Motion vector of the parent in the coordinates of link i (RBDA eq. 2.24)."""
    angular, linear = motion
    return _transform_back(at.rotation[i], angular), _transform_back(at.rotation[i], _add(linear, _cross(angular, at.translation[i])))


def _to_parent(at: Frames, i: int, force: Pair) -> Pair:
    """Force vector of link i in the coordinates of its parent (RBDA eq. 2.25)."""
    linear = _transform(at.rotation[i], force[1])
    return _add(_transform(at.rotation[i], force[0]), _cross(at.translation[i], linear)), linear


def _motion_cross(a: Pair, b: Pair) -> Pair:
    return _cross(a[0], b[0]), _add(_cross(a[1], b[0]), _cross(a[0], b[1]))


def _force_cross(v: Pair, f: Pair) -> Pair:
    return _add(_cross(v[0], f[0]), _cross(v[1], f[1])), _cross(v[0], f[1])


def _inertia(robot: Articulation, i: int) -> tuple[Matrix, Vector, Number]:
    """Rotational inertia about the link origin, first moment, mass (RBDA eq. 2.63)."""
    c, m = robot.center_of_mass[i], float(robot.mass[i])
    about_origin = robot.inertia[i] + m * (c @ c * np.eye(3) - np.outer(c, c))
    return about_origin.tolist(), (m * c).tolist(), m


def _momentum(robot: Articulation, i: int, motion: Pair) -> Pair:
    """Inertia of link i times a motion vector."""
    rotational, first, mass = _inertia(robot, i)
    angular, linear = motion
    return _add(_transform(rotational, angular), _cross(first, linear)), _sub(_scale(linear, mass), _cross(first, angular))


def _inertia_in_parent(at: Frames, i: int, inertia: tuple[Matrix, Vector, Number]) -> tuple[Matrix, Vector, Number]:
    """Inertia of link i about the parent's origin in the parent's axes (RBDA eq. 2.66)."""
    rotational, first, mass = inertia
    R, p = at.rotation[i], at.translation[i]
    turned = _product(R, [list(column) for column in zip(*_product(R, rotational), strict=True)])
    moved = _transform(R, first)
    # about the new origin: (R I R') + 2 (p.h) 1 - (p h' + h p') + m ((p.p) 1 - p p')
    diagonal = 2.0 * _dot(p, moved) + mass * _dot(p, p)
    full: Matrix = [[0.0] * 3 for _ in range(3)]
    for r in range(3):
        for c in range(r + 1):
            entry = turned[r][c] - (p[r] * moved[c] + moved[r] * p[c]) - mass * (p[r] * p[c])
            full[r][c] = full[c][r] = entry + diagonal if r == c else entry
    return full, _add(moved, _scale(p, mass)), mass


def _merged(a: tuple[Matrix, Vector, Number], b: tuple[Matrix, Vector, Number]) -> tuple[Matrix, Vector, Number]:
    return [_add(x, y) for x, y in zip(a[0], b[0], strict=True)], _add(a[1], b[1]), a[2] + b[2]
