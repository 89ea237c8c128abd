"""Languages that need more than the `g2p` extra: their dictionaries are large, and few servers read them."""

from __future__ import annotations

import importlib.util

from kokoro_server import languages
from kokoro_server.errors import LanguageNotInstalled
from kokoro_server.g2p import variants
from kokoro_server.languages import Language

# The modules that the extra named after the language's code installs: see `advice`.
MODULES = {
    languages.JA: ("fugashi", "jaconv", "unidic_lite"),
    languages.ZH: ("cn2an", "jieba", "ordered_set", "pypinyin"),
    variants.ZH_1_1: ("cn2an", "jieba", "ordered_set", "pypinyin", "pypinyin_dict"),
}
NOT_INSTALLED = "not_installed"  # the state of such a language in the service's `GET /health`


def is_installed(language: Language) -> bool:
    return all(importlib.util.find_spec(name) for name in MODULES.get(language, ()))


def require(language: Language) -> None:
    if not is_installed(language):
        message = f"{language.name} is not installed on this server: {advice(language)}"
        raise LanguageNotInstalled(message, field="lang")


def advice(language: Language) -> str:
    extra = language.code.replace(".", "-")  # pip before 23.3 finds no extra with a dot
    return f"pip install 'kokoro-server[{extra}]', or in a checkout make serve LANGUAGES={extra}"
