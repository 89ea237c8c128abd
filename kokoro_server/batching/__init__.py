"""Many requests in one forward pass: the shared batch queue. Knows neither HTTP nor torch."""

from kokoro_server.batching.entry import FireReason, Outcome, Priority, Submission
from kokoro_server.batching.policy import BatchingOptions, Grouping
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.batching.tickets import Ticket

__all__ = [
    "BatchQueue",
    "BatchingOptions",
    "FireReason",
    "Grouping",
    "Outcome",
    "Priority",
    "SpeechQueue",
    "Submission",
    "Ticket",
]
