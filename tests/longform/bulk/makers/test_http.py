"""`bulk --url`: a real server speaks, asked by one process or by several."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import soundfile

from kokoro_server.cli import CommandFailed
from kokoro_server.client import ClientError
from tests.longform.bulk.runs import records, texts, tree, write
from tests.servers import Server, free_port
from tests.services.bulk import main


def test_a_server_speaks_for_one_process_and_for_several(tiny_server: Server, tmp_path: Path) -> None:
    lines = texts(12)
    lines[3] |= {"format": "flac", "pitch": 2, "sample_rate": 16_000}
    lines[5]["speed"] = 9
    lines[7]["voice"] = "nobody"
    source = str(write(tmp_path / "in.jsonl", lines))
    for processes in ("1", "2"):
        with pytest.raises(CommandFailed, match="2 of 12 lines"):
            main([source, str(tmp_path / processes), "--url", tiny_server.url, "--processes", processes])
    out = tmp_path / "1"
    assert tree(out).keys() == tree(tmp_path / "2").keys()
    manifest = records(out / "manifest.jsonl")
    assert [record["id"] for record in manifest] == [line["id"] for n, line in enumerate(lines) if n not in (5, 7)]
    for record in manifest:
        info, other = (soundfile.info(str(tmp_path / folder / record["file"])) for folder in "12")
        assert info.frames == other.frames  # samples differ by rounding, which goes by what shares their batch
        assert abs(info.duration - record["duration"]) < 0.01
        assert info.samplerate == record.get("sample_rate", 24_000)
        assert [word["text"] for word in record["words"]][:3] == ["This", "is", "text"]
    failures = records(out / "failures.jsonl")
    assert [(failure["line"], failure["code"], failure["field"], failure["tries"]) for failure in failures] == [
        (6, "invalid_input", "speed", 1),
        (8, "unknown_voice", "voice", 1),
    ]


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    source = str(write(tmp_path / "in.jsonl", texts(3)))
    with pytest.raises(ClientError, match="is the server running"):
        main([source, str(tmp_path / "out"), "--url", f"http://127.0.0.1:{free_port()}"])


@pytest.mark.parametrize("path", ["/tts", "/tts/captioned"])
def test_a_request_may_wait_behind_all_others(tiny_server: Server, path: str) -> None:
    def ask(priority: str) -> httpx.Response:
        headers = {"X-Priority": priority}
        return httpx.post(tiny_server.url + path, json={"text": "Later."}, headers=headers, timeout=60)

    assert ask("bulk").status_code == ask("normal").status_code == 200
    refused = ask("first")
    assert refused.status_code == 422
    assert refused.json()["error"]["field"] == "X-Priority"
    assert "normal or bulk" in refused.json()["error"]["message"]
