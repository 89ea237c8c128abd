"""Bulk through Ray Data on a Ray of this machine: the same files as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kokoro_server.cli import CommandFailed, bulk
from tests.longform.bulk.runs import records, texts, tree, write
from tests.services.bulk import DoubleSpeaker, main, open_double


@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")  # Ray Data sets options of its own that it calls deprecated
def test_a_cluster_makes_what_one_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    pytest.importorskip("pyarrow")
    from kokoro_server.longform.bulk.makers.ray import RayMaker

    monkeypatch.setattr(bulk, "_maker", bulk._maker)  # restored at the end
    lines = texts(600)
    lines[5]["text"] = "silence"
    source = str(write(tmp_path / "in.jsonl", lines))
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        maker = RayMaker("auto", open_double)
        monkeypatch.setattr(bulk, "_ray_maker", lambda *_: maker)
        with pytest.raises(CommandFailed, match="1 of 600"):
            main([source, str(tmp_path / "ray"), "--address", "auto", "--shards", "100"])
        monkeypatch.setattr(DoubleSpeaker, "version", maker.version)
    finally:
        ray.shutdown()
    with pytest.raises(CommandFailed, match="1 of 600"):
        main([source, str(tmp_path / "one"), "--shards", "100"], DoubleSpeaker())
    assert len(records(tmp_path / "ray" / "manifest.jsonl")) == 599
    assert tree(tmp_path / "ray") == tree(tmp_path / "one")
