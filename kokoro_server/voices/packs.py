"""Voice packs on disk: a style for each phoneme count from 1 to 510, raw (`.bin`) or as torch saves it (`.pt`).

Those of other models may also be arrays of numpy (`.npy`), or the only tensor of a `.safetensors` file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from kokoro_server.assets import torch_reader
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM
from kokoro_server.errors import AssetError

Pack = NDArray[np.float32]  # (MAX_TOKENS, STYLE_DIM)

SUFFIXES = (".bin", ".pt")
SHAPE = (MAX_TOKENS, STYLE_DIM)
SAVED_SHAPES = (SHAPE, (MAX_TOKENS, 1, STYLE_DIM))
MAX_BYTES = 4 * MAX_TOKENS * STYLE_DIM * 4  # of a file: twice its size in double precision
# In Kokoro's 54 packs the greatest magnitude is 3.2, and each style has one of 0.32 or more.
MAX_MAGNITUDE = 10.0
MIN_MAGNITUDE = 0.01


def read_pack(path: Path) -> Pack:
    """The styles, read-only. Raises AssetError if their numbers cannot be a voice's, OSError if they cannot be read."""
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        raise AssetError(f"{path}: not a voice pack, which is a file of at most {MAX_BYTES:,} bytes")
    try:
        values = _read(path)
        if values.dtype.kind != "f" or (path.suffix != ".bin" and values.shape not in SAVED_SHAPES):
            raise ValueError(f"{values.dtype} of shape {values.shape}")
        pack: Pack = values.reshape(SHAPE).astype(np.float32)
    except (AssetError, ValueError, SafetensorError) as error:
        raise AssetError(f"{path}: not a voice pack of {MAX_TOKENS} × {STYLE_DIM} numbers ({error})") from error
    if not np.isfinite(pack).all():
        raise AssetError(f"{path}: the voice pack has values that are not finite")
    greatest = np.abs(pack).max(axis=1)
    if greatest.max() > MAX_MAGNITUDE or greatest.min() < MIN_MAGNITUDE:
        raise AssetError(
            f"{path}: the magnitudes of its styles, {greatest.min():.3g} to {greatest.max():.3g}, are not a voice's"
        )
    pack.flags.writeable = False
    return pack


def _read(path: Path) -> NDArray[np.generic]:
    if path.suffix == ".pt":
        return torch_reader.tensor(path)
    if path.suffix == ".npy":
        numbers: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
        return numbers
    if path.suffix == ".safetensors":
        tensors = load_file(path)
        if len(tensors) != 1:
            raise ValueError(f"{len(tensors)} tensors")
        (only,) = tensors.values()
        return only
    return np.frombuffer(path.read_bytes(), "<f4")
