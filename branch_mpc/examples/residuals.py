"""Residuals of inverse kinematics; their Jacobians are differentiated inside the kernels."""

import warp as wp

import branch_mpc.branch as br


@br.residual
def reach(body: br.Body, target: wp.vec3, point: wp.vec3) -> wp.vec3:
    """Distance from a point of a body to its target [m]."""
    return target - br.position(body, point)


@br.residual
def turn(body: br.Body, target: wp.quat) -> wp.vec3:
    """Rotation vector from the target rotation of a body to its rotation [rad], world axes."""
    return br.rotation_error(body, target)


@br.residual
def follow(body: br.Body, target: wp.vec3, rotation: wp.quat, point: wp.vec3, emphasis: float) -> wp.spatial_vector:
    """`reach` and, times `emphasis`, `turn` in one: a body's rows are made once, and a launch less is needed."""
    d, e = target - br.position(body, point), br.rotation_error(body, rotation)
    return wp.spatial_vector(d[0], d[1], d[2], emphasis * e[0], emphasis * e[1], emphasis * e[2])


@br.residual
def limit(d: br.Dof, lo: float, hi: float) -> float:
    """How far a joint is out of its limits [rad | m]."""
    v = d.q + d.value
    return wp.max(v - hi, 0.0) + wp.max(lo - v, 0.0)


@br.residual
def posture(d: br.Dof, rest: float) -> float:
    """Distance of a joint from its rest position [rad | m]."""
    return d.q + d.value - rest


@br.residual
def keep(d: br.Dof, lo: float, hi: float, rest: float, emphasis: float) -> wp.vec2:
    """`limit` and, times `emphasis`, `posture` in one: a launch less is needed."""
    v = d.q + d.value
    return wp.vec2(wp.max(v - hi, 0.0) + wp.max(lo - v, 0.0), emphasis * (v - rest))


@br.residual
def smooth(a: br.Dof, b: br.Dof, inv_dt: float) -> float:
    """Velocity of a joint between two frames [rad/s | m/s]."""
    return ((b.q + b.value) - (a.q + a.value)) * inv_dt
