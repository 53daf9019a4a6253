"""Text of loops and of products with the matrices of a relation, the same for one thread and for a block of lanes."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from branch_mpc.branch.problem import Coefficient

Read = Callable[[object], str]  # index -> expression of an entry of the vector that is read
Write = Callable[[object, str], str]  # (index, expression) -> statement


@dataclass(frozen=True)
class Worker:
    """Who runs a front body: one thread, or the lanes of a block that share its storage.

    Attributes:
        block: True for the lanes of a block.
    """

    block: bool

    @property
    def sync(self) -> str:
        """Barrier between two steps that touch each other's storage."""
        return "WP_TILE_SYNC();\n" if self.block else ""

    @property
    def first(self) -> str:
        """Guard of what one lane does for all."""
        return "if (lane == 0) " if self.block else ""

    def owns(self, index: str) -> str:
        """Guard of what the lane of this index does, inside an unrolled loop."""
        return f"if ({index} % lanes == lane) " if self.block else ""

    def each(self, index: str, count: object, body: str, *, start: object = 0, unroll: bool = False) -> str:
        """A loop whose passes are independent: split over the lanes of a block."""
        if self.block:
            head = f"for (int {index} = {start} + lane; {index} < {count}; {index} += lanes) {{"
        else:
            head = f"for (int {index} = {start}; {index} < {count}; ++{index}) {{"
        return ("WP_PRAGMA_UNROLL\n" if unroll and not self.block else "") + braces(head, body)

    def grid(self, row: str, rows: object, column: str, columns: object, body: str) -> str:
        """Two nested independent loops, flattened for the lanes of a block."""
        if not self.block:
            return self.each(row, rows, self.each(column, columns, body))
        by = nonzero(columns) if columns in ("P", "Q") else columns  # sizes of a class of fronts
        split = f"const int {row} = entry / ({by}), {column} = entry % ({by});\n"
        return self.each("entry", f"({rows}) * ({columns})", split + body)


def nonzero(count: str) -> str:
    """A number of columns that may be 0 in some class of fronts, safe to divide by (there are no passes then)."""
    return f"{count} > 0 ? {count} : 1"


def braces(head: str, body: str) -> str:
    """A C++ block: `head` ends with an opening brace."""
    return f"{head}\n{textwrap.indent(body.rstrip(), '    ')}\n}}\n"


def unrolled(index: str, count: object, body: str, *, start: object = 0) -> str:
    """A loop that every lane runs in full, unrolled by the compiler."""
    return "WP_PRAGMA_UNROLL\n" + braces(f"for (int {index} = {start}; {index} < {count}; ++{index}) {{", body)


def literal(value: float) -> str:
    """A constant of the working type, exact to float64."""
    return f"T({value!r})"


def adjoint(matrix: Coefficient, read: Read, write: Write) -> str:
    """Statements write(j, sum_k M[k, j] read(k)) for every column j; constants leave out their zeros and the factors 1."""
    if matrix.constant is None:
        total = "T sum = T(0);\n" + unrolled("k", matrix.rows, f"sum += {matrix.name}_t[k * {matrix.columns} + j] * {read('k')};")
        return unrolled("j", matrix.columns, total + write("j", "sum"))
    text = ""
    for j, column in enumerate(matrix.constant.T):
        text += write(j, _sum([(float(v), read(k)) for k, v in enumerate(column) if v != 0.0])) + "\n"
    return text


def forward(matrices: list[tuple[Coefficient, Read]], offset: Callable[[object], str] | None, write: Write) -> str:
    """Statements write(i, sum over the matrices of M[i, :] read(:), plus offset(i)) for every row i."""
    rows = matrices[0][0].rows
    if any(matrix.constant is None for matrix, _ in matrices):
        total = f"T sum = {offset('i') if offset else 'T(0)'};\n"
        for matrix, read in matrices:
            total += unrolled("k", matrix.columns, f"sum += {_entry(matrix)} * {read('k')};")
        return braces("{", tables([matrix for matrix, _ in matrices]) + unrolled("i", rows, total + write("i", "sum")))
    text = ""
    constants = [(matrix.constant, read) for matrix, read in matrices if matrix.constant is not None]
    for i in range(rows):
        terms = [(float(v), read(k)) for constant, read in constants for k, v in enumerate(constant[i]) if v != 0.0]
        text += write(i, _sum(terms) + (f" + {offset(i)}" if offset else "")) + "\n"
    return text


def _entry(matrix: Coefficient) -> str:
    return f"{matrix.name}_t[i * {matrix.columns} + k]"


def tables(matrices: list[Coefficient]) -> str:
    """Constants that stand beside an array in one product, as a table."""
    text = ""
    for matrix in matrices:
        if matrix.constant is not None:
            text += f"constexpr T {matrix.name}_t[] = {{{', '.join(literal(float(v)) for v in matrix.constant.ravel())}}};\n"
    return text


def _sum(terms: list[tuple[float, str]]) -> str:
    text = ""
    for value, symbol in terms:
        sign, size = ("-" if value < 0 else "+"), abs(value)
        product = symbol if size == 1.0 else f"{literal(size)} * {symbol}"
        text += f" {sign} {product}" if text else (f"-{product}" if sign == "-" else product)
    return text or "T(0)"
