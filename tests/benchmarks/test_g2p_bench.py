from __future__ import annotations

import pytest

from benchmarks.g2p_bench import KINDS, measure


@pytest.mark.filterwarnings("ignore:open_text is deprecated:DeprecationWarning")  # misaki's
def test_both_say_prose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.g2p_bench.WARM", 1)
    ours, misaki = (measure(kind, 3) for kind in KINDS)
    assert ours[1] == misaki[1]
    assert min(ours[0], misaki[0]) > 0
