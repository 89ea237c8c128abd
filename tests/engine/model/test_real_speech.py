"""Whisper listens to the engine and to the reference: the engine is understood no worse."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kokoro_server.assets.library import Assets
from kokoro_server.engine import devices
from kokoro_server.engine.model import reference
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.voices import VoiceBook
from tests.asr import transcribe, word_errors
from tests.engine import kmodel
from tests.engine.rows import SENTENCES, sentence_row

pytestmark = [pytest.mark.real, pytest.mark.asr]

CHOSEN = range(20)
ROWS = 4


@torch.inference_mode()
def test_batched_speech_is_understood_as_well_as_the_references(assets: Assets) -> None:
    voices = VoiceBook(assets.voices)
    rows = [sentence_row(index, voices, "af_heart") for index in CHOSEN]
    engine, plain = devices.load_all(assets.weights, ["cpu"])[0], reference.load(assets.weights)
    ours = [
        result.audio for start in range(0, len(rows), ROWS) for result in engine.synthesize(rows[start : start + ROWS])
    ]
    theirs = [np.asarray(kmodel.speak(plain, row).audio) for row in rows]
    said = [SENTENCES[index]["text"] for index in CHOSEN]
    errors = [
        sum(word_errors(text, transcribe(audio, SAMPLE_RATE)) for text, audio in zip(said, spoken, strict=True))
        for spoken in (ours, theirs)
    ]
    assert errors[0] <= errors[1]
    assert errors[1] < 0.1 * sum(len(text.split()) for text in said)
