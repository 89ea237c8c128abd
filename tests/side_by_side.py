"""Which tests run in the same process of `pytest -n`, one after the other.

Those that share servers do, as each process would start them again; so do those of one folder.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

SERVERS = "api", "cli", "client", "faults", "longform/jobs", "observability", "server"  # whose tests mostly wait


class ByFolder(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        first, *others = nodeid.partition("::")[0].split("/")[1:-1] or ["."]
        folder = "/".join([first, *others[:1]]) if first == "longform" else first
        return "servers" if folder in SERVERS else folder


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFolder:
    config.option.loadscopereorder = False  # what takes longest comes first as it is
    return ByFolder(config, log)
