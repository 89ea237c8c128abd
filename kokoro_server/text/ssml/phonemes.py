"""`<phoneme>`: IPA as people write it, in the model's symbols."""

from __future__ import annotations

import re

from kokoro_server import languages
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.g2p.phoneme_map import to_symbols_of
from kokoro_server.languages import Language
from kokoro_server.text.phonemized import has_sound

ALPHABETS = ("ipa", "kokoro")
MAX_PHONEMES = 510  # that the model can say at once
_NOT_WRITTEN = re.compile(r"[/\[\]͜͡‿|]|\.(?=\S)")  # slashes around it, ties, and the dots between syllables
_SINGLE = {"dʒ": "ʤ", "tʃ": "ʧ", "dz": "ʣ", "ts": "ʦ"}
_ENGLISH = {"eɪ": "A", "aɪ": "I", "oʊ": "O", "əʊ": "Q", "aʊ": "W", "ɔɪ": "Y", "r": "ɹ"}


def parse(text: str, alphabet: str, language: Language, vocabulary: ModelVocabulary) -> tuple[str, str]:
    """The phonemes of the model, and what is wrong with them, if anything is."""
    phonemes, dropped = text.strip(), ""
    if alphabet == "ipa":
        phonemes = _NOT_WRITTEN.sub("", phonemes).replace("'", "ˈ").replace(":", "ː")
        for theirs, ours in (_SINGLE | (_ENGLISH if language in languages.ENGLISH else {})).items():
            phonemes = phonemes.replace(theirs, ours)
        phonemes, dropped = to_symbols_of(vocabulary, phonemes)
    dropped += "".join(sorted(vocabulary.unknown(phonemes) | set("()\n") & set(phonemes)))
    if dropped:
        return phonemes, f"the model has no phonemes {dropped[:40]!r}; known are {''.join(vocabulary.ids)}"
    if len(phonemes) > MAX_PHONEMES:
        return phonemes, f"{len(phonemes)} phonemes; at most {MAX_PHONEMES} are allowed"
    return phonemes, "" if has_sound(phonemes) else "no phoneme in it has a sound"
