"""Arrays of the user read by reference: any dtype of float32 or float64 numbers, any leading shape that broadcasts."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from branch_mpc.errors import ProblemError

SCALARS = (wp.float32, wp.float64)


@dataclass(frozen=True, eq=False)
class Strided:
    """A contiguous array as numbers, with the distance between neighbours on each leading axis (0 where it is broadcast).

    Attributes:
        array: The array of the user, kept alive and read in place; or numbers, which become an array when the solver is compiled.
        dtype: Scalar type, None for numbers.
        strides: Numbers between neighbours on each leading axis.
        size: Numbers of a component.
    """

    array: wp.array | np.ndarray
    dtype: type | None
    strides: tuple[int, ...]
    size: int

    def on(self, device: wp.Device, dtype: type) -> wp.array:
        """The numbers as a flat array on a device."""
        if isinstance(self.array, np.ndarray):
            return wp.array(self.array.ravel(), dtype=dtype, device=device)
        count = int(np.prod(self.array.shape)) * scalars(self.array.dtype)
        return wp.array(ptr=self.array.ptr, dtype=dtype, shape=(count,), device=self.array.device, copy=False)

    def block(self, index: int, size: int) -> "Strided":
        """The same array with its component split: an axis of `index` blocks of `size` numbers joins the leading ones."""
        return Strided(self.array, self.dtype, (*self.strides, size), size)


def itemsize(dtype: type) -> int:
    """Bytes of a scalar type."""
    return int(wp.types.type_size_in_bytes(dtype))


def scalars(dtype: type) -> int:
    """Numbers in an element of a Warp type."""
    return 1 if dtype in SCALARS else int(np.prod(getattr(dtype, "_shape_", (1,))))


def scalar_type(dtype: type) -> type | None:
    """Scalar type of a Warp type, None where it is not float32 or float64."""
    found = dtype if dtype in SCALARS else getattr(dtype, "_wp_scalar_type_", None)
    return found if found in SCALARS else None


def strided(label: str, value: object, lead: tuple[int, ...], component: tuple[int, ...]) -> Strided:
    """Check that an array holds one component per leading index.

    Args:
        label: Name for messages.
        value: Warp array, or numbers (NumPy array, Warp vector, tuple, number).
        lead: Sizes of the leading axes, (instances, frames) or (instances, frames, blocks); an array may leave axes out on the left
            and hold 1 where it is shared. With one frame the frame axis may be left out.
        component: Shape of a component; a Warp type such as wp.vec3 may stand for its last axes.

    Raises:
        ProblemError: Another type or shape, or an array that is not contiguous.
    """
    size = int(np.prod(component, dtype=np.int64))
    if not isinstance(value, wp.array):
        return _numbers(label, value, lead, component, size)
    dtype = scalar_type(value.dtype)
    if dtype is None:
        raise ProblemError(f"{label} holds {value.dtype.__name__}, expected float32 or float64", "pass dtype= when you make the array")
    shape = (*value.shape, *(() if scalars(value.dtype) == 1 else value.dtype._shape_))
    if not value.is_contiguous:
        raise ProblemError(f"{label} is not contiguous", "pass a contiguous array: it is read by reference")
    return Strided(value, dtype, _strides(label, shape, lead, component, size), size)


def _numbers(label: str, value: object, lead: tuple[int, ...], component: tuple[int, ...], size: int) -> Strided:
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{label} is a {type(value).__name__}", "give numbers or a Warp array") from error
    if not np.isfinite(numbers).all():
        raise ProblemError(f"{label} holds a number that is not finite", "give finite numbers")
    return Strided(numbers, None, _strides(label, numbers.shape, lead, component, size), size)


def _strides(label: str, shape: tuple[int, ...], lead: tuple[int, ...], component: tuple[int, ...], size: int) -> tuple[int, ...]:
    given = _leading(shape, component)
    merged = (lead[0] * lead[1], *lead[2:])
    for candidate in (given, None if given is None else _one_frame(given, lead), _rows(given, lead, merged)):
        if candidate is not None and len(candidate) <= len(lead):
            padded = (1,) * (len(lead) - len(candidate)) + candidate
            if all(have in (1, want) for have, want in zip(padded, lead, strict=True)):
                distances = np.cumprod([size, *padded[:0:-1]])[::-1]
                return tuple(int(d) if have > 1 or want == 1 else 0 for d, have, want in zip(distances, padded, lead, strict=True))
    expected = (*lead, *component)
    raise ProblemError(f"{label} has shape {shape}, expected {expected}", "make the array and the block sets agree")


def _leading(shape: tuple[int, ...], component: tuple[int, ...]) -> tuple[int, ...] | None:
    cut = len(shape) - len(component)
    return shape[:cut] if cut >= 0 and shape[cut:] == component else None


def _one_frame(given: tuple[int, ...], lead: tuple[int, ...]) -> tuple[int, ...] | None:
    """The frame axis put back where there is one frame and it was left out."""
    return (given[0], 1, *given[1:]) if lead[1] == 1 and len(given) == len(lead) - 1 else None


def _rows(given: tuple[int, ...] | None, lead: tuple[int, ...], merged: tuple[int, ...]) -> tuple[int, ...] | None:
    """Rows (instances * frames) taken apart."""
    return lead if given is not None and given == merged else None
