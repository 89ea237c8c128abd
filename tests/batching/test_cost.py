from __future__ import annotations

import pytest

from kokoro_server.batching.cost import CostModel, ForwardPass, FrameEstimate, LearnedCap, LineFit
from tests.batching.doubles import make_row


def test_a_line_is_found():
    fit = LineFit((x, 0.01 * x + 3) for x in (100, 300, 200, 900))
    assert (fit.slope, fit.intercept) == pytest.approx((0.01, 3.0))


def test_a_line_that_changes_is_followed():
    fit = LineFit((x % 17, 5 * (x % 17)) for x in range(200))
    for x in range(1, 400):
        fit.add(x % 17, 2 * (x % 17) + 1)
    assert fit(10) == pytest.approx(21, rel=0.02)


@pytest.mark.parametrize("points", [[(5, 10)], [(5, 10)] * 9, [(1, 9), (2, 1)], [(10, 1), (20, 100)], [(0, 0)]])
def test_no_prediction_is_negative(points):
    fit = LineFit(points)
    assert min(fit(0), fit(1), fit(1000)) >= 0


def test_one_kind_of_batch_is_predicted_exactly():
    assert LineFit([(500, 2.0)] * 10)(500) == pytest.approx(2.0)


def test_frames_start_from_the_prior_and_follow_what_is_seen():
    estimate = FrameEstimate()
    assert estimate.predict(make_row(0, tokens=100)) == 270
    assert estimate.predict(make_row(0, tokens=100, speed=2.0)) == 135
    for tokens in range(10, 410):
        estimate.learn(make_row(0, tokens=tokens, speed=0.5), 8 * tokens)
    assert estimate.predict(make_row(0, tokens=100)) == pytest.approx(400, rel=0.02)


def test_the_fixed_cost_in_frames():
    costs = CostModel()
    for rows in (1, 2, 3, 4) * 2:
        assert costs.overhead_frames == 0.0
        costs.learn(
            ForwardPass(rows, 90 * rows, padded=100 * rows, cost=100 * rows, seconds=0.010 + 0.00001 * 100 * rows)
        )
    assert costs.overhead_frames == pytest.approx(1000)


def test_a_backlog_is_priced_by_batch_and_by_padded_frame():
    costs = CostModel()
    assert costs.backlog_seconds(rows=10, frames=1000, unknown_rows=5, max_rows=4, budget=1e6) == 0.0
    for rows in (1, 2, 3, 4) * 20:
        costs.learn(ForwardPass(rows, 100 * rows, padded=150 * rows, cost=150 * rows, seconds=1 + 0.01 * 150 * rows))
    seconds = costs.backlog_seconds(rows=8, frames=800, unknown_rows=2, max_rows=4, budget=1e6)
    assert seconds == pytest.approx(3 * 1 + 0.01 * 1500)
    assert costs.backlog_seconds(rows=8, frames=800, unknown_rows=0, max_rows=4, budget=310) == pytest.approx(4 + 12)


def test_the_cap_is_halved_and_comes_back_slowly():
    cap = LearnedCap(10_000)
    cap.lower(8_000)
    assert (cap.frames, cap.lowered) == (4_000, True)
    cap.lower(9_000)
    assert cap.frames == 4_000
    for _ in range(100):
        cap.recover()
    assert 4_000 < cap.frames < 8_000
    for _ in range(200):
        cap.recover()
    assert (cap.frames, cap.lowered) == (10_000, False)
