"""Read files of torch.save without torch.

Such a file is a zip of one pickle and the bytes of the tensors it names. A pickle can call any function of any module.
This reader allows the handful that rebuild tensors and refuses the rest.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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
MAX_SPREAD = 1_000_000  # numbers of a tensor that repeats those of its storage: a small file must not fill the memory
CONTAINERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): tuple,
}


def load(path: Path) -> Any:
    """The saved object, with arrays instead of tensors. AssetError for anything but tensors in dicts and lists."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive).read()
    except OSError:
        raise
    except Exception as error:  # whatever a damaged zip or pickle raises
        raise AssetError(f"{path}: not a torch file ({error})") from error


def tensor(path: Path) -> AnyTensor:
    """The saved object of a file that holds a single tensor."""
    saved = load(path)
    if not isinstance(saved, np.ndarray):
        raise AssetError(f"{path}: holds no tensor but a {type(saved).__name__}")
    return saved


class _Reader:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        (pickled,) = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
        self._root = pickled.removesuffix("data.pkl")
        self._storages: dict[str, AnyTensor] = {}
        self._order = self._byte_order()

    def read(self) -> Any:
        with self._archive.open(self._root + "data.pkl") as file:
            unpickler = _Unpickler(file)
            unpickler.storage = self.storage
            return unpickler.load()

    def storage(self, kind: str, key: str, count: int) -> AnyTensor:
        """All the numbers of one storage. Tensors are views of it."""
        if key not in self._storages:
            item = np.dtype("u2" if kind == BFLOAT16 else kind).newbyteorder(self._order)
            content = self._stored(f"data/{key}")
            if len(content) != count * item.itemsize:
                raise ValueError(f"storage {key} has {len(content)} bytes, expected {count} × {item.itemsize}")
            numbers = np.frombuffer(content, item)
            wide = (numbers.astype(np.uint32) << 16).view(np.float32) if kind == BFLOAT16 else numbers
            self._storages[key] = wide.astype(wide.dtype.newbyteorder("="), copy=False)
        return self._storages[key]

    def _byte_order(self) -> Literal["<", ">"]:
        if self._root + "byteorder" not in self._archive.namelist():
            return "<"
        orders: dict[bytes, Literal["<", ">"]] = {b"little": "<", b"big": ">"}
        return orders[self._stored("byteorder")]

    def _stored(self, name: str) -> bytes:
        """A member of the zip. torch compresses none, so a compressed one, which could be huge, is refused."""
        member = self._archive.getinfo(self._root + name)
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{member.filename} is compressed")
        return self._archive.read(member)


class _Unpickler(pickle.Unpickler):
    storage: Callable[[str, str, int], AnyTensor]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in CONTAINERS:
            return CONTAINERS[module, name]
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            # A new function for each call: a pickle can set attributes of what it gets.
            return lambda *arguments: _tensor(*arguments[:4])
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda *arguments: arguments[0]
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is no tensor")

    def persistent_load(self, pid: Any) -> AnyTensor:
        tag, kind, key, _location, count = pid
        if tag != "storage" or kind not in STORAGES.values() or not isinstance(key, str) or not isinstance(count, int):
            raise pickle.UnpicklingError(f"it refers to {pid!r:.100}, which is no storage")
        return self.storage(kind, key, count)


def _tensor(storage: AnyTensor, offset: int, shape: Sequence[int], strides: Sequence[int]) -> AnyTensor:
    """A copy of a strided view of the storage. All of the view must lie within the storage."""
    if len(shape) != len(strides) or min(offset, *shape, *strides, 0) < 0:
        raise ValueError(f"a tensor of shape {tuple(shape)}, strides {tuple(strides)} at {offset}")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= len(storage):
        raise ValueError(f"a tensor reaches to number {last} of a storage of {len(storage)}")
    if math.prod(shape) > max(len(storage), MAX_SPREAD):
        raise ValueError(f"a tensor of shape {tuple(shape)} made of {len(storage)} numbers")
    if 0 in shape:
        return np.zeros(shape, storage.dtype)
    byte_strides = [stride * storage.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, byte_strides).copy()
