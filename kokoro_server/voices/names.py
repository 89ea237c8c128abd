"""Names of voices, and the facts that follow from them."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import eq
from typing import Literal

from kokoro_server.errors import UnknownVoice

Gender = Literal["female", "male"]

_KOKORO_FASTAPI = re.compile(r"[ab][fm]_v0[a-z]*|af_jadzia")  # voices that only it has
MAX_COMPARED = 64  # names that a wrong one is compared with: a comparison takes up to half a millisecond
NAME = re.compile(r"[a-z][fm]_\w+")  # language, gender, name

# OpenAI's voice names, and the Kokoro voice nearest to each.
OPENAI_VOICES: Mapping[str, str] = {
    "alloy": "af_alloy",
    "ash": "am_michael",
    "ballad": "bm_george",
    "cedar": "am_fenrir",
    "coral": "af_bella",
    "echo": "am_echo",
    "fable": "bm_fable",
    "marin": "af_heart",
    "nova": "af_nova",
    "onyx": "am_onyx",
    "sage": "af_sarah",
    "shimmer": "af_aoede",
    "verse": "am_puck",
}

# Overall grades, from the table in the sources of kokoro 0.9.4.
_GRADES = {
    "A": "af_heart",
    "A-": "af_bella",
    "B-": "af_nicole bf_emma ff_siwis",
    "C+": "af_aoede af_kore af_sarah am_fenrir am_michael am_puck jf_alpha",
    "C": "af_alloy af_nova bf_isabella bm_fable bm_george hf_alpha hf_beta hm_omega hm_psi if_sara im_nicola "
    "jf_gongitsune jf_tebukuro",
    "C-": "af_sky jf_nezumi jm_kumo",
    "D+": "bm_lewis",
    "D": "af_jessica af_river am_echo am_eric am_liam am_onyx bf_alice bf_lily bm_daniel "
    "ef_dora em_alex em_santa pf_dora pm_alex pm_santa "
    "zf_xiaobei zf_xiaoni zf_xiaoxiao zf_xiaoyi zm_yunjian zm_yunxi "
    "zm_yunxia zm_yunyang",
    "D-": "am_santa",
    "F+": "am_adam",
}
GRADES: Mapping[str, str] = {name: grade for grade, names in _GRADES.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    name: str
    title: str
    language: str  # Kokoro's letter: a b e f h i j p z
    gender: Gender
    grade: str | None  # overall, A best; None if none was published
    blend: str | None = None  # its recipe, if it is a named blend


def info_of_name(name: str) -> VoiceInfo:
    """The facts that the name of a Kokoro voice holds."""
    title = name[3:].replace("_", " ").title()
    return VoiceInfo(name, title, name[0], "female" if name[1] == "f" else "male", GRADES.get(name))


def resolve(name: str, known: Collection[str]) -> str:
    """The voice that `name` stands for. OpenAI's names stand for Kokoro's, unless a voice has that name."""
    if name in known:
        return name
    if (ours := OPENAI_VOICES.get(name)) in known:
        return str(ours)
    alike = heapq.nlargest(MAX_COMPARED, known, key=lambda each: sum(map(eq, each, name)))
    close = difflib.get_close_matches(name, alike, n=3, cutoff=0.5)
    if _KOKORO_FASTAPI.fullmatch(name):
        raise UnknownVoice(
            f"there is no voice {name!r} here: Kokoro-FastAPI adds it to those of Kokoro-82M; its pack can be put into "
            "VOICES_PATH",
            field="voice",
        )
    hint = f"did you mean {' or '.join(close)}?" if close else "GET /voices lists them."
    raise UnknownVoice(f"there is no voice {name!r}; {hint}", field="voice")
