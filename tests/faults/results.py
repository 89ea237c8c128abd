"""Makes RESULTS.md of the lines that the matrix wrote: `python -m tests.faults.results faults.jsonl`.

Of a fault that was run again, the last run counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.faults.machine import described

HEAD = """\
# The fault matrix

Each row is a fault in a real server process, or beside one, and a test in this folder. After each the same four checks
are made from outside (`checks.py`): every request was answered, `/metrics` shows nothing queued or running, the next
good request is 200, and a neighbour who spoke at the same time got the audio that it gets alone. Requests are
*answered* with audio or with an error that says what is wrong; *left* are those whose client went away first, or the
API worker that it was connected to.

To repeat: `make test-faults`; a soak of everything at random: `make test-soak`.
"""


def report(rows: list[dict[str, Any]]) -> str:
    sections, last = [HEAD], {(row["has_fronts"], row["fault"]): row for row in rows}
    for title, has_fronts in (("One process", False), ("Two API workers and an engine process", True)):
        if of_form := [row for row in last.values() if row["has_fronts"] == has_fronts]:
            sections.append(f"## {title}\n\n{table(of_form)}")
    return "\n".join(sections)


def table(rows: list[dict[str, Any]]) -> str:
    facts = described()
    versions = ", ".join(f"{name} {version}" for name, version in dict(facts["versions"]).items())
    where = f"Commit {facts['commit']}; {facts['machine']}; Python {facts['python']}; {versions}."
    lines = ["| fault | how | sent | answered | left | lost |", "|---|---|--:|--:|--:|--:|"]
    counted = ("sent", "answered", "abandoned", "lost")
    lines += [_line(row["fault"], row["how"], [row[name] for name in counted]) for row in rows]
    lines.append(_line("**all**", f"{len(rows)} faults", [sum(row[name] for row in rows) for name in counted]))
    return "\n".join([where, "", *lines]) + "\n"


def _line(fault: str, how: str, counts: list[int]) -> str:
    return " | ".join([f"| {fault}", how, *(f"{count:,}" for count in counts)]) + " |"


if __name__ == "__main__":
    written = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    sys.stdout.write(report([json.loads(line) for line in written]))
