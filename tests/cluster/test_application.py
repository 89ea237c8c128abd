"""What is deployed, and deploy/'s own configurations of it, as Ray reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ray")
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
from ray.serve.schema import ServeDeploySchema

from kokoro_server.cli.settings import variables
from kokoro_server.cluster import local
from kokoro_server.cluster.application import build
from kokoro_server.cluster.options import ClusterOptions
from kokoro_server.cluster.router import QueuedAudioRouter

pytestmark = pytest.mark.cluster

DEPLOY = Path(__file__).parents[2] / "deploy"


def deployments(**arguments: Any) -> dict[str, Any]:
    """By name, with those that they are bound to."""
    application = build(ClusterOptions.model_validate(arguments))
    bound = application._bound_deployment
    given = [each._bound_deployment for each in bound.init_args if hasattr(each, "_bound_deployment")]
    return {each.name: each for each in (bound, *given)}


def test_a_replica_is_one_deployment_and_has_what_it_is_given() -> None:
    speech = deployments(replicas=3, gpus=1, cpus=8)["Speech"]
    assert speech.num_replicas == 3
    assert speech.ray_actor_options["num_gpus"] == 1
    assert speech.ray_actor_options["num_cpus"] == 8
    assert speech.max_ongoing_requests >= 1_000


@pytest.mark.parametrize("haproxy", [True, False])
def test_requests_are_routed_by_us_unless_haproxy_does_it(haproxy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a configuration, Ray refuses a router that HAProxy would pass by."""
    monkeypatch.setenv("RAY_SERVE_ENABLE_HA_PROXY", str(int(haproxy)))
    router = deployments()["Speech"]._deployment_config.request_router_config
    assert router.is_default_request_router() == haproxy
    assert (router.get_request_router_class() is QueuedAudioRouter) != haproxy


def test_how_many_there_are_is_no_argument_of_a_replica() -> None:
    """Ray replaces replicas whose arguments change: another number would end them all."""
    one, four = (deployments(replicas=count)["Speech"].init_args for count in (1, 4))
    assert one == four
    assert deployments(autoscaling={"max_replicas": 2})["Speech"].init_args == one


def test_replicas_are_added_by_the_audio_that_waits() -> None:
    speech = deployments(autoscaling={"min_replicas": 2, "max_replicas": 5, "scale_out_s": 99})["Speech"]
    config = speech._deployment_config.autoscaling_config
    assert (config.min_replicas, config.max_replicas) == (2, 5)
    assert config.policy.policy_kwargs["scale_out_s"] == 99


def test_g2p_may_be_a_deployment_of_its_own() -> None:
    assert deployments().keys() == {"Speech"}
    found = deployments(g2p={"replicas": 2, "cpus": 4, "image": "kokoro-server:g2p"})
    assert found.keys() == {"Speech", "G2P"}
    assert found["G2P"].num_replicas == 2
    assert found["G2P"].ray_actor_options["runtime_env"] == {"image_uri": "kokoro-server:g2p"}


def serve_configurations() -> list[dict[str, Any]]:
    plain = yaml.safe_load((DEPLOY / "ray-serve.yaml").read_text(encoding="utf-8"))
    service, *_ = yaml.safe_load_all((DEPLOY / "kubernetes" / "rayservice.yaml").read_text(encoding="utf-8"))
    return [plain, yaml.safe_load(service["spec"]["serveConfigV2"])]


def test_the_configurations_are_one_that_ray_accepts() -> None:
    plain, of_kubernetes = serve_configurations()
    assert plain == of_kubernetes
    (application,) = ServeDeploySchema.model_validate(plain).applications
    assert application.name == local.APPLICATION
    module, _, function = application.import_path.partition(":")
    assert (module, function) == (build.__module__, build.__name__)
    options = ClusterOptions.model_validate(application.args)
    assert {*options.settings} <= {*variables()}
    built = call_user_app_builder_with_args_if_necessary(build, application.args)
    assert built._bound_deployment.ray_actor_options["num_gpus"] == options.gpus == 1
    assert plain["logging_config"] == local.LOGGING
