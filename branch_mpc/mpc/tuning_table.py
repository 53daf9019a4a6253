"""The measured rows of the launch policy: a JSON file that `branch_mpc tune` writes and the node reads."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from branch_mpc.errors import SettingError
from branch_mpc.mpc.device_facts import DeviceFacts

VERSION = 1


@dataclass(frozen=True)
class TuningRow:
    """The fastest choices of one case that passed the accuracy gate."""

    device: str
    """Name of the device."""
    architecture: int
    """SM architecture, 0 on the CPU."""
    robot: str
    """Name of the robot."""
    knots: int
    """Horizon N."""
    batch: int
    """Problems M."""
    formulation: str
    """'acceleration' or 'torque'."""
    linear_solver: str
    """As in LaunchPolicy."""
    order: str
    """As in LaunchPolicy."""
    schedule: str
    """As in LaunchPolicy."""
    merit_block: int
    """As in LaunchPolicy."""
    reduction: str
    """As in LaunchPolicy."""
    time_us: float
    """Median time of the tuned solve [us], device."""
    merit: float
    """Merit that the choice reaches."""
    measured: str = ""
    """Date, SQP iterations and versions of the measurement."""

    @property
    def case(self) -> tuple[Any, ...]:
        """What a row is looked up by."""
        return self.device, self.architecture, self.robot, self.knots, self.batch, self.formulation


@dataclass(frozen=True)
class TuningTable:
    """Measured rows, at most one a case."""

    rows: tuple[TuningRow, ...] = ()

    def find(self, device: DeviceFacts, *, robot: str, knots: int, batch: int, formulation: str) -> TuningRow | None:
        """Return the row of exactly this case, or None."""
        case = device.name, device.architecture, robot, knots, batch, formulation
        return next((row for row in self.rows if row.case == case), None)

    def merged(self, rows: list[TuningRow]) -> "TuningTable":
        """Return the table with `rows` in place of older ones of the same cases."""
        new = {row.case for row in rows}
        return TuningTable((*(row for row in self.rows if row.case not in new), *rows))

    def save(self, path: Path) -> None:
        """Write the file whole or not at all.

        Raises:
            SettingError: The file cannot be written.
        """
        text = json.dumps({"version": VERSION, "rows": [dataclasses.asdict(row) for row in self.rows]}, indent=1, allow_nan=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(path.name + ".new")
            draft.write_text(text + "\n")
            draft.replace(path)
        except OSError as error:
            raise SettingError(f"tuning table '{path}' cannot be written ({error.strerror})", "give another file with --out") from error


def default_path() -> Path:
    """Return where the table of this user is: ~/.config/branch_mpc/tuning.json, or under XDG_CONFIG_HOME."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(base) / "branch_mpc" / "tuning.json"


def load_table(path: Path) -> TuningTable:
    """Read a table.

    Raises:
        SettingError: The file is missing, is not JSON, or is not a tuning table of this version.
    """
    remedy = "run branch_mpc tune again, or set policy.tuning to none"
    try:
        content = json.loads(path.read_text())
        if content["version"] != VERSION:
            raise SettingError(f"tuning table '{path}' has version {content['version']}, expected {VERSION}", remedy)
        return TuningTable(tuple(_row(row) for row in content["rows"]))
    except OSError as error:
        raise SettingError(f"tuning table '{path}' cannot be read ({error.strerror})", remedy) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SettingError(f"tuning table '{path}' is not one ({type(error).__name__}: {error})", remedy) from error


def table_for(setting: str) -> TuningTable | None:
    """Return the table that the parameter `policy.tuning` names: a file, 'none', or 'auto' for this user's if there is one."""
    if setting == "none":
        return None
    if setting != "auto":
        return load_table(Path(setting).expanduser())
    return load_table(default_path()) if default_path().is_file() else None


def _row(values: dict[str, Any]) -> TuningRow:
    kinds = {"int": int, "float": (int, float), "str": str}
    for field in dataclasses.fields(TuningRow):
        kind = kinds[field.type if isinstance(field.type, str) else field.type.__name__]
        if field.name in values and not isinstance(values[field.name], kind):  # type: ignore[arg-type]
            raise ValueError(f"{field.name} is {values[field.name]!r}")
    return TuningRow(**values)
