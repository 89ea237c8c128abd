"""The arguments of the application in deploy/ray-serve.yaml."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, model_validator

CORES_PER_WORKER = 4.0


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Autoscaling(_Arguments):
    """By the audio that waits, in seconds for each replica."""

    min_replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(ge=1)
    scale_out_s: float = Field(default=150.0, gt=0, description="when more waits, replicas are added")
    scale_in_s: float = Field(default=20.0, ge=0, description="when less waits, one replica is removed")
    scale_out_delay_s: float = Field(default=10.0, ge=0)
    scale_in_delay_s: float = Field(default=300.0, ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> Autoscaling:
        if self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas is less than min_replicas")
        if self.scale_in_s >= self.scale_out_s:
            raise ValueError("scale_in_s must be less than scale_out_s, or replicas would come and go")
        return self


class G2POptions(_Arguments):
    """G2P as a separate deployment. Its code is under the GPL and may have a separate image."""

    replicas: int = Field(default=1, ge=1)
    cpus: float = Field(default=4.0, gt=0)
    image: str | None = Field(default=None, description="container image of its nodes, where Ray starts containers")


class ClusterOptions(_Arguments):
    """A replica is one device's whole server: an engine process, API workers, and G2P unless that is apart."""

    settings: Mapping[str, str | int | float | bool] = Field(
        default_factory=dict, description="as in .env; the rest comes from the environment of a replica's node"
    )
    replicas: int = Field(default=1, ge=1)
    autoscaling: Autoscaling | None = Field(default=None, description="in place of replicas")
    gpus: float = Field(default=0.0, ge=0, description="of each replica")
    cpus: float = Field(default=2.0, gt=0, description="of each replica")
    fronts: int | None = Field(
        default=None, ge=1, description="API workers of each replica, at its own port; one for four CPUs"
    )
    port: int = Field(
        default=8900,
        ge=1,
        le=65535,
        description="of a replica; the next one on its node takes the next free port",
    )
    g2p: G2POptions | None = Field(
        default=None, description="a separate deployment; else each replica has its G2P service"
    )
    health_check_s: float = Field(default=10.0, gt=0)
    drain_s: float = Field(default=600.0, gt=0, description="for a replica that ends to answer its requests")

    @property
    def worker_count(self) -> int:
        return self.fronts or max(1, int(self.cpus / CORES_PER_WORKER))

    def environ(self) -> dict[str, str]:
        """`settings` as variables."""
        return {name: _text(value) for name, value in self.settings.items()}


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
