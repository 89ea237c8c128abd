"""Shared memory for audio. The engine process writes results into blocks; API workers read and release them."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.protocol import Pcm16, Result
from kokoro_server.server.ipc.shared_state import anonymous_file
from kokoro_server.server.ipc.wire import INLINE, PCM16, OutcomeHead

SIZE = 512 * 2**20  # bytes, of which only what is used takes memory: an hour and more of audio
ALIGNMENT = 64  # bytes
KEPT = 64 * 2**20  # bytes that stay with the process when nothing is in use
BYTES_PER_SAMPLE = 6  # four as a float, two as an integer


class AudioBuffers:
    """Takes the lowest free block, so that little memory is touched."""

    def __init__(self, size: int = SIZE) -> None:
        self.fd = anonymous_file(size)
        self._memory = mmap.mmap(self.fd, size)
        self._free = [(0, size)]  # offset and length, ascending, never adjacent
        self._taken: dict[int, int] = {}  # length by offset
        self._top = 0  # the end of what has been written

    @property
    def used(self) -> int:
        return sum(self._taken.values())

    def put(self, result: Result) -> int | None:
        """Copy a result's audio. Returns its offset, or None when there is no room."""
        samples = len(result.audio)
        offset = self._allocate(samples * BYTES_PER_SAMPLE)
        if offset is None:
            return None
        end = offset + 4 * samples
        self._memory[offset:end] = _bytes(result.audio)
        if result.pcm16 is not None:
            self._memory[end : end + 2 * samples] = _bytes(result.pcm16.samples)
        return offset

    def free(self, offset: int) -> None:
        """Take a block back. An offset that is not in use, such as one named twice, is ignored."""
        length = self._taken.pop(offset, None)
        if length is None:
            return
        at = next((i for i, (start, _) in enumerate(self._free) if start > offset), len(self._free))
        if at < len(self._free) and self._free[at][0] == offset + length:
            length += self._free.pop(at)[1]
        if at and sum(self._free[at - 1]) == offset:
            offset, before = self._free.pop(at - 1)
            at, length = at - 1, length + before
        self._free.insert(at, (offset, length))
        if not self._taken and self._top > KEPT:
            self._give_back()

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    def _allocate(self, size: int) -> int | None:
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        for index, (offset, length) in enumerate(self._free):
            if length >= size:
                self._free[index : index + 1] = [(offset + size, length - size)] if length > size else []
                self._taken[offset] = size
                self._top = max(self._top, offset + size)
                return offset
        return None

    def _give_back(self) -> None:
        if hasattr(mmap, "MADV_REMOVE"):
            with contextlib.suppress(OSError):
                self._memory.madvise(mmap.MADV_REMOVE, KEPT, len(self._memory) - KEPT)
        self._top = KEPT


class AudioBufferView:
    """An API worker's view of the buffers."""

    def __init__(self, fd: int) -> None:
        """Closes `fd`."""
        self._memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        os.close(fd)

    def take(self, head: OutcomeHead) -> Result:
        """A copy of a result, so that its block can be released at once."""
        memory: mmap.mmap | bytes = head.inline if head.audio & INLINE else self._memory
        audio = _copy(memory, np.float32, head.samples, head.offset)
        if not head.audio & PCM16:
            return Result(audio, head.durations)
        samples = _copy(memory, np.int16, head.samples, head.offset + audio.nbytes)
        return Result(audio, head.durations, Pcm16(samples, head.peak))

    def close(self) -> None:
        self._memory.close()


def _bytes(samples: NDArray[Any]) -> memoryview | bytes:
    return np.ascontiguousarray(samples).data.cast("B") if len(samples) else b""


def _copy(memory: mmap.mmap | bytes, kind: type[np.generic], count: int, offset: int) -> NDArray[Any]:
    if not count:  # numpy takes no empty buffer
        return np.empty(0, kind)
    return np.frombuffer(memory, kind, count, offset).copy()
