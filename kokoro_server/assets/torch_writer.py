"""Write a tensor as torch.save does, without torch; see `torch_reader`."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def tensor(numbers: NDArray[np.float32]) -> bytes:
    """A file that holds a single tensor of single precision."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", _pickled(numbers.shape))
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", numbers.astype("<f4").tobytes())
        archive.writestr("archive/version", "3\n")
    return file.getvalue()


def _pickled(shape: Sequence[int]) -> bytes:
    """A call of torch's function that makes a tensor of a storage. `pickle.dumps` would have to import torch."""
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    storage = _tuple(
        _text("storage"), _global("torch", "FloatStorage"), _text("0"), _text("cpu"), _int(int(np.prod(shape)))
    )
    no_hooks = _global("collections", "OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE
    arguments = _tuple(
        storage + pickle.BINPERSID,
        _int(0),  # where it begins in the storage
        _tuple(*map(_int, shape)),
        _tuple(*map(_int, strides)),
        pickle.NEWFALSE,  # requires no gradient
        no_hooks,
    )
    call = _global("torch._utils", "_rebuild_tensor_v2") + arguments + pickle.REDUCE
    return pickle.PROTO + b"\x02" + call + pickle.STOP


def _tuple(*items: bytes) -> bytes:
    return pickle.MARK + b"".join(items) + pickle.TUPLE


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _text(value: str) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(value)) + value.encode()


def _int(value: int) -> bytes:
    return pickle.BININT + struct.pack("<i", value)
