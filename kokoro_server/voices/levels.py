"""The gains of levels.toml: how much louder or softer each of Kokoro's voices must be for all to be equally loud.

`benchmarks/levels.py` has measured them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

GAINS: Mapping[str, float] = tomllib.loads(Path(__file__).with_name("levels.toml").read_text(encoding="utf-8"))["gains"]
