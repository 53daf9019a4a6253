"""Generated code is content-addressed: in a process and across processes."""

import os
import subprocess
import sys
from pathlib import Path

import warp as wp
from chains import chain, solver

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from chains import chain, solver
for instances in (1, 2):
    solver(chain(instances=instances, steps=2, joints=1), "chronological", "fused")
"""


def test_second_process_finds_the_kernels(tmp_path: Path, root: Path) -> None:
    """Two processes with different hash seeds make the same two modules, whatever the number of instances; the second compiles nothing."""
    listings = []
    for seed in ("1", "2"):
        env = os.environ | {"WARP_CACHE_PATH": str(tmp_path), "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", SCRIPT, str(root / "test" / "branch")]
        subprocess.run(command, check=True, capture_output=True, env=env, cwd=tmp_path)
        objects = sorted(path for path in tmp_path.rglob("*.o") if "branch_" in str(path))
        listings.append([(path.relative_to(tmp_path), path.stat().st_mtime_ns) for path in objects])
    assert len(listings[0]) == 2
    assert listings[0] == listings[1]


def test_same_text_is_the_same_kernel() -> None:
    """A second solver of the same shape, with other numbers and another number of instances, shares the compiled kernels."""
    first, second = solver(chain(), "chronological", "serial"), solver(chain(instances=7, seed=9), "chronological", "serial")
    for a, b in ((first._factor, second._factor), (first._solve, second._solve)):
        assert a[0].kernel is b[0].kernel


def test_nearby_float64_constants_make_different_kernels() -> None:
    """Constants are literal text: two float64 problems whose matrix differs in the tenth digit do not share code."""
    made = []
    for step in (0.1, 0.1 + 1e-10):
        made.append(solver(chain(dtype=wp.float64, steps=2, joints=1, step=step), "chronological", "serial"))
    assert made[0]._factor[0].kernel is not made[1]._factor[0].kernel
    assert made[0].source().count("T(0.1)") > 0
    assert made[1].source().count("T(0.1000000001)") > 0
