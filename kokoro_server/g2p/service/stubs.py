"""Empty modules in place of packages that the G2P libraries import and do not use here.

They need not be installed, and where they are, they are not loaded: that takes a second and 35 MB.
"""

from __future__ import annotations

import sys
from types import ModuleType


def install() -> None:
    """Call it before spaCy, phonemizer and misaki are imported."""
    _stub("spacy.cli", __path__=[])  # spaCy's commands, which bring typer, rich and weasel
    _stub("spacy.cli.info", info=None)
    _stub("segments", Profile=object, Tokenizer=object)  # for another backend of phonemizer's; brings rdflib and babel
    _stub("joblib")  # for phonemizer in several processes
    # mojimoji needs a compiler on arm64. misaki calls it on NFKC text, where it changes nothing.
    _stub("mojimoji", zen_to_han=_unchanged, han_to_zen=_unchanged)


def _stub(name: str, **attributes: object) -> None:
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        vars(module).update(attributes)


def _unchanged(text: str, **_options: bool) -> str:
    return text
