"""Voices made of definitions: a change costs what it changes, and gives what a start from nothing would give."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from kokoro_server.errors import BadRequest
from kokoro_server.voices import Pack, mix
from kokoro_server.voices.custom import definitions
from kokoro_server.voices.custom.assembly import Assembly
from tests import tiny

PACK = np.zeros((1, 1), np.float32)
NAMES = ("a", "b", "c", "a-b", "a-", "v1", "v1.5", "coral", "granny", "x.", "alloy-b")
BLENDS = (
    "af_sky",
    "a",
    "a+b",
    "b-a",
    "c(2)+a-b",
    "coral+af_sky",
    "v1.5",
    "v1+x.",
    "granny+a",
    "granny",
    "a-+b",
    "nobody",
)


def made(
    entries: Mapping[str, Any], packs: Mapping[str, Pack | None], before: Assembly | None = None
) -> tuple[Assembly | None, object]:
    """The assembly, if it is valid, and what it comes to."""
    assembly = Assembly(definitions.parse(entries), packs, tiny.VOICES, before)
    try:
        voices = assembly.voices()
    except BadRequest as error:
        return None, type(error)
    return assembly, (
        {
            name: (voice.info, id(voice.source) if voice.info.blend is None else voice.source)
            for name, voice in voices.items()
        },
        sorted(assembly.left_out),
    )


def test_any_change_gives_what_a_start_from_nothing_gives() -> None:
    chance = random.Random(14)
    valid = 0
    for _ in range(60):
        entries: dict[str, Any] = {}
        packs: dict[str, Pack | None] = {}
        before: Assembly | None = None
        for _ in range(40):
            changed, changed_packs = dict(entries), dict(packs)
            name = chance.choice(NAMES)
            if chance.random() < 0.25:
                changed.pop(name, None)
            elif chance.random() < 0.2:
                changed_packs["granny"] = chance.choice((PACK, None, PACK.copy()))
            else:
                changed[name] = chance.choice((chance.choice(BLENDS), {"voice": chance.choice(BLENDS), "title": "T"}))
            assembly, outcome = made(changed, changed_packs, before)
            assert outcome == made(changed, changed_packs)[1], (entries, changed)
            if assembly:
                entries, packs, before = changed, changed_packs, assembly
                valid += 1
    assert valid > 500


@pytest.mark.parametrize("count", [1, 990])
def test_a_change_costs_the_same_among_few_and_many(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 990 definitions it once took 3 × 990 blends apart."""
    entries = {f"voice-{n}": "af_sky(2)+af_bella-bf_emma" for n in range(count)}
    before, _ = made(entries, {})
    parsed: list[str] = []
    parse = mix.parse
    monkeypatch.setattr(mix, "parse", lambda spec, known: parsed.append(spec) or parse(spec, known))
    assembly, _ = made({**entries, "new": "voice-0+am_adam"}, {}, before)
    assert parsed == ["voice-0+am_adam"]
    made({**entries, "new": "voice-0+am_adam", "voice-0": "ef_dora"}, {}, assembly)
    assert sorted(parsed[1:]) == ["ef_dora", "voice-0+am_adam"]
