"""The state of the queue as `GET /health/batching` and `GET /health` show it. The keys are part of the HTTP API."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ModelSnapshot(TypedDict):
    """Whether the model is in memory. Only a model that is unloaded when idle has more than `state`."""

    state: str  # loaded, unloading, unloaded or loading
    unload_after_s: NotRequired[float]
    unloads: NotRequired[int]
    loads: NotRequired[int]
    failed_loads: NotRequired[int]
    last_unload: NotRequired[str]  # time, ISO 8601
    last_load: NotRequired[str]
    last_failed_load: NotRequired[str]
    last_load_s: NotRequired[float]  # how long it took


class QueueStatus(TypedDict):
    """What waits and runs now."""

    current_size: int  # entries that wait
    worker_running: bool
    paused: bool  # no batch is formed, as the queue is held
    preparing: int  # requests admitted whose text is still being read, so that their first row is yet to come
    queued_audio_s: float  # predicted audio of the entries that wait
    callers: int  # with an entry that waits or a text that is being prepared
    running_rows: int
    by_priority: dict[str, int]
    voice_groups: dict[str, int]
    predicted_wait_ms: float


class DeviceSnapshot(TypedDict):
    device: str
    status: str  # healthy, degraded or lost
    error: NotRequired[str]  # why it is lost
    batches: int
    rows: int
    running_rows: int
    busy_share: float  # of the last ten seconds
    busy_seconds: float
    idle_gap_ms: dict[str, float]  # time that the device idled between batches while a row waited
    max_batch_size: int
    max_padded_frames: int
    learned_max_padded_frames: int  # lower after memory ran out
    real_time_factor: NotRequired[float]
    resources: NotRequired[dict[str, float]]
    express: NotRequired[DeviceSnapshot]


class QueueSnapshot(TypedDict):
    batching_enabled: bool
    status: str  # healthy, degraded, unhealthy or disabled
    model: ModelSnapshot
    queue_status: QueueStatus
    devices: list[DeviceSnapshot]
    performance: dict[str, Any]  # totals since the start, and `recent`
    config: dict[str, Any]
