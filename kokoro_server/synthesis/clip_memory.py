"""The audio of whole clips in memory: of one clip a minute at most, of all of them a share of the machine's memory."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import TooBusy
from kokoro_server.runtime.fair_slots import FairSlots
from kokoro_server.runtime.machine import available_memory
from kokoro_server.synthesis.utterance import Segment

KEPT_SECONDS = 60  # of a clip's audio that are kept in memory: a longer clip goes to `Overflow`
FREE_SECONDS = 30  # a clip of this length, which is one piece or two, is not counted
# Bytes for a second of audio: float and 16-bit samples, both again when the pieces are joined, and float at 48 kHz.
BYTES_PER_SECOND = 500_000
SHARE = 8  # an eighth of the memory is for clips that are being made
RETRY_AFTER = 10.0  # seconds


class Overflow(Protocol):
    """Takes the audio of a clip that is too long to be kept in memory."""

    in_memory: bool  # whether it takes less memory, but memory

    async def write(self, sound: Sound) -> None: ...


class ClipMemory:
    """Lets whole clips begin while their audio fits in the share of the memory that is for them. The rest wait.

    Callers take turns. `processes` is how many processes of the server divide the share among themselves.
    """

    def __init__(self, processes: int = 1) -> None:
        self.seconds = FairSlots(max(KEPT_SECONDS, available_memory() // SHARE // BYTES_PER_SECOND // processes))

    @asynccontextmanager
    async def held(self, seconds: float, caller: str, patience: float) -> AsyncIterator[None]:
        """Counts the seconds of a clip. Raises TooBusy if other clips leave no room for them for `patience` seconds."""
        if seconds <= FREE_SECONDS:
            yield
            return
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(max(0.0, patience)):
                    await stack.enter_async_context(self.seconds.taken(caller, math.ceil(seconds)))
            except TimeoutError:
                raise TooBusy(
                    f"long clips of {self.seconds.used} s are being made, and {self.seconds.number} s fit in memory; "
                    "try again later, or use POST /tts/stream",
                    retry_after=RETRY_AFTER,
                ) from None
            yield


class CollectedAudio:
    """The segments of a clip. If they become too long, their audio goes to `overflow`, and only their words stay."""

    def __init__(self, overflow: Overflow | None) -> None:
        self.segments: list[Segment] = []
        self.samples = 0
        self._overflow = overflow
        self._overflowing = False

    async def add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.samples += len(segment.sound)
        if self._overflow is None or self.samples <= KEPT_SECONDS * SAMPLE_RATE:
            return
        first = len(self.segments) - 1 if self._overflowing else 0
        self._overflowing = True
        for index in range(first, len(self.segments)):
            await self._overflow.write(self.segments[index].sound)
            self.segments[index] = self.segments[index].without_audio()

    async def joined(self) -> Sound | None:
        """All of the audio; None if it has gone to `overflow`."""
        if self._overflowing:
            return None
        parts = [segment.sound for segment in self.segments]
        if len(parts) == 1 or self.samples <= KEPT_SECONDS * SAMPLE_RATE:
            return Sound.join(parts)
        return await asyncio.to_thread(Sound.join, parts)
