"""How written English is read, kind by kind: ours and, where they are installed, its peers, in the same run.

    pip install --target /tmp/peers spokenform wetext && PYTHONPATH=/tmp/peers python -m benchmarks.reading_bench
    python -m benchmarks.reading_bench --cases cases_en.json [--cases MORE] [--out FILE]

A case is right if its words are one of the accepted readings, whatever the spaces, marks and capitals; whether they are
then pronounced well is not asked here. Without `--cases` it takes the repository's own. Our rules were fitted to those
and must read all of them; the peers' were not. Cases that none has seen compare them fairly.
Beside the JSON file, a table in Markdown.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import common
from kokoro_server import languages
from kokoro_server.text import spoken
from tests.text.spoken.readings import FILES, Case, load

PLAIN = (
    "The old baker had been awake for hours. He kneaded the dough, humming a tune that nobody else remembered, while "
    'the cat slept by the oven. "You are late," said the miller when the boy came in. I never liked Mondays. '
)
PLAIN_LENGTH = 900  # characters
TIMES = 50

Read = Callable[[str, str], str]  # a text and its language


def main() -> None:
    options = _options()
    readers = _readers()
    paths: list[Path] = options.cases or list(FILES)
    files = {path.name: measure(load(path), readers) for path in paths}
    results = {"benchmark": "reading", "peers": _versions(), "files": files, "plain_text_ms": _costs(readers)}
    common.write(options.out, results)
    table = markdown(results)
    options.out.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, action="append", help="a file of cases (default: the repository's own)")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "reading.json")
    return parser.parse_args()


def _readers() -> dict[str, Read]:
    readers: dict[str, Read] = {"ours": _ours}
    for name, reader in PEERS.items():
        if importlib.util.find_spec(name):
            readers[name] = reader()
        else:
            print(f"{name} is not installed, so it is left out: pip install --target /tmp/peers {name}")
    return readers


def _ours(text: str, language: str) -> str:
    return spoken.speak(text, languages.parse(language))


def _spokenform() -> Read:
    import spokenform

    def read(text: str, language: str) -> str:
        # With these settings it reads more of the cases than with those it comes with.
        prepared = spokenform.prepare(
            text,
            language=language,
            normalize_literals=True,
            registered_acronym_mode="spell",
            long_number_mode="cardinal",
            sequence_fallback_mode="spell",
            symbol_mode="remove",
        )
        return str(prepared.spoken_text)

    return read


def _wetext() -> Read:
    import wetext

    reader = wetext.Normalizer(lang="en", operator="tn")

    def read(text: str, _: str) -> str:
        try:
            return str(reader.normalize(text))
        except AssertionError:  # for text that its grammar does not accept
            return ""

    return read


PEERS: dict[str, Callable[[], Read]] = {"spokenform": _spokenform, "wetext": _wetext}


def measure(cases: list[Case], readers: dict[str, Read]) -> dict[str, dict[str, int]]:
    """How many cases there are of each kind, and how many of them each reader has right."""
    kinds: dict[str, Counter[str]] = {}
    for case in cases:
        right = {name: int(case.accepts(read(case.text, case.language))) for name, read in readers.items()}
        kinds.setdefault(case.kind, Counter()).update({"cases": 1, **right})
    return {kind: dict(counts) for kind, counts in kinds.items()}


def _costs(readers: dict[str, Read]) -> dict[str, float]:
    text = (PLAIN * 5)[:PLAIN_LENGTH]
    return {name: round(_best(lambda read=read: read(text, "en-US")) * 1000, 3) for name, read in readers.items()}


def _best(call: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(TIMES):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in PEERS if importlib.util.find_spec(name)}


def markdown(results: dict[str, Any]) -> str:
    """A table for each file, and what plain text costs."""
    names = list(results["plain_text_ms"])
    titles = [f"{name} {results['peers'].get(name, '')}".strip() for name in names]
    lines = ["# Written English, read", ""]
    for file, kinds in results["files"].items():
        total: Counter[str] = sum((Counter(counts) for counts in kinds.values()), Counter())
        lines += [f"`{file}`", "", f"| kind | cases | {' | '.join(titles)} |", "|---|---|" + "---|" * len(names)]
        lines += [_row(kind, counts, names) for kind, counts in kinds.items()]
        lines += [_row("**all**", total, names), ""]
    costs = ", ".join(f"{title} {results['plain_text_ms'][name]} ms" for name, title in zip(names, titles, strict=True))
    return "\n".join([*lines, f"{PLAIN_LENGTH} characters of plain text, best of {TIMES}: {costs}.", ""])


def _row(kind: str, counts: dict[str, int], names: list[str]) -> str:
    shares = (f"{counts.get(name, 0)} ({100 * counts.get(name, 0) / counts['cases']:.0f} %)" for name in names)
    return f"| {kind} | {counts['cases']} | {' | '.join(shares)} |"


if __name__ == "__main__":
    main()
