"""Makes the toy arm of the guard's tests importable under importlib mode."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "guard"))
