"""Generated source: the kernel shell around a snippet, its execution, and the memory of kernels that exist already.

The text is registered with linecache, so that Warp and tracebacks can read it, and each kernel is a module of its own whose hash is that
of the text: the same configuration in a second process finds the compiled code in Warp's kernel cache.
"""

import hashlib
import linecache
from dataclasses import dataclass

import warp as wp

from branch_mpc.branch.program import Program

VERSION = 1  # of the generated code; part of the header only, the code itself is its own address
_KERNELS: dict[str, wp.Kernel] = {}


@dataclass(frozen=True)
class Argument:
    """An argument of the kernels.

    Attributes:
        name: Symbol in the generated code.
        annotation: Its type as Warp source text.
    """

    name: str
    annotation: str


def argument(name: str, array: wp.array) -> Argument:
    """The argument that an array is passed by."""
    return Argument(name, f"wp.array(dtype=wp.{array.dtype.__name__}, ndim={array.ndim})")


def source(program: Program, arguments: list[Argument], dtype: str) -> str:
    """Text of one kernel: the front body as a native function and the launch shell around it."""
    typed = ", ".join(f"{a.name}: {a.annotation}" for a in arguments)
    names = ", ".join(a.name for a in arguments)
    tile = bool(program.shared)
    extra = ", instance: wp.int32" + (", front: wp.int32" if program.fronts else "") + (", storage: Any" if tile else "")
    lines = [f'@wp.func_native(r"""\n{program.snippet}""")', f"def {program.name}_body({typed}{extra}): ...", "", ""]
    lines.append('@wp.kernel(enable_backward=False, module="unique", grid_stride=False, module_options={"max_unroll": 0})')
    lines.append(f"def branch_{program.name}({typed}{', first: wp.int32' if program.fronts else ''}):")
    lines.append(f"    {'instance, front' if program.fronts else 'instance'} = wp.tid()")
    if tile:
        lines.append(f'    storage = wp.tile_empty(shape={program.shared}, dtype=wp.{dtype}, storage="shared")')
    call = f"{names}, instance{', first + front' if program.fronts else ''}{', storage' if tile else ''}"
    return "\n".join([*lines, f"    {program.name}_body({call})", ""])


def kernel(program: Program, text: str) -> wp.Kernel:
    """Execute a kernel's text, or return the kernel that the same text made before."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    if digest not in _KERNELS:
        name = f"<branch_mpc.branch:{digest}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        scope: dict[str, object] = {"__name__": f"branch_{digest}"}
        exec(compile("from typing import Any\nimport warp as wp\n", name, "exec"), scope)
        exec(compile(text, name, "exec"), scope)
        _KERNELS[digest] = scope[f"branch_{program.name}"]
    return _KERNELS[digest]
