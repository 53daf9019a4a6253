"""Host and device memory of a tick: one block in, one block out, views by name."""

import math

import numpy as np
import warp as wp


class Block:
    """One flat float32 block with named views.

    On the CPU device the host views are the device memory itself; on CUDA they are pinned and `upload` or `download`,
    captured in the tick's graph, moves the whole block at once.
    """

    def __init__(self, shapes: dict[str, tuple[int, ...]], device: wp.Device) -> None:
        """Allocate.

        Args:
            shapes: Shape of each view.
            device: Where the kernels run.
        """
        size = sum(math.prod(shape) for shape in shapes.values())
        self._flat = wp.zeros(size, dtype=wp.float32, device=device)
        self._pinned = None if device.is_cpu else wp.zeros(size, dtype=wp.float32, device="cpu", pinned=True)
        host = (self._flat if self._pinned is None else self._pinned).numpy()
        self.device: dict[str, wp.array] = {}
        """Views for kernels."""
        self.host: dict[str, np.ndarray] = {}
        """Views for NumPy."""
        offset = 0
        for name, shape in shapes.items():
            count = math.prod(shape)
            self.device[name] = self._flat[offset : offset + count].reshape(shape)
            self.host[name] = host[offset : offset + count].reshape(shape)
            offset += count

    def upload(self) -> None:
        """Copy host to device; nothing to do on the CPU."""
        if self._pinned is not None:
            wp.copy(self._flat, self._pinned)

    def download(self) -> None:
        """Copy device to host; nothing to do on the CPU."""
        if self._pinned is not None:
            wp.copy(self._pinned, self._flat)
