"""Chaos: all of a server's endpoints in use while its processes are killed, stopped and starved at random.

    python -m tests.chaos --minutes 10
    python -m tests.chaos --minutes 3 --processes 1 --seed 7

Writes what was found to tests/chaos/results, as JSON and Markdown, and ends with status 1 if a request got no honest
answer, or the server is not as it was before. As root it also fills a disk, one of its own in memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.chaos.results import report
from tests.chaos.run import Options, run

RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2, help="API workers")
    parser.add_argument("--model", choices=("tiny", "random", "real"), default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> int:
    given = arguments()
    options = Options(
        seconds=60 * given.minutes,
        seed=given.seed,
        processes=given.processes,
        model=given.model,
        device=given.device,
        clients=given.clients,
    )
    given.out.mkdir(parents=True, exist_ok=True)
    name = f"{given.model}-{given.processes}"
    found = run(options, given.out / f"{name}.log")
    (given.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    written = report(found)
    (given.out / f"{name}.md").write_text(written, encoding="utf-8")
    sys.stdout.write(written)
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
