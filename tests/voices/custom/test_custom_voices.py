"""The user's voices, from a folder, as the server sees them."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kokoro_server.assets import files
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM
from kokoro_server.errors import (
    ConfigError,
    Conflict,
    Forbidden,
    InvalidInput,
    NoSuchVoice,
    TooBusy,
    Unavailable,
    UnknownVoice,
)
from kokoro_server.voices import Pack, VoiceBook, book
from kokoro_server.voices.custom import CustomVoices, definitions, keeper
from kokoro_server.voices.custom import files as own_files
from kokoro_server.voices.custom.assembly import Assembly
from kokoro_server.voices.custom.owners import VoiceEditor
from kokoro_server.voices.names import resolve
from tests import tiny

SHAPE = (MAX_TOKENS, 1, STYLE_DIM)
OPERATOR = VoiceEditor("")  # owns nothing


def make_pack(seed: int = 7) -> Pack:
    return np.random.default_rng(seed).normal(scale=0.3, size=SHAPE).astype("<f4")


@pytest.fixture(scope="module")
def built_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_voices(tmp_path_factory.mktemp("built-in"))


class Setup:
    """A folder of the user's, and a book that watches it."""

    def __init__(self, folder: Path, built_in: Path) -> None:
        self.folder = folder
        self.book = VoiceBook(built_in)
        self.own = CustomVoices(folder, self.book.built_in())
        self.book.attach(self.own)

    def write(self, **entries: Any) -> None:
        write(self.folder, entries)

    def trouble(self) -> str:
        return self.own.condition.current.message if self.own.condition.current else ""


def write(folder: Path, entries: Any) -> None:
    (folder / "voices.json").write_text(entries if isinstance(entries, str) else json.dumps(entries))


@pytest.fixture
def at(tmp_path: Path, built_in: Path) -> Setup:
    return Setup(tmp_path, built_in)


async def test_blends_have_names_languages_and_styles(at: Setup) -> None:
    at.write(
        narrator="bf_emma(2)+af_sky(1)",
        helena={"voice": "narrator", "language": "en_us", "gender": "male", "title": "Helena M."},
        both="narrator-af_bella(0.5)",
    )
    await at.book.refresh()
    assert at.book.names()[-3:] == ["both", "helena", "narrator"]
    narrator, helena = at.book.info("narrator"), at.book.info("helena")
    assert (narrator.title, narrator.language, narrator.gender, narrator.grade) == ("Narrator", "b", "female", None)
    assert (helena.title, helena.language, helena.gender) == ("Helena M.", "a", "male")
    assert (narrator.blend, helena.blend) == ("bf_emma(2)+af_sky(1)", "narrator")
    emma, sky, bella = (at.book.pack(name) for name in ("bf_emma", "af_sky", "af_bella"))
    np.testing.assert_allclose(at.book.pack("helena"), (2 * emma + sky) / 3, atol=1e-6)
    np.testing.assert_allclose(at.book.pack("both"), ((2 * emma + sky) * 2 / 3 - bella) / 3, atol=1e-6)
    assert at.book.canonical("narrator(2)+af_sky:1") == "narrator(2)+af_sky(1)"
    assert at.book.language("narrator+af_sky") == "b"
    assert at.book.language("af_sky+narrator") == "a"
    with pytest.raises(UnknownVoice, match="did you mean narrator"):
        at.book.canonical("narator")


async def test_a_name_may_have_hyphens_also_in_a_mix(at: Setup) -> None:
    at.write(**{"aura-2-helena-en": "af_heart", "v1.5": "am_adam", "aura-2": "ef_dora"})
    await at.book.refresh()
    assert at.book.canonical(" aura-2-helena-en ") == "aura-2-helena-en"
    for spec in ("aura-2-helena-en(2)+af_sky(1)", "aura-2-helena-en-af_sky", "af_sky-aura-2", "v1.5+aura-2"):
        assert at.book.canonical(spec) == spec
        assert at.book.canonical(at.book.canonical(spec)) == spec
    np.testing.assert_array_equal(at.book.pack("aura-2-helena-en"), at.book.pack("af_heart"))
    at.write(**{"af_heart-af_sky": "af_bella"})
    await at.book.refresh()
    assert "would hide the mix" in at.trouble()


