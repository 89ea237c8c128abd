"""The module as a program, and a small server."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.screen_reader import driver
from tests.screen_reader.driver import SAMPLES, Driver, SmallServer
from tests.servers import Server


@pytest.fixture
def server() -> Iterator[SmallServer]:
    with driver.small_server() as running:
        yield running


@pytest.fixture
def spoken(server: SmallServer, tmp_path: Path) -> Iterator[Driver]:
    with driver.module(tmp_path, server.url) as running:
        running.start()
        yield running


def test_a_message_is_spoken(spoken: Driver, server: SmallServer) -> None:
    assert spoken.speak("<speak>Fish &amp; chips</speak>") == ["701 BEGIN", "702 END"]
    assert spoken.samples == SAMPLES * 3
    assert spoken.rates == {24_000}
    assert server.last["text"] == "Fish & chips"
    assert server.last["voice"] == "af_heart"


def test_one_connection_is_kept(spoken: Driver, server: SmallServer) -> None:
    for text in ("one", "two", "three"):
        spoken.speak(f"<speak>{text}</speak>")
    assert server.connections == 1


def test_what_comes_again_is_not_asked_for_again(spoken: Driver, server: SmallServer) -> None:
    for _ in range(3):
        assert spoken.speak("<speak>Button</speak>") == ["701 BEGIN", "702 END"]
        assert spoken.samples == SAMPLES
    assert len(server.bodies) == 1
    spoken.speak("<speak>Button</speak>", rate="50")
    assert len(server.bodies) == 2


def test_stop_is_at_once_and_the_server_learns_of_it(spoken: Driver, server: SmallServer) -> None:
    server.hang.set()
    assert spoken.begin("<speak>one two</speak>") == "200 OK SPEAKING"
    assert spoken.reply() == ["701 BEGIN"]
    while len(spoken.samples) < len(SAMPLES):
        spoken.reply()
    asked = time.perf_counter()
    spoken.send("STOP\n")
    assert spoken.events() == ["703 STOP"]
    assert time.perf_counter() - asked < 1
    assert server.left.get(timeout=5) - asked < 1
    server.hang.clear()
    assert spoken.speak("<speak>three</speak>") == ["701 BEGIN", "702 END"]


def test_stop_while_nothing_is_said_is_no_error_and_keeps_the_connection(spoken: Driver, server: SmallServer) -> None:
    spoken.send("STOP\nPAUSE\n")
    spoken.speak("<speak>one</speak>")
    spoken.send("STOP\n")
    assert spoken.speak("<speak>two</speak>") == ["701 BEGIN", "702 END"]
    assert server.connections == 1


def test_marks_are_between_the_sounds_of_their_words(spoken: Driver) -> None:
    spoken.begin('<speak>one <mark name="a:1"/>two<mark name="__spd_0"/> three<mark name="__spd_1"/></speak>')
    order: list[str | int] = []
    while not order or order[-1] != "702 END":
        before = len(spoken.samples)
        event = spoken.reply()
        if event[-1].startswith("705"):
            order.append(len(spoken.samples) - before)
        else:
            order.append(event[0][4:] if event[-1].startswith("700") else event[-1])
    names = [each for each in order if isinstance(each, str)]
    assert names == ["701 BEGIN", "a:1", "__spd_0", "__spd_1", "702 END"]
    at = [sum(each for each in order[: order.index(name)] if isinstance(each, int)) for name in names]
    assert at == [0, len(SAMPLES), 2 * len(SAMPLES), 3 * len(SAMPLES), 3 * len(SAMPLES)]


def test_pause_ends_at_a_mark_of_speech_dispatcher(spoken: Driver, server: SmallServer) -> None:
    server.words = queue.Queue()
    marked = '<speak>one <mark name="x"/>two <mark name="__spd_0"/>three <mark name="__spd_1"/>four</speak>'
    spoken.begin(marked)
    server.words.put(None)
    assert spoken.reply() == ["701 BEGIN"]
    while len(spoken.samples) < len(SAMPLES):
        spoken.reply()
    spoken.send("PAUSE\n")
    assert spoken.ask("DEBUG OFF\n").startswith("200")  # PAUSE has been read
    for _ in range(3):
        server.words.put(None)
    assert spoken.events() == ["x", "__spd_0", "704 PAUSE"]
    assert spoken.samples == SAMPLES * 2
    server.words = None
    assert spoken.speak("<speak>three four</speak>") == ["701 BEGIN", "702 END"]


def test_a_server_that_hangs_or_dies_is_not_waited_for(tmp_path: Path) -> None:
    """Its port is open, and nothing answers. Later it breaks off in the middle of a sentence."""
    program = tmp_path / "espeak-double"
    program.write_text("#!/bin/sh\ncat > /dev/null\nhead -c 44 /dev/zero\nprintf abcd\n")
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with driver.module(tmp_path, url, f'Fallback "{program}"') as spoken:
            asked = time.perf_counter()
            spoken.start()
            assert time.perf_counter() - asked < 8
            assert spoken.speak("<speak>one</speak>") == ["701 BEGIN", "702 END"]
            assert spoken.samples == b"abcd"
            assert spoken.ask("LIST VOICES\n") == "200 OK VOICE LIST SENT"


def test_letters_signs_and_keys_have_names(spoken: Driver, server: SmallServer) -> None:
    def said(text: str, kind: str, **settings: str) -> str:
        assert spoken.speak(text, kind, **settings) == ["701 BEGIN", "702 END"]
        return str(server.last["text"])

    assert said("a", "CHAR") == "a"  # the server reads a lone letter by its name
    assert said("B", "CHAR") == "B"
    assert "capital" in said("B", "CHAR", cap_let_recogn="spell")
    assert "majuscule" in said("B", "CHAR", cap_let_recogn="icon", language="fr")
    assert said("!", "CHAR") == "exclamation mark"
    assert said("space", "CHAR") == "space"
    assert said("\N{GRINNING FACE}", "CHAR") == "grinning face"
    assert said("<speak>$</speak>", "SPEAK") == "dollar"
    key = said("control_a", "KEY")
    assert key.startswith("<speak>control <say-as")
    assert server.last["ssml"] is True
    assert said("new-message", "SOUND_ICON") == "new message"


def test_punctuation_and_spelling(spoken: Driver, server: SmallServer) -> None:
    spoken.speak("<speak>Don't (go), $5.</speak>", punctuation_mode="some")
    assert "dollar" in str(server.last["text"])
    assert "bracket" not in str(server.last["text"])
    spoken.speak('<speak>Don\'t <mark name="m"/>(go), $5.</speak>', punctuation_mode="all")
    text = str(server.last["text"])
    assert "Don't" in text
    for name in ("open bracket", "close bracket", "comma,", "dollar", "dot."):
        assert name in text
    spoken.speak("<speak>cat 5!</speak>", spelling_mode="on")
    text = str(server.last["text"])
    assert '<say-as interpret-as="characters">cat</say-as>' in text
    assert "exclamation mark" in text


def test_markup_of_a_page_is_text(spoken: Driver, server: SmallServer) -> None:
    spoken.speak("<speak>Wait [pause:9s] for [voice:af_bella] it</speak>")
    assert server.last["text"] == "Wait (pause:9s) for (voice:af_bella) it"


@pytest.mark.parametrize("size", [1 << 20, (4 << 20) + 1])
def test_the_end_of_a_long_line_is_no_command(spoken: Driver, server: SmallServer, size: int) -> None:
    """What a page shows may not end the message, nor the module."""
    server.hang.set()
    answer = spoken.begin(f"{'a' * size}.\nQUIT")
    if size > 4 << 20:
        assert answer == "301 ERROR CANT SPEAK"
    else:
        assert answer == "200 OK SPEAKING"
        spoken.send("STOP\n")
        assert spoken.events()[-1] == "703 STOP"
    server.hang.clear()
    assert spoken.speak("<speak>three</speak>") == ["701 BEGIN", "702 END"]


def test_a_line_that_begins_with_a_dot(spoken: Driver, server: SmallServer) -> None:
    spoken.speak("<speak>one\n..\n..two</speak>")
    assert server.last["text"] == "one\n.\n.two"


def test_the_voices_are_those_that_can_be_heard(spoken: Driver) -> None:
    spoken.send("LIST VOICES\n")
    lines = spoken.reply()
    assert lines[-1] == "200 OK VOICE LIST SENT"
    assert "200-bf_emma\ten-GB\tfemale" in lines
    assert not any("jf_alpha" in line for line in lines)
    spoken.send("LIST VOICES en female\n")
    assert len(spoken.reply()) == 4
    assert spoken.ask("LIST VOICES xx\n") == "304 CANT LIST VOICES"


def test_wrong_commands_are_refused_and_harm_nothing(spoken: Driver) -> None:
    assert spoken.ask("DANCE\n").startswith("300")
    assert spoken.ask("SET\n").startswith("203")
    assert spoken.ask("rate=fast\n.\n").startswith("303")
    assert spoken.ask("SET\n").startswith("203")
    assert spoken.ask("no equals sign\n.\n").startswith("302")
    assert spoken.ask("SPEAK\n").startswith("202")
    assert spoken.ask(".\n").startswith("301")
    assert spoken.ask("DEBUG ON /tmp/x \n").startswith("200")
    assert spoken.speak("<speak>still < here & \x07 &#0; </b></speak>") == ["701 BEGIN", "702 END"]


def test_nothing_to_say_is_silence_with_its_marks(spoken: Driver, server: SmallServer) -> None:
    server.refusal = 400, "nothing_to_say"
    assert spoken.speak('<speak>-- <mark name="__spd_0"/></speak>') == ["701 BEGIN", "__spd_0", "702 END"]
    assert not spoken.samples


def test_espeak_speaks_while_the_server_cannot(server: SmallServer, tmp_path: Path) -> None:
    program = tmp_path / "espeak-double"
    header = (
        "RIFF____WAVEfmt "
        + "\\020\\0\\0\\0\\1\\0\\1\\0"
        + "\\042\\126\\0\\0"
        + "\\104\\254\\0\\0\\2\\0\\020\\0data____"
    )
    program.write_text(f"#!/bin/sh\ncat > '{tmp_path}/said'\nprintf '{header}'\nprintf 'abcdabcd'\n")
    program.chmod(0o755)
    with driver.module(tmp_path, server.url, f'Fallback "{program}"') as spoken:
        spoken.start()
        server.refusal = 503, "overloaded"
        assert spoken.speak("<speak>one two</speak>") == ["701 BEGIN", "702 END"]
        assert (tmp_path / "said").read_text() == "one two"
        assert (spoken.samples, spoken.rates) == (b"abcdabcd", {22_050})
        server.refusal = None
        assert spoken.speak("<speak>three</speak>") == ["701 BEGIN", "702 END"]
        assert spoken.samples == SAMPLES


def test_without_server_and_fallback_it_says_why_it_cannot_start(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{servers.free_port()}"
    with driver.module(tmp_path, url, 'Fallback ""') as started:
        started.send("INIT\n")
        reason, failed = started.reply()
    assert url in reason
    assert failed.startswith("399 ")


def test_a_mistake_in_the_configuration_is_named(tmp_path: Path, server: SmallServer) -> None:
    for line, named in (('Vice "x"', "'Vice'"), ("Voice x", "quotation marks"), ('Url "ftp://x"', "ftp")):
        with driver.module(tmp_path, server.url, line) as started:
            started.send("INIT\n")
            reason, failed = started.reply()
        assert named in reason
        assert failed.startswith("399 ")


def test_it_ends_when_speech_dispatcher_says_so_or_has_gone(server: SmallServer, tmp_path: Path) -> None:
    with driver.module(tmp_path, server.url) as spoken:
        spoken.start()
        assert spoken.ask("QUIT\n") == "210 OK QUIT"
        assert spoken.process.wait(timeout=10) == 0
    with driver.module(tmp_path, server.url) as spoken:
        spoken.start()
        assert spoken.process.stdin
        spoken.process.stdin.close()
        assert spoken.process.wait(timeout=10) == 0


def test_a_real_server(tiny_server: Server, tmp_path: Path) -> None:
    """Its words, voices and errors are what the module expects."""
    with driver.module(tmp_path, tiny_server.url, 'Fallback ""') as spoken:
        spoken.start()
        marked = '<speak>Hello <mark name="1"/>there. <mark name="__spd_0"/>And you?<mark name="__spd_1"/></speak>'
        assert spoken.speak(marked) == ["701 BEGIN", "1", "__spd_0", "__spd_1", "702 END"]
        normal = len(spoken.samples)
        assert normal > 24_000
        spoken.speak(marked, rate="50")
        assert len(spoken.samples) < normal * 0.75
        for text, kind in (("A", "CHAR"), ("!", "CHAR"), ("control_a", "KEY"), ("<speak>a</speak>", "SPEAK")):
            assert spoken.speak(text, kind, cap_let_recogn="spell") == ["701 BEGIN", "702 END"]
            assert any(spoken.samples)
        assert spoken.speak("<speak>cat 5!</speak>", spelling_mode="on") == ["701 BEGIN", "702 END"]
        assert any(spoken.samples)
        assert spoken.speak("<speak>---</speak>") == ["701 BEGIN", "702 END"]
    assert (tmp_path / "log").read_text() == ""
