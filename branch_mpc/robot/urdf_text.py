"""URDF text to XML elements: reading, xacro residue, and numbers that are numbers."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from branch_mpc.errors import RobotError

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_XACRO = re.compile(r"<xacro:[\w.-]+|\$\{[^}\n]*\}?|\$\([^)\n]*\)?")


def urdf_root(source: str | Path) -> tuple[str, Element]:
    """Read a URDF and return its root element.

    Args:
        source: URDF text (it holds a '<') or the path of a URDF file.

    Returns:
        What to call the source in messages, and the `<robot>` element.

    Raises:
        RobotError: The file is missing or unreadable, the text is not XML, is not URDF, or xacro was not run on it.
    """
    label, text = _read(source)
    bare = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    if residue := _XACRO.search(bare):
        line = bare.count("\n", 0, residue.start()) + 1
        remedy = "run xacro on it first (xacro robot.urdf.xacro > robot.urdf)"
        raise RobotError(f"{label}: xacro left in line {line}: '{residue[0]}'", remedy)
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise RobotError(f"{label}: not XML ({error})", "give a URDF file or its text") from error
    if root.tag != "robot":
        raise RobotError(f"{label}: not a URDF (its root element is <{root.tag}>)", "give a file whose root element is <robot>")
    return label, root


def _read(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and "<" in source:
        return "robot description", source.strip()
    if not str(source).strip():
        raise RobotError("robot description: it is empty", "give URDF text or the path of a URDF file")
    path = Path(source)
    try:
        if not path.is_file():
            raise RobotError(f"robot file '{path}' does not exist", "give the path of a URDF file")
        return f"'{path}'", path.read_text(encoding="utf-8-sig").strip()
    except (OSError, ValueError) as error:
        raise RobotError(f"robot file '{path}' cannot be read ({error})", "give a readable URDF file in UTF-8") from error


def number(attributes: Mapping[str, object], key: str, where: str) -> float:
    """Return one finite number of an element's attributes.

    Raises:
        RobotError: The attribute is missing, is not a number or is not finite.
    """
    if key not in attributes:
        raise RobotError(f"{where} has no '{key}'", f'give {key}="..."')
    return _finite(str(attributes[key]), key, where)


def vector(element: Element | None, key: str, default: tuple[float, ...], where: str) -> np.ndarray:
    """Return three finite numbers of an element, or the default that the URDF specification gives.

    Raises:
        RobotError: There are not three numbers or one is not finite.
    """
    text = None if element is None else element.get(key)
    if text is None:
        return np.array(default)
    words = text.split()
    if len(words) != 3:
        raise RobotError(f'{where} has {key}="{text}"', f'give three numbers, {key}="0 0 0"')
    return np.array([_finite(word, key, where) for word in words])


def _finite(text: str, key: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise RobotError(f'{where} has {key}="{text}", which is not a number', "write it as 1.5 or 1.5e-3") from error
    if not math.isfinite(value):
        raise RobotError(f'{where} has {key}="{text}"', "give a finite number")
    return value
