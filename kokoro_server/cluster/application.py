"""The application that Ray Serve runs: `import_path: kokoro_server.cluster.application:build`."""

from __future__ import annotations

import os
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

from kokoro_server.cluster.autoscaling import ScaleByQueuedAudio
from kokoro_server.cluster.g2p import G2PReplica
from kokoro_server.cluster.options import ClusterOptions, G2POptions
from kokoro_server.cluster.replica import SpeechReplica
from kokoro_server.cluster.router import QueuedAudioRouter

# Requests at one replica at once. Its queue refuses what is too much, with the time to retry after; requests that Ray
# held back could not be batched.
MAX_ONGOING = 10_000
LOOK_INTERVAL = 1.0  # seconds from one look at a replica's queue to the next


def build(asked: ClusterOptions | dict[str, Any]) -> serve.Application:
    """Ray passes the arguments of the application from its configuration."""
    arguments = ClusterOptions.model_validate(asked)
    # Replicas whose arguments change are replaced, so they get none that change while they run.
    plain = arguments.model_dump(exclude={"replicas", "autoscaling", "health_check_s", "drain_s", "g2p"})
    speech = serve.deployment(
        SpeechReplica,
        name="Speech",
        **_count(arguments),
        ray_actor_options={"num_cpus": arguments.cpus, "num_gpus": arguments.gpus},
        max_ongoing_requests=MAX_ONGOING,
        health_check_period_s=arguments.health_check_s,
        health_check_timeout_s=3 * arguments.health_check_s,
        graceful_shutdown_timeout_s=arguments.drain_s,
        graceful_shutdown_wait_loop_s=1.0,
        request_router_config=_router(),
    )
    return speech.bind(plain, _g2p(arguments.g2p, plain)) if arguments.g2p else speech.bind(plain)


def _router() -> RequestRouterConfig:
    """HAProxy uses no router, and Ray refuses to combine it with one."""
    if os.environ.get("RAY_SERVE_ENABLE_HA_PROXY") == "1":
        return RequestRouterConfig()
    return RequestRouterConfig(
        request_router_class=QueuedAudioRouter,
        request_routing_stats_period_s=LOOK_INTERVAL,
        request_routing_stats_timeout_s=3 * LOOK_INTERVAL,
    )


def _count(arguments: ClusterOptions) -> dict[str, Any]:
    asked = arguments.autoscaling
    if asked is None:
        return {"num_replicas": arguments.replicas}
    config = AutoscalingConfig(
        min_replicas=asked.min_replicas,
        max_replicas=asked.max_replicas,
        upscale_delay_s=asked.scale_out_delay_s,
        downscale_delay_s=asked.scale_in_delay_s,
        metrics_interval_s=LOOK_INTERVAL,
        look_back_period_s=5 * LOOK_INTERVAL,
        policy=AutoscalingPolicy(
            policy_function=ScaleByQueuedAudio,
            policy_kwargs={"scale_out_s": asked.scale_out_s, "scale_in_s": asked.scale_in_s},
        ),
    )
    return {"autoscaling_config": config}


def _g2p(asked: G2POptions, plain: dict[str, Any]) -> serve.Application:
    actor: dict[str, Any] = {"num_cpus": asked.cpus}
    if asked.image:
        actor["runtime_env"] = {"image_uri": asked.image}
    deployment = serve.deployment(
        G2PReplica, name="G2P", num_replicas=asked.replicas, ray_actor_options=actor, max_ongoing_requests=1_000
    )
    return deployment.bind(plain, max(1, int(asked.cpus)))
