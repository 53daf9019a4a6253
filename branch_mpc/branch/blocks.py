"""Block sets of a tree in time: tangents u_b, the twists x_b that follow from them, and slices of both."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from branch_mpc.branch.arrays import Strided, strided
from branch_mpc.branch.topology import Topology
from branch_mpc.errors import ProblemError

COORDINATES = ("world", "body", "aligned")
TWIST = 6  # numbers of a twist: linear, angular
Index = Any  # an int, a slice, a name, or a list of ints or names


@dataclass(frozen=True, eq=False)
class View:
    """Some blocks of a block set in some frames.

    Attributes:
        owner: The block set.
        kind: "tangent" (u_b), "dof" (one number of a u_b) or "twist" (x_b).
        members: Bodies, or unknowns for "dof".
        frames: Frames.
    """

    owner: "Tangents | Twists"
    kind: str
    members: tuple[int, ...]
    frames: tuple[int, ...]

    def __getitem__(self, key: Index) -> "View":
        """Slice by block, or by (block, frame)."""
        blocks, frames = key if isinstance(key, tuple) else (key, slice(None))
        topology = self.owner.topology
        name = topology.index if self.kind != "dof" else _no_name
        picked = _select(self.members, blocks, name, f"block of {self.label}")
        return View(self.owner, self.kind, picked, _select(self.frames, frames, _no_name, f"frame of {self.label}"))

    @property
    def tangents(self) -> "Tangents":
        """The free unknowns behind this view."""
        return self.owner.tangents if isinstance(self.owner, Twists) else self.owner

    @property
    def whole(self) -> bool:
        """True where the view holds every block in order."""
        count = self.owner.topology.width if self.kind == "dof" else self.owner.topology.bodies
        return self.members == tuple(range(count))

    @property
    def label(self) -> str:
        """Name of the block set, with '.dofs' for single unknowns."""
        return f"'{self.owner.name}'" + (".dofs" if self.kind == "dof" else "")

    def name(self, member: int) -> str:
        """Name of a block for messages."""
        return f"dof {member}" if self.kind == "dof" else f"'{self.owner.topology.names[member]}'"

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """First variable and width of every block, each (frames, blocks): variables are all u, then all x, frame by frame."""
        topology, members, frames = self.owner.topology, np.array(self.members), np.array(self.frames)[:, None]
        if self.kind == "twist":
            first = self.tangents.frames * topology.width + (frames * topology.bodies + members) * TWIST
            return first, np.full_like(first, TWIST)
        if self.kind == "dof":
            first = frames * topology.width + members
            return first, np.ones_like(first)
        first = frames * topology.width + topology.offsets[members]
        return first, np.broadcast_to(np.array(topology.dofs)[members], first.shape)


@dataclass(frozen=True, eq=False)
class Tangents:
    """Free unknowns u_b of every body in every frame; made by `tangents`.

    Attributes:
        name: Name used in reports and messages.
        topology: The tree.
        instances: Number of problems.
        frames: Number of frames.
        q: Values (instances, frames, width) that residuals read as d.q, or None.
    """

    name: str
    topology: Topology
    instances: int
    frames: int
    q: Strided | None

    @property
    def width(self) -> int:
        """Unknowns of a frame."""
        return self.topology.width

    @property
    def all(self) -> View:
        """Every block."""
        return View(self, "tangent", tuple(range(self.topology.bodies)), tuple(range(self.frames)))

    @property
    def dofs(self) -> View:
        """Every unknown as a block of its own."""
        return View(self, "dof", tuple(range(self.width)), tuple(range(self.frames)))

    def __getitem__(self, key: Index) -> View:
        """Slice by body, or by (body, frame)."""
        return self.all[key]


@dataclass(frozen=True, eq=False)
class Twists:
    """x_b = X_b x_parent + S_b u_b; made by `twists`.

    Attributes:
        name: Name used in reports and messages.
        tangents: The free unknowns.
        S: Columns (instances, frames, width, 6).
        X: Matrices (instances, frames, bodies, 6, 6), or None for identities.
        pose: Positions and quaternions (instances, frames, bodies, 7) that residuals read, or None.
        coordinates: What a twist means to the pose: "world", "body" or "aligned".
    """

    name: str
    tangents: Tangents
    S: Strided
    X: Strided | None
    pose: Strided | None
    coordinates: str

    @property
    def topology(self) -> Topology:
        """The tree."""
        return self.tangents.topology

    @property
    def all(self) -> View:
        """Every block."""
        return View(self, "twist", tuple(range(self.topology.bodies)), tuple(range(self.tangents.frames)))

    def __getitem__(self, key: Index) -> View:
        """Slice by body, or by (body, frame)."""
        return self.all[key]


def tangents(topology: Topology, *, instances: int, frames: int = 1, q: wp.array | None = None, name: str = "u") -> Tangents:
    """Declare the free unknowns of a tree.

    Args:
        topology: The tree.
        instances: Number of problems.
        frames: Number of frames.
        q: Values (instances, frames, width), by reference, that residuals read as `d.q`; with one frame also (instances, width).
        name: Name used in reports and messages.

    Raises:
        ProblemError: A count below 1, nothing that moves, or q of another shape.
    """
    for label, value in (("instances", instances), ("frames", frames)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ProblemError(f"{label} of '{name}' is {value!r}", "give a whole number of at least 1")
    if topology.width == 0:
        raise ProblemError(f"no body of '{name}' has an unknown", "give at least one body a dof")
    values = None if q is None else strided(f"q of '{name}'", q, (instances, frames), (topology.width,))
    return Tangents(name, topology, int(instances), int(frames), values)


def twists(
    u: Tangents,
    *,
    S: wp.array,
    X: wp.array | None = None,
    pose: wp.array | None = None,
    coordinates: str = "world",
    name: str = "x",
) -> Twists:
    """Declare the twists of all bodies, x_b = X_b x_parent + S_b u_b, zero for the base.

    Source: Featherstone, Rigid Body Dynamics Algorithms (2008), section 4.2; here twists are (linear, angular).

    Args:
        u: Free unknowns.
        S: Columns (instances, frames, width, 6), by reference.
        X: Matrices (instances, frames, bodies, 6, 6), by reference; None where twists need no transport: world coordinates.
        pose: World pose of every body (instances, frames, bodies, 7), position and quaternion xyzw, by reference.
        coordinates: "world": velocity of the point that passes the world origin, world axes; "body": of the body's origin, body axes;
            "aligned": of the body's origin, world axes. Only residuals that read the pose need to know.
        name: Name used in reports and messages.

    Raises:
        ProblemError: Shapes that do not fit, or unknown coordinates.
    """
    if coordinates not in COORDINATES:
        raise ProblemError(f"coordinates of '{name}' are '{coordinates}'", f"choose one of {', '.join(COORDINATES)}")
    lead, bodies = (u.instances, u.frames), u.topology.bodies
    columns = strided(f"S of '{name}'", S, lead, (u.width, TWIST))
    matrices = None if X is None else strided(f"X of '{name}'", X, lead, (bodies, TWIST, TWIST))
    poses = None if pose is None else strided(f"pose of '{name}'", pose, lead, (bodies, 7))
    return Twists(name, u, columns, matrices, poses, coordinates)


def as_view(blocks: object) -> View:
    """A block set as the view of all of it.

    Raises:
        ProblemError: It is no block set.
    """
    if isinstance(blocks, Tangents | Twists):
        return blocks.all
    if isinstance(blocks, View):
        return blocks
    raise ProblemError(f"{type(blocks).__name__} is not a block set", "give br.tangents(...), br.twists(...) or a slice of one")


def _select(members: tuple[int, ...], key: Index, index: Callable[[str], int], label: str) -> tuple[int, ...]:
    if isinstance(key, slice):
        picked = members[key]
    elif isinstance(key, str):
        picked = (_member(members, index(key), label),)
    elif isinstance(key, int | np.integer):
        if not -len(members) <= key < len(members):
            raise ProblemError(f"there is no {label} {key}", f"there are {len(members)}")
        picked = (members[int(key)],)
    elif isinstance(key, Iterable):
        picked = tuple(m for each in key for m in _select(members, each, index, label))
    else:
        raise ProblemError(f"{label} {key!r} is no index", "give a number, a slice, a name or a list of them")
    if not picked:
        raise ProblemError(f"the slice {key!r} holds no {label}", f"there are {len(members)}")
    return picked


def _member(members: tuple[int, ...], body: int, label: str) -> int:
    if body not in members:
        raise ProblemError(f"body {body} is not in this slice", f"slice a {label} that it holds")
    return body


def _no_name(name: str) -> int:
    raise ProblemError(f"'{name}' is a name", "give numbers here")
