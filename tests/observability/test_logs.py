from __future__ import annotations

import logging

import pytest

from kokoro_server.observability import logs


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str]) -> str:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logs.configure("info")
        logging.getLogger("tests").info("path=%s", "/a\n2026-01-01 INFO forged\x1b[31m")
        return capsys.readouterr().err
    finally:
        root.handlers[:], root.level = before
        logging.captureWarnings(False)


def test_a_request_cannot_forge_a_line_of_the_log(line: str) -> None:
    assert line.count("\n") == 1
    assert r"path=/a\n2026-01-01 INFO forged\x1b[31m" in line
