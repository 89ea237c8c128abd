from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from kokoro_server.config import Settings, variables
from kokoro_server.errors import ConfigError

ROOT = Path(__file__).parent.parent


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


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("PORT", "http", "a whole number from 0 to 65535"),
        ("PORT", "70000", "a whole number from 0 to 65535"),
        ("LOG_LEVEL", "loud", "one of debug, info, warning, error"),
        ("G2P_TIMEOUT", "nan", "a number from 0.1 to 600"),
        ("G2P_SERVICE_URL", "localhost:5000", "a URL such as"),
        ("KOKORO_DEVICE", "gpu", "one of auto, cpu, cuda"),
        ("KOKORO_DEVICE", "cpu:1", "one of auto, cpu, cuda"),
        ("KOKORO_DEVICES", "0,one", "GPU numbers such as 0,1"),
        ("KOKORO_DEVICES", "0,,1", "GPU numbers such as 0,1"),
        ("KOKORO_DEVICES", "0,auto", "GPU numbers such as 0,1"),
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
    shown = load(G2P_SERVICE_URL="http://user:secret@g2p:5000").public()
    assert shown["G2P_SERVICE_URL"] == "http://g2p:5000"
    assert shown["PORT"] == 8880


def test_env_example_explains_every_setting_and_only_those() -> None:
    text = (ROOT / ".env.example").read_text()
    assigned = set(re.findall(r"^([A-Z][A-Z0-9_]+)=", text, re.MULTILINE))
    assert assigned <= set(variables())
    assert [name for name in variables() if not re.search(rf"\b{name}\b", text)] == []


def test_env_example_loads_as_it_is_and_holds_the_defaults() -> None:
    assert Settings.load({}, ROOT / ".env.example") == Settings.load({}, None)