async def test_an_openai_name_may_be_given_to_another_voice(at: Setup) -> None:
    assert at.book.canonical("coral") == "af_bella"
    assert at.book.canonical("coral(2)+marin") == "af_bella(2)+af_heart(1)"
    at.write(coral="am_adam")
    await at.book.refresh()
    assert at.book.canonical("coral") == "coral"
    np.testing.assert_array_equal(at.book.pack("coral"), at.book.pack("am_adam"))


async def test_packs_of_the_folder(at: Setup, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    torch.save(torch.from_numpy(make_pack(1)), at.folder / "zm_mine.pt")
    torch.save(torch.from_numpy(make_pack(2))[:, 0].double(), at.folder / "granny.pt")
    (at.folder / "raw.bin").write_bytes(make_pack(3).tobytes())
    (at.folder / "._raw.bin").write_bytes(b"what macOS leaves behind")
    at.write(granny={"language": "en-GB", "gender": "female"}, mixed="granny+raw")
    await at.book.refresh()
    assert at.trouble() == ""
    shown = {name: at.book.info(name) for name in ("zm_mine", "granny", "raw", "mixed")}
    assert {name: (info.language, info.gender) for name, info in shown.items()} == {
        "zm_mine": ("z", "male"),
        "granny": ("b", "female"),
        "raw": ("a", "female"),
        "mixed": ("b", "female"),
    }
    assert shown["zm_mine"].title == "Mine"
    for name, seed in (("zm_mine", 1), ("granny", 2), ("raw", 3)):
        np.testing.assert_array_equal(at.book.pack(name), make_pack(seed).reshape(MAX_TOKENS, STYLE_DIM))
    assert [line for line in caplog.messages if "neither its name" in line and "en-US" in line and "voice raw" in line]
    assert not [line for line in caplog.messages if "neither its name" in line and "granny" in line]


BAD_PACKS = {
    "empty.bin": b"",
    "short.bin": make_pack().tobytes()[:-4],
    "huge.bin": b"\0" * 3_000_000,
    "nan.bin": np.full(SHAPE, np.nan, "<f4").tobytes(),
    "loud.bin": (make_pack() * 1000).tobytes(),
    "sparse.bin": make_pack().tobytes()[:-2048] + bytes(2048),  # a download that was broken off
    "no_zip.pt": b"\x80\x02K\x01.",
}


@pytest.mark.parametrize(
    "name", [*BAD_PACKS, "of_shape.pt", "of_ints.pt", "folder.pt", "link.bin", "af_sky.bin", "a b.bin"]
)
async def test_a_pack_that_cannot_be_used_costs_only_itself(at: Setup, name: str) -> None:
    path = at.folder / name
    if name in BAD_PACKS:
        path.write_bytes(BAD_PACKS[name])
    elif name == "of_shape.pt":
        torch.save(torch.from_numpy(make_pack()).reshape(STYLE_DIM, MAX_TOKENS), path)
    elif name == "of_ints.pt":
        torch.save(torch.ones(SHAPE, dtype=torch.int32), path)
    elif name == "folder.pt":
        path.mkdir()
    elif name == "link.bin":
        path.symlink_to(at.folder / "nowhere")
    else:
        path.write_bytes(make_pack().tobytes())
    (at.folder / "good.bin").write_bytes(make_pack().tobytes())
    entries = {"fine": "good+af_sky"}
    if path.stem not in ("af_sky", "a b"):
        entries["needs_it"] = f"af_sky+{path.stem}"
    at.write(**entries)
    await at.book.refresh()
    assert name in at.trouble()
    assert ("needs_it" in at.trouble()) == ("needs_it" in entries)
    assert set(at.own.voices) == {"good", "fine"}
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    at.write(fine="good+af_sky")
    await at.book.refresh()
    assert at.trouble() == ""


def test_a_damaged_pack_does_not_stop_the_start(tmp_path: Path, built_in: Path) -> None:
    (tmp_path / "bad.bin").touch()
    assert "bad.bin" in Setup(tmp_path, built_in).trouble()


async def test_a_pack_that_is_replaced_is_heard_and_while_it_is_being_written_the_old_one_stays(at: Setup) -> None:
    path = at.folder / "mine.bin"
    path.write_bytes(make_pack(1).tobytes())
    at.write(like_mine="mine")
    await at.book.refresh()
    held = await at.book.hold("like_mine+af_sky")
    for content, heard in ((make_pack(2).tobytes()[:1000], 1), (make_pack(2).tobytes(), 2)):
        path.write_bytes(content)
        await at.book.refresh()
        for name in ("mine", "like_mine"):
            np.testing.assert_array_equal(at.book.pack(name), make_pack(heard).reshape(MAX_TOKENS, STYLE_DIM))
        assert bool(at.trouble()) == (heard == 1)
    now = await at.book.hold("like_mine+af_sky")
    assert not np.array_equal(held.style(5), now.style(5)), "mixes of it are new as well"


BROKEN: list[tuple[Any, str]] = [
    ("{", "voices.json: Expecting"),
    ("[1]", "must be an object"),
    ('{"a": "af_sky", "a": "af_bella"}', "'a' occurs twice"),
    ("[" * 50_000, "nested too deeply"),
    ("\n" * 4_000_001, "more than 4,000,000 bytes"),
    ({"a": "nobody"}, "'a': there is no voice 'nobody'"),
    ({"a": "af_sky(x)"}, "'a': voice .* the weight 'x'"),
    ({"a": 5}, "'a': must be a blend"),
    ({"a": {"voice": 5}}, "'a': voice must be text"),
    ({"a": {"voice": "af_sky", "pitch": "2"}}, "unknown field 'pitch'"),
    ({"a": {"voice": "af_sky", "language": "xx"}}, "'a': unknown language 'xx'"),
    ({"a": {"voice": "af_sky", "gender": "robot"}}, "gender must be female or male"),
    ({"a": {"voice": "af_sky", "title": "x\ny"}}, "title must be one line"),
    ({"a": {"language": "en-US"}}, "'a' needs a voice, or a pack"),
    ({"af_sky": "af_bella"}, "'af_sky' is one of the model's own voices"),
    ({"a+b": "af_bella"}, "a name has letters"),
    ({"zoë": "af_bella"}, "a name has letters"),
    ({"x" * 65: "af_bella"}, "a name has letters"),
    ({"a": "af_sky+b", "b": "c", "c": "a"}, "made of itself: a of b of c of a"),
    ({"coral": "coral+af_sky"}, "made of itself"),
    ({f"v{n}": f"v{n - 1}" if n else "af_sky" for n in range(10)}, "more than 8 deep"),
    ({f"v{n}": f"v{n + 1}" if n < 500 else "af_sky" for n in range(501)}, "more than 8 deep"),
    ({f"v{n}": "af_sky" for n in range(1001)}, "at most 1000"),
]


@pytest.mark.parametrize(("entries", "message"), BROKEN)
async def test_a_broken_file_stops_the_start_and_a_broken_change_is_not_used(
    at: Setup, built_in: Path, entries: Any, message: str
) -> None:
    at.write(good="af_sky")
    await at.book.refresh()
    write(at.folder, entries)
    await at.book.refresh()
    assert "last good version stays in use" in at.trouble()
    assert at.book.canonical("good") == "good"
    with pytest.raises(ConfigError, match=message) as caught:
        Setup(at.folder, built_in)
    assert caught.value.message.startswith(f"VOICES_PATH={at.folder}")
    at.write(better="af_sky")
    await at.book.refresh()
    assert (at.trouble(), list(at.own.voices)) == ("", ["better"])


async def test_the_path_must_be_there_and_may_be_a_file_alone(tmp_path: Path, built_in: Path) -> None:
    for missing in (tmp_path / "nowhere", tmp_path / "nothing.json"):
        with pytest.raises(ConfigError, match=missing.name):
            Setup(missing, built_in)
    (tmp_path / "ignored.bin").write_bytes(make_pack().tobytes())
    path = tmp_path / "mine.json"
    path.write_text('{"narrator": "af_sky"}')
    at = Setup(path, built_in)
    assert list(at.own.voices) == ["narrator"]
    path.unlink()
    await at.book.refresh()
    assert "stays in use" in at.trouble()
    assert list(at.own.voices) == ["narrator"]


async def test_a_folder_that_comes_back_as_it_was_is_no_trouble_any_more(at: Setup) -> None:
    away = at.folder.with_name("away")
    for entries in ({}, {"narrator": "af_sky"}):
        if entries:
            at.write(**entries)
            await at.book.refresh()
        at.folder.rename(away)
        await at.book.refresh()
        assert "stays in use" in at.trouble()
        away.rename(at.folder)
        await at.book.refresh()
        assert (at.trouble(), list(at.own.voices)) == ("", list(entries))


async def test_a_file_that_may_be_read_again_is_read(at: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(at.own._files, "entries", lambda: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no")))
        at.write(narrator="af_sky")
        await at.book.refresh()
        assert "stays in use" in at.trouble()
    await at.book.refresh()
    assert (at.trouble(), list(at.own.voices)) == ("", ["narrator"])


async def test_a_pack_whose_rights_change_is_read_again(at: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    path = at.folder / "granny.bin"
    with monkeypatch.context() as patch:
        patch.setattr(own_files, "read_pack", lambda _: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no")))
        path.write_bytes(make_pack().tobytes())
        await at.book.refresh()
        assert at.trouble()
    await asyncio.sleep(0.05)  # the clock of a file system is coarse
    path.chmod(0o600)
    await at.book.refresh()
    assert (at.trouble(), list(at.own.voices)) == ("", ["granny"])


def test_hyphens_in_many_names_cost_little() -> None:
    def seconds(hyphen: str) -> float:
        entries = {f"aura{hyphen}{number}{hyphen}en": "af_sky(2)+af_bella" for number in range(400)}
        started = time.perf_counter()
        Assembly(definitions.parse(entries), {}, tiny.VOICES).voices()
        return time.perf_counter() - started

    assert min(seconds("-") for _ in range(3)) < 10 * min(seconds("_") for _ in range(3))  # once a hundred times


async def test_a_voice_of_another_process_is_known_at_once(at: Setup, built_in: Path) -> None:
    other = Setup(at.folder, built_in)
    await other.own.define("narrator", {"voice": "af_sky"}, OPERATOR)
    assert (await at.book.hold("narrator(2)+af_heart")).name == "narrator(2)+af_heart(1)"
    with pytest.raises(UnknownVoice):
        await at.book.hold("narator+af_heart")


async def test_changes_by_request_are_written_and_checked(at: Setup) -> None:
    at.write(kept={"voice": "af_sky", "title": "Zoë"})
    await at.own.define("a", {"voice": "kept+af_bella"}, OPERATOR)
    await at.own.define("a", {"voice": "kept", "language": "en-GB"}, OPERATOR)
    for name, fields, error in (
        ("a", {"voice": "a"}, InvalidInput),
        ("kept", {"voice": "a"}, InvalidInput),
        ("b", {"voice": "nobody"}, UnknownVoice),
        ("af_sky", {"voice": "af_bella"}, InvalidInput),
    ):
        with pytest.raises(error):
            await at.own.define(name, fields, OPERATOR)
    with pytest.raises(Conflict, match="'a': there is no voice 'kept'"):
        await at.own.remove("kept", OPERATOR)
    with pytest.raises(NoSuchVoice):
        await at.own.remove("af_sky", OPERATOR)
    text = (at.folder / "voices.json").read_text()
    assert json.loads(text) == {
        "kept": {"voice": "af_sky", "title": "Zoë"},
        "a": {"voice": "kept", "language": "en-GB"},
    }
    assert "Zoë" in text
    await at.own.remove("a", OPERATOR)
    assert list(at.own.voices) == ["kept"]
    (at.folder / "mine.bin").write_bytes(make_pack().tobytes())
    with pytest.raises(Conflict, match="delete it there"):
        await at.own.remove("mine", OPERATOR)
    write(at.folder, "{")
    with pytest.raises(Conflict, match="mended first"):
        await at.own.define("b", {"voice": "af_sky"}, OPERATOR)
    assert (at.folder / "voices.json").read_text() == "{"
    assert "stays in use" in at.trouble()


@pytest.mark.parametrize(("number", "error"), [("EROFS", Forbidden), ("EACCES", Forbidden), ("ENOSPC", Unavailable)])
async def test_a_file_that_cannot_be_written_is_told(
    at: Setup, monkeypatch: pytest.MonkeyPatch, number: str, error: type[Exception]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(getattr(errno, number), "no")

    monkeypatch.setattr(files, "atomic_write", refuse)
    with pytest.raises(error, match="cannot be written"):
        await at.own.define("a", {"voice": "af_sky"}, OPERATOR)
    assert "a" not in at.own.voices


async def test_a_disk_that_hangs_delays_nobody_for_long(at: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    awake = threading.Event()
    monkeypatch.setattr(keeper, "PATIENCE", 0.05)
    monkeypatch.setattr(at.own._files, "versions", lambda: awake.wait(60) and {})
    try:
        assert (await at.book.hold("af_sky")).name == "af_sky"
        for _ in range(3):
            with pytest.raises(UnknownVoice):
                await at.book.hold("nobody")
        stuck = [thread for thread in threading.enumerate() if thread.name == "load"]
        assert len(stuck) == 1
    finally:
        awake.set()
    await at.book.refresh()


async def test_changes_at_once_take_turns_in_one_thread(at: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    write = files.atomic_write

    def slow(path: Path, content: bytes) -> None:
        nonlocal most
        most = max(most, sum(thread.name == "load" for thread in threading.enumerate()))
        time.sleep(0.002)
        write(path, content)

    monkeypatch.setattr(files, "atomic_write", slow)
    changes = [asyncio.create_task(at.own.define(f"a{n}", {"voice": "af_sky"}, OPERATOR)) for n in range(40)]
    changes[3].cancel()
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    busy = [outcome for outcome in outcomes if isinstance(outcome, TooBusy)]
    assert len(busy) == 40 - 1 - keeper.MAX_WAITING
    assert all(error.retry_after for error in busy)
    assert len(at.own.voices) == keeper.MAX_WAITING
    assert most <= 2, "one, and one that is about to end"


async def test_a_pack_that_lacked_a_descriptor_is_read_again(at: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(own_files, "read_pack", lambda _: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many files")))
        (at.folder / "granny.bin").write_bytes(make_pack().tobytes())
        await at.book.refresh()
        assert "too many files" in at.trouble()
    await at.book.refresh()
    assert (at.trouble(), list(at.own.voices)) == ("", ["granny"])


async def test_a_change_of_voices_reads_no_file_of_another(at: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    held = await at.book.hold("af_sky")
    monkeypatch.setattr(book, "read_pack", lambda path: pytest.fail(f"{path} was read again"))
    await at.own.define("a", {"voice": "af_sky"}, OPERATOR)
    assert (await at.book.hold("a")).pack is held.pack


def test_a_wrong_name_is_compared_with_few() -> None:
    known = [f"voice-{n}" for n in range(1000)]
    with pytest.raises(UnknownVoice, match="did you mean voice-77"):
        resolve("voice-77x", known)
