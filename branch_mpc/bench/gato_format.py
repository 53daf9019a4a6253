"""The tables of `branch_mpc bench gato-tables` for people: ours beside the published rows."""

from typing import Any


def format_tables(tables: dict[str, Any]) -> str:
    """Return every table as text; a dash stands for what was not published."""
    head = (
        f"{tables['device']}, {tables['iterations']} SQP iterations, boundary {tables['boundary']}; published: {tables['published_source']}"
    )
    parts = [head, _quality(tables["quality"]), _direct(tables["direct_against_pcg"]), _iterations(tables["pcg_iterations"])]
    return "\n\n".join([*parts, _merit(tables["merit_launch"]), _stages(tables["stages"])])


def _table(title: str, columns: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in [columns, *rows]]
    return "\n".join([title, *lines])


def _number(value: Any, form: str = ".4g") -> str:
    return "-" if value is None else format(value, form)


def _win(row: dict[str, Any]) -> str:
    return "yes" if row["acceleration_wins"]["wins"] else f"no: {row['acceleration_wins']['why_not']}"


def _quality(rows: list[dict[str, Any]]) -> str:
    columns = [
        "robot",
        "N",
        "iteration",
        "gato-mpc 0.1.6",
        "PCG",
        "direct",
        "acceleration",
        "us PCG",
        "us direct",
        "us acceleration",
        "wins",
    ]
    lines = []
    for row in rows:
        theirs = {r["iterations"]: r["merit"] for r in row["published"]}
        for k in (1, 2, 3, 4, 8):
            merits = [_number(row[name]["merits"][k - 1], ".4f") for name in ("pcg", "direct", "acceleration")]
            last = [_number(row[name]["us"], ".0f") for name in ("pcg", "direct", "acceleration")] + [_win(row)] if k == 8 else [""] * 4
            lines.append([row["robot"], str(row["knots"]), str(k), _number(theirs.get(k), ".4f"), *merits, *last])
    return _table("Merit after each SQP iteration, GATO's problem, cold (times of all eight)", columns, lines)


def _direct(rows: list[dict[str, Any]]) -> str:
    columns = [
        "N",
        "M",
        "seed",
        "us PCG",
        "us direct",
        "ratio",
        "Orin ratio",
        "merit PCG",
        "direct",
        "direct first",
        "Orin merits",
        "acceleration",
        "wins",
    ]
    lines = []
    for row in rows:
        for seed in ("cold", "warm"):
            theirs = row["published"]
            merits = [_number(row[f"{seed}_{name}"]["merit"], ".4f") for name in ("pcg", "direct", "direct_first")]
            orin = "/".join(_number(theirs.get(f"merit_{seed}_{name}")) for name in ("pcg", "direct", "direct_first"))
            ours = row["cold_acceleration"]
            last = [f"{ours['merit']:.4f} in {ours['us']:.0f} us", _win(row)] if seed == "cold" else ["", ""]
            times = [_number(row[f"{seed}_{name}"]["us"], ".0f") for name in ("pcg", "direct")]
            ratio = [_number(row[f"{seed}_ratio"], ".2f"), _number(theirs.get(f"{seed}_ratio"), ".2f")]
            lines.append([str(row["knots"]), str(row["batch"]), seed, *times, *ratio, *merits, orin, *last])
    return _table("Direct solve against PCG", columns, lines)


def _iterations(rows: list[dict[str, Any]]) -> str:
    lines = [
        [str(row["knots"]), seed, ", ".join(map(str, row[seed])), ", ".join(map(str, row["published"].get(seed, ["-"])))]
        for row in rows
        for seed in ("cold", "warm")
    ]
    return _table("PCG iterations per SQP iteration", ["N", "seed", "ours", "Orin, example 15"], lines)


def _merit(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        theirs = [r for r in row.get("published", []) if r.get("condition") == "all SMs"]
        note = f"64 threads {theirs[0]['merit_64_us']}, 128 {theirs[0]['merit_128_us']}" if theirs else "-"
        lines.append(
            [
                row["robot"],
                str(row["knots"]),
                str(row["batch"]),
                str(row["block"]),
                "yes" if row["fused"] else "no",
                f"{row['us']:.1f}",
                note,
            ]
        )
    return _table("Merit launch", ["robot", "N", "M", "block", "fused", "us", "RTX 5090, us"], lines)


def _stages(rows: list[dict[str, Any]]) -> str:
    names = ["kkt_ms", "schur_ms", "linsys_ms", "merit_ms"]
    lines = []
    for row in rows:
        lines.append(["ours", str(row["batch"]), str(row["launch"]), *(_number(row[name], ".3f") for name in names)])
        lines += [["Orin", str(r["batch"]), str(r["launch"]), *(_number(r[name], ".3f") for name in names)] for r in row["published"]]
    return _table("Stages of a cold PCG solve, N 32, milliseconds", ["", "M", "launch", "kkt", "schur", "linear solve", "merit"], lines)
