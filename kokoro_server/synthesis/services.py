"""The services of a running server. `app` builds them, `api` and the commands use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.config.defaults import SpeechDefaults
from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.g2p.client import G2PClient
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.observability.metrics import Metrics
from kokoro_server.synthesis.models import ServedModels
from kokoro_server.synthesis.synthesizer import Synthesizer
from kokoro_server.text.pace import Pace
from kokoro_server.voices import VoiceBook
from kokoro_server.voices.custom import CustomVoices

BYPASS = 2  # pieces
G2P_GRACE = 2.0  # seconds without G2P after which the server is not ready: requests wait out a shorter outage
PACED_BYPASS = 100  # pieces, about ten minutes of speech: by then a slow machine is far enough ahead


class Model(Protocol):
    """The model, in this process or in the engine process."""

    @property
    def facts(self) -> ModelFacts: ...
    @property
    def conditions(self) -> Sequence[Condition]: ...


class G2PProcess(Protocol):
    """The G2P service that this server runs itself."""

    condition: Condition

    @property
    def state(self) -> str: ...
    @property
    def restarts(self) -> int: ...
    @property
    def url(self) -> str: ...


@dataclass(frozen=True)
class Services:
    """`app.state.services`."""

    settings: Settings
    model: Model
    voices: VoiceBook
    current_pace: Callable[[], Pace | None]
    queue: SpeechQueue
    g2p: G2PClient
    child: G2PProcess | None  # the embedded G2P service, unless a remote one is used
    synthesizer: Synthesizer
    metrics: Metrics
    custom_voices: CustomVoices | None = None  # if VOICES_PATH is set
    models: ServedModels | None = None  # if MODELS_PATH is set
    defaults: SpeechDefaults = field(default_factory=SpeechDefaults)
    other_conditions: tuple[Condition, ...] = ()  # of services beside the model and the jobs
    jobs_condition: Condition = field(default_factory=lambda: Condition(Reason.JOBS))
    lost_jobs_condition: Condition = field(default_factory=lambda: Condition(Reason.JOBS_LOST))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Of all services. The model's change when it is loaded again."""
        others = self.models.conditions if self.models else ()
        return (
            *self.model.conditions, *self.other_conditions, *others, self.jobs_condition, self.lost_jobs_condition
        )  # fmt: skip

    def why_not_ready(self) -> str | None:
        """Why no text can be spoken now; None if it can."""
        if not self.queue.ready:
            return "the engine is not running; see /health"
        if self.g2p.down_for > G2P_GRACE:
            return "the G2P service does not answer, so no text can be read; see /health"
        return None

    @property
    def pace(self) -> Pace | None:
        """The level by which streams are cut; None unless the engine measures its speed, as slow ones do."""
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
        """`bypass` for a clip that is requested with `optimize_for_latency`."""
        return BYPASS if self.settings.bypass_chunks is None else self.settings.bypass_chunks

    @property
    def urgent(self) -> int:
        """How many of the `bypass` pieces go before all other entries: one, or all where each may be needed at once."""
        return self.bypass if self.paced else 1
