"""Warp kernels from C++ text: the launch shell around a native body that runs on the CPU and under CUDA.

The text is registered with linecache so that Warp and tracebacks can read it; each kernel is a module of its own, addressed by
its text, so that the same configuration in a second process finds the compiled code in Warp's kernel cache.
"""

import hashlib
import linecache
from collections.abc import Mapping
from typing import Any

_KERNELS: dict[str, Any] = {}

LANES = """
// the lanes of a block share the work of one problem; on the CPU a block is one lane, or fibers when they are enabled
const int lane = WP_TILE_THREAD_IDX; const int lanes = WP_TILE_BLOCK_DIM;
"""


def native_kernel(
    name: str, body: str, arrays: Mapping[str, str], *, indices: tuple[str, ...], scalars: Mapping[str, str] | None = None, shared: str = ""
) -> Any:
    """Return the kernel of a native body.

    Args:
        name: Name of the kernel.
        body: C++ statements that use the arguments by name; arrays as `name.data`.
        arrays: Type of each array argument, such as 'float32 3': scalar type and dimensions.
        indices: Names of the thread or block indices, int.
        scalars: Type of each scalar argument after the arrays, 'int32' or 'float32'.
        shared: '' or 'float32 1200': scalar type and size of on-chip storage, `storage.data.ptr` in the body.
    """
    typed = [f"{key}: wp.array(dtype=wp.{kind.split()[0]}, ndim={kind.split()[1]})" for key, kind in arrays.items()]
    typed += [f"{key}: wp.{kind}" for key, kind in (scalars or {}).items()]
    arguments = ", ".join(typed)
    names = ", ".join([*arrays, *(scalars or {}), *indices, *(["storage"] if shared else [])])
    extra = "".join(f", {index}: wp.int32" for index in indices) + (", storage: Any" if shared else "")
    lines = [f'@wp.func_native(r"""\n{body}""")', f"def {name}_body({arguments}{extra}): ...", "", ""]
    lines.append('@wp.kernel(enable_backward=False, module="unique", grid_stride=False, module_options={"max_unroll": 0})')
    lines += [f"def {name}({arguments}):", f"    {', '.join(indices)} = wp.tid()"]
    if shared:
        kind, size = shared.split()
        lines.append(f'    storage = wp.tile_empty(shape={size}, dtype=wp.{kind}, storage="shared")')
    return _executed(name, "\n".join([*lines, f"    {name}_body({names})", ""]))


def _executed(name: str, text: str) -> Any:
    """Execute a kernel's text, or return the kernel that the same text made before."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    if digest not in _KERNELS:
        source = f"<branch_mpc:{name}:{digest}>"
        linecache.cache[source] = (len(text), None, text.splitlines(keepends=True), source)
        scope: dict[str, object] = {"__name__": f"branch_mpc_{digest}"}
        exec(compile("from typing import Any\nimport warp as wp\n", source, "exec"), scope)
        exec(compile(text, source, "exec"), scope)
        _KERNELS[digest] = scope[name]
    return _KERNELS[digest]
