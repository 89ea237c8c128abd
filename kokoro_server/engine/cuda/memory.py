"""Plans an engine's share of a GPU's memory, which other engines and programs may use too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from kokoro_server.engine.cuda import pinned_buffers
from kokoro_server.engine.sticky import sticky_error
from kokoro_server.errors import SetupError

# Memory that CUDA takes beside torch's allocations once all kernels are loaded: their code, and workspaces.
OUTSIDE_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """In bytes. One engine may take `share` for everything; it could take `unshared` if nothing else ran."""

    device: str
    total: int
    free: int  # for this process: its own memory counts as free
    share: float
    unshared: float

    def frames(self, own: float, bytes_per_frame: float, most: int, least: int) -> int:
        """The padded frames that fit beside `own` bytes, `most` at most. SetupError if fewer than `least` fit."""
        fitting = int((self.share - own) / bytes_per_frame)
        if fitting < least:
            needed = own + least * bytes_per_frame
            raise SetupError(f"{self.device}: too little memory, {_gb(needed)} GB needed; {self._advice()}")
        return min(most, fitting)

    def shortage(self, own: float, bytes_per_frame: float, most: int) -> str | None:
        """A message if other programs on the GPU take more than half of a batch's memory, else None."""
        frames, alone = (int((share - own) / bytes_per_frame) for share in (self.share, self.unshared))
        possible = min(most, alone)
        if frames >= possible / 2:
            return None
        return f"other programs use {self.device}, so batches have {frames} frames and not {possible}: {self._advice()}"

    def _advice(self) -> str:
        return (
            f"{_gb(self.free)} of {_gb(self.total)} GB were free, of which this engine may take {_gb(self.share)}. "
            "End what else uses the GPU, set KOKORO_GPU_MEMORY_FRACTION or KOKORO_DEVICE, and start again"
        )


def plan(device: torch.device, fraction: float, engines: int) -> MemoryPlan:
    """Plan for one of `engines` engines. The process may take `fraction` of the memory, as far as that is free."""
    free, total = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device)  # an earlier engine of this process took that from the same share
    most = total * fraction
    return MemoryPlan(str(device), total, free, min(most, free - OUTSIDE_BYTES) / engines, most / engines)


def release(device: torch.device) -> None:
    """Release the memory that torch keeps for reuse: cuBLAS workspaces, freed memory on device and host."""
    with torch.cuda.device(device):  # otherwise CUDA would set up the first device, which may not be ours
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        pinned_buffers.empty_cache()


@contextmanager
def explain_errors(device: torch.device) -> Iterator[None]:
    """Turn errors that only a restart can mend into SetupError: out of memory, a poisoned device."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise SetupError(
            f"{device}: out of memory while the model is loaded ({_first_line(error)}); end what else uses the GPU, or "
            "set KOKORO_GPU_MEMORY_FRACTION or KOKORO_DEVICE"
        ) from error
    except Exception as error:
        if sticky := sticky_error(error):
            raise SetupError(
                f"{device}: the GPU has failed and cannot be used by this process any more ({_first_line(sticky)}); "
                "start again. If that happens again, look for Xid in the kernel's log, and please report it"
            ) from error
        raise


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f}"
