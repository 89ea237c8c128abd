"""The CPU time that English takes from text to phonemes: ours and plain misaki, in the same run.

    python -m benchmarks.g2p_bench [--texts 600] [--rounds 3] [--out FILE]

Both have spaCy's small English model and espeak for the words that the lexicon lacks. Each is measured in processes of
its own, in turns, on one thread: sentences none of which comes twice, after some others to warm up. It is CPU time, so
that other work on the machine counts little; of all rounds, the least. `same_phonemes` counts the texts that both say
alike: ordinary prose as this is should be alike throughout.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.serving.prose import sentence

WARM = 100  # texts
KINDS = ("ours", "misaki")


def main() -> None:
    options = _options()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    phonemes: dict[str, list[str]] = {}
    for _ in range(options.rounds):
        for kind in KINDS:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                seconds, phonemes[kind] = pool.submit(measure, kind, options.texts).result()
            spent[kind].append(seconds)
    least = {kind: min(seconds) for kind, seconds in spent.items()}
    results = {
        "benchmark": "english g2p",
        "texts": options.texts,
        "characters": sum(len(sentence(number)) for number in range(WARM, WARM + options.texts)),
        "ms_per_text": {kind: round(1000 * seconds / options.texts, 3) for kind, seconds in least.items()},
        "same_phonemes": sum(map(str.__eq__, *(phonemes[kind] for kind in KINDS))),
        "ratio": round(least["misaki"] / least["ours"], 2),
    }
    common.write(options.out, common.show("g2p", results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "g2p.json")
    return parser.parse_args()


def measure(kind: str, texts: int) -> tuple[float, list[str]]:
    """The seconds of CPU time for so many texts, and their phonemes."""
    convert = _ours() if kind == "ours" else _misaki()
    for number in range(WARM):
        convert(sentence(number))
    begun = time.process_time()
    phonemes = [convert(sentence(number)) for number in range(WARM, WARM + texts)]
    return time.process_time() - begun, phonemes


def _ours() -> Callable[[str], str]:
    from kokoro_server.g2p.service.english import English

    english = English(british=False)
    return lambda text: english(text).phonemes


def _misaki() -> Callable[[str], str]:
    """misaki as it is, but for the name of spaCy's model, which it would download."""
    import spacy
    from misaki import en  # type: ignore[import-untyped]
    from misaki.espeak import EspeakFallback  # type: ignore[import-untyped]

    from kokoro_server.g2p.service.english import SPACY_MODELS

    name = next(name for name in SPACY_MODELS if spacy.util.is_package(name))
    g2p: Any = en.G2P.__new__(en.G2P)
    g2p.version, g2p.british, g2p.unk = None, False, "❓"
    g2p.nlp = spacy.load(name, enable=["tok2vec", "tagger"])
    g2p.lexicon, g2p.fallback = en.Lexicon(False), EspeakFallback(british=False)
    return lambda text: str(g2p(text)[0])


if __name__ == "__main__":
    main()
