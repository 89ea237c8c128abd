from __future__ import annotations

import pytest

from benchmarks import crowd_bench
from tests.servers import Server


@pytest.mark.slow
async def test_what_it_finds(tiny_server: Server) -> None:
    found = await crowd_bench.measure({"this": tiny_server.url}, rounds=1)
    crowd, stream = found["this"]["four_clients"], found["this"]["stream"]
    assert 0 < crowd["first_s"]["median"] <= crowd["mean_s"]["median"] <= crowd["total_s"]["median"]
    assert all(figure["min"] > 0 for figure in stream.values())
