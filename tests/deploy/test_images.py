"""The Dockerfile and what it is given: checked as far as that goes without building an image."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from kokoro_server.cli.settings import variables
from tests import hidden_modules, image_requirements
from tests.cpu_requirements import ROOT, normal
from tests.image_requirements import FOLDER

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()
# Of other programs.
OTHERS = {"PATH", "PYTHONUNBUFFERED", "TRITON_CACHE_DIR", "NVIDIA_DRIVER_CAPABILITIES", "RAY_USAGE_STATS_ENABLED"}
LOADS_THE_MODEL = """
from kokoro_server.engine import devices, torch_engine
from kokoro_server.engine.model import skeleton
skeleton._package()
"""


def stages() -> dict[str, tuple[str, list[str]]]:
    """By name: what the stage is made from, and its instructions."""
    found: dict[str, tuple[str, list[str]]] = {}
    for line in LINES:
        if match := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            instructions: list[str] = []
            found[match[2]] = match[1], instructions
        elif line:
            instructions.append(line)
    return found


def lineage(name: str) -> Iterator[str]:
    """All instructions of a stage and of those it is made from, the last first."""
    while name in stages():
        name, instructions = stages()[name]
        yield from reversed(instructions)


def listed(*files: str) -> set[str]:
    lines = [line for file in files for line in (FOLDER / file).read_text(encoding="utf-8").splitlines()]
    return {normal(line.partition(";")[0]) for line in lines if not line.startswith("#")}


@pytest.mark.parametrize("file", image_requirements.lists())
def test_the_lists_are_what_the_processes_require(file: str) -> None:
    advice = "python -m tests.image_requirements"
    assert (FOLDER / file).read_text(encoding="utf-8") == image_requirements.content(file), advice


def test_every_package_of_an_image_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {normal(line.partition("==")[0]) for line in lines}
    named = {
        normal(name) for name in re.findall(r"--ignore-requires-python (?:-r \S+ )?([a-z ]+)$", "\n".join(LINES), re.M)
    }
    assert listed("server.txt", "cpu.txt", "g2p.txt") | {word for words in named for word in words.split()} <= pinned
    assert {name for name in listed("cluster.txt") if "==" not in name} <= pinned
    torch = re.search(r"TORCH +:= (torch==\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert torch is not None
    assert f"pip install {torch[1]} " in TEXT


def test_images_of_the_speech_server_hold_no_gpl_code() -> None:
    packages = {*listed("server.txt", "cpu.txt"), "attrs", "kokoro", "loguru"}
    assert not packages & {"av", "espeakng-loader", "misaki", "phonemizer-fork"}
    licences = {name: licence(name) for name in packages}
    assert not {
        name: text for name, text in licences.items() if re.search(r"(?<!L)GPL|(?<!Lesser )General Public", text)
    }
    assert "GPL" in licence("phonemizer-fork")


def licence(package: str) -> str:
    facts = metadata.metadata(package)
    said = [facts.get("License-Expression") or "", (facts.get("License") or "").partition("\n")[0]]
    return " ".join([*said, *(each for each in facts.get_all("Classifier") or () if each.startswith("License"))])


@pytest.mark.parametrize("target", ["cpu", "cuda", "cluster", "g2p", "all-in-one"])
def test_every_target_runs_as_nobody_in_particular_and_is_checked(target: str) -> None:
    instructions = list(lineage(target))
    assert next(line for line in instructions if line.startswith("USER")) == "USER 10001:10001"
    assert any(line.startswith("HEALTHCHECK") for line in instructions)
    assert not any(re.search(r"\b(gcc|clang|python3-dev|python3-venv)\b", line) for line in instructions)
    names = {name for line in instructions if line.startswith("ENV") for name in re.findall(r"(\w+)=", line)}
    assert names <= {*variables(), *OTHERS}


def test_what_comes_from_elsewhere_has_a_version() -> None:
    from_elsewhere = {base for base, _ in stages().values()} - stages().keys()
    assert from_elsewhere == {"debian:trixie-slim"}
    copied = set(re.findall(r"--from=(\S+)", TEXT))
    assert copied <= stages().keys()


def test_everything_that_is_copied_is_sent_to_the_builder() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split() if line[0] == "!"}
    assert allowed >= {"kokoro_server", "deploy/docker", "pyproject.toml", "constraints.txt", "README.md"}
    assert all((ROOT / name).exists() for name in allowed)
    for file in set(re.findall(r"deploy/docker/[\w-]+(?:\.py)?", TEXT)):
        assert (ROOT / file).is_file()


def test_a_gpu_server_needs_nothing_that_its_image_leaves_out(tmp_path: Path) -> None:
    if not metadata.packages_distributions().get("torch"):
        pytest.skip("torch is not installed")
    loads(LOADS_THE_MODEL, {*listed("server.txt"), "attrs", "kokoro", "loguru", *of_torch()}, tmp_path)


def test_tools_for_assistants_need_nothing_that_the_image_leaves_out(tmp_path: Path) -> None:
    loads("from kokoro_server.api.mcp import sdk", listed("server.txt", "cpu.txt"), tmp_path)


def loads(code: str, packages: set[str], folder: Path) -> None:
    """Runs code where only these packages are installed."""
    image = {*packages, "kokoro-server", "pip"}
    absent = [
        module
        for module, names in metadata.packages_distributions().items()
        if not any(normal(name) in image for name in names)
    ]
    assert "misaki" in absent
    environ = os.environ | hidden_modules.environment(folder, absent)
    ended = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr


def of_torch() -> set[str]:
    found, todo = set[str](), ["torch"]
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            required = metadata.requires(name) or ()
            todo += [normal(re.split(r"[^\w.-]", each)[0]) for each in required if ";" not in each]
    return found


def started(image: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """The images' entrypoint, for a model in the folder `image`."""
    script = (FOLDER / "entrypoint").read_text(encoding="utf-8").replace("/opt/kokoro/cache", str(image))
    environ = {"PATH": os.environ["PATH"], "KOKORO_CACHE_DIR": str(cache)}
    return subprocess.run(
        ["sh", "-c", script, "entrypoint", "echo", "serving"], env=environ, capture_output=True, text=True
    )


@pytest.mark.skipif(sys.platform != "linux", reason="cp of GNU")
def test_the_model_of_the_image_is_linked_into_the_cache_and_replaces_nothing(tmp_path: Path) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    (image / "onnx" / "key").mkdir(parents=True)
    (image / "onnx" / "key" / "text.onnx").write_text("graph")
    (image / "manifest.json").write_text("of the image")
    cache.mkdir()
    (cache / "manifest.json").write_text("better")
    for _ in range(2):  # a container that is started again
        ended = started(image, cache)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "serving\n", "")
    assert (cache / "onnx" / "key" / "text.onnx").is_symlink()
    assert (cache / "onnx" / "key" / "text.onnx").read_text() == "graph"
    assert (cache / "manifest.json").read_text() == "better"
    (cache / "onnx" / "another-key").mkdir()
    assert [path.name for path in (image / "onnx").iterdir()] == ["key"]


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "manifest.json").write_text("")
    (tmp_path / "cache").write_text("a file")
    ended = started(tmp_path / "image", tmp_path / "cache")
    assert (ended.returncode, ended.stdout) == (0, "serving\n")
    assert "is it writable" in ended.stderr
