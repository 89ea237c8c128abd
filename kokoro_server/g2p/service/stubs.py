"""Empty modules in place of packages that the G2P libraries import and do not use here.

They need not be installed, and where they are, they are not loaded: PyTorch alone takes two seconds and 200 MB.
"""

from __future__ import annotations

import contextlib
import importlib
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
    _import_without("thinc.compat", "torch", "cupy")  # the arithmetic of spaCy


def _stub(name: str, **attributes: object) -> None:
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        vars(module).update(attributes)


def _import_without(module: str, *hidden: str) -> None:
    """Import a module, to which the packages `hidden` seem not to be installed."""
    absent = [name for name in hidden if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None makes an import fail
    try:
        with contextlib.suppress(ImportError):  # without spaCy, English says so
            importlib.import_module(module)
    finally:
        for name in absent:
            del sys.modules[name]


def _unchanged(text: str, **_options: bool) -> str:
    return text
