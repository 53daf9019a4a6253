"""Problems: block sets of unknowns, the linear relation between them, and the sum of their terms."""

from dataclasses import dataclass, field

import numpy as np
import warp as wp

from branch_mpc.branch.residual import Residual
from branch_mpc.branch.residual_term import bind
from branch_mpc.branch.terms import BlockSet, Damping, Quadratic
from branch_mpc.branch.tree_problem import TreeProblem, TreeTerm
from branch_mpc.errors import ProblemError

DTYPES = (wp.float32, wp.float64)


@dataclass(frozen=True, eq=False)
class Coefficient:
    """A matrix of a relation: constants that are folded into the code, or an array that is read by reference.

    Attributes:
        name: Symbol in the generated code.
        rows: Number of rows.
        columns: Number of columns.
        constant: Entries (rows, columns) float64, or None.
        array: Array (frames, rows, columns) or (instances, frames, rows, columns), or None.
    """

    name: str
    rows: int
    columns: int
    constant: np.ndarray | None = None
    array: wp.array | None = None

    @property
    def nonzeros(self) -> np.ndarray:
        """Pattern (rows, columns) of the entries that take part in a product; an array is full."""
        return np.ones((self.rows, self.columns), dtype=bool) if self.constant is None else self.constant != 0.0


@dataclass(frozen=True, eq=False)
class Relation:
    """x_child = A x_parent + B u_edge + c; on a chain in time the parent of frame t+1 is frame t and its edge is input t.

    Attributes:
        states: Block set of x.
        inputs: Block set of u.
        A: Matrix (nx, nx).
        B: Matrix (nx, nu).
        c: Array (frames, nx) or (instances, frames, nx), or None for zero.
        initial: State of frame 0, array (instances, nx), or None for zero.
    """

    states: BlockSet
    inputs: BlockSet
    A: Coefficient
    B: Coefficient
    c: wp.array | None
    initial: wp.array | None


