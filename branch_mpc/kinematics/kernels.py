"""Warp kernels over the table of a tree; rows are configurations (an instance, or an instance and a frame).

Twists are (linear, angular) in world axes about the world origin, so that the twist of a child is that of its parent plus
S u, without a transform between them (Featherstone, RBDA 2008, section 2.8, with one common frame).
"""

import warp as wp

OPTIONS = {"enable_backward": False, "module_options": {"max_unroll": 0}, "module": "unique"}
FREE, REVOLUTE, PRISMATIC = wp.constant(0), wp.constant(1), wp.constant(2)
TINY = wp.constant(1.0e-12)


@wp.struct
class TreeTable:
    """A `TreeModel` on the device."""

    parents: wp.array(dtype=wp.int32)  # (bodies,), -1 for the world
    kinds: wp.array(dtype=wp.int32)  # (bodies,) FREE, REVOLUTE or PRISMATIC
    coordinate: wp.array(dtype=wp.int32)  # (bodies,) first index in q
    dof: wp.array(dtype=wp.int32)  # (bodies,) first index in a tangent
    placement: wp.array(dtype=wp.transformf)  # (bodies,) joint frame in the parent frame
    axis: wp.array(dtype=wp.vec3f)  # (bodies,) joint axis in the joint frame
    center: wp.array(dtype=wp.vec3f)  # (bodies,) centre of mass in the body frame [m]
    mass: wp.array(dtype=wp.float32)  # (bodies,) [kg]
    inertia: wp.array(dtype=wp.mat33f)  # (bodies,) about the centre of mass, body axes [kg m^2]


@wp.func
def joint_transform(table: TreeTable, q: wp.array(dtype=wp.float32, ndim=2), row: int, body: int):
    """Return the frame of a body in that of its parent."""
    i, kind = table.coordinate[body], table.kinds[body]
    if kind == FREE:
        position = wp.vec3f(q[row, i], q[row, i + 1], q[row, i + 2])
        moved = wp.transformf(position, wp.quatf(q[row, i + 3], q[row, i + 4], q[row, i + 5], q[row, i + 6]))
    elif kind == REVOLUTE:
        moved = wp.transformf(wp.vec3f(), wp.quat_from_axis_angle(table.axis[body], q[row, i]))
    else:
        moved = wp.transformf(q[row, i] * table.axis[body], wp.quat_identity(dtype=wp.float32))
    return table.placement[body] * moved


@wp.func
def write_subspace(table: TreeTable, pose: wp.transformf, row: int, body: int, S: wp.array(dtype=wp.spatial_vectorf, ndim=2)):
    """Write the columns of S of a body whose pose is known."""
    i, kind = table.dof[body], table.kinds[body]
    origin = wp.transform_get_translation(pose)
    if kind == FREE:  # move along, and turn about, the world axes at the origin of the body
        for k in range(3):
            e = wp.vec3f()
            e[k] = 1.0
            S[row, i + k] = wp.spatial_vector(e, wp.vec3f())
            S[row, i + 3 + k] = wp.spatial_vector(wp.cross(origin, e), e)
    else:
        axis = wp.quat_rotate(wp.transform_get_rotation(pose), table.axis[body])
        if kind == REVOLUTE:
            S[row, i] = wp.spatial_vector(wp.cross(origin, axis), axis)
        else:
            S[row, i] = wp.spatial_vector(axis, wp.vec3f())


@wp.func
def write_joints(table: TreeTable, q: wp.array(dtype=wp.float32, ndim=2), row: int, body: int, joints: wp.array(dtype=wp.float32, ndim=2)):
    """Write q in tangent coordinates: numbers of the joints; position and rotation vector of a free base."""
    i, j = table.coordinate[body], table.dof[body]
    joints[row, j] = q[row, i]
    if table.kinds[body] == FREE:
        rotation = wp.quatf(q[row, i + 3], q[row, i + 4], q[row, i + 5], q[row, i + 6])
        axis, angle = wp.vec3f(), float(0.0)
        wp.quat_to_axis_angle(rotation, axis, angle)
        for k in range(3):
            joints[row, j + k] = q[row, i + k]
            joints[row, j + 3 + k] = angle * axis[k]


