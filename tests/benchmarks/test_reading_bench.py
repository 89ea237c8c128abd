"""What the reading benchmark counts, and its table."""

from __future__ import annotations

from benchmarks.reading_bench import markdown, measure
from tests.text.spoken.readings import Case

CASES = [
    Case("money", "It is $5.", ("it is five {dollars|bucks}",)),
    Case("money", "It is $6.", ("it is six dollars",)),
    Case("plain", "It is.", ("it is",)),
]


def test_right_readings_are_counted_by_kind() -> None:
    found = measure(CASES, {"ours": lambda text, _language: text.replace("$5", "five dollars")})
    assert found == {"money": {"cases": 2, "ours": 1}, "plain": {"cases": 1, "ours": 1}}
    table = markdown({"files": {"own.json": found}, "peers": {}, "plain_text_ms": {"ours": 1.0}})
    assert "| money | 2 | 1 (50 %) |" in table
    assert "| **all** | 3 | 2 (67 %) |" in table
