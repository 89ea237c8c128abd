"""Files of torch.save, read without torch: the same numbers, and nothing but numbers."""

from __future__ import annotations

import io
import os
import pickle
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kokoro_server.assets import torch_reader
from kokoro_server.errors import AssetError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "saved.pt"


def reloaded(saved: Any, path: Path) -> Any:
    torch.save(saved, path)
    return torch_reader.load(path)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8],
)
def test_numbers_of_every_kind(path: Path, dtype: torch.dtype) -> None:
    tensor = torch.arange(-6, 6).reshape(3, 4).to(dtype)
    read = reloaded(tensor, path)
    np.testing.assert_array_equal(read, tensor.numpy())
    assert read.dtype == tensor.numpy().dtype


def test_bfloat16_is_widened(path: Path) -> None:
    tensor = torch.randn(5, 3).to(torch.bfloat16)
    np.testing.assert_array_equal(reloaded(tensor, path), tensor.float().numpy())


def test_truth_values_and_lone_numbers(path: Path) -> None:
    np.testing.assert_array_equal(reloaded(torch.tensor([True, False]), path), [True, False])
    assert reloaded(torch.tensor(3.5), path) == 3.5
    assert reloaded(torch.zeros(0, 4), path).shape == (0, 4)


def test_views_transposes_and_shared_storage(path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    views = {"part": base[1:3, 2:5], "turned": base.T, "spread": base[0].expand(3, 6), "whole": base}
    read = reloaded(views, path)
    for name, view in views.items():
        np.testing.assert_array_equal(read[name], view.numpy())
        assert read[name].flags.owndata


def test_a_module_state_as_it_is_saved(path: Path) -> None:
    lstm = torch.nn.LSTM(3, 4)
    read = reloaded({"predictor": lstm.state_dict(), "epoch": 7, "names": ["a", ("b", None)]}, path)
    assert (read["epoch"], read["names"]) == (7, ["a", ("b", None)])
    assert isinstance(read["predictor"], OrderedDict)
    for name, value in lstm.state_dict().items():
        np.testing.assert_array_equal(read["predictor"][name], value.numpy())


def test_a_parameter_is_its_tensor(path: Path) -> None:
    parameter = torch.nn.Parameter(torch.randn(3))
    np.testing.assert_array_equal(reloaded([parameter], path)[0], parameter.detach().numpy())


class Evil:
    def __init__(self, function: Any, *arguments: object) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize("function", [os.system, eval, getattr, np.zeros, torch.zeros])
def test_no_other_function_is_ever_called(path: Path, tmp_path: Path, function: Any) -> None:
    mark = tmp_path / "was-here"
    torch.save({"a": Evil(function, f"touch {mark}")}, path)
    with pytest.raises(AssetError, match="which is no tensor"):
        torch_reader.load(path)
    assert not mark.exists()


def replaced(path: Path, member: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    """A copy of the file with another content of one member."""
    target = path.with_name("other.pt")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", compression) as copy:
        for name in source.namelist():
            copy.writestr(name, content if name.endswith(member) else source.read(name))
    return target


def test_a_tensor_cannot_reach_beyond_its_storage(path: Path) -> None:
    torch.save(torch.zeros(4), path)
    with pytest.raises(AssetError, match="storage 0 has 8 bytes, expected 4 × 4"):
        torch_reader.load(replaced(path, "data/0", bytes(8)))

    with zipfile.ZipFile(path) as archive:
        pickled = archive.read("saved/data.pkl")
    for place, number in ((b"K\x04\x85", b"K\x09\x85"), (b"K\x01\x85", b"K\x02\x85"), (b"K\x00K\x04", b"K\x01K\x04")):
        assert place in pickled
        with pytest.raises(AssetError, match="reaches to number"):
            torch_reader.load(replaced(path, "data.pkl", pickled.replace(place, number)))


def test_a_small_file_cannot_become_a_huge_tensor(path: Path) -> None:
    torch.save(torch.zeros(1).expand(10**12), path)
    with pytest.raises(AssetError, match="much larger than its"):
        torch_reader.load(path)


def test_compressed_members_are_refused(path: Path) -> None:
    torch.save(torch.zeros(4), path)
    with pytest.raises(AssetError, match="is compressed"):
        torch_reader.load(replaced(path, "nothing", b"", zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 nor this", pickle.dumps([1])])
def test_what_is_no_torch_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(AssetError, match=r"saved\.pt: not a torch file"):
        torch_reader.load(path)


def test_a_truncated_file_is_refused(path: Path) -> None:
    torch.save({"weight": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(AssetError, match="not a torch file"):
        torch_reader.load(path)


def test_one_tensor_is_asked_for(path: Path) -> None:
    torch.save(torch.ones(2), path)
    np.testing.assert_array_equal(torch_reader.tensor(path), [1, 1])
    torch.save([torch.ones(2)], path)
    with pytest.raises(AssetError, match="holds no tensor but a list"):
        torch_reader.tensor(path)


def packed(pickled: bytes, compression: int = zipfile.ZIP_STORED, **storages: bytes) -> bytes:
    """A torch file with this pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("a/data.pkl", pickled)
        for key, content in storages.items():
            archive.writestr(f"a/data/{key}", content)
    return file.getvalue()


def nested(depth: int) -> bytes:
    """Opcodes of a tuple of twice a tuple of twice …: its parts are 2 to the power of `depth`."""
    return b")" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(depth))


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0sX\x03\0\0\0cpuM\xe8\x03tQ"  # of 1,000 numbers
REBUILT = b"ctorch._utils\n_rebuild_tensor_v2\n(h\x00K\x00J\x40\x42\x0f\x00\x85K\x00\x85\x89)tR"  # a million times one
BOMBS = {
    "a dict whose key is a tuple": packed(b"\x80\x02}" + nested(60) + b"K\x01s."),
    "refers to something that is no storage": packed(b"\x80\x02" + nested(60) + b"Q."),
    "a call that makes no tensor": packed(b"\x80\x02ccollections\nOrderedDict\n" + nested(60) + b"R."),
    "is compressed": packed(b"\x80\x02](" + b"]" * 10_000_000 + b"e.", zipfile.ZIP_DEFLATED),
    "data.pkl has more than": packed(b"\x80\x02](" + b"]" * 1_500_000 + b"e."),
    "much larger than its": packed(b"\x80\x02](" + STORAGE + b"q\x00" + REBUILT * 4_000 + b"e.", s=bytes(4_000)),
    "opcode DUP": packed(b"\x80\x02)2."),
    "opcode LONG4": packed(b"\x80\x02\x8b\xe8\x03\0\0" + bytes(1_000) + b"."),
    "no list": packed(b"\x80\x02)K\x01a."),
    "no dict": packed(b"\x80\x02]K\x01K\x01s."),
    "more values than it has made": packed(b"\x80\x02\x87."),
    "no storage": packed(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x00K\x00))tR."),
}


@pytest.mark.parametrize("reason", BOMBS)
def test_a_small_file_takes_little_time_and_memory(path: Path, reason: str) -> None:
    """Before, the first of them took 2 to the power of 60 steps, and the compressed one gigabytes."""
    path.write_bytes(BOMBS[reason])
    tracemalloc.start()
    try:
        with pytest.raises(AssetError, match=reason):
            torch_reader.load(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_a_list_within_itself_is_no_tensor(path: Path) -> None:
    path.write_bytes(packed(b"\x80\x02]q\x00h\x00a."))
    with pytest.raises(AssetError, match="holds no tensor but a list"):
        torch_reader.tensor(path)


def test_a_lone_tensor_is_a_small_file(path: Path) -> None:
    torch.save(torch.zeros(1_100_000), path)
    with pytest.raises(AssetError, match="too many for a voice"):
        torch_reader.tensor(path)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_of_a_zip(path: Path, protocol: int) -> None:
    torch.save({"a": [torch.ones(2, 3)], "b": 1.5}, path, pickle_protocol=protocol)
    read = torch_reader.load(path)
    np.testing.assert_array_equal(read["a"][0], np.ones((2, 3)))
    assert read["b"] == 1.5


def test_damage_of_any_kind_is_an_error_or_a_tensor(path: Path) -> None:
    """Bytes changed, opcodes put in, parts repeated and cut out, mostly in the pickle and the zip's directory."""
    random = np.random.default_rng(32)
    torch.save({"a": torch.ones(4, 2), "b": [torch.zeros(3, 2).T, "c"]}, path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        storage = {"0": archive.read("saved/data/0"), "1": archive.read("saved/data/1")}
        pickled = archive.read("saved/data.pkl")

    def damaged(content: bytes) -> bytes:
        changed = bytearray(content)
        for _ in range(random.integers(1, 5)):
            at, length = random.integers(len(changed)), random.integers(1, 9)
            put = bytes(changed[at : at + length]) * 2 if random.random() < 0.3 else random.bytes(random.integers(3))
            changed[at : at + length] = put or b"."
        return bytes(changed)

    reasons = []
    for _ in range(1_000):
        path.write_bytes(damaged(whole) if random.random() < 0.5 else packed(damaged(pickled), **storage))
        try:
            torch_reader.load(path)
        except AssetError as error:
            reasons.append(error.message)
    assert len(reasons) > 500
    assert max(map(len, reasons)) < 500
