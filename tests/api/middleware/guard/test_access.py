"""The settings that say who may use the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from kokoro_server.api.middleware.guard.middleware import configured_keys
from kokoro_server.cli import doctor
from kokoro_server.config import access
from kokoro_server.config.public import public
from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError


def load(**environ: str) -> Settings:
    return Settings.load(environ, None)


def names(settings: Settings) -> list[str]:
    return [key.name for key in configured_keys(settings)]


def test_keys_have_names() -> None:
    keys = load(API_KEYS=" alice=secret-one , bob = c2VjcmV0LXR3bw== ,").api_keys
    assert [key.name for key in keys] == ["alice", "bob"]
    assert access.name_of(b"secret-one", keys) == "alice"
    assert access.name_of(b"c2VjcmV0LXR3bw==", keys) == "bob"
    for wrong in (b"", b"secret-on", b"secret-one ", b"SECRET-ONE", b"alice"):
        assert access.name_of(wrong, keys) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hunter2-hunter2", "entry 1 is not name=key"),
        ("alice=hunter2-hunter2,hunter2-again", "entry 2 is not name=key"),
        ("=hunter2-hunter2", "entry 1 is not name=key"),
        ("a b=hunter2-hunter2", "entry 1 is not name=key"),
        ("alice=hunter2", "entry 1: a key needs at least 8 characters"),
        ("aHVudGVyMi1odW50ZXIy==", "entry 1: a key needs at least 8 characters"),
        ("alice=hunter2 hunter2", "entry 1: a key has printable ASCII characters"),
        ("alice=hunter2-hunter2ü", "entry 1: a key has printable ASCII characters"),
        ("alice=hunter2-one,alice=hunter2-two", "the name alice is given twice"),
        ("alice=hunter2-one,bob=hunter2-one", "alice and bob have the same key"),
        (",", "holds no key"),
    ],
)
def test_an_error_says_what_is_wrong_and_shows_no_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(API_KEYS=text)
    assert caught.value.message.startswith(f"API_KEYS: {problem}")
    assert "hunter2" not in caught.value.message
    assert "aHVudGVy" not in caught.value.message


def test_keys_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# the kitchen\nalice=secret,one\n\n  bob = secret-two\r\n")
    settings = load(API_KEYS_FILE=str(file))
    assert names(settings) == ["alice", "bob"]
    assert access.name_of(b"secret,one", configured_keys(settings)) == "alice"
    assert names(load(API_KEYS="carol=secret-three", API_KEYS_FILE=str(file))) == ["carol", "alice", "bob"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"# nothing\n", "holds no key"),
        (b"\xff\xfe=hunter2-hunter2", "is no UTF-8 text"),
        (b"bob=hunter2-hunter2", "the name bob is given twice"),
        (b"carol=secret-two", "bob and carol have the same key"),
        (b"# c\nhunter2-hunter2", "entry 2 is not name=key"),
    ],
)
def test_a_bad_file_of_keys_stops_the_start(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        configured_keys(load(API_KEYS="bob=secret-two", API_KEYS_FILE=str(file)))
    assert caught.value.message.startswith(f"API_KEYS_FILE={file}: {problem}")
    assert "hunter2" not in caught.value.message


def test_no_view_of_the_settings_shows_a_key(tmp_path: Path) -> None:
    settings = load(API_KEYS="alice=hunter2-one", KOKORO_API_KEY="hunter2-two", LEXICON_PATH=str(tmp_path / "words"))
    for view in (repr(settings), str(settings), str(public(settings)), str(settings.model_dump())):
        assert "hunter2" not in view
    shown = public(settings)
    assert shown["API_KEYS"] == ["alice"]
    assert shown["LEXICON_PATH"] == "words"
    assert str(tmp_path) not in str(shown)
    assert settings.key_to_send == "hunter2-two"
    assert doctor.keys(settings).detail == "1: alice"
    assert "API_KEYS" in doctor.keys(load(HOST="0.0.0.0")).advice
    assert doctor.keys(load()).advice == ""


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            "CORS_ORIGINS",
            "https://Example.org/, http://localhost:3000",
            ("https://example.org", "http://localhost:3000"),
        ),
        ("CORS_ORIGINS", "*", ("*",)),
        ("CORS_ORIGINS", "null,chrome-extension://abc", ("null", "chrome-extension://abc")),
        ("FORWARDED_ALLOW_IPS", "10.0.0.0/8, ::1", ("10.0.0.0/8", "::1")),
        ("FORWARDED_ALLOW_IPS", "*", ("*",)),
        ("ALLOWED_HOSTS", "Speech.example.org, *.lan,[::2]", ("speech.example.org", "*.lan", "::2")),
    ],
)
def test_lists_of_origins_and_hosts(name: str, value: str, expected: tuple[str, ...]) -> None:
    assert getattr(load(**{name: value}), name.lower()) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CORS_ORIGINS", "example.org"),
        ("CORS_ORIGINS", "https://example.org/path"),
        ("CORS_ORIGINS", "https://example.org:port"),
        ("CORS_ORIGINS", "https://*.example.org"),
        ("ALLOWED_HOSTS", "http://example.org"),
        ("ALLOWED_HOSTS", "example.org:8880"),
        ("ALLOWED_HOSTS", "exa mple"),
        ("FORWARDED_ALLOW_IPS", "proxy"),
        ("FORWARDED_ALLOW_IPS", "*,10.0.0.1"),
        ("RATE_LIMIT", "-1"),
        ("MAX_CONCURRENT_REQUESTS", "many"),
    ],
)
def test_other_values_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}="):
        load(**{name: value})


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:8880", True),
        ("LOCALHOST.", True),
        ("app.localhost", True),
        ("127.0.0.1:8880", True),
        ("127.8.9.10", True),
        ("[::1]:8880", True),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("notlocalhost", False),
        ("192.168.1.2", False),
        ("[::2]", False),
        ("", False),
    ],
)
def test_names_of_the_machine_itself(host: str, expected: bool) -> None:
    assert access.is_loopback(access.host_name(host)) is expected
