from __future__ import annotations

import json

from kokoro_server.client import values
from kokoro_server.client.wire import CaptionedEvents


def test_a_line_ends_with_a_newline_and_nothing_else() -> None:
    texts = ["one\u2028two", "three\x85four", "é" * 50]
    word = {"start": 0, "end": 0, "char_start": 0, "char_end": 0, "phrase": False}
    events = [{"type": "audio", "audio": "", "words": [word | {"text": text}]} for text in texts]
    content = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)
    parser = CaptionedEvents("http://127.0.0.1:8880")
    chunks = [chunk for start in range(0, len(content), 7) for chunk in parser.add(content[start : start + 7])]
    assert [word.text for chunk in chunks for word in chunk.words] == texts


def test_an_older_server_does_not_tell_whether_a_voice_is_installed() -> None:
    voice = {"name": "af_heart", "title": "Heart", "language": "en-US", "gender": "female", "grade": "A"}
    assert values.voices({"voices": [voice]})[0].installed
    assert not values.voices({"voices": [{**voice, "installed": False, "mood": "new"}]})[0].installed
