"""The graphs in the cache: built once, checked, replaced when they no longer serve. The exporter is a double."""

from __future__ import annotations

import ast
import dataclasses
import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kokoro_server.assets import files
from kokoro_server.engine.cpu import build_cache
from kokoro_server.engine.cpu.build import OnBuildStep
from kokoro_server.engine.cpu.build_cache import Key
from kokoro_server.engine.cpu.instructions import Instructions
from kokoro_server.errors import AssetError
from kokoro_server.runtime.files import UNFINISHED
from tests.assets.sandbox import REPOSITORY, wait_until

KEY = Key("ab" * 32, "int8", "1", "1.2.3", "arm")
PACKAGE = "kokoro_server.engine.cpu"
HOME = Path(build_cache.__file__).parent


class Exporter:
    """Writes two files that show how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, weights: Path, folder: Path, precision: str, on_progress: OnBuildStep) -> None:
        self.calls += 1
        on_progress("half of it")
        (folder / "text.onnx").write_bytes(weights.read_bytes() + precision.encode())
        (folder / "decode.onnx").write_bytes(bytes(1000) + str(self.calls).encode())


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"weights")
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_it_is_built_once(cache: Path, weights: Path, caplog: pytest.LogCaptureFixture) -> None:
    export = Exporter()
    with caplog.at_level(logging.INFO):
        folder = build_cache.ensure(cache, weights, KEY, export)
    assert (folder / "text.onnx").read_bytes() == b"weightsint8"
    assert "half of it" in caplog.text
    assert build_cache.ensure(cache, weights, KEY, export) == folder
    assert export.calls == 1


@pytest.mark.parametrize("damage", ["text.onnx", "decode.onnx", build_cache.MANIFEST])
@pytest.mark.parametrize("how", [lambda path: path.unlink(), lambda path: path.write_bytes(b"?")])
def test_what_is_damaged_is_built_anew(cache: Path, weights: Path, damage: str, how: Callable[[Path], None]) -> None:
    export = Exporter()
    folder = build_cache.ensure(cache, weights, KEY, export)
    how(folder / damage)
    assert build_cache.ensure(cache, weights, KEY, export) == folder
    assert export.calls == 2
    (found,) = build_cache.listing(cache)
    assert found.problems() == []


def last_used(folder: Path, days_ago: float) -> None:
    then = time.time() - days_ago * 86_400
    os.utime(folder / build_cache.MANIFEST, (then, then))


def test_two_versions_that_share_a_cache_build_once_each(cache: Path, weights: Path) -> None:
    """As in an upgrade machine by machine: each start of one must not cost the other its build."""
    exporters = {"1": Exporter(), "2": Exporter()}
    for version in ["1", "2"] * 3:
        key = dataclasses.replace(KEY, exporter=version)
        last_used(build_cache.ensure(cache, weights, key, exporters[version]), days_ago=6)
    assert [exporter.calls for exporter in exporters.values()] == [1, 1]


def test_a_start_marks_its_build_as_used(cache: Path, weights: Path) -> None:
    last_used(build_cache.ensure(cache, weights, KEY, Exporter()), days_ago=8)
    used = build_cache.find(cache, KEY)
    build_cache.ensure(cache, weights, dataclasses.replace(KEY, exporter="2"), Exporter())
    assert build_cache.find(cache, KEY) == used


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"exporter": "2"}, 1),
        ({"onnxruntime": "1.2.4"}, 1),
        ({"precision": "fp32"}, 2),
        ({"weights": "cd" * 32}, 2),
        ({"machine": "x86", "exporter": "2"}, 2),
        ({"machine": "x86-avx512vnni", "exporter": "2"}, 2),
        ({"machine": "arm-dotprod", "exporter": "2"}, 1),
    ],
)
def test_what_no_version_uses_any_more_is_removed(
    cache: Path, weights: Path, change: dict[str, object], left: int
) -> None:
    old = build_cache.ensure(cache, weights, KEY, Exporter())
    last_used(old, days_ago=8)
    other = dataclasses.replace(KEY, **change)
    folder = build_cache.ensure(cache, weights, other, Exporter())
    assert folder != old
    assert len(build_cache.listing(cache)) == left
    assert old.exists() == (left == 2)


def test_a_build_for_no_kernels_goes_when_there_are_some(cache: Path, weights: Path) -> None:
    without = dataclasses.replace(KEY, machine="x86-other")
    old = build_cache.ensure(cache, weights, without, Exporter())
    last_used(old, days_ago=8)
    build_cache.ensure(cache, weights, dataclasses.replace(KEY, machine="x86-avx2"), Exporter())
    assert old.exists()  # of the same version: another machine may use this cache, too
    build_cache.ensure(cache, weights, dataclasses.replace(KEY, machine="x86-avx2", exporter="2"), Exporter())
    assert not old.exists()


def test_a_build_that_fails_leaves_nothing(cache: Path, weights: Path) -> None:
    def fails(_weights: Path, folder: Path, _precision: str, _on_progress: OnBuildStep) -> None:
        (folder / "text.onnx").write_bytes(b"half")
        raise RuntimeError("no such operator")

    with pytest.raises(AssetError, match=r"could not be built in .* free\): no such operator"):
        build_cache.ensure(cache, weights, KEY, fails)
    assert list((cache / build_cache.FOLDER).iterdir()) == []
    build_cache.ensure(cache, weights, KEY, Exporter())


def test_a_build_without_files_is_none(cache: Path, weights: Path) -> None:
    with pytest.raises(AssetError, match="left nothing"):
        build_cache.ensure(cache, weights, KEY, lambda *_: None)


def test_a_full_disk_is_one_line(cache: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(AssetError, match=r"no space left in .* KOKORO_CACHE_DIR") as raised:
        build_cache.ensure(cache, weights, KEY, full)
    assert "\n" not in raised.value.message
    monkeypatch.setattr(files, "free_bytes", lambda _directory: 3)
    with pytest.raises(AssetError, match="no space in"):
        build_cache.ensure(cache, weights, KEY, Exporter())


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AssetError, match=r"cannot use the cache .*KOKORO_CACHE_DIR") as raised:
        build_cache.ensure(tmp_path / "file" / "cache", weights, KEY, Exporter())
    assert "\n" not in raised.value.message


def test_a_finished_build_needs_no_write(cache: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build_cache.ensure(cache, weights, KEY, Exporter())
    monkeypatch.setattr(build_cache.AssetCache, "locked", lambda _self: pytest.fail("took the lock"))
    assert build_cache.ensure(cache, weights, KEY, Exporter()) == folder


PROGRAM = """\
import sys, time
from pathlib import Path
from kokoro_server.engine.cpu import build_cache
from tests.engine.cpu.test_build_cache import KEY
cache, weights = Path(sys.argv[1]), Path(sys.argv[2])

