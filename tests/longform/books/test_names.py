from __future__ import annotations

import pytest

from kokoro_server.longform.books.names import file_stem


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("Down the Rabbit-Hole", "Down the Rabbit-Hole"),
        ("And/or: “why?”", "And or  “why ”"),
        ("..hidden.", "hidden"),
        ("a\u202egpj", "a gpj"),
        ("a\ud800b", "a b"),
        ("* * *", ""),
        ("猫" * 100, "猫" * 60),
        ("😀" * 100, "😀" * 45),
    ],
)
def test_a_title_becomes_a_name_that_every_disk_takes(title: str, stem: str) -> None:
    assert file_stem(title) == stem
    assert len(stem.encode()) <= 180
