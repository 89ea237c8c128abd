"""Convolutions by Hopper's own products against Triton's, on rows of very different lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.engine.cuda.kernels.card import Card  # noqa: E402
from kokoro_server.engine.cuda.kernels.halo_conv import HaloByteConv, HaloConv  # noqa: E402
from kokoro_server.engine.model.layers import AdaINParams  # noqa: E402
from tests.gpu import test_fused  # noqa: E402
from tests.gpu.test_fused import HALF, Pair, device, error, exact  # noqa: E402, F401

COUNTS = (test_fused.SIZE, 333, 130, 128, 2)  # of some rows of many


NAMES = [f"resblocks.{block}.convs1.{layer}" for block in range(6) for layer in range(3)]
NAMES += ["resblocks.2.convs2.2", "resblocks.5.convs2.0", "noise_res.0.convs1.1", "noise_res.1.convs2.0"]
THREE_TAPS = ("resblocks.0.", "resblocks.3.")
CASES = [(name, False) for name in NAMES] + [(name, True) for name in NAMES if not name.startswith(THREE_TAPS)]


@pytest.mark.parametrize(("name", "in_bytes"), CASES)
def test_a_convolution_and_the_norm_after_it(
    name: str,
    in_bytes: bool,
    device: torch.device,  # noqa: F811
    model: Any,
) -> None:
    if not Card.of(device).has_halo_products:
        pytest.skip("needs a Hopper card")
    pair, module = Pair(device, counts=COUNTS * 40), model.decoder.generator.get_submodule(name)
    gain = torch.rand(module.in_channels) + 0.5
    pair.ops.in_bytes = in_bytes
    plain = pair.ops.snake_conv(module, pair.fused, gain)
    assert not isinstance(plain, HaloByteConv | HaloConv)
    pair.ops.halo = True
    conv = pair.ops.snake_conv(module, pair.fused, gain)
    assert isinstance(conv, HaloByteConv if in_bytes else HaloConv)
    x, base = (pair.signal(module.in_channels).half() for _ in range(2))
    rows = len(pair.counts)
    first, second = (AdaINParams(*torch.randn(2, rows, 1, module.in_channels, device=device)) for _ in range(2))
    some = [row for row, count in enumerate(pair.counts) if count > 2]
    signal = pair.ops.instance_norm(x, pair.lengths)
    for onto in (base, None):
        expected = plain.of_snake(signal, first, pair.lengths, onto)
        actual, again = (conv.of_snake(signal, first, pair.lengths, onto) for _ in range(2))
        assert error(expected.x.float(), actual.x, pair.counts) < HALF
        assert error(actual.x.float(), again.x, pair.counts) == 0
        after, fused = (norm.snake(second)[some].float() for norm in (expected, actual))
        assert error(after, fused, tuple(pair.counts[row] for row in some)) < 3 * HALF