@dataclass(eq=False)
class Problem:
    """M independent problems of the same shape: block sets, the relation between them, terms.

    Attributes:
        instances: Number of problems M; that of the tangents where it is not given.
        relation: How the states follow from the inputs; None until `states` is called.
        quadratics: Quadratic terms, summed.
        dampings: Damping terms, summed.
        tree: Terms on tangents and twists, where the problem is one on a tree.
    """

    instances: int | None = None
    relation: Relation | None = None
    quadratics: list[Quadratic] = field(default_factory=list)
    dampings: list[Damping] = field(default_factory=list)
    tree: TreeProblem = field(default_factory=TreeProblem)
    _inputs: BlockSet | None = None

    def __post_init__(self) -> None:
        """Check the number of instances."""
        if self.instances is not None:
            _positive("instances of the problem", self.instances)

    @property
    def dtype(self) -> type:
        """Scalar type of the arrays of the terms.

        Raises:
            ProblemError: There is no quadratic term yet.
        """
        if self.tree.terms:
            return self.tree.dtype
        if not self.quadratics:
            raise ProblemError("the problem has no quadratic term", "add one with problem.add(br.quadratic(...))")
        return self.quadratics[0].H.dtype

    def inputs(self, name: str, *, width: int, frames: int) -> BlockSet:
        """Declare the free unknowns u_t, t = 0..frames-1.

        Raises:
            ProblemError: A width or frame count below 1, or a second set of inputs.
        """
        _positive(f"width of '{name}'", width)
        _positive(f"frames of '{name}'", frames)
        if self.instances is None or self.tree.terms:
            raise ProblemError(f"'{name}' is declared on a problem of a tree", "make br.Problem(instances=M) for a chain of states")
        if self._inputs is not None:
            raise ProblemError(f"'{name}' is a second set of inputs beside '{self._inputs.name}'", "put both into one block, side by side")
        self._inputs = BlockSet(name, width, frames)
        return self._inputs

    def states(
        self,
        name: str,
        inputs: BlockSet,
        *,
        A: np.ndarray | wp.array,
        B: np.ndarray | wp.array,
        c: wp.array | None = None,
        initial: wp.array | None = None,
    ) -> BlockSet:
        """Declare the states x_{t+1} = A x_t + B u_t + c_t, x_0 = initial, one frame more than the inputs.

        Args:
            name: Name of the block set.
            inputs: Block set u, of width nu.
            A: Constants (nx, nx), or an array (frames, nx, nx) or (instances, frames, nx, nx) read by reference.
            B: Constants (nx, nu), or an array (frames, nx, nu) or (instances, frames, nx, nu) read by reference.
            c: Array (frames, nx) or (instances, frames, nx), or None for zero.
            initial: Array (instances, nx), or None for zero.

        Raises:
            ProblemError: Shapes that do not fit together, constants that are not finite, or a second relation.
        """
        if inputs is not self._inputs:
            raise ProblemError(f"'{inputs.name}' is not a block set of this problem", "declare it with problem.inputs(...)")
        if self.relation is not None:
            first = self.relation.states.name
            raise ProblemError(f"'{name}' is a second set of states beside '{first}'", "put both into one block, side by side")
        nx = int(A.shape[-1]) if len(A.shape) else 0
        _positive(f"width of '{name}' (columns of A)", nx)
        states, steps = BlockSet(name, nx, inputs.frames + 1), (inputs.frames,)
        left, right = self._coefficient("A", states, A, (nx, nx)), self._coefficient("B", states, B, (nx, inputs.width))
        if c is not None:
            _array(f"c of '{name}'", c, ((*steps, nx), (self.instances, *steps, nx)))
        if initial is not None:
            _array(f"initial of '{name}'", initial, ((self.instances, nx),))
        self.relation = Relation(states, inputs, left, right, c, initial)
        return states

    def add(self, term: Quadratic | Damping | Residual | TreeTerm, **arguments: object) -> None:
        """Add a term to the sum.

        Args:
            term: A quadratic, damping or coupling term, or a residual.
            arguments: Of a residual: a slice of twists per br.Body, of single unknowns per br.Dof, and numbers or arrays for the others,
                whose leading shape broadcasts to (instances, frames, blocks); and `weight`, likewise, 1 by default.

        Raises:
            ProblemError: The term's block sets are not of this problem, or its arrays do not fit them.
        """
        if not isinstance(term, Quadratic | Damping):
            if self._inputs is not None:
                raise ProblemError("a term of a tree on a problem with a chain of states", "make a problem of its own")
            self.instances = self.tree.add(bind(term, arguments) if isinstance(term, Residual) else term, self.instances)
            return
        relation = self.relation
        if relation is None or term.states is not relation.states or term.inputs is not relation.inputs:
            raise ProblemError(
                f"the term on ('{term.states.name}', '{term.inputs.name}') is not on the states and inputs of this problem",
                "pass the block sets that problem.states(...) and problem.inputs(...) returned, in this order",
            )
        width, where = term.states.width + term.inputs.width, f"('{term.states.name}', '{term.inputs.name}')"
        if isinstance(term, Quadratic):
            lead = (self.instances, term.states.frames, width)
            _array(f"H on {where}", term.H, ((*lead, width),))
            _array(f"g on {where}", term.g, (lead,), term.H.dtype)
            self.quadratics.append(term)
            return
        if term.scale.shape != (width,) or not (np.isfinite(term.scale).all() and (term.scale >= 0.0).all()):
            found = f"damping scale on {where} is {term.scale.tolist()}, shape {term.scale.shape}"
            raise ProblemError(found, f"give {width} finite numbers that are not negative")
        _array(f"damping weight on {where}", term.weight, ((self.instances,),))
        self.dampings.append(term)

    def arrays(self) -> dict[str, wp.array]:
        """Every array that the kernels read by reference, by its symbol in the generated code."""
        found: dict[str, wp.array | None] = {}
        for index, term in enumerate(self.quadratics):
            found |= {f"H{index}": term.H, f"g{index}": term.g}
        for index, damp in enumerate(self.dampings):
            found[f"rho{index}"] = damp.weight
        if self.relation is not None:
            found |= {"A": self.relation.A.array, "B": self.relation.B.array, "c": self.relation.c, "initial": self.relation.initial}
        return {name: array for name, array in found.items() if array is not None}

    def _coefficient(self, symbol: str, states: BlockSet, value: np.ndarray | wp.array, shape: tuple[int, int]) -> Coefficient:
        label = f"{symbol} of '{states.name}'"
        if isinstance(value, wp.array):
            steps = states.frames - 1
            _array(label, value, ((steps, *shape), (self.instances, steps, *shape)))
            return Coefficient(symbol, *shape, array=value)
        constant = np.array(value, dtype=np.float64)
        if constant.shape != shape:
            problem = f"{label} has shape {constant.shape}, expected {shape}"
            raise ProblemError(problem, "give constants of that shape or a Warp array per frame")
        if not np.isfinite(constant).all():
            raise ProblemError(f"{label} holds a number that is not finite", "give finite constants")
        constant.setflags(write=False)  # it is folded into the code
        return Coefficient(symbol, *shape, constant=constant)


def _positive(label: str, value: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ProblemError(f"{label} is {value!r}", "give a whole number of at least 1")


def _array(label: str, array: wp.array, shapes: tuple[tuple[int, ...], ...], dtype: type | None = None) -> None:
    """Check that `array` is a contiguous Warp array of one of `shapes`."""
    expected = " or ".join(str(shape) for shape in shapes)
    if not isinstance(array, wp.array):
        raise ProblemError(f"{label} is a {type(array).__name__}", f"give a Warp array of shape {expected}")
    if tuple(array.shape) not in shapes:
        raise ProblemError(f"{label} has shape {tuple(array.shape)}, expected {expected}", "make the array and the block sets agree")
    if array.dtype not in DTYPES or dtype not in (None, array.dtype):
        wanted = "float32 or float64" if dtype is None else dtype.__name__
        raise ProblemError(f"{label} holds {array.dtype.__name__}, expected {wanted}", "pass dtype= when you make the array")
    if not array.is_contiguous:
        raise ProblemError(f"{label} is not contiguous", "pass a contiguous array: it is read by reference")
