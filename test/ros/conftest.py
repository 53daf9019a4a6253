"""Makes the helpers of these tests and the guard's toy arm importable under importlib mode."""

import sys
from pathlib import Path

for folder in ("ros", "guard"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
