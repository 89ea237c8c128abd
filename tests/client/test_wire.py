from __future__ import annotations

import json

from kokoro_server.client import wire


def test_a_line_ends_with_a_newline_and_nothing_else() -> None:
    texts = ["one\u2028two", "three\x85four", "é" * 50]
    content = b"".join(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in texts)
    chunks = (content[start : start + 7] for start in range(0, len(content), 7))
    assert [json.loads(line)["text"] for line in wire.lines(chunks)] == texts


def test_an_older_server_does_not_tell_whether_a_voice_is_installed() -> None:
    voice = {"name": "af_heart", "title": "Heart", "language": "en-US", "gender": "female", "grade": "A"}
    assert wire.voices({"voices": [voice]})[0].installed
    assert not wire.voices({"voices": [{**voice, "installed": False, "mood": "new"}]})[0].installed
