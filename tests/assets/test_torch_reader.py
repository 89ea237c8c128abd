"""Files of torch.save, read without torch: the same numbers, and nothing but numbers."""

from __future__ import annotations

import os
import pickle
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
    with pytest.raises(AssetError, match="made of 1 numbers"):
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
