"""Results as a short table for people and as one line of JSON for programs."""

import json
import textwrap
from collections.abc import Mapping
from typing import Any

ROWS: tuple[tuple[str, str, str], ...] = (
    ("robot", "robot", "{}"),
    ("tracking RMS after the approach", "tracking_rms_mm", "{:.3g} mm"),
    ("tracking maximum", "tracking_max_mm", "{:.3g} mm"),
    ("ticks", "ticks", "{}"),
    ("overruns", "overruns", "{}"),
    ("solve time p50", "solve_ms_p50", "{:.3f} ms"),
    ("solve time p95", "solve_ms_p95", "{:.3f} ms"),
    ("solve time p99", "solve_ms_p99", "{:.3f} ms"),
    ("merit, last tick", "merit", "{:.5g}"),
    ("KKT residual, median", "kkt_residual", "{:.2e}"),
    ("KKT residual, last tick", "kkt_residual_last", "{:.2e}"),
    ("largest torque / limit", "torque_use", "{:.0%}"),
    ("limit violations", "limit_violations", "{}"),
    ("device", "device", "{}"),
    ("launch policy", "policy", "{}"),
    ("measured", "boundary", "{}"),
)


WIDTH = 118
"""Columns of the table; longer texts go on below."""


def format_table(results: Mapping[str, Any]) -> str:
    """Return the table of a run's metrics, one line a quantity; what was not measured shows as '-'."""
    width = max(len(label) for label, _, _ in ROWS)
    indent = " " * (width + 2)
    rows = [f"{label:<{width}}  {_cell(results.get(key), form)}" for label, key, form in ROWS if key in results]
    return "\n".join(textwrap.fill(row, WIDTH, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True) for row in rows)


def to_json(results: Mapping[str, Any]) -> str:
    """Return results as one line of JSON.

    Raises:
        ValueError: A number that is not finite; JSON has no word for it.
    """
    return json.dumps(results, allow_nan=False, separators=(", ", ": "))


def _cell(value: Any, form: str) -> str:
    return "-" if value is None else form.format(value)
