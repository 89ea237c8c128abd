"""Weights in bytes whose products no processor adds up to more than it can hold."""

from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.engine.cpu import saturation
from kokoro_server.engine.cpu.instructions import instructions
from kokoro_server.engine.cpu.quantization import (
    GROUP_LIMIT,
    GROUP_QUADS,
    Form,
    group_sums,
    quantize_in_groups,
    quantize_weights,
)


def test_a_groups_sums_are_those_of_its_signs() -> None:
    column = np.zeros((16, 1))
    column[[0, 5, 13], 0] = 3, 4, -100  # the first two of their quads, all of them
    column[[2, 3], 0] = 50, 60  # the last two of one
    assert group_sums(column, 4).tolist() == [110]
    assert group_sums(-column, 4).tolist() == [110]
    assert group_sums(column[[0, 1, 4, 5, 12, 13]], 1).tolist() == [100]


@pytest.mark.parametrize("quads", [1, GROUP_QUADS])
@pytest.mark.parametrize("kind", ["normal", "alike", "one", "zeros"])
def test_weights_in_groups_keep_to_the_limit_and_are_near(quads: int, kind: str) -> None:
    random = np.random.default_rng(0)
    matrix = {
        "normal": random.standard_normal((704, 64)),
        "alike": np.full((704, 64), -0.3),
        "one": np.eye(704, 64),
        "zeros": np.zeros((704, 64)),
    }[kind]
    quantized, scales = quantize_in_groups(matrix, quads)
    assert quantized.dtype == np.int8
    sums = group_sums(quantized, quads)
    assert (sums <= GROUP_LIMIT).all()
    assert np.abs(quantized * scales - matrix).max() <= scales.max() / 2 * 1.001
    if kind in {"normal", "alike"}:
        assert (sums > 0.9 * GROUP_LIMIT).all()  # no coarser than need be


def test_an_odd_number_of_rows_has_a_last_group_too() -> None:
    matrix = np.random.default_rng(0).standard_normal((1542, 8))
    quantized, scales, zero_points = quantize_weights(matrix, Form.PAIRED)
    assert zero_points is None
    pairs = quantized.astype(np.int64).reshape(-1, 2, 8)
    assert np.maximum(pairs, 0).sum(1).max() <= GROUP_LIMIT
    assert np.minimum(pairs, 0).sum(1).min() >= -GROUP_LIMIT
    assert np.abs(quantized * scales - matrix).max() <= scales.max() / 2 * 1.001


def test_onnxruntime_is_exact_wherever_the_processor_is() -> None:
    """Where it is not, a build has weights of another form."""
    assert saturation.signed_products_are_exact() or not instructions().exact
    assert (saturation.best_form() is Form.SIGNED) == saturation.signed_products_are_exact()


def test_onnxruntime_is_exact_with_paired_weights_on_x86() -> None:
    if not (instructions().adds_in_16_bits or instructions().exact):
        pytest.skip("no such processor")
    assert saturation.paired_products_are_exact()


def test_pairs_that_are_parted_show_that_products_saturate() -> None:
    """Otherwise the check would find any pairs exact."""
    if saturation.signed_products_are_exact():
        pytest.skip("nothing saturates here")
    assert not saturation._exact(np.roll(saturation._pairs(4096), 1, 0))
