"""How many models are in memory at once: another one takes the slot of the one that has been idle longest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kokoro_server.errors import TooBusy

POLL_INTERVAL = 0.05  # seconds between two looks for a model that is idle
RETRY_AFTER = 5.0  # seconds


class ModelSlots:
    """`patience` bounds the wait for a slot, in seconds. Models that wait get theirs in the order of their requests."""

    def __init__(self, count: int, patience: float) -> None:
        self.count = count
        self.patience = patience
        self.holders = set[ModelSlot]()
        self.turn = asyncio.Lock()


class ModelSlot:
    """The claim of one model on a slot: it holds one from before it is loaded until it is unloaded."""

    def __init__(self, slots: ModelSlots) -> None:
        self._slots = slots
        # Of the model when it is loaded: unloads it unless it speaks, and when it last spoke.
        self.unload: Callable[[], Awaitable[object]] | None = None
        self.last_worked: Callable[[], float] = lambda: 0.0

    async def take(self) -> None:
        """Returns when the model may be loaded. Raises TooBusy if all those in memory keep speaking."""
        slots = self._slots
        try:
            async with asyncio.timeout(slots.patience), slots.turn:
                while self not in slots.holders and len(slots.holders) >= slots.count:
                    loaded = [slot for slot in slots.holders if slot.unload is not None]
                    for slot in sorted(loaded, key=lambda slot: slot.last_worked()):
                        if slot.unload is not None and await slot.unload():
                            break
                    else:
                        await asyncio.sleep(POLL_INTERVAL)
                slots.holders.add(self)
        except TimeoutError:
            raise TooBusy(
                f"the server keeps {slots.count} models in memory, and all of them are in use; try again later",
                retry_after=RETRY_AFTER,
            ) from None

    def give_back(self) -> None:
        self._slots.holders.discard(self)
