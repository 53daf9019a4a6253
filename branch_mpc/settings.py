"""Settings as frozen dataclasses: one source for ROS parameters, command line and documentation.

A field made by `param` carries its range, unit and meaning in its metadata. `flatten` turns nested
settings into dotted names, `replace` sets dotted names with validation, `load_yaml` reads the same
files that ROS 2 reads (`/**: ros__parameters:`).
"""

import dataclasses
import difflib
import math
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from branch_mpc.errors import SettingError

S = TypeVar("S")


def param(
    default: Any,
    *,
    doc: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = False,
) -> Any:
    """One field of a settings dataclass.

    Args:
        default: Default value; its type (bool, int, float, str or tuple of float) is the field's type.
        doc: Meaning, one clause.
        unit: SI unit.
        low: Smallest allowed value.
        high: Largest allowed value.
        choices: Allowed strings.
        live: True when the value may change while the controller runs.
    """
    metadata = {"doc": doc, "unit": unit, "low": low, "high": high, "choices": choices, "live": live}
    return dataclasses.field(default=default, metadata=metadata)


def flatten(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any, dataclasses.Field]]:
    """Yield (dotted name, value, field) of every parameter in nested settings."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            yield from flatten(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, value, field


def checked(name: str, value: Any, field: dataclasses.Field) -> Any:
    """Return `value` converted to the field's type, or raise a SettingError that names the parameter."""
    value = _converted(name, value, field.default)
    low, high, choices = (field.metadata[key] for key in ("low", "high", "choices"))
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, float) and not math.isfinite(item):
            raise SettingError(f"parameter '{name}' is {item}", "give a finite number")
        if low is not None and item < low or high is not None and item > high:
            allowed = f"{_range(low, high)} {field.metadata['unit']}".rstrip()
            raise SettingError(f"parameter '{name}' is {item}", f"give a value in {allowed}")
    if choices and value not in choices:
        raise SettingError(f"parameter '{name}' is '{value}'", f"choose one of {', '.join(choices)}")
    return value


def replace(settings: S, values: Mapping[str, Any]) -> S:
    """Return settings with the dotted names in `values` replaced and validated.

    Raises:
        SettingError: A name that does not exist (with the nearest one), a value of the wrong type or out of range.
    """
    known = {name: field for name, _, field in flatten(settings)}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean '{near[0]}'?" if near else f"known parameters: {', '.join(known)}"
            raise SettingError(f"parameter '{name}' does not exist", hint)
    return _replaced(settings, {name: checked(name, value, known[name]) for name, value in values.items()})


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Read a ROS 2 parameter file into dotted names.

    Raises:
        SettingError: The file is missing, is not YAML, or has no `ros__parameters`.
    """
    import yaml  # here, so that the solver's rooms need NumPy and Warp alone

    path = Path(path)
    if not path.is_file():
        raise SettingError(f"parameter file '{path}' does not exist", "give the path of a YAML file such as config/indy7.yaml")
    try:
        tree = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise SettingError(f"parameter file '{path}' is not YAML ({str(error).splitlines()[0]})", "correct the file") from error
    branches = tree.values() if isinstance(tree, dict) else ()
    found = [node.get("ros__parameters") for node in branches if isinstance(node, dict)]
    nodes = [node for node in found if isinstance(node, dict)]
    if not nodes:
        raise SettingError(f"parameter file '{path}' holds no 'ros__parameters'", "put the parameters under '/**: ros__parameters:'")
    return {name: value for node in nodes for name, value in _dotted(node)}


def _dotted(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _converted(name: str, value: Any, default: Any) -> Any:
    kind = type(default)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is tuple and isinstance(value, list | tuple):
        return tuple(float(item) for item in value)
    if kind is float and isinstance(value, str):
        try:
            return float(value)  # YAML 1.1 reads 2e-6 as text, ROS as a number
        except ValueError:
            pass
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, kind):
        raise SettingError(f"parameter '{name}' is {value!r}", f"give a {kind.__name__}")
    return value


def _range(low: float | None, high: float | None) -> str:
    return f"[{'-inf' if low is None else f'{low:g}'}, {'inf' if high is None else f'{high:g}'}]"


def _replaced(settings: S, values: Mapping[str, Any]) -> S:
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(typing.cast(Any, settings)):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            inner = {name.split(".", 1)[1]: item for name, item in values.items() if name.startswith(field.name + ".")}
            changes[field.name] = _replaced(value, inner)
        elif field.name in values:
            changes[field.name] = values[field.name]
    return dataclasses.replace(typing.cast(Any, settings), **changes)
