"""Convolutions by Hopper's own products against the plain ones, on rows of very different lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.engine.cuda.kernels.card import Card  # noqa: E402
from kokoro_server.engine.cuda.kernels.halo_conv import HaloConv  # noqa: E402
from kokoro_server.engine.model.layers import AdaINParams  # noqa: E402
from tests.gpu import test_fused  # noqa: E402
from tests.gpu.test_fused import HALF, Pair, device, error, exact  # noqa: E402, F401

COUNTS = (test_fused.SIZE, 333, 130, 128, 2)  # of some rows of many


@pytest.mark.parametrize(
    "name",
    [f"resblocks.{block}.convs1.{layer}" for block in range(6) for layer in range(3)]
    + ["resblocks.2.convs2.2", "resblocks.5.convs2.0", "noise_res.0.convs1.1", "noise_res.1.convs2.0"],
)
def test_a_convolution_and_the_norm_after_it(name: str, device: torch.device, model: Any) -> None:  # noqa: F811
    card = Card.of(device)
    if not card.has_halo_products:
        pytest.skip("needs a Hopper card")
    pair, module = Pair(device, counts=COUNTS * 40), model.decoder.generator.get_submodule(name)
    channels, gain = module.in_channels, torch.rand(module.in_channels) + 0.5
    pair.ops.halo = True
    x, base = (pair.signal(channels).half().float() for _ in range(2))
    rows = len(pair.counts)
    first, second = (AdaINParams(*torch.randn(2, rows, 1, channels, device=device)) for _ in range(2))
    plain = pair.plain_ops.conv(module, pair.plain, gain)
    conv = pair.ops.snake_conv(module, pair.fused, gain)
    assert isinstance(conv, HaloConv)
    for onto in (base, None):
        expected = plain.of_snake(
            pair.plain_ops.instance_norm(x, pair.host), first, pair.host, None if onto is None else onto.clone()
        )
        signal, half = pair.ops.instance_norm(x.half(), pair.lengths), None if onto is None else onto.half()
        actual, again = (conv.of_snake(signal, first, pair.lengths, half) for _ in range(2))
        assert error(expected.x, actual.x, pair.counts) < HALF
        assert error(actual.x.float(), again.x, pair.counts) == 0
        some = [row for row, count in enumerate(pair.counts) if count > 2]
        after, fused = expected.snake(second)[some], actual.snake(second)[some]
        assert error(after, fused, tuple(pair.counts[row] for row in some)) < 3 * HALF
