"""The command line as such: what it accepts, refuses and prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kokoro_server.cli import bench, voices
from kokoro_server.cli import main as cli
from kokoro_server.config.settings import Settings
from kokoro_server.observability import logs
from tests import servers

COMMANDS = ("serve", "g2p", "say", "voices", "assets", "bench", "settings", "doctor", "service")


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, and without taking the log away from pytest."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "configure", lambda _level: None)


def test_without_arguments_it_says_how_to_serve(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    shown = capsys.readouterr()
    assert "kokoro-server serve" in shown.out
    assert shown.err == ""


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"\n    {command} " in shown for command in COMMANDS)
    assert "examples:" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: kokoro-server {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["say"], "one of the arguments text -f/--file is required"),
        (["say", "Hello.", "-f", "book.txt"], "not allowed with argument"),
        (["say", "Hello.", "-s", "9"], "'9' is not a number from 0.25 to 4"),
        (["say", "Hello.", "-s", "nan"], "'nan' is not a number from 0.25 to 4"),
        (["serve", "--port", "70000"], "'70000' is not a whole number from 0 to 65535"),
        (["g2p", "--port", "-1"], "'-1' is not a whole number from 0 to 65535"),
        (["service", "install", "--print", "--port", "99999"], "'99999' is not a whole number"),
        (["cluster", "up", "--replicas", "0"], "'0' is not a whole number from 1 on"),
        (["say", "Hello.", "--url", "localhost:8880"], "'localhost:8880' is not like http://127.0.0.1:8880"),
        (["voices", "--url", "http://localhost:port"], "is not like http://127.0.0.1:8880"),
        (["mcp", "--url", "localhost"], "is not like http://127.0.0.1:8880"),
        (["sing"], "invalid choice: 'sing'"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["say", "Hello.", "-o", "hello.exe"], "hello.exe: the format is that of the file's suffix"),
        (["say", " ", "-o", "hello.wav"], "there is nothing to say"),
        (["say", "-f", "gone.txt", "-o", "hello.wav"], "gone.txt: cannot be read"),
        (["say", "Hello.", "-o", "hello.wav", "--url", "http://127.0.0.1:9"], "http://127.0.0.1:9 cannot be reached"),
        (["voices", "--url", "http://127.0.0.1:9"], "http://127.0.0.1:9 cannot be reached"),
        (["voices", "-l", "klingon"], "unknown language 'klingon'; use one of en-US"),
        (["voices", "-l", "de"], "no voice speaks de; models of other languages go into MODELS_PATH"),
        (
            ["say", "Hi", "-o", "a.wav", "-v", "nosuch"],
            "there is no voice 'nosuch'; 'kokoro-server voices' lists them.",
        ),
        (["say", "Hi", "-o", "a.wav", "-l", "klingon"], "unknown language 'klingon'; use one of en-US"),
        (["say", "Hi", "-o", "a.wav", "--loudness", "-18"], "--loudness is for books: name a document"),
        (["say", "Hi", "-o", "a.wav", "--loudness", "off"], "--loudness is for books: name a document"),
        (["bulk", "-", "out", "-v", "af_hart"], "there is no voice 'af_hart'; did you mean af_heart"),
        (["bench", "nothing"], "there is no benchmark 'nothing'; there are beginnings, bulk, "),
    ],
)
def test_a_failure_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"kokoro-server: {says}")
    assert shown.err.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_a_missing_key_names_its_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with servers.running(servers.TINY, tmp_path / "log", API_KEYS="me=0123456789abcdef") as server:
        for arguments in (["voices"], ["say", "Hello.", "-o", "hello.wav"], ["say", "5", "--explain"]):
            assert cli.main([*arguments, "--url", server.url]) == 1
            said = capsys.readouterr().err
            assert said.startswith("kokoro-server: this server needs an API key")
            assert said.endswith("; this command sends that of KOKORO_API_KEY\n")


def test_no_player_is_one_line_that_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["say", "Hello."]) == 1
    assert "-o FILE" in capsys.readouterr().err


def test_settings_are_printed_as_a_file_that_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["settings"]) == 0
    printed = capsys.readouterr().out
    assert "# Port that the speech server listens on. 0 takes a free one.\nPORT=8880\n" in printed
    assert "KOKORO_GROUPING=mixed" in printed  # also those for experts
    Path(".env").write_text(printed)
    assert Settings.load() == Settings.load(dotenv=None)


def test_voices_are_listed_by_language(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["voices"]) == 0
    everyone = capsys.readouterr().out.splitlines()
    assert len(everyone) == 54
    assert cli.main(["voices", "--language", "en-gb"]) == 0
    british = capsys.readouterr().out.splitlines()
    assert "bf_emma          en-GB  female  B-" in british
    assert {line.split()[1] for line in british} == {"en-GB"}
    assert set(british) < set(everyone)


def test_voices_of_ones_own_are_listed_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "voices.json").write_text('{"narrador": "ef_dora+bm_george"}')
    monkeypatch.setenv("VOICES_PATH", str(tmp_path))
    assert cli.main(["voices", "--language", "es"]) == 0
    assert "narrador         es     female" in capsys.readouterr().out.splitlines()
    assert cli.main(["say", "--explain", "--voice", "narrador", "5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "cinco"
    assert cli.main(["say", "--explain", "--voice", "narador", "5"]) == 1
    assert "did you mean narrador" in capsys.readouterr().err
    (tmp_path / "voices.json").write_text("{")
    assert cli.main(["voices"]) == 1
    assert f"VOICES_PATH={tmp_path}: voices.json: Expecting" in capsys.readouterr().err
    monkeypatch.setenv("VOICES_PATH", "nowhere")
    assert cli.main(["voices"]) == 1
    assert capsys.readouterr().err.endswith("VOICES_PATH=nowhere: there is no such folder or file; create it\n")


def test_voices_that_cannot_be_used_are_marked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "unidic_lite", None)
    assert cli.main(["voices"]) == 0
    marked = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" not installed")]
    assert {line.split()[1] for line in marked} == {"ja"}


def test_bench_runs_what_is_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    assert cli.main(["bench"]) == 1
    assert "clone the repository" in capsys.readouterr().err
    (tmp_path / "benchmarks").mkdir()
    script = "import pathlib, sys; pathlib.Path('ran').write_text(' '.join(sys.argv[1:]))"
    (tmp_path / "benchmarks" / "fast_bench.py").write_text(script)
    assert cli.main(["bench", "fast", "--rows", "3"]) == 0
    assert (tmp_path / "ran").read_text() == "--rows 3"
    (tmp_path / "benchmarks" / "bad_bench.py").write_text("raise SystemExit(3)")
    assert cli.main(["bench"]) == 1
    assert capsys.readouterr().err == "kokoro-server: failed: bad\n"
    assert (tmp_path / "ran").read_text() == ""


def test_an_interrupt_is_shown_by_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(voices, "run", interrupted)
    assert cli.main(["voices"]) == 130
