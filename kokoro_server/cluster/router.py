"""Chooses the replica to which Ray's own proxy sends a request: of two, the one with less audio waiting.

HAProxy and other load balancers do not use it; they count connections.
"""

from __future__ import annotations

import random
from typing import Any

from ray.serve.request_router import FIFOMixin, PendingRequest, ReplicaID, RequestRouter, RunningReplica

SECONDS_A_REQUEST = 5.0  # of audio, for a request that is not in a replica's numbers yet


class QueuedAudioRouter(FIFOMixin, RequestRouter):  # type: ignore[misc]
    """Power of two choices. A replica's numbers are up to a second old: the requests sent to it since are added."""

    def initialize_state(self, **_kwargs: Any) -> None:
        self._sent: dict[ReplicaID, tuple[int, int]] = {}  # the last look at a replica, and requests since

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,  # noqa: ARG002
    ) -> list[list[RunningReplica]]:
        """In order: the better of two, the other one, and then all, if both refuse."""
        ready = [replica for replica in candidate_replicas if replica.routing_stats.get("ready", True)]
        two = random.sample(among := ready or candidate_replicas, min(2, len(among)))
        two.sort(key=self._queued)
        return [*([each] for each in two), [replica for replica in candidate_replicas if replica not in two]]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:  # noqa: ARG002
        look, count = self._sent.get(replica_id, (0, 0))
        self._sent[replica_id] = look, count + 1

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        super().on_replica_actor_died(replica_id)
        self._sent.pop(replica_id, None)

    def _queued(self, replica: RunningReplica) -> float:
        stats = replica.routing_stats
        look, count = self._sent.get(replica.replica_id, (0, 0))
        if (newest := stats.get("look", 0)) != look:
            count = 0
            self._sent[replica.replica_id] = newest, 0
        return float(stats.get("queued_s", 0.0)) + SECONDS_A_REQUEST * count
