"""Plans as data: one int32 table that the front body reads, so that any order runs through the same compiled code."""

from dataclasses import dataclass

import numpy as np

from branch_mpc.branch.blocks import TWIST
from branch_mpc.branch.pieces import ARRAY, BAND, COL, COLS, FULL, GRADIENT, KIND, LOWER, OFFSET, ROW, ROWS, SCALED, STRIDE
from branch_mpc.branch.symbolic import Front
from branch_mpc.branch.tree_plan import TreePlan

# Columns of a front's header; offsets are within the table, or within the work of a cell.
HEADER = (
    "CLASS",  # index of its class
    "M",  # substituted unknowns: 6 or 0
    "P",  # eliminated unknowns
    "Q",  # coupled unknowns
    "PANEL",  # work: rows of L, W and z
    "UPDATE",  # work: update (Q, Q), lower triangle, and its right-hand side (Q,)
    "IDS",  # table: variables of the P + Q unknowns
    "PIECES",  # table: records of 8 numbers
    "PIECE_COUNT",
    "CHILDREN",  # table: records (update, Q of the child, map, child)
    "CHILD_COUNT",
    "FIRST_DOF",  # column of S of the substituted body
    "DOFS",  # its number of columns
    "DOF_AT",  # where its tangents are among the P + Q unknowns
    "TWIST_AT",  # where the twist of its parent is among them, -1 for the base
    "BODY",  # its matrix X
    "TWIST",  # first variable of its twist
    "VECTOR",  # work of a right-hand side: its M + P + Q numbers
    "PARENT",  # front or -1
)
TRANSPOSED = 5  # a FULL piece above the diagonal of the front


@dataclass(frozen=True, eq=False)
class FrontTable:
    """The table and what it lays out.

    Attributes:
        numbers: Header of every front, then the lists they point to, int32.
        panels: Numbers of the panels of a cell.
        updates: Numbers of the updates of a cell.
        vectors: Numbers of a right-hand side of a cell.
        compact: True where a panel holds the rows of eliminated columns only, False where it is factored in place.
    """

    numbers: np.ndarray
    panels: int
    updates: int
    vectors: int
    compact: bool


def panel_size(front: Front, compact: bool) -> int:
    """Numbers of a panel: rows of pivots, coupled unknowns and right-hand side."""
    m, p, q = front.widths
    return (p + q + 1) * p if compact else (m + p + q + 1) * (m + p)


def build(plan: TreePlan, compact: bool) -> FrontTable:
    """Pack a plan.

    Args:
        plan: The plan.
        compact: How panels are stored, see `FrontTable`.
    """
    builder = _Builder(plan, compact)
    for index in range(len(plan.fronts)):
        builder.front(index)
    return builder.table()


