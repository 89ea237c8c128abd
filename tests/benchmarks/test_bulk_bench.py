from __future__ import annotations

from benchmarks.bulk_bench import ratios


def test_what_bulk_and_streams_get_is_told_by_what_the_engine_makes() -> None:
    def window(bulk: float, audio: float, p95: float) -> dict[str, object]:
        return {
            "bulk_audio_per_second": bulk,
            "streams": {"audio_per_second": audio, "first_audio_ms": {"p95": p95}},
        }

    found = ratios(
        {
            "bulk": window(4_500, 0, 0),
            "streams": window(0, 2_000, 40),
            "both": window(3_000, 1_500, 50),
            "listeners": window(0, 16, 20),
            "bulk_and_listeners": window(4_484, 16, 30),
        },
        engine=5_000.0,
    )
    assert found == {
        "bulk_by_engine": 0.9,
        "bulk_beside_streams_by_engine": 0.6,
        "share_beside_streams": 0.9,
        "first_audio_p95_of_streams": 1.25,
        "bulk_beside_listeners_by_engine": 0.897,
        "share_beside_listeners": 0.9,
        "first_audio_p95_of_listeners": 1.5,
    }
