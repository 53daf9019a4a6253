"""Stand-ins for `launch` and `launch_ros`, which PyPI does not have: they record what a launch file declares."""

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


class Recorded:
    """Any class of launch: keeps what it was made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def perform(self, context: "Context") -> str:
        """Return the text a substitution stands for."""
        name = type(self).__name__
        if name == "LaunchConfiguration":
            return context.arguments[self.args[0]]  # KeyError: not declared
        if name == "FindPackageShare":
            return str(context.prefix / "share" / self.args[0])
        if name == "FindPackagePrefix":
            return str(context.prefix)
        if name == "PathJoinSubstitution":
            return "/".join(part if isinstance(part, str) else part.perform(context) for part in self.args[0])
        raise TypeError(f"{name} is no substitution")


MODULES = {
    "launch": ["LaunchContext", "LaunchDescription"],
    "launch.actions": ["DeclareLaunchArgument", "ExecuteProcess", "OpaqueFunction", "Shutdown"],
    "launch.events": [],
    "launch.events.process": ["ProcessExited"],
    "launch.substitutions": ["LaunchConfiguration", "PathJoinSubstitution"],
    "launch_ros": [],
    "launch_ros.actions": ["Node"],
    "launch_ros.substitutions": ["FindPackagePrefix", "FindPackageShare"],
}


@dataclass
class Context:
    """What a launch file is run with."""

    arguments: dict[str, str]
    prefix: Path
    is_shutdown: bool = False


@dataclass
class Launched:
    """What a launch file declares and starts."""

    context: Context
    arguments: dict[str, Recorded]
    actions: list[Recorded] = field(default_factory=list)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return the keyword arguments of every Node by executable."""
        return {action.kwargs["executable"]: action.kwargs for action in self.actions if type(action).__name__ == "Node"}

    def parameters(self, executable: str) -> dict[str, Any]:
        """Return the parameters given to a node beside its parameter file."""
        return {name: value for given in self.nodes()[executable]["parameters"] if isinstance(given, dict) for name, value in given.items()}

    def parameter_file(self, executable: str) -> Path:
        """Return the parameter file given to a node."""
        (path,) = [given for given in self.nodes()[executable]["parameters"] if isinstance(given, str)]
        return Path(path)

    def command(self) -> list[str]:
        """Return the command line of the only process."""
        (action,) = self.actions
        return [word if isinstance(word, str) else word.perform(self.context) for word in action.kwargs["cmd"]]


@pytest.fixture
def prefix(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation: the data files of setup.py, laid out as pip does."""
    import setuptools

    given: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: given.update(arguments))
    monkeypatch.chdir(root)
    exec(compile((root / "setup.py").read_text(), "setup.py", "exec"), {"__file__": str(root / "setup.py"), "__name__": "setup"})
    for folder, files in given["data_files"]:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for file in files:
            (tmp_path / folder / Path(file).name).symlink_to(root / file)
    return tmp_path


@pytest.fixture
def launched(root: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launched]:
    """Run a launch file: `launched("name.launch.py", argument="value")`."""
    for name, classes in MODULES.items():
        module = types.ModuleType(name)
        for cls in classes:
            setattr(module, cls, type(cls, (Recorded,), {}))
        monkeypatch.setitem(sys.modules, name, module)

    def run(name: str, **arguments: str) -> Launched:
        scope = {"__file__": name, "__name__": "launch_file"}
        exec(compile((root / "launch" / name).read_text(), name, "exec"), scope)
        entities = scope["generate_launch_description"]().args[0]
        declared = {entity.args[0]: entity for entity in entities if type(entity).__name__ == "DeclareLaunchArgument"}
        assert set(arguments) <= set(declared), "an argument that the launch file does not declare"
        defaults = {name: argument.kwargs["default_value"] for name, argument in declared.items()}
        result = Launched(Context({**defaults, **arguments}, prefix), declared)
        for entity in entities:
            if type(entity).__name__ == "OpaqueFunction":
                result.actions += entity.kwargs["function"](result.context)
            elif entity not in declared.values():
                result.actions.append(entity)
        return result

    return run