class _Builder:
    """Appends the lists of front after front."""

    def __init__(self, plan: TreePlan, compact: bool) -> None:
        self.plan, self.compact = plan, compact
        self.headers = np.zeros((len(plan.fronts), len(HEADER)), dtype=np.int64)
        self.lists: list[np.ndarray] = []
        self.at = self.headers.size
        self.classes = {widths: i for i, widths in enumerate(plan.classes)}
        blocks = plan.blocks
        ends = (blocks.first + blocks.width).tolist()
        self.variables = [np.arange(first, end) for first, end in zip(blocks.first.tolist(), ends, strict=True)]
        self.local = np.zeros(max(ends), dtype=np.int64)
        sizes = np.array([[panel_size(f, compact), f.widths[2] * (f.widths[2] + 1)] for f in plan.fronts])
        self.offset = np.cumsum(sizes, axis=0) - sizes
        self.total = sizes.sum(axis=0)
        self.records, self.bounds = _by_front(plan)
        self.ids: list[np.ndarray] = []
        widths = np.array([sum(f.widths) for f in plan.fronts])
        self.vector, self.vectors = np.cumsum(widths) - widths, int(widths.sum())

    def append(self, numbers: np.ndarray) -> int:
        """Append a list and return where it is."""
        at, self.at = self.at, self.at + numbers.size
        self.lists.append(numbers.reshape(-1))
        return at

    def front(self, index: int) -> None:
        front, (m, p, q) = self.plan.fronts[index], self.plan.fronts[index].widths
        ids = np.concatenate([self.variables[b] for b in (*front.pivots, *front.coupled)] or [np.zeros(0, dtype=np.int64)])
        self.ids.append(ids[p:])
        self.local[ids] = m + np.arange(p + q)
        if front.substituted is not None:
            self.local[self.variables[front.substituted]] = np.arange(m)
        pieces = self.pieces(index)
        children = np.array(
            [(self.offset[c][1], self.plan.fronts[c].widths[2], self.append(self.local[self.ids[c]]), c) for c in front.children],
            dtype=np.int64,
        )
        row = dict.fromkeys(HEADER, 0) | {
            "CLASS": self.classes[front.widths],
            "M": m,
            "P": p,
            "Q": q,
            "PANEL": self.offset[index][0],
            "UPDATE": self.offset[index][1],
            "IDS": self.append(ids),
            "PIECES": self.append(pieces),
            "PIECE_COUNT": len(pieces),
            "CHILDREN": self.append(children),
            "CHILD_COUNT": len(children),
            "VECTOR": self.vector[index],
            "PARENT": -1 if front.parent is None else front.parent,
        }
        if front.substituted is not None:
            row |= self.relation(front.substituted, m)
        self.headers[index] = list(row.values())

    def pieces(self, index: int) -> np.ndarray:
        """Records of a front with local rows and columns; those above the diagonal are turned over."""
        found = self.records[self.bounds[index] : self.bounds[index + 1]].copy()
        if not len(found):
            return found
        kind = found[:, KIND]
        paired = (kind == FULL) | (kind == BAND) | (kind == LOWER)
        found[:, ROW] = self.local[found[:, ROW]]
        found[paired, COL] = self.local[found[paired, COL]]
        above = paired & (found[:, ROW] < found[:, COL])
        found[above & (kind == FULL), KIND] = TRANSPOSED
        turned = above & (kind == BAND)
        found[turned, ROW], found[turned, COL] = found[turned, COL], found[turned, ROW]
        return found

    def relation(self, twist: int, m: int) -> dict[str, int]:
        blocks = self.plan.blocks
        topology, own = blocks.tangents.topology, twist - blocks.count
        frame, body = divmod(own, topology.bodies)
        parent = topology.parents[body]
        above = self.variables[twist - body + parent] if parent >= 0 else None
        return {
            "FIRST_DOF": frame * topology.width + int(topology.offsets[body]),
            "DOFS": topology.dofs[body],
            "DOF_AT": int(self.local[blocks.first[own]]) - m if topology.dofs[body] else 0,
            "TWIST_AT": -1 if above is None else int(self.local[above[0]]) - m,
            "BODY": own,
            "TWIST": int(blocks.first[twist]),
        }

    def table(self) -> FrontTable:
        numbers = np.concatenate([self.headers.reshape(-1), *self.lists]).astype(np.int32)
        return FrontTable(numbers, int(self.total[0]), int(self.total[1]), self.vectors, self.compact)


def _by_front(plan: TreePlan) -> tuple[np.ndarray, np.ndarray]:
    """Records sorted by the front that assembles them, and where each front's begin."""
    blocks, records = plan.blocks, plan.records
    owner = np.zeros(len(blocks.first), dtype=np.int64)
    for index, front in enumerate(plan.fronts):
        owner[[*front.pivots, *(() if front.substituted is None else (front.substituted,))]] = index
    fronts = owner[blocks.of(records[:, ROW])]
    paired = (records[:, KIND] == FULL) | (records[:, KIND] == BAND)
    fronts[paired] = np.minimum(fronts[paired], owner[blocks.of(records[paired, COL])])
    order = np.argsort(fronts, kind="stable")
    return records[order], np.searchsorted(fronts[order], np.arange(len(plan.fronts) + 1))


def layout_names() -> str:
    """Names of the header's columns and of the kinds of records, as constants of the generated code."""
    text = f"enum {{ {', '.join(f'H_{name} = {i}' for i, name in enumerate(HEADER))}, HEADER = {len(HEADER)} }};\n"
    records = {"R_ARRAY": ARRAY, "R_OFFSET": OFFSET, "R_STRIDE": STRIDE, "R_ROW": ROW, "R_COL": COL, "R_ROWS": ROWS, "R_COLS": COLS}
    kinds = {"LOWER": LOWER, "FULL": FULL, "BAND": BAND, "SCALED": SCALED, "GRADIENT": GRADIENT, "TRANSPOSED": TRANSPOSED}
    text += f"enum {{ {', '.join(f'{k} = {v}' for k, v in (records | {'R_KIND': KIND} | kinds).items())} }};\n"
    return text + f"enum {{ TWIST_WIDTH = {TWIST} }};\n"
