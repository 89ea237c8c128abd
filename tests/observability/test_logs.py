from __future__ import annotations

import logging
import time

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


def test_what_was_left_out_in_an_outage_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "OUTAGE_INTERVAL", 0.2)
    shown, lines = logs.OutageFilter(), list[str]()
    for _ in range(3):
        record = logging.makeLogRecord({"msg": "request failed", "outage": True})
        lines += [record.msg] if shown.filter(record) else []
    time.sleep(0.3)
    record = logging.makeLogRecord({"msg": "request failed", "outage": True})
    assert shown.filter(record)
    assert [*lines, record.msg] == ["request failed", "request failed left_out=2"]
    assert shown.filter(logging.makeLogRecord({"msg": "another line"}))
