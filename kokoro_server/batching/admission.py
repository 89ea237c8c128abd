"""Decides whether a request may join the queue now, by the shares of its caller and of all callers."""

from __future__ import annotations

import math

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import FRAME_SECONDS
from kokoro_server.batching.devices.pool import Devices
from kokoro_server.batching.entry import Priority
from kokoro_server.batching.lanes import PriorityLanes, Share, Shares
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.errors import TooBusy


class Admission:
    """Refuses a request early if it would wait too long, so that nobody waits in vain.

    One caller alone may fill the queue. Another one is then admitted all the same while it has less there than its
    share, the size of the queue divided by the number of callers. So n callers have at most 1 + 1/2 + … + 1/n times the
    size waiting: at a size of 1000 that is less than eightfold, as beyond 1000 callers the share is 0. Bulk is counted
    apart, and against bulk alone: a caller's job that runs for hours does not turn its other requests away.
    """

    def __init__(self, options: BatchingOptions, waiting: PriorityLanes, devices: Devices, clock: Clock) -> None:
        self._options = options
        self._waiting = waiting
        self._devices = devices
        self._clock = clock

    def predicted_wait(self, priority: Priority, caller: str | None = None) -> float:
        """Seconds until an entry that arrived now would start, predicted by the present pace of the devices.

        Without `caller` it goes behind all entries of its priority, as if one caller had sent them all.
        """
        rows, frames, expected = self._waiting.ahead_of(priority, caller)
        wait = self._devices.wait_seconds(rows=rows, frames=frames, unknown_rows=expected)
        if priority >= Priority.AHEAD:
            return wait
        start = self._clock.now() + wait
        needed = [each for each in self._waiting.lane(Priority.AHEAD) if self._devices.is_needed(each, start)]
        if not needed:
            return wait
        frames += sum(each.frames for each in needed)
        return self._devices.wait_seconds(rows=rows + len(needed), frames=frames, unknown_rows=expected)

    def check_size(self, caller: str, priority: Priority) -> None:
        """Raise TooBusy, with the time to retry after, if the queue has no place for a text of this caller's."""
        shares = self._waiting.shares(priority)
        if self._full_for(caller, shares):
            size, most = shares.total.size, self._options.max_queue_size
            wait = self.predicted_wait(priority, caller)
            _refuse(f"{size} texts are waiting, the most allowed is {most}", wait)

    def check_wait(self, caller: str, priority: Priority, deadline: float) -> None:
        """Raise TooBusy if a text of this caller's would not start by `deadline`."""
        wait = self.predicted_wait(priority, caller)
        allowed = deadline - self._clock.now()
        if wait > allowed:
            _refuse(f"the wait would be about {wait:.1f} s, more than the {allowed:.1f} s allowed", wait - allowed)

    def check_queued_audio(self, caller: str, priority: Priority) -> None:
        """Raise TooBusy if MAX_QUEUED_SECONDS of this caller's audio wait. The new text itself does not count."""
        limit = self._options.max_queued_seconds
        if limit and (queued := self._queued_seconds(self._waiting.shares(priority).of(caller))) >= limit:
            wait = self.predicted_wait(priority, caller)
            _refuse(
                f"about {queued:.0f} s of your audio are waiting, at most {limit:g} s are allowed (MAX_QUEUED_SECONDS)",
                wait * (1 - limit / queued),
            )

    def _full_for(self, caller: str, shares: Shares) -> bool:
        most = self._options.max_queue_size
        if shares.total.size < most:
            return False
        own = shares.of(caller).size
        return own >= most // (len(shares) + (not own))

    def _queued_seconds(self, share: Share) -> float:
        """Predicted audio of a caller that waits; a request whose text is still being read counts as a usual row."""
        usual = max(device.costs.row_frames for device in self._devices) if share.expected else 0.0
        return (share.frames + share.expected * usual) * FRAME_SECONDS


def _refuse(why: str, retry_after: float) -> None:
    raise TooBusy(f"the server is busy: {why}", retry_after=max(1, math.ceil(retry_after)))
