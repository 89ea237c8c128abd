"""What `build_cache` asks of `build`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

CpuPrecision = Literal["int8", "fp32"]  # of the decoder's convolutions: 8-bit integers, or single precision
OnProgress = Callable[[str], None]  # is called with the name of the step that comes next
Build = Callable[[Path, Path, CpuPrecision, OnProgress], None]
