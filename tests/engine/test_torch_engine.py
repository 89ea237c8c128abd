"""The engine on torch runs one forward pass for a batch."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import torch

from kokoro_server.engine.protocol import STYLE_DIM, Row
from kokoro_server.engine.torch_engine import TorchEngine
from tests import tiny_model
from tests.engine.rows import random_row

STYLE = np.zeros(STYLE_DIM, np.float32)


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return tiny_model.torch_engine()


def test_all_rows_go_through_the_decoder_at_once(engine: TorchEngine) -> None:
    with patch.object(engine.model, "decoder", wraps=engine.model.decoder) as decoder:
        engine.synthesize([random_row(seed, 5 + seed) for seed in range(4)])
    assert decoder.call_count == 1


def test_a_row_with_nothing_to_say_costs_nothing(engine: TorchEngine) -> None:
    with patch.object(engine.model, "align", side_effect=AssertionError("the model was run")):
        assert len(engine.synthesize([Row((), STYLE)])) == 1
        assert engine.synthesize([]) == []


def test_a_batch_of_four_is_the_best_a_cpu_does(engine: TorchEngine) -> None:
    assert engine.limits.max_rows == 4


def test_synthesis_leaves_torch_as_it_was(engine: TorchEngine) -> None:
    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.random.get_rng_state()
    engine.synthesize([random_row(1, 3)])
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == before[:2]
    assert torch.equal(torch.random.get_rng_state(), before[2])


def test_tiny_models_of_one_seed_are_alike(engine: TorchEngine) -> None:
    row = random_row(1, 5)
    same, other = tiny_model.torch_engine(), tiny_model.torch_engine(seed=1)
    assert np.array_equal(same.synthesize([row])[0].audio, engine.synthesize([row])[0].audio)
    assert not np.array_equal(other.synthesize([row])[0].audio, engine.synthesize([row])[0].audio)
