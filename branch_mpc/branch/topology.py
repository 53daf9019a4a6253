"""Which body hangs on which, and how many unknowns move it: all that branch knows of a robot."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from branch_mpc.errors import ProblemError

MAX_DOFS = 6


@dataclass(frozen=True)
class Topology:
    """A tree of bodies.

    Attributes:
        parents: Parent of each body, smaller than the body's own index; -1 for the fixed base, whose twist is zero.
        dofs: Unknowns that move each body against its parent, 0 to 6; a free root is a body on the base with 6.
        names: Names of the bodies; body0, body1, ... by default.
    """

    parents: tuple[int, ...]
    dofs: tuple[int, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that it is a tree.

        Raises:
            ProblemError: A loop, a parent after its child, a number of unknowns that no joint has, or names that do not fit.
        """
        for name in ("parents", "dofs"):
            object.__setattr__(self, name, tuple(int(v) for v in getattr(self, name)))
        object.__setattr__(self, "names", tuple(self.names) or tuple(f"body{b}" for b in range(self.bodies)))
        if not self.bodies or len(self.dofs) != self.bodies or len(self.names) != self.bodies or len(set(self.names)) != self.bodies:
            found = f"the topology has {self.bodies} parents, {len(self.dofs)} dofs and {len(set(self.names))} different names"
            raise ProblemError(found, "give one of each per body, at least one body, and no name twice")
        for body in range(self.bodies):
            self._check_body(body)

    def _check_body(self, body: int) -> None:
        if not 0 <= self.dofs[body] <= MAX_DOFS:
            raise ProblemError(f"body '{self.names[body]}' has {self.dofs[body]} dofs", f"give 0 to {MAX_DOFS}")
        at, path = body, [body]
        while 0 <= self.parents[at] < self.bodies:
            at = self.parents[at]
            if at in path:
                loop = " -> ".join(f"'{self.names[b]}'" for b in [*path[path.index(at) :], at])
                raise ProblemError(f"the parents form a loop: {loop}", "cut it: branch solves trees")
            path.append(at)
        if self.parents[at] != -1:
            raise ProblemError(f"body '{self.names[at]}' has parent {self.parents[at]}", f"give -1 or a body below {self.bodies}")
        if self.parents[body] >= body:
            found = f"body {body} '{self.names[body]}' comes before its parent {self.parents[body]} '{self.names[self.parents[body]]}'"
            raise ProblemError(found, "number parents before their children")

    @property
    def bodies(self) -> int:
        """Number of bodies."""
        return len(self.parents)

    @property
    def width(self) -> int:
        """Unknowns of a frame."""
        return sum(self.dofs)

    @cached_property
    def offsets(self) -> np.ndarray:
        """First unknown of each body, and the number of all (bodies + 1,)."""
        return np.concatenate([[0], np.cumsum(self.dofs)]).astype(np.int64)

    @cached_property
    def body_of(self) -> np.ndarray:
        """Body that each unknown moves (width,)."""
        return np.repeat(np.arange(self.bodies), self.dofs)

    def index(self, name: str) -> int:
        """Index of a body by name.

        Raises:
            ProblemError: There is no such body.
        """
        if name not in self.names:
            raise ProblemError(f"body '{name}' does not exist", f"choose one of {', '.join(self.names)}")
        return self.names.index(name)