@wp.kernel(**OPTIONS)
def forward_rows(
    table: TreeTable,
    q: wp.array(dtype=wp.float32, ndim=2),  # (rows, coordinates) [rad | m]
    active: wp.array(dtype=wp.int32),  # (rows,) or empty: rows of value 0 are left alone
    # outputs
    pose: wp.array(dtype=wp.transformf, ndim=2),  # (rows, bodies) frames in the world
    S: wp.array(dtype=wp.spatial_vectorf, ndim=2),  # (rows, dof) motion subspace, or empty
    joints: wp.array(dtype=wp.float32, ndim=2),  # (rows, dof) q in tangent coordinates, or empty
):
    """A thread a row: the least arithmetic."""
    row = wp.tid()
    if active.shape[0] > 0:
        if active[row] == 0:
            return
    for body in range(table.parents.shape[0]):
        frame = joint_transform(table, q, row, body)
        if table.parents[body] >= 0:
            frame = pose[row, table.parents[body]] * frame
        pose[row, body] = frame
        if S.shape[0] > 0:
            write_subspace(table, frame, row, body, S)
        if joints.shape[0] > 0:
            write_joints(table, q, row, body, joints)


@wp.kernel(**OPTIONS)
def forward_bodies(
    table: TreeTable,
    q: wp.array(dtype=wp.float32, ndim=2),
    active: wp.array(dtype=wp.int32),
    # outputs
    pose: wp.array(dtype=wp.transformf, ndim=2),
    S: wp.array(dtype=wp.spatial_vectorf, ndim=2),
    joints: wp.array(dtype=wp.float32, ndim=2),
):
    """A thread per (row, body), which walks up to the world: the least time when threads are plenty. As `forward_rows`."""
    row, body = wp.tid()
    if active.shape[0] > 0:
        if active[row] == 0:
            return
    frame = joint_transform(table, q, row, body)
    above = table.parents[body]
    while above >= 0:
        frame = joint_transform(table, q, row, above) * frame
        above = table.parents[above]
    pose[row, body] = frame
    if S.shape[0] > 0:
        write_subspace(table, frame, row, body, S)
    if joints.shape[0] > 0:
        write_joints(table, q, row, body, joints)


@wp.func
def turned(rotation: wp.quatf, turn: wp.vec3f):
    """Return exp(turn) times a rotation, a unit quaternion."""
    angle = wp.length(turn)
    result = rotation
    if angle > TINY:
        result = wp.quat_from_axis_angle(turn / angle, angle) * rotation
    return wp.normalize(result)


@wp.func
def write_moved(
    table: TreeTable,
    q: wp.array(dtype=wp.float32, ndim=2),
    step: wp.array(dtype=wp.float32, ndim=2),
    row: int,
    body: int,
    moved: wp.array(dtype=wp.float32, ndim=2),
):
    """Write the coordinates of one joint after a step."""
    i, j = table.coordinate[body], table.dof[body]
    if table.kinds[body] == FREE:
        rotation = wp.quatf(q[row, i + 3], q[row, i + 4], q[row, i + 5], q[row, i + 6])
        rotation = turned(rotation, wp.vec3f(step[row, j + 3], step[row, j + 4], step[row, j + 5]))
        for k in range(3):
            moved[row, i + k] = q[row, i + k] + step[row, j + k]
        for k in range(4):
            moved[row, i + 3 + k] = rotation[k]
    else:
        moved[row, i] = q[row, i] + step[row, j]


@wp.func
def moved_transform(table: TreeTable, q: wp.array(dtype=wp.float32, ndim=2), step: wp.array(dtype=wp.float32, ndim=2), row: int, body: int):
    """Return the frame of a body in that of its parent after a step."""
    i, j, kind = table.coordinate[body], table.dof[body], table.kinds[body]
    if kind == FREE:
        position = wp.vec3f(q[row, i] + step[row, j], q[row, i + 1] + step[row, j + 1], q[row, i + 2] + step[row, j + 2])
        rotation = wp.quatf(q[row, i + 3], q[row, i + 4], q[row, i + 5], q[row, i + 6])
        moved = wp.transformf(position, turned(rotation, wp.vec3f(step[row, j + 3], step[row, j + 4], step[row, j + 5])))
    elif kind == REVOLUTE:
        moved = wp.transformf(wp.vec3f(), wp.quat_from_axis_angle(table.axis[body], q[row, i] + step[row, j]))
    else:
        moved = wp.transformf((q[row, i] + step[row, j]) * table.axis[body], wp.quat_identity(dtype=wp.float32))
    return table.placement[body] * moved


