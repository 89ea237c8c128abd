"""The figures of docs/performance.md come from the results, and only from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import plot, report
from benchmarks.report import BEGIN, END
from kokoro_server.cli import main as cli
from kokoro_server.observability import logs

PIECES = {"equal": {"audio_s": 4.65, "ms": 4.79, "audio_s_per_s": 971}, "packed": {"ms": 4.57, "audio_s_per_s": 882}}
ENGINE = {
    "gpu": "NVIDIA H200",
    "precision": "fp16",
    "rows": [{"rows": 1, **PIECES}],
    "kmodel": {"equal_ms": 94.6, "equal_audio_s_per_s": 49.2},
}
CPU = {
    "machine": {"cpu": "Neoverse-N1"},
    "threads": 2,
    "clips": [
        {
            "audio_seconds": 2.05,
            "contenders": {"kmodel": {"audio_s_per_s": 0.75}, "ours-onnx-int8": {"audio_s_per_s": 2.7}},
        }
    ],
}


def served(server: str, endpoint: str, clients: int, audio: float, first: float) -> dict[str, Any]:
    spread = {"p50": first, "p95": 2 * first, "p99": 3 * first}
    run = {"server": server, "endpoint": endpoint, "mode": "closed", "clients": clients, "audio_per_second": audio}
    run |= {"requests": 100, "errors": 0}
    return run | {"first_audio_ms": spread, "total_ms": spread}


SERVE = {
    "device": "NVIDIA H200",
    "plain_model": {"audio_per_second": 43.0},
    "runs": [
        served("kokoro-server", "/tts", 1, 600.0, 8.0),
        served("kokoro-server", "/tts", 64, 2600.0, 80.0),
        served("kokoro-server", "/tts/stream", 1, 500.0, 9.5),
        {**served("kokoro-server", "/tts/stream", 64, 2100.0, 60.0), "errors": 3},
        served("one-at-a-time", "/tts", 1, 55.0, 80.0),
        {**served("kokoro-server", "/tts", 0, 9.0, 9.0), "mode": "poisson", "rate": 5.0},
        {**served("kokoro-server", "/tts", 64, 9.0, 9.0), "input": "phonemes"},
    ],
}


FORMS = SERVE | {
    "forms": [0, 1],
    "runs": [
        {**served("kokoro-server", "/tts", 64, 4300.0, 80.0), "processes": 0, "device_busy": 0.973},
        {**served("kokoro-server", "/tts/stream", 64, 3700.0, 50.0), "processes": 0, "device_busy": 0.9},
        {**served("kokoro-server", "/tts", 64, 3100.0, 90.0), "processes": 1, "device_busy": 0.8},
        {**served("one-at-a-time", "/tts", 64, 55.0, 80.0), "device_busy": None},
    ],
}
START = {
    "device": "cuda",
    "drop_caches": True,
    "cold": {"first_answer_s": 13.6, "second_request_ms": 26.6, "tenth_request_ms": 17.1},
    "warm": {"first_answer_s": 12.5, "second_request_ms": 30.0, "tenth_request_ms": 19.0},
    "reload": {"unloaded_s": [3.0, 2.9, 3.2], "loaded_s": [0.01] * 3},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    for name, found in (("engine_cuda", ENGINE), ("engine_cpu", CPU), ("serve_cuda", SERVE)):
        (results / f"{name}.json").write_text(json.dumps(found))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "performance.md").write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    return tmp_path


def run(home: Path, *, check: bool = False) -> int:
    return report.run(home / "docs" / "performance.md", home / "benchmarks" / "results", check=check)


def test_figures_stand_between_the_marks_and_link_to_their_files(home: Path) -> None:
    assert run(home) == 0
    text = (home / "docs" / "performance.md").read_text()
    assert text.startswith(f"before\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nafter\n")
    assert "old" not in text
    link = "[json](../benchmarks/results/engine_cuda.json)"
    assert f"| 1 | 4.79 ms | 971 | {link} |" in text
    assert f"| plain `kokoro` model, one at a time, same card, same run | 94.6 ms | 49.2 | {link} |" in text
    link = "[json](../benchmarks/results/serve_cuda.json)"
    assert f"| clips | 1 | 600 | 14 | 8 ms | 16 ms | 0 of 100 | {link} |" in text
    assert f"| streams | 64 | 2,100 | 48.8 | 60 ms | 120 ms | 3 of 103 | {link} |" in text
    one_at_a_time = "clips of a server that takes one at a time"
    assert f"| {one_at_a_time} | 1 | 55 | 1.28 | 80 ms | 160 ms | 0 of 100 | {link} |" in text
    plain = "plain `kokoro` model, one at a time, no server, same card, same run"
    assert f"| {plain} |  | 43 |  |  |  |  | {link} |" in text
    assert "| **ours, ONNX int8** | 2.7 | [json](../benchmarks/results/engine_cpu.json) |" in text
    assert "](../benchmarks/results/serve.svg)" in text
    assert all(line.endswith(("| from |", "--- |", ") |")) for line in text.splitlines() if line.startswith("|"))


def test_without_another_server_there_is_no_line_for_it(home: Path) -> None:
    ours = [run for run in SERVE["runs"] if run["server"] == "kokoro-server"]
    (home / "benchmarks" / "results" / "serve_cuda.json").write_text(json.dumps(SERVE | {"runs": ours}))
    assert run(home) == 0
    text = (home / "docs" / "performance.md").read_text()
    assert "| clips | 1 | 600 | 14 | 8 ms | 16 ms | 0 of 100 | [json]" in text
    assert "a server that takes one at a time" not in text


def test_the_first_audible_sound_has_columns_where_it_was_measured(home: Path) -> None:
    runs = [run | {"first_audible_ms": {"p50": 70.0, "p95": 140.0}} for run in SERVE["runs"]]
    (home / "benchmarks" / "results" / "serve_cuda.json").write_text(json.dumps(SERVE | {"runs": runs}))
    assert run(home) == 0
    text = (home / "docs" / "performance.md").read_text()
    assert "| first audio: p50 | p95 | first audible sound: p50 | its p95 | failed requests |" in text
    assert "| 500 | 11.6 | 9.5 ms | 19 ms | 70 ms | 140 ms | 0 of 100 |" in text


def test_power_and_price(home: Path) -> None:
    runs = [run | {"smi_watts": 500.0} for run in SERVE["runs"]]
    plain = {"audio_per_second": 40.0, "rounds": [30.0, 40.0, 44.0]}
    found = SERVE | {"runs": runs, "plain_model": plain}
    (home / "benchmarks" / "results" / "serve_cuda.json").write_text(json.dumps(found))
    assert run(home) == 0
    text = (home / "docs" / "performance.md").read_text()
    assert "| audio-hours per kWh of the card | audio-hours per dollar, at 3 dollars an hour |" in text
    assert "| 600 | 15 | 8 ms | 16 ms | 0 of 100 | 500 | 1,200 | 200 |" in text
    assert "| 40 (30 to 44 in 3 rounds) |" in text


def test_several_forms_and_the_busy_share(home: Path) -> None:
    (home / "benchmarks" / "results" / "serve_cuda.json").write_text(json.dumps(FORMS))
    assert run(home) == 0
    text = (home / "docs" / "performance.md").read_text()
    assert "| clips | 64 | 4,300 | 100 | 80 ms | 160 ms | 0 of 100 | 97 % | [json]" in text
    assert "| clips, `SERVER_PROCESSES=1` | 64 | 3,100 | 72.1 | 90 ms | 180 ms | 0 of 100 | 80 % | [json]" in text
    picture = (home / "benchmarks" / "results" / "serve.svg").read_text()
    assert "4,300" in picture
    assert "3,100" not in picture


def test_starts_cold_warm_and_after_unloading(home: Path) -> None:
    (home / "benchmarks" / "results" / "start_cuda.json").write_text(json.dumps(START))
    assert run(home) == 0
    text = (home / "docs" / "performance.md").read_text()
    assert "| nothing in the page cache, as after a boot | 13.6 s | 26.6 ms | 17.1 ms | [json]" in text
    assert "| all files in memory | 12.5 s | 30 ms | 19 ms | [json]" in text
    assert "| the model was unloaded | 3 s |  |  | [json]" in text


def test_bulk_beside_others(home: Path) -> None:
    waits = {"first_audio_ms": {"p50": 10.0, "p95": 20.0}, "audio_per_second": 100.0}
    windows = {
        "bulk": {"bulk_audio_per_second": 4_800.0},
        "listeners": {"streams": waits},
        "bulk_and_listeners": {"bulk_audio_per_second": 4_400.0, "streams": waits},
    }
    ratios = {"bulk_by_engine": 0.96, "share_beside_listeners": 0.9}
    found = {"device": "NVIDIA H200", "streams": 16, "windows": windows, "ratios": ratios}
    (home / "benchmarks" / "results" / "bulk_cuda.json").write_text(json.dumps(found))
    assert run(home) == 0
    text = (home / "docs" / "performance.md").read_text()
    assert "| nobody | 4,800 | 96 % |  |  | [json](../benchmarks/results/bulk_cuda.json) |" in text
    assert "| 4,400 | 90 % | 10 ms, 20 ms | 10 ms, 20 ms | [json](../benchmarks/results/bulk_cuda.json) |" in text
    assert "ask again at once" not in text  # which was not measured


def test_written_twice_is_written_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(home)
    before = (home / "docs" / "performance.md").read_text(), (home / "benchmarks" / "results" / "serve.svg").read_text()
    assert run(home) == 0
    assert before == (
        (home / "docs" / "performance.md").read_text(),
        (home / "benchmarks" / "results" / "serve.svg").read_text(),
    )
    assert capsys.readouterr().out.endswith("up to date\n")


def test_check_fails_where_something_is_out_of_date_and_writes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (home / "docs" / "performance.md").read_text()
    assert run(home, check=True) == 1
    assert capsys.readouterr().err.startswith("out of date: performance.md, serve.svg; run 'kokoro-server")
    assert (home / "docs" / "performance.md").read_text() == before
    run(home)
    assert run(home, check=True) == 0
    changed = ENGINE | {"kmodel": {"equal_ms": 50.0, "equal_audio_s_per_s": 93.0}}
    (home / "benchmarks" / "results" / "engine_cuda.json").write_text(json.dumps(changed))
    assert run(home, check=True) == 1


def test_results_that_are_missing_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(home)
    assert "no figures of fidelity_cuda.json: there is no such file" in capsys.readouterr().out


def test_a_page_without_marks_is_refused(home: Path) -> None:
    (home / "docs" / "performance.md").write_text("no marks\n")
    with pytest.raises(ValueError, match="no place for the figures"):
        run(home)


def test_the_picture_is_an_svg_with_a_dot_for_every_figure(home: Path) -> None:
    run(home)
    tree = ElementTree.parse(home / "benchmarks" / "results" / "serve.svg")
    names = [element.tag.rpartition("}")[2] for element in tree.iter()]
    assert names.count("circle") == 2 + 1 + 2 + 2 * (2 + 1)  # throughput of all three, p50 and p95 of both servers
    words = {element.text for element in tree.iter() if element.tag.endswith("text")}
    assert {"Throughput", "Time to first audio", "audio-seconds per second", "milliseconds", "64"} <= words


def test_ticks_are_round_and_few() -> None:
    assert plot.ticks(5, 100) == [5, 10, 20, 50, 100]
    assert plot.ticks(1, 10_000) == [1, 10, 100, 1000, 10_000]


def test_the_command_runs_it(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(logs, "configure", lambda _level: None)
    assert cli.main(["bench", "report", "--help"]) == 0
    assert "usage: kokoro-server bench report" in capfd.readouterr().out
