"""Many requests in one forward pass: the shared batch queue. Knows neither HTTP nor torch."""

from kokoro_server.batching.entry import FireReason, Outcome, Priority, Submission
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.queue import BatchQueue

__all__ = ["BatchQueue", "BatchingOptions", "FireReason", "Outcome", "Priority", "Submission"]
