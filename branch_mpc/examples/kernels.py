"""Kernels of the applications: acceptance of a Levenberg-Marquardt step, choice of a start, contact sweeps."""

import warp as wp

OPTIONS = {"enable_backward": False, "module_options": {"max_unroll": 0}, "module": "unique"}


@wp.kernel(**OPTIONS)
def begin_search(
    q: wp.array(dtype=wp.float32, ndim=3),  # (instances, frames, coordinates) start
    first_damping: wp.float32,
    cost: wp.array(dtype=wp.float32),  # (instances,) at q
    # outputs
    accepted: wp.array(dtype=wp.float32, ndim=3),  # (instances, frames, coordinates)
    best: wp.array(dtype=wp.float32),  # (instances,) cost at `accepted`
    damping: wp.array(dtype=wp.float32),  # (instances,)
):
    """Take the start as the accepted configurations."""
    instance, frame = wp.tid()
    for i in range(q.shape[2]):
        accepted[instance, frame, i] = q[instance, frame, i]
    if frame == 0:
        best[instance] = cost[instance]
        damping[instance] = first_damping


@wp.kernel(**OPTIONS)
def settle(
    cost: wp.array(dtype=wp.float32),  # (instances,) at q
    failed: wp.array(dtype=wp.int32),  # (instances,) not 0 where a pivot failed
    best: wp.array(dtype=wp.float32),  # (instances,) cost at `accepted`
    shrink: wp.float32,  # of the damping after an accepted step
    grow: wp.float32,  # of the damping after a refused one
    least: wp.float32,  # damping
    most: wp.float32,
    # outputs
    next_best: wp.array(dtype=wp.float32),  # (instances,) another array than `best`
    damping: wp.array(dtype=wp.float32),  # (instances,)
    accepted: wp.array(dtype=wp.float32, ndim=3),  # (instances, frames, coordinates)
    q: wp.array(dtype=wp.float32, ndim=3),  # (instances, frames, coordinates) candidate; put back where it is refused
    refused: wp.array(dtype=wp.int32),  # (instances * frames,) 1 where the candidate was refused
):
    """Keep the candidate where it lowers the cost, else go back and damp more."""
    instance, frame = wp.tid()
    good = failed[instance] == 0 and cost[instance] < best[instance]  # a cost that is not a number is refused
    for i in range(q.shape[2]):
        if good:
            accepted[instance, frame, i] = q[instance, frame, i]
        else:
            q[instance, frame, i] = accepted[instance, frame, i]
    refused[instance * q.shape[1] + frame] = wp.where(good, 0, 1)
    if frame == 0:
        next_best[instance] = wp.where(good, cost[instance], best[instance])
        damping[instance] = wp.where(good, wp.max(shrink * damping[instance], least), wp.min(grow * damping[instance], most))


@wp.kernel(**OPTIONS)
def best_start(
    q: wp.array(dtype=wp.float32, ndim=3),  # (problems * starts, 1, coordinates)
    cost: wp.array(dtype=wp.float32),  # (problems * starts,)
    starts: wp.int32,
    # outputs
    chosen: wp.array(dtype=wp.float32, ndim=2),  # (problems, coordinates)
    index: wp.array(dtype=wp.int32),  # (problems,)
):
    """Choose the start with the least cost, the first of equals."""
    problem = wp.tid()
    least = int(0)
    for start in range(1, starts):
        if cost[problem * starts + start] < cost[problem * starts + least]:
            least = start
    index[problem] = least
    for i in range(q.shape[2]):
        chosen[problem, i] = q[problem * starts + least, 0, i]


@wp.kernel(**OPTIONS)
def contact_loads(
    pose: wp.array(dtype=wp.transformf, ndim=2),  # (instances, bodies)
    bodies: wp.array(dtype=wp.int32),  # (contacts,)
    points: wp.array(dtype=wp.vec3f),  # (contacts,) in body frames [m]
    blocks: wp.array(dtype=wp.int32),  # (contacts,) place of the body among the loaded ones
    # outputs
    loads: wp.array(dtype=wp.spatial_vectorf, ndim=3),  # (instances, 3 contacts, blocks), zero elsewhere
):
    """Unit forces along the world axes at every contact, as wrenches (force, moment) about the world origin."""
    instance, column = wp.tid()
    contact, axis = column // 3, column % 3
    force = wp.vec3f()
    force[axis] = 1.0
    moment = wp.cross(wp.transform_point(pose[instance, bodies[contact]], points[contact]), force)
    loads[instance, column, blocks[contact]] = wp.spatial_vector(force, moment)


