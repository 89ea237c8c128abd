from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from kokoro_server.cli.settings import entries, render, variables
from kokoro_server.config.fields import SettingGroup
from kokoro_server.config.public import public
from kokoro_server.config.settings import Settings, given_texts
from kokoro_server.errors import ConfigError
from tests import settings_reference

ROOT = Path(__file__).parents[2]


def load(dotenv: Path | None = None, **environ: str) -> Settings:
    return Settings.load(environ, dotenv)


def test_defaults_are_those_users_rely_on() -> None:
    settings = load()
    assert (settings.port, settings.max_tokens_per_chunk, settings.min_tokens_per_chunk) == (8880, 400, 100)
    assert settings.g2p_url is None


def test_environment_wins_over_dotenv_and_empty_means_default(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("PORT=9000\nLOG_LEVEL=debug\nKOKORO_DEVICE=\n# comment\n")
    settings = load(dotenv, PORT="9001")
    assert (settings.port, settings.log_level, settings.device) == (9001, "debug", "auto")


def test_an_empty_variable_of_the_environment_hides_the_one_in_dotenv(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("PORT=9000\n")
    assert load(dotenv, PORT=" ").port == 8880


@pytest.mark.parametrize(
    ("environ", "in_file"),
    [
        ({"ENABLE_BATCHING": "false"}, ""),
        ({}, "ENABLE_BATCHING=false"),
        ({"ENABLE_BATCHING": "false"}, "ENABLE_KOKORO_BATCHING=true"),
        ({"ENABLE_KOKORO_BATCHING": "false"}, "ENABLE_BATCHING=true"),
        ({"ENABLE_KOKORO_BATCHING": "false", "ENABLE_BATCHING": "false"}, "ENABLE_KOKORO_BATCHING=true"),
        ({"ENABLE_BATCHING": " "}, "ENABLE_KOKORO_BATCHING=false"),
        ({"ENABLE_KOKORO_BATCHING": "", "ENABLE_BATCHING": "false"}, "ENABLE_KOKORO_BATCHING=true"),
    ],
)
def test_the_environment_wins_over_dotenv_under_either_name(
    tmp_path: Path, environ: dict[str, str], in_file: str
) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text(in_file)
    assert not load(dotenv, **environ).batching


def test_an_older_spelling_in_the_environment_wins_over_a_copied_env_example() -> None:
    settings = load(ROOT / ".env.example", ENABLE_BATCHING="false", BATCH_TIMEOUT_MS="20")
    assert (settings.batching, settings.max_wait_ms) == (False, 20)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("MAX_BATCH_SIZE", "MAX_CLIPS_PER_REQUEST", "max_clips_per_request"),
        ("KOKORO_MAX_BATCH_SIZE", "MAX_ROWS_PER_PASS", "max_rows_per_pass"),
        ("MAX_BATCH_TEXT_LENGTH", "MAX_TOKENS_PER_PASS", "max_tokens_per_pass"),
        ("JOB_TIMEOUT", "BULK_QUEUE_TIMEOUT", "bulk_queue_timeout"),
    ],
)
def test_a_renamed_setting_is_read_by_both_names_and_shown_by_the_old_one(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text(f"{old}=600\n")
    for settings in (load(**{old: "600"}), load(**{new: "600"}), load(**{old: "600", new: "600"}), load(dotenv)):
        assert getattr(settings, key) == public(settings)[old] == 600
        assert new not in public(settings)


def test_two_names_of_one_setting_with_different_values_are_refused(tmp_path: Path) -> None:
    both = "KOKORO_GPU_PRECISION='fp32' and KOKORO_PRECISION='fp16': two names of one setting"
    with pytest.raises(ConfigError, match=both):
        load(KOKORO_PRECISION="fp16", KOKORO_GPU_PRECISION="fp32")
    dotenv = tmp_path / ".env"
    dotenv.write_text("KOKORO_PRECISION=fp16\nKOKORO_GPU_PRECISION=fp32\n")
    with pytest.raises(ConfigError, match=both):
        load(dotenv)
    assert load(dotenv, KOKORO_PRECISION="fp16", KOKORO_GPU_PRECISION="").gpu_precision == "fp16"


def test_what_a_replica_gets_has_the_newest_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("KOKORO_MAX_WAIT_MS=50\nMAX_BATCH_SIZE=7\n")
    monkeypatch.setenv("BATCH_TIMEOUT_MS", "20")
    given = given_texts()
    assert (given["KOKORO_MAX_WAIT_MS"], given["MAX_CLIPS_PER_REQUEST"]) == ("20", "7")


def test_a_short_wait_alone_is_no_contradiction() -> None:
    settings = load(KOKORO_MAX_WAIT_MS="5")
    assert (settings.max_wait_ms, settings.min_wait_ms) == (5, 5)
    with pytest.raises(ConfigError, match="KOKORO_MIN_WAIT_MS=8: must not exceed KOKORO_MAX_WAIT_MS=5"):
        load(KOKORO_MAX_WAIT_MS="5", KOKORO_MIN_WAIT_MS="8")
    assert load(KOKORO_MAX_WAIT_MS="5", KOKORO_MIN_WAIT_MS="10").min_wait_ms == 5  # as .env.example has it


def test_an_error_names_the_spelling_that_was_used() -> None:
    with pytest.raises(ConfigError, match=r"^BATCH_TIMEOUT_MS='soon': must be a number from 0 to 10000$"):
        load(BATCH_TIMEOUT_MS="soon")


def test_dotenv_is_taken_literally(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("G2P_SERVICE_URL=http://user:${HOME}@g2p\nport=1\ndevice=cpu\n")
    settings = load(dotenv, host="elsewhere")
    assert settings.g2p_url == "http://user:${HOME}@g2p"
    assert (settings.host, settings.port, settings.device) == ("127.0.0.1", 8880, "auto")


def test_a_dotenv_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_bytes(b"PORT=\xff\n")
    with pytest.raises(ConfigError, match=r"\.env: cannot be read \("):
        load(dotenv)
    assert load(tmp_path / "missing") == load(tmp_path) == load()


def test_settings_by_keyword_read_no_environment_and_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "9000")
    settings = Settings(device="cpu", devices=())
    assert (settings.port, settings.device) == (8880, "cpu")
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("PORT", " 9_000\t", "port", 9000),
        ("PORT", "0", "port", 0),
        ("KOKORO_MIN_WAIT_MS", "1e0", "min_wait_ms", 1.0),
        ("LOG_LEVEL", " DEBUG ", "log_level", "debug"),
        ("ENABLE_KOKORO_BATCHING", "Off", "batching", False),
        ("G2P_SERVICE_URL", "http://g2p:5000//", "g2p_url", "http://g2p:5000"),
        ("LEXICON_PATH", "~/words", "lexicon_path", Path.home() / "words"),
        ("PAUSES", "Sentence=0.5, paragraph = 1", "pauses", (("sentence", 0.5), ("paragraph", 1.0))),
    ],
)
def test_text_becomes_a_value(name: str, value: str, field: str, expected: object) -> None:
    assert getattr(load(**{name: value}), field) == expected


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("PORT", "http", "a whole number from 0 to 65535"),
        ("PORT", "70000", "a whole number from 0 to 65535"),
        ("PORT", "9000.5", "a whole number from 0 to 65535"),
        ("KOKORO_IDLE_UNLOAD_S", "-1", "a number from 0 to 31536000"),
        ("ENABLE_KOKORO_BATCHING", "maybe", "true or false"),
        ("FIRST_CHUNK_MAX_TOKENS", "none", "a whole number from 1 to 510"),
        ("LOG_LEVEL", "loud", "one of debug, info, warning, error"),
        ("G2P_TIMEOUT", "nan", "a number from 0.1 to 600"),
        ("G2P_SERVICE_URL", "localhost:5000", "a URL such as"),
        ("KOKORO_DEVICE", "gpu", "one of auto, cpu, cuda"),
        ("KOKORO_DEVICE", "cpu:1", "one of auto, cpu, cuda"),
        ("KOKORO_DEVICES", "0,one", "GPU numbers such as 0,1"),
        ("KOKORO_DEVICES", "0,,1", "GPU numbers such as 0,1"),
        ("KOKORO_DEVICES", "0,auto", "GPU numbers such as 0,1"),
        ("PAUSES", "sentence", "seconds from 0 to 10 for comma, semicolon, sentence, paragraph"),
        ("PAUSES", "chapter=1", "seconds from 0 to 10"),
        ("PAUSES", "sentence=nan", "seconds from 0 to 10"),
        ("KOKORO_ASSET_SOURCE", "ftp", "one of auto, hf, npm, pypi, path"),
    ],
)
def test_bad_value_names_variable_value_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**{name: value})
    message = str(caught.value)
    assert name in message
    assert repr(value) in message
    assert allowed in message
    assert "\n" not in message


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="MIN_TOKENS_PER_CHUNK=300: must not exceed MAX_TOKENS_PER_CHUNK=200"):
        load(MIN_TOKENS_PER_CHUNK="300", MAX_TOKENS_PER_CHUNK="200")
    with pytest.raises(ConfigError, match="KOKORO_DEVICES=cuda:0,cuda:1: not together with KOKORO_DEVICE=cpu"):
        load(KOKORO_DEVICE="cpu", KOKORO_DEVICES="0,1")
    with pytest.raises(ConfigError, match="KOKORO_MODEL_PATH"):
        load(KOKORO_ASSET_SOURCE="path")


