"""The parts of a running server. `app` builds them, `api` and the commands use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kokoro_server.batching.queue import BatchQueue
from kokoro_server.config import Settings
from kokoro_server.degraded import Condition
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.g2p.child import G2PChild
from kokoro_server.g2p.client import G2PClient
from kokoro_server.metrics import Metrics
from kokoro_server.synthesis import Synthesizer
from kokoro_server.text.pace import Pace

BYPASS = 2  # pieces
PACED_BYPASS = 100  # pieces, about ten minutes of speech: by then a slow machine is far enough ahead


@dataclass(frozen=True)
class Parts:
    """`app.state.parts`."""

    settings: Settings
    model: LoadedModel
    current_pace: Callable[[], Pace | None]
    queue: BatchQueue
    g2p: G2PClient
    child: G2PChild | None  # the embedded G2P service, unless a remote one is used
    synthesizer: Synthesizer
    metrics: Metrics
    conditions: tuple[Condition, ...] = ()  # what can be worse than it should, in any of the parts

    @property
    def pace(self) -> Pace | None:
        """That of now; None unless the engine measures its speed, as one that may be slower than playback does."""
        return self.current_pace()

    @property
    def paced(self) -> bool:
        """Whether the pieces of a stream are sized to be ready when they are needed, and no earlier."""
        pace = self.pace
        return pace is not None and pace.needs_plan and not self.settings.first_chunk_tokens

    @property
    def bypass(self) -> int:
        """How many of a stream's first pieces skip the batching window."""
        if self.settings.bypass_chunks is not None:
            return self.settings.bypass_chunks
        return PACED_BYPASS if self.paced else BYPASS

    @property
    def clip_bypass(self) -> int:
        """How many of the first pieces of a clip skip it that is asked for with `optimize_for_latency`."""
        return BYPASS if self.settings.bypass_chunks is None else self.settings.bypass_chunks

    @property
    def urgent(self) -> int:
        """How many of the `bypass` pieces also go before all others: one, or all where each may be needed at once."""
        return self.bypass if self.paced else 1
