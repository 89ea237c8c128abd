"""Scales by the audio that waits, not by requests, whose lengths differ by a factor of a thousand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext


class ScaleByQueuedAudio:
    """Out when more than `scale_out_s` seconds wait at a replica on average, in below `scale_in_s`.

    Ray applies the delays and the bounds of its configuration to the result.
    """

    def __init__(self, scale_out_s: float, scale_in_s: float) -> None:
        self._scale_out_s = scale_out_s
        self._scale_in_s = scale_in_s

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        replicas = context.current_num_replicas
        queued = list((context.aggregated_metrics or {}).get("queued_s", {}).values())
        if not queued:  # no replica has reported yet
            return context.target_num_replicas, {}
        return wanted(replicas, sum(queued) / len(queued), self._scale_out_s, self._scale_in_s), {}


def wanted(replicas: int, queued_s: float, scale_out_s: float, scale_in_s: float) -> int:
    """The number of replicas to have, when `queued_s` waits at each of the present ones."""
    if queued_s > scale_out_s:
        return math.ceil(replicas * queued_s / scale_out_s)
    return replicas - 1 if queued_s < scale_in_s and replicas > 1 else replicas
