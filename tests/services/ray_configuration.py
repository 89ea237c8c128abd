"""Ray on this machine with what deploy/ray-serve.yaml says, made small: one replica on the CPU, G2P apart."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import ray
import yaml
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

from kokoro_server.cluster import local
from tests.servers import ROOT, free_port

SMALL = {"gpus": 0, "cpus": 1, "fronts": 1, "g2p": {"cpus": 0.5}}


def configuration() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "ray-serve.yaml").read_text(encoding="utf-8"))
    (application,) = read["applications"]
    application["args"] |= SMALL
    read["http_options"] = {"host": "127.0.0.1", "port": free_port()}
    return read


def main() -> None:
    signals = {signal.SIGTERM, signal.SIGINT}
    os.environ.update(local.ALWAYS | local.HAPROXY)
    ray.init(address="local", include_dashboard=False, configure_logging=False)
    read = configuration()
    serve.start(http_options=read["http_options"], logging_config=read["logging_config"])
    _get_global_client().deploy_apps(ServeDeploySchema.model_validate(read), _blocking=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    print(f"Server is ready at http://127.0.0.1:{read['http_options']['port']}", flush=True)
    signal.sigwait(signals)
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    sys.exit(main())
