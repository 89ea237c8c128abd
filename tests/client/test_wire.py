from __future__ import annotations

import json

from kokoro_server.client import wire


def test_a_line_ends_with_a_newline_and_nothing_else() -> None:
    texts = ["one\u2028two", "three\x85four", "é" * 50]
    content = b"".join(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in texts)
    chunks = (content[start : start + 7] for start in range(0, len(content), 7))
    assert [json.loads(line)["text"] for line in wire.lines(chunks)] == texts
