"""Terms as pieces: rectangles of numbers in arrays, and the variables of an instance that they are the Hessian or gradient of."""

from dataclasses import dataclass, field

import numpy as np

from branch_mpc.branch.arrays import Strided

# Columns of a record. ROW and COL are first variables; STRIDE is between rows. A SCALED piece is one weight times numbers of another
# array, whose index is in COLS and whose first number is in COL.
ARRAY, OFFSET, STRIDE, ROW, COL, ROWS, COLS, KIND = range(8)
# LOWER: lower triangle on the diagonal. FULL: rows and columns of different blocks. BAND: entries (row + i, col + i).
LOWER, FULL, BAND, SCALED, GRADIENT = range(5)


@dataclass(frozen=True, eq=False)
class Source:
    """An array that pieces are read from.

    Attributes:
        name: Name in messages and in the generated code.
        label: What it is to the user.
        data: The array, or None for one that the solver makes.
        strides: Numbers between (instances, frames).
        size: Numbers of an instance and frame, of one that the solver makes.
        term: Index of the term it belongs to, -1 for a sum of several.
    """

    name: str
    label: str
    data: Strided | None
    strides: tuple[int, int]
    size: int
    term: int


@dataclass
class Pieces:
    """All pieces of a problem.

    Attributes:
        sources: Arrays, in the order of their index.
        records: Records (pieces, 8) of every term, not yet joined.
        terms: Index of the term of each entry of `records`.
    """

    sources: list[Source] = field(default_factory=list)
    records: list[np.ndarray] = field(default_factory=list)

    def source(self, label: str, data: Strided | None, strides: tuple[int, int], term: int, size: int = 0) -> int:
        """Index of a new array."""
        index = len(self.sources)
        self.sources.append(Source(f"a{index}", label, data, strides, size, term))
        return index

    def add(self, array: int, kind: int, row: np.ndarray, rows: np.ndarray | int, offset: np.ndarray, **more: object) -> None:
        """Add one record per entry of the arguments, which broadcast.

        Args:
            array: Index of the source.
            kind: LOWER, FULL, BAND, SCALED or GRADIENT.
            row: First variables.
            rows: Number of variables.
            offset: First numbers within an instance.
            more: `stride`, `col`, `cols`.
        """
        values = (array, offset, more.get("stride", 1), row, more.get("col", row), rows, more.get("cols", rows), kind)
        shape = np.broadcast_shapes(*(np.shape(v) for v in values))
        table = np.stack([np.broadcast_to(np.asarray(v), shape).reshape(-1) for v in values], axis=1).astype(np.int64)
        self.records.append(table[table[:, ROWS] > 0])

    def table(self) -> np.ndarray:
        """All records (pieces, 8)."""
        return np.concatenate([np.zeros((0, 8), dtype=np.int64), *self.records])


def offsets(strides: tuple[int, ...], frames: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """First number of each (frame, block) within an instance, (frames, blocks); strides are (instances, frames, blocks)."""
    return frames[:, None] * strides[1] + blocks[None, :] * strides[2]