@wp.kernel(**OPTIONS)
def retract(
    table: TreeTable,
    q: wp.array(dtype=wp.float32, ndim=2),  # (rows, coordinates)
    step: wp.array(dtype=wp.float32, ndim=2),  # (rows, dof) tangent
    # outputs
    moved: wp.array(dtype=wp.float32, ndim=2),  # (rows, coordinates); may be q
):
    """Move q along a tangent: joints by their numbers, a free base by translation and by exp of the turn."""
    row, body = wp.tid()
    write_moved(table, q, step, row, body, moved)


@wp.kernel(**OPTIONS)
def advance_rows(
    table: TreeTable,
    q: wp.array(dtype=wp.float32, ndim=2),  # (rows, coordinates)
    step: wp.array(dtype=wp.float32, ndim=2),  # (rows, dof) tangent
    # outputs
    moved: wp.array(dtype=wp.float32, ndim=2),  # (rows, coordinates), another array than q
    pose: wp.array(dtype=wp.transformf, ndim=2),  # (rows, bodies) at `moved`
    S: wp.array(dtype=wp.spatial_vectorf, ndim=2),  # (rows, dof)
    joints: wp.array(dtype=wp.float32, ndim=2),  # (rows, dof)
):
    """`retract` and `forward_rows` in one launch."""
    row = wp.tid()
    for body in range(table.parents.shape[0]):
        frame = moved_transform(table, q, step, row, body)
        if table.parents[body] >= 0:
            frame = pose[row, table.parents[body]] * frame
        pose[row, body] = frame
        write_moved(table, q, step, row, body, moved)
        write_subspace(table, frame, row, body, S)
        write_joints(table, moved, row, body, joints)


@wp.kernel(**OPTIONS)
def advance_bodies(
    table: TreeTable,
    q: wp.array(dtype=wp.float32, ndim=2),
    step: wp.array(dtype=wp.float32, ndim=2),
    # outputs
    moved: wp.array(dtype=wp.float32, ndim=2),
    pose: wp.array(dtype=wp.transformf, ndim=2),
    S: wp.array(dtype=wp.spatial_vectorf, ndim=2),
    joints: wp.array(dtype=wp.float32, ndim=2),
):
    """A thread per (row, body), as `forward_bodies`. As `advance_rows`."""
    row, body = wp.tid()
    frame = moved_transform(table, q, step, row, body)
    above = table.parents[body]
    while above >= 0:
        frame = moved_transform(table, q, step, row, above) * frame
        above = table.parents[above]
    pose[row, body] = frame
    write_moved(table, q, step, row, body, moved)
    write_subspace(table, frame, row, body, S)
    write_joints(table, moved, row, body, joints)


@wp.kernel(**OPTIONS)
def inertias(
    table: TreeTable,
    pose: wp.array(dtype=wp.transformf, ndim=2),  # (rows, bodies)
    # outputs
    result: wp.array(dtype=wp.spatial_matrixf, ndim=2),  # (rows, bodies) about the world origin, world axes
):
    """Spatial inertia of each body about the world origin (RBDA eq. 2.63, with linear before angular)."""
    row, body = wp.tid()
    frame = pose[row, body]
    turn = wp.quat_to_matrix(wp.transform_get_rotation(frame))
    m, c = table.mass[body], wp.transform_point(frame, table.center[body])
    cross = wp.skew(c)
    rotational = turn * table.inertia[body] * wp.transpose(turn) + m * cross * wp.transpose(cross)
    coupling = m * cross
    full = wp.spatial_matrixf()
    for r in range(3):
        full[r, r] = m
        for k in range(3):
            full[r + 3, k + 3] = rotational[r, k]
            full[r + 3, k] = coupling[r, k]
            full[r, k + 3] = coupling[k, r]
    result[row, body] = full
