from __future__ import annotations

import dataclasses

import pytest

from kokoro_server.api.schemas.speech import PauseFields
from kokoro_server.config.kinds import PAUSE_NAMES
from kokoro_server.errors import InvalidInput
from kokoro_server.text.pauses import Pause, Pauses, split_pauses
from kokoro_server.text.splitter import TextSpan


def test_text_and_pauses_come_in_order_with_their_offsets() -> None:
    text = "One.[pause:1.5s] Two.[PAUSE: 300 ms]"
    assert list(split_pauses(text)) == [TextSpan(0, 4, "One."), Pause(1.5), TextSpan(16, 21, " Two."), Pause(0.3)]


def test_other_brackets_are_text() -> None:
    text = "[a] [pausing] [Kokoro](/kˈOkəɹO/)"
    assert list(split_pauses(text)) == [TextSpan(0, len(text), text)]


@pytest.mark.parametrize("length", ["-1s", "1h", "31s", "30001ms", "", "1", "s", "1e3s", "nan s", "１s "])
def test_a_bad_length_is_refused_with_its_offset(length: str) -> None:
    with pytest.raises(InvalidInput, match=r"at character 3.*at most 30 s") as caught:
        list(split_pauses(f"Hi [pause:{length}]"))
    assert caught.value.field == "text"


def test_the_setting_the_request_and_the_reader_name_the_same_pauses() -> None:
    fields = {field.name for field in dataclasses.fields(Pauses)} - {"none"}
    assert fields == {*PAUSE_NAMES} == {*PauseFields.model_fields}