def export(weights, folder, precision, on_progress):
    (folder / "text.onnx").write_bytes(b"text")
    with (cache / "calls").open("a") as calls:
        calls.write("x")
    while (cache / "hold").exists():
        time.sleep(0.02)

print(build_cache.ensure(cache, weights, KEY, export))
"""


def process(cache: Path, weights: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(cache), str(weights)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )


def test_two_processes_build_once(cache: Path, weights: Path) -> None:
    cache.mkdir()
    (cache / "hold").touch()
    both = [process(cache, weights) for _ in range(2)]
    wait_until(lambda: (cache / "calls").exists())
    (cache / "hold").unlink()
    answers = {one.communicate(timeout=60)[0] for one in both}
    assert len(answers) == 1
    assert (cache / "calls").read_text() == "x"


def test_a_build_that_was_killed_is_started_over(cache: Path, weights: Path) -> None:
    cache.mkdir()
    (cache / "hold").touch()
    killed = process(cache, weights)
    wait_until(lambda: (cache / "calls").exists())
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert [path.suffix for path in (cache / build_cache.FOLDER).iterdir()] == [UNFINISHED]
    assert build_cache.listing(cache) == []
    folder = build_cache.ensure(cache, weights, KEY, Exporter())
    assert list((cache / build_cache.FOLDER).iterdir()) == [folder]


def test_the_manifest_says_what_it_was_built_from(cache: Path, weights: Path) -> None:
    folder = build_cache.ensure(cache, weights, KEY, Exporter())
    manifest = json.loads((folder / build_cache.MANIFEST).read_text())
    assert manifest["key"] == dataclasses.asdict(KEY)
    assert sorted(manifest["files"]) == ["decode.onnx", "text.onnx"]


def imported_from_the_package(module: str) -> set[str]:
    """The files of `PACKAGE` that the code of `module` imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((HOME / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    inside = {name.removeprefix(f"{PACKAGE}.").replace(".", "/") for name in names if name.startswith(f"{PACKAGE}.")}
    return {f"{name}.py" for name in inside if (HOME / f"{name}.py").is_file()}


def test_the_exporters_files_are_all_named() -> None:
    """A build's key has the hash of these files: what is not named could change and leave an old build in use.

    The kernels' files are among them, since a build's folder keeps what they were compiled to.
    """
    assert [name for name in build_cache.BUILDER_FILES if not (HOME / name).is_file()] == []
    seen, ahead = set[str](), {"build.py", "fused/stage.py"}
    while ahead:
        seen |= ahead
        ahead = {name for module in ahead for name in imported_from_the_package(module)} - seen
    assert {"build.py", "graph.py", "lowering.py"} <= seen
    data = {f"data/{path.name}" for path in (HOME / "data").iterdir() if path.name != "README.md"}
    assert sorted(build_cache.BUILDER_FILES) == sorted(seen | data)


def test_a_named_file_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_cache, "BUILDER_FILES", (*build_cache.BUILDER_FILES, "data/gone.npz"))
    with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
        build_cache._builder_version.__wrapped__()


def test_what_was_built_for_one_class_of_processors_is_not_used_on_another(
    cache: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Exporter()
    here, *others = {each.build for each in Instructions}
    monkeypatch.setattr(build_cache, "instructions", lambda: here)
    folder = build_cache.ensure(cache, weights, build_cache.key("ab" * 32, "int8"), export)
    for other in others:
        monkeypatch.setattr(build_cache, "instructions", lambda other=other: other)
        wanted = build_cache.key("ab" * 32, "int8")
        assert build_cache.find(cache, wanted) is None
        assert build_cache.ensure(cache, weights, wanted, export) != folder
    assert export.calls == 1 + len(others)
    monkeypatch.setattr(build_cache, "instructions", lambda: here)
    assert build_cache.find(cache, build_cache.key("ab" * 32, "int8")) == folder