@pytest.mark.parametrize(
    ("given", "devices"),
    [
        ("", ()),
        ("0", ("cuda:0",)),
        ("0,1", ("cuda:0", "cuda:1")),
        (" 1 , 1,cuda, CUDA:3", ("cuda:1", "cuda:1", "cuda:0", "cuda:3")),
        ("cpu,cpu", ("cpu", "cpu")),
    ],
)
def test_devices_by_number_or_name(given: str, devices: tuple[str, ...]) -> None:
    assert load(KOKORO_DEVICE="auto", KOKORO_DEVICES=given).devices == devices


def test_misspelt_kokoro_variable_is_pointed_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load(KOKORO_DEVISE="cpu")
    assert "KOKORO_DEVISE" in caplog.text


def test_public_view_hides_credentials() -> None:
    shown = public(load(G2P_SERVICE_URL="http://user:secret@g2p:5000"))
    assert shown["G2P_SERVICE_URL"] == "http://g2p:5000"
    assert shown["PORT"] == 8880


def test_env_example_explains_every_setting_and_only_those() -> None:
    text = (ROOT / ".env.example").read_text()
    assigned = set(re.findall(r"^([A-Z][A-Z0-9_]+)=", text, re.MULTILINE))
    assert assigned <= set(variables())
    assert [name for name in variables() if not re.search(rf"\b{name}\b", text)] == []


def test_env_example_is_what_the_settings_say_of_themselves() -> None:
    """When it is not: `python -m tests.env_example > .env.example`."""
    assert (ROOT / ".env.example").read_text() == render()


def test_the_reference_is_what_the_settings_say_of_themselves() -> None:
    """When it is not: `python -m tests.settings_reference > docs/operate/settings.md`."""
    assert (ROOT / "docs/operate/settings.md").read_text() == settings_reference.render()


def test_every_setting_is_described_and_at_most_twenty_are_for_every_day() -> None:
    groups = [list(entries(group)) for group in SettingGroup]
    assert all(entry.description for entries in groups for entry in entries)
    assert sum(map(len, groups)) == len(Settings.model_fields)
    assert len(groups[0]) <= 20


def test_documents_name_only_settings_that_exist() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"\bKOKORO_[A-Z0-9_]+\b", page.read_text())}
    assert named - {*variables()} == set()


def test_env_example_loads_as_it_is_and_holds_the_defaults() -> None:
    assert Settings.load({}, ROOT / ".env.example") == Settings.load({}, None)
