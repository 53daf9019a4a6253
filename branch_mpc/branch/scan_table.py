"""The cyclic plan of a chain of states as data: which segments are joined on which level, and where values pass down."""

OPERATION = 4  # numbers of an operation in the table: segment, value, result, next segment or -1


def operations(steps: int, nx: int) -> tuple[list[list[tuple[int, int, int, int]]], list[int], int]:
    """Operations per level, where the value of each frame's successor is, and the numbers of segments and values.

    Offsets are from the first segment; segment t of the lowest level is frame t.
    """
    square = nx * nx
    tail, segment, value = 2 * square + nx, 3 * square + 2 * nx, square + nx
    count = steps
    levels: list[list[tuple[int, int, int, int]]] = []
    pairs: list[list[tuple[int, int, int]]] = []
    row = list(range(steps))
    while len(row) > 1:
        joined = [(count + i, row[2 * i], row[2 * i + 1]) for i in range(len(row) // 2)]
        count += len(joined)
        pairs.append(joined)
        row = [own for own, _, _ in joined] + row[2 * len(joined) :]
    for joined in pairs:
        levels.append([(left * segment, right * segment + tail, own * segment, right * segment) for own, left, right in joined])
    where, used = {row[0]: count * segment}, 1
    for joined in reversed(pairs):
        down = []
        for own, left, right in joined:
            where[right], where[left] = where[own], count * segment + used * value
            used += 1
            down.append((right * segment, where[own], where[left], -1))
        levels.append(down)
    return levels, [where[t] for t in range(steps)], count * segment + used * value


def table(steps: int, nx: int) -> list[int]:
    """Rows (frame, child, parent) of the frames as the solve kernel walks them, then places of values, levels and operations."""
    levels, places, _ = operations(steps, nx)
    rows = [v for i in range(steps) for v in (steps - 1 - i, i - 1, i + 1 if i + 1 < steps else -1)]
    at = len(rows) + steps + 2 * len(levels)
    numbers = [*rows, *places]
    for level in levels:
        numbers += [at, len(level)]
        at += OPERATION * len(level)
    return numbers + [v for level in levels for operation in level for v in operation]
