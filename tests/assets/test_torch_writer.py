"""Files as torch.save writes them, made without torch."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch

from kokoro_server.assets import torch_reader, torch_writer


def test_torch_and_our_reader_read_the_same_numbers(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 1, 7)).astype(np.float32)
    content = torch_writer.tensor(numbers)
    loaded = torch.load(io.BytesIO(content), weights_only=True)
    assert loaded.dtype == torch.float32
    np.testing.assert_array_equal(loaded.numpy(), numbers)
    path = tmp_path / "saved.pt"
    path.write_bytes(content)
    np.testing.assert_array_equal(torch_reader.tensor(path), numbers)
