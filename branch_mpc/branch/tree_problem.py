"""The terms of a problem on a tree, and the block sets they are on."""

from dataclasses import dataclass, field

import warp as wp

from branch_mpc.branch.arrays import Strided
from branch_mpc.branch.blocks import Tangents, Twists, View
from branch_mpc.branch.pieces import Pieces
from branch_mpc.branch.residual_term import ResidualTerm
from branch_mpc.branch.tree_terms import BlockQuadratic, FrameCoupling, TreeDamping
from branch_mpc.errors import ProblemError

TreeTerm = BlockQuadratic | FrameCoupling | TreeDamping | ResidualTerm


@dataclass(eq=False)
class TreeProblem:
    """Terms on one set of tangents and the twists that follow from them.

    Attributes:
        terms: In the order they were added.
        tangents: The free unknowns, from the first term.
        twists: The twists, from the first term on some, or None.
    """

    terms: list[TreeTerm] = field(default_factory=list)
    tangents: Tangents | None = None
    twists: Twists | None = None

    @property
    def dtype(self) -> type:
        """Scalar type of the arrays, float32 where all are numbers."""
        found = [data.dtype for data in self.arrays() if data.dtype is not None]
        return found[0] if found else wp.float32

    def add(self, term: object, instances: int | None) -> int:
        """Add a term and return the number of instances.

        Raises:
            ProblemError: It is no term, or on other block sets than the terms before.
        """
        if not isinstance(term, BlockQuadratic | FrameCoupling | TreeDamping | ResidualTerm):
            raise ProblemError(f"{type(term).__name__} is not a term", "give br.quadratic, br.damping, br.coupling or a br.residual")
        for view in term.views:
            self._join(term, view, instances)
        self.terms.append(term)
        assert self.tangents is not None
        return self.tangents.instances

    def _join(self, term: TreeTerm, view: View, instances: int | None) -> None:
        tangents, twists = view.tangents, view.owner if isinstance(view.owner, Twists) else None
        if instances not in (None, tangents.instances):
            raise ProblemError(f"the {term.label} has {tangents.instances} instances, the problem {instances}", "make them agree")
        if self.tangents not in (None, tangents):
            raise ProblemError(
                f"the {term.label} is on '{tangents.name}', other terms on '{self.tangents.name}'", "use one set of tangents"
            )
        if twists is not None and self.twists not in (None, twists):
            raise ProblemError(f"the {term.label} is on other twists than '{self.twists.name}'", "use one set of twists")
        self.tangents, self.twists = tangents, twists or self.twists

    def arrays(self) -> list[Strided]:
        """Every array of numbers of the user."""
        found: list[Strided | None] = []
        if self.tangents is not None:
            found.append(self.tangents.q)
        if self.twists is not None:
            found += [self.twists.S, self.twists.X, self.twists.pose]
        for term in self.terms:
            if isinstance(term, BlockQuadratic):
                found += [term.H, term.g]
            elif isinstance(term, FrameCoupling):
                found.append(term.C)
            elif isinstance(term, TreeDamping):
                found.append(term.weight)
            else:
                found += [*term.data.values(), term.weight]
        return [data for data in found if data is not None]

    def pieces(self) -> Pieces:
        """All terms as pieces."""
        made = Pieces()
        for index, term in enumerate(self.terms):
            term.pieces(made, index)
        return made