@wp.struct
class Layout:
    """Where a number of an instance lives in a flat array: entry * stride + instance * pitch.

    Instances side by side (stride = instances, pitch = 1) for threads that run together, one after another for a processor.
    """

    stride: wp.int32
    pitch: wp.int32


@wp.kernel(**OPTIONS)
def contact_matrix(
    loads: wp.array(dtype=wp.spatial_vectorf, ndim=3),  # (instances, columns, blocks)
    twists: wp.array(dtype=wp.spatial_vectorf, ndim=3),  # (instances, columns, blocks) answers of the bodies
    blocks: wp.array(dtype=wp.int32),  # (contacts,)
    layout: Layout,
    # outputs
    matrix: wp.array(dtype=wp.float32),  # columns^2 numbers an instance: J M^-1 J' [1/kg]
):
    """Velocity of every contact for a unit impulse at every contact."""
    instance, row, column = wp.tid()
    block = blocks[row // 3]
    entry = row * loads.shape[1] + column
    matrix[entry * layout.stride + instance * layout.pitch] = wp.dot(loads[instance, row, block], twists[instance, column, block])


@wp.kernel(**OPTIONS)
def contact_velocity(
    S: wp.array(dtype=wp.spatial_vectorf, ndim=2),  # (instances, dof)
    supports: wp.array(dtype=wp.int32, ndim=2),  # (contacts, dof) 1 where the degree of freedom moves the contact
    loads: wp.array(dtype=wp.spatial_vectorf, ndim=3),
    blocks: wp.array(dtype=wp.int32),
    velocity: wp.array(dtype=wp.float32, ndim=2),  # (instances, dof)
    layout: Layout,
    # outputs
    slip: wp.array(dtype=wp.float32),  # columns numbers an instance: J v [m/s]
):
    """Velocity of every contact along the world axes."""
    instance, row = wp.tid()
    block = blocks[row // 3]
    total = float(0.0)
    for i in range(velocity.shape[1]):
        if supports[row // 3, i] != 0:
            total += wp.dot(loads[instance, row, block], S[instance, i]) * velocity[instance, i]
    slip[row * layout.stride + instance * layout.pitch] = total


@wp.kernel(**OPTIONS)
def project_sweeps(
    matrix: wp.array(dtype=wp.float32),  # columns^2 numbers an instance
    free: wp.array(dtype=wp.float32),  # columns numbers an instance: contact velocities without contact [m/s]
    columns: wp.int32,
    friction: wp.float32,
    sweeps: wp.int32,
    square: Layout,  # of the matrix
    line: Layout,  # of the vectors
    # outputs
    impulse: wp.array(dtype=wp.float32),  # columns numbers an instance [Ns], start of the sweeps and result
):
    """Projected Gauss-Seidel: normals (world z) not negative, tangential impulses in the friction disc."""
    instance = wp.tid()
    first, start = instance * square.pitch, instance * line.pitch
    for _sweep in range(sweeps):
        for contact in range(columns // 3):
            limit = float(0.0)
            for turn in range(3):
                row = 3 * contact + (turn + 2) % 3  # z first: its impulse bounds the other two
                slip = free[row * line.stride + start]
                for column in range(columns):
                    slip += matrix[(row * columns + column) * square.stride + first] * impulse[column * line.stride + start]
                own = matrix[(row * columns + row) * square.stride + first]
                value = impulse[row * line.stride + start] - slip / own
                if turn == 0:
                    value = wp.max(value, 0.0)
                    limit = friction * value
                impulse[row * line.stride + start] = value
            x = 3 * contact * line.stride + start
            y = x + line.stride
            size = wp.sqrt(impulse[x] * impulse[x] + impulse[y] * impulse[y])
            if size > limit:
                impulse[x] *= limit / size
                impulse[y] *= limit / size


@wp.kernel(**OPTIONS)
def respond(
    columns: wp.array(dtype=wp.float32, ndim=3),  # (instances, columns, dof) M^-1 J'
    impulse: wp.array(dtype=wp.float32),  # columns numbers an instance [Ns]
    velocity: wp.array(dtype=wp.float32, ndim=2),  # (instances, dof)
    layout: Layout,
    # outputs
    after: wp.array(dtype=wp.float32, ndim=2),  # (instances, dof) velocity + M^-1 J' impulse
):
    """Velocity of the robot after the impulses."""
    instance, i = wp.tid()
    total = velocity[instance, i]
    for column in range(columns.shape[1]):
        total += columns[instance, column, i] * impulse[column * layout.stride + instance * layout.pitch]
    after[instance, i] = total
