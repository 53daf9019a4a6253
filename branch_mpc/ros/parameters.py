"""ROS parameters from the dataclasses of `branch_mpc.ros.settings`: descriptors, start-up values, live changes."""

import dataclasses
import sys
from array import array
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.parameter import Parameter

from branch_mpc.errors import SettingError
from branch_mpc.ros.settings import NodeSettings, PlantSettings, parameters, with_values

S = TypeVar("S")

ROS_OWN = ("use_sim_time", "start_type_description_service", "qos_overrides.")
"""Names, or beginnings of names, that rclpy declares for every node."""

def descriptor(field: dataclasses.Field[Any]) -> ParameterDescriptor:
    """Return the descriptor of a settings field: meaning with unit, range, choices, and read-only unless it is live."""
    data = field.metadata
    unit = f" [{data['unit']}]" if data["unit"] else ""
    result = ParameterDescriptor(description=f"{data['doc']}{unit}", read_only=not data["live"])
    if data["choices"]:
        result.additional_constraints = f"one of {', '.join(data['choices'])}"
    if data["low"] is not None or data["high"] is not None:
        low, high = data["low"], data["high"]
        if isinstance(field.default, float):
            ends = -sys.float_info.max if low is None else float(low), sys.float_info.max if high is None else float(high)
            result.floating_point_range = [FloatingPointRange(from_value=ends[0], to_value=ends[1], step=0.0)]
        elif isinstance(field.default, int):
            whole = -(2**63) if low is None else int(low), 2**63 - 1 if high is None else int(high)
            result.integer_range = [IntegerRange(from_value=whole[0], to_value=whole[1], step=1)]
    return result


def declare(node: Any, settings: S, foreign: Iterable[str] = ()) -> S:
    """Declare every parameter of `settings` on a node, with the values of its parameter files and command line.

    ROS passes over a name that no one declares, and refuses 1 for a float; here the first is an error that names the
    nearest parameter, and the second is taken as 1.0.

    Args:
        node: An rclpy node.
        settings: Defaults.
        foreign: Names of other nodes' parameters, allowed in a file that all of them read.

    Returns:
        The settings in force.

    Raises:
        SettingError: A name that does not exist, a value of the wrong type or out of range.
    """
    overrides = {name: parameter.value for name, parameter in node._parameter_overrides.items()}
    given = {name: value for name, value in overrides.items() if not name.startswith(ROS_OWN)}
    result = with_values(settings, {name: _plain(value) for name, value in given.items()}, foreign)
    for name, (value, field) in parameters(result).items():
        if value == ():
            # rclpy cannot tell the type of an empty list: declared with its type, and without a value.
            node._parameter_overrides.pop(name, None)
            node.declare_parameter(name, Parameter.Type.DOUBLE_ARRAY, descriptor(field))
        else:
            # The override is in `value` already, converted to the field's type.
            node.declare_parameter(name, list(value) if isinstance(value, tuple) else value, descriptor(field), ignore_override=True)
    return result


class LiveParameters(Generic[S]):
    """The settings in force, replaced as a whole when a live parameter is set.

    Attributes:
        settings: The settings; one object is never changed, so a thread that reads the attribute once sees one state.
    """

    def __init__(self, node: Any, settings: S, changed: Callable[[S], None], foreign: Iterable[str] = ()) -> None:
        """Declare the parameters and follow their changes.

        Args:
            node: An rclpy node.
            settings: Defaults.
            changed: Called with the new settings after a valid change, in the executor's thread.
            foreign: Names of other nodes' parameters, allowed in a file that all of them read.

        Raises:
            SettingError: See `declare`.
        """
        self._changed = changed
        self.settings = declare(node, settings, foreign)
        node.add_on_set_parameters_callback(self._on_set)

    def _on_set(self, changes: list[Parameter]) -> SetParametersResult:
        known = parameters(self.settings)
        try:
            result = with_values(self.settings, {change.name: _plain(change.value) for change in changes if change.name in known})
        except SettingError as error:
            return SetParametersResult(successful=False, reason=str(error))
        if result != self.settings:
            self.settings = result
            self._changed(result)
        return SetParametersResult(successful=True)


def names_of(*settings: Any) -> set[str]:
    """Return the ROS parameter names of settings."""
    return {name for item in settings for name in parameters(item)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, array) else value


__all__ = ["LiveParameters", "NodeSettings", "PlantSettings", "declare", "descriptor", "names_of"]
