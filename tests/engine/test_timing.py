from __future__ import annotations

import numpy as np

from kokoro_server.engine import timing


def test_each_token_starts_where_the_one_before_it_ends() -> None:
    durations = np.array([3, 1, 4, 2], np.int64)
    starts = timing.starts(durations)
    assert starts.tolist() == [0, 3, 4, 8]
    assert (starts + durations)[:-1].tolist() == starts[1:].tolist()


def test_a_row_with_nothing_to_say() -> None:
    assert timing.starts(np.zeros(2, np.int64)).tolist() == [0, 0]
