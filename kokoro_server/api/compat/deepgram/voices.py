"""Deepgram's names for voices."""

from __future__ import annotations

import re

from kokoro_server import languages
from kokoro_server.config.defaults import BUILT_IN_VOICE
from kokoro_server.errors import UnknownVoice
from kokoro_server.synthesis.services import Services

# By language, our voices and the names of Deepgram's voices that they stand for: of the same gender and, where
# possible, the same accent.
_NAMES = {
    "en": {
        "af_heart": "andromeda asteria helena luna thalia",
        "af_bella": "aurora callista hera stella vesta",
        "af_sarah": "athena harmonia janus juno minerva",
        "af_aoede": "cora electra iris selene",
        "af_kore": "amalthea cordelia delia ophelia phoebe",
        "bf_emma": "pandora",
        "bf_isabella": "theia",
        "am_michael": "apollo arcas neptune odysseus orion",
        "am_fenrir": "atlas jupiter mars saturn zeus",
        "am_puck": "aries hermes orpheus perseus pluto",
        "bm_george": "draco helios",
        "bm_fable": "angus hyperion",
    },
    "es": {
        "ef_dora": "agustina antonia carina celeste diana estrella gloria olivia selena silvia",
        "em_alex": "alvaro aquila javier luciano nestor sirio valerio",
    },
    "fr": {"ff_siwis": "agathe"},
    "it": {"if_sara": "cinzia demetra livia maia melia", "im_nicola": "cesare dionisio elio flavio"},
    "ja": {"jf_alpha": "ama izanami uzume", "jm_kumo": "ebisu fujin"},
}
NEAREST = {
    f"{name}-{language}": ours
    for language, voices in _NAMES.items()
    for ours, names in voices.items()
    for name in names.split()
}
_AURA = re.compile(r"aura-(?:\d+-)?(.+)")
_FLUX = re.compile(r"flux-.+-([a-z]{2})")  # of /v2/speak: the best voice of the language stands for all of them


async def ours(name: str, services: Services) -> str:
    """Returns our voice for one of Deepgram's names, and the default voice for that of a model of MODELS_PATH.

    Any other name, and a custom voice's, is returned unchanged.
    """
    book = services.voices
    if name in book.names():
        return name
    of_model = services.synthesizer.full_name(BUILT_IN_VOICE, name)
    if of_model != BUILT_IN_VOICE:
        return of_model
    flux = _FLUX.fullmatch(name.lower())
    language = languages.find(flux[1]) if flux else None
    if language and (best := book.now.best(language)):
        return best
    match = _AURA.fullmatch(name.lower())
    if match is None and flux is None:
        return name
    if match and match[1] in NEAREST:
        return NEAREST[match[1]]
    try:
        return (await book.hold(name)).name
    except UnknownVoice:
        raise UnknownVoice(
            f"no voice here is like {name[:60]!r}; take one of this server's, such as model=af_heart: "
            "GET /voices lists them",
            field="model",
        ) from None
