"""When the rules of a language are loaded: their patterns take up to a second to compile."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text import spoken

WITH_RULES = [each for each in languages.LANGUAGES if spoken.ruleset(each).kinds]
IN_A_NEW_PROCESS = """
import sys
from kokoro_server import languages
from kokoro_server.text import spoken
{}
from kokoro_server.text.spoken.english.rules import RULESET
rules = [rule for rules in RULESET.kinds.values() for rule in rules]
print(sum("pattern" in vars(rule) for rule in rules), len(rules))
"""


def compiled(code: str) -> tuple[int, int]:
    """How many rules of English have been compiled in a process that did this, and how many there are."""
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_PROCESS.format(code)], capture_output=True, text=True, check=True
    )
    few, every = ran.stdout.split()
    return int(few), int(every)


@pytest.mark.parametrize("module", ["kokoro_server.longform.jobs.reading", "kokoro_server.server.app"])
def test_what_may_need_no_rules_does_not_load_them(module: str) -> None:
    """A child that reads a document; a server, which loads them while its model is loaded."""
    found = f"import sys, {module}; print('kokoro_server.text.spoken.english.rules' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_plain_sentence_compiles_few_of_them() -> None:
    few, every = compiled('spoken.speak("Hello there, how are you today?", languages.EN_US)')
    assert 0 < few < every / 4


def test_loaded_all_are_compiled_once_by_however_many_threads() -> None:
    few, every = compiled("spoken.load(languages.EN_US); assert spoken.is_loaded(languages.EN_US)")
    assert few == every > 200
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(spoken.load, WITH_RULES * 8))
    assert all(map(spoken.is_loaded, WITH_RULES))


@pytest.mark.parametrize("language", WITH_RULES, ids=lambda each: each.code)
def test_every_pattern_compiles(language: Language) -> None:
    found = spoken.ruleset(language)
    for rule in itertools.chain(*found.kinds.values(), found.last, found.alone):
        assert rule.pattern.pattern == rule.expression


def test_english_has_every_kind_and_others_some() -> None:
    assert tuple(spoken.ruleset(languages.EN_US).kinds) == spoken.KINDS
    for language in WITH_RULES:
        assert set(spoken.ruleset(language).kinds) <= set(spoken.KINDS)
