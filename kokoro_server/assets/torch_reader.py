"""Read files of torch.save without torch.

Such a file is a zip of one pickle and the bytes of the tensors it names; see `torch_pickle`. A small file takes little
time and memory, whatever is in it: nothing in the zip may be compressed, and all that is made of it has a limit.
"""

from __future__ import annotations

import math
import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kokoro_server.assets.torch_pickle import StorageKind, TorchPickle
from kokoro_server.errors import AssetError

AnyTensor = NDArray[Any]

# numpy has no bfloat16. The bits of a bfloat16 are the upper half of a float32's.
BFLOAT16 = "bfloat16"
STORAGES = {
    "BFloat16Storage": BFLOAT16,
    "BoolStorage": "?",
    "ByteStorage": "u1",
    "CharStorage": "i1",
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "IntStorage": "i4",
    "LongStorage": "i8",
    "ShortStorage": "i2",
}
MAX_PICKLE = 300_000  # bytes; all the tensors of Kokoro-82M take 90,000
MAX_LONE = 4_000_000  # bytes of a file with one tensor
MAX_DIMENSIONS = 8
MAX_GROWTH = 4  # times the file's bytes, for storages and tensors together: a tensor is a copy, and bfloat16 is widened
MAX_SPREAD = 8_000_000  # bytes beyond it, for tensors that repeat the numbers of their storage
SHOWN = 200  # characters of a reason in a message


def load(path: Path) -> Any:
    """The saved object, with arrays instead of tensors. AssetError for anything but tensors in dicts and lists."""
    with path.open("rb") as file:
        return _load(file, path)


def tensor(path: Path) -> AnyTensor:
    """The saved object of a small file that holds a single tensor."""
    with path.open("rb") as file:
        content = file.read(MAX_LONE + 1)
    if len(content) > MAX_LONE:
        raise AssetError(f"{path}: has more than {MAX_LONE:,} bytes, too many for a voice")
    saved = _load(BytesIO(content), path)
    if not isinstance(saved, np.ndarray):
        raise AssetError(f"{path}: holds no tensor but a {type(saved).__name__}")
    return saved


def _load(file: BinaryIO, path: Path) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            return _Reader(archive, file.seek(0, os.SEEK_END)).read()
    except Exception as error:  # whatever a damaged zip or pickle raises
        raise AssetError(f"{path}: not a torch file ({error!s:.{SHOWN}})") from error


class _Reader:
    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        self._size = size  # of the zip: no member is longer
        self._bytes_left = MAX_SPREAD + MAX_GROWTH * size
        (pickled,) = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
        self._root = pickled.removesuffix("data.pkl")
        self._order = self._byte_order()
        self._storages: dict[str, AnyTensor] = {}

    def read(self) -> Any:
        return TorchPickle(self._storage, self._tensor).run(self._stored("data.pkl", MAX_PICKLE))

    def _storage(self, reference: object) -> AnyTensor:
        """All the numbers of one storage. Tensors are views of it."""
        match reference:
            case ("storage", StorageKind(name), str(key), _, int(count)) if name in STORAGES:
                pass
            case _:
                raise ValueError("it refers to something that is no storage")
        if key not in self._storages:
            kind = STORAGES[name]
            item = np.dtype("u2" if kind == BFLOAT16 else kind).newbyteorder(self._order)
            content = self._stored(f"data/{key}", self._size)
            if len(content) != count * item.itemsize:
                raise ValueError(f"storage {key} has {len(content)} bytes, expected {count} × {item.itemsize}")
            numbers = np.frombuffer(content, item)
            wide = (numbers.astype(np.uint32) << 16).view(np.float32) if kind == BFLOAT16 else numbers
            self._spend(wide.nbytes)
            self._storages[key] = wide.astype(wide.dtype.newbyteorder("="), copy=False)
        return self._storages[key]

    def _tensor(self, storage: object, offset: object, shape: object, strides: object) -> AnyTensor:
        """A copy of a strided view of the storage. All of the view must lie within the storage."""
        if not (isinstance(storage, np.ndarray) and storage.ndim == 1 and isinstance(offset, int) and offset >= 0):
            raise ValueError("a tensor has no storage")
        if not (_are_sizes(shape) and _are_sizes(strides) and len(shape) == len(strides) <= MAX_DIMENSIONS):
            raise ValueError(f"a tensor's shape is none of at most {MAX_DIMENSIONS} whole numbers with their strides")
        last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        if 0 not in shape and last >= len(storage):
            raise ValueError(f"a tensor reaches to number {last} of a storage of {len(storage)}")
        count = math.prod(shape)
        self._spend(count * storage.itemsize)
        if not count:
            return np.zeros(shape, storage.dtype)
        byte_strides = [stride * storage.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(storage[offset:], shape, byte_strides).copy()

    def _spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise ValueError(f"its tensors are much larger than its {self._size} bytes")

    def _byte_order(self) -> Literal["<", ">"]:
        if self._root + "byteorder" not in self._archive.namelist():
            return "<"
        orders: dict[bytes, Literal["<", ">"]] = {b"little": "<", b"big": ">"}
        return orders[self._stored("byteorder", len("little"))]

    def _stored(self, name: str, limit: int) -> bytes:
        """A member of the zip. torch compresses none, so a compressed one, which could be huge, is refused."""
        member = self._archive.getinfo(self._root + name)
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{member.filename} is compressed")
        if max(member.file_size, member.compress_size) > limit:
            raise ValueError(f"{member.filename} has more than {limit} bytes")
        return self._archive.read(member)


def _are_sizes(values: object) -> TypeGuard[tuple[int, ...]]:
    return isinstance(values, tuple) and all(type(value) is int and value >= 0 for value in values)
