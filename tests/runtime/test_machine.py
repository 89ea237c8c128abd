from __future__ import annotations

import os
from pathlib import Path

import pytest

from kokoro_server.engine.cpu import engine
from kokoro_server.runtime import machine
from tests import tiny_model

V2 = "0::{group}"
V1 = "12:pids:/\n3:cpu,cpuacct:{group}\n0::/"


class Machine:
    """Eight cores, and files of /proc and of control groups."""

    def __init__(self, folder: Path) -> None:
        self.process = folder / "proc"
        self.process.mkdir()
        self.mounted = folder / "cgroup"

    def runs_in(self, group: str, *, version: int = 2, root: str = "/") -> None:
        """`root` is the group that is mounted, by its path on the host."""
        kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,cpu,cpuacct"
        lines = [
            "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw",
            f"34 22 0:31 {root} {self.mounted} rw - {kind}",
        ]
        (self.process / "mountinfo").write_text("\n".join(lines) + "\n")
        (self.process / "cgroup").write_text((V2 if version == 2 else V1).format(group=group) + "\n")

    def limit(self, group: str, **contents: str) -> None:
        folder = self.mounted / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name.replace("__", ".")).write_text(f"{content}\n")

    @property
    def cores(self) -> float:
        return machine.available_cores(self.process)


@pytest.fixture
def eight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    return Machine(tmp_path)


@pytest.mark.parametrize(("quota", "cores"), [("150000 100000", 1.5), ("50000 100000", 0.5), ("max 100000", 8)])
def test_a_containers_quota_counts(eight: Machine, quota: str, cores: float) -> None:
    eight.runs_in("/")
    eight.limit(".", cpu__max=quota)
    assert eight.cores == cores


@pytest.mark.parametrize(
    ("slice_quota", "unit_quota", "cores"), [("max", "200000", 2), ("200000", "max", 2), ("300000", "400000", 3)]
)
def test_the_least_quota_of_the_own_group_and_its_parents_counts(
    eight: Machine, slice_quota: str, unit_quota: str, cores: float
) -> None:
    eight.runs_in("/speech.slice/kokoro.service")
    eight.limit("speech.slice", cpu__max=f"{slice_quota} 100000")
    eight.limit("speech.slice/kokoro.service", cpu__max=f"{unit_quota} 100000")
    eight.limit("other.slice", cpu__max="100000 100000")
    assert eight.cores == cores


@pytest.mark.parametrize(("quota", "cores"), [("250000", 2.5), ("-1", 8)])
@pytest.mark.parametrize(
    ("group", "root"), [("/docker/1f", "/"), ("/docker/1f", "/docker/1f"), ("/docker/1f", "/../x")]
)
def test_version_1_has_other_files(eight: Machine, quota: str, cores: float, group: str, root: str) -> None:
    eight.runs_in(group, version=1, root=root)
    eight.limit("docker/1f" if root == "/" else ".", **{"cpu__cfs_quota_us": quota, "cpu__cfs_period_us": "100000"})
    assert eight.cores == cores


def test_without_such_files_the_affinity_counts(eight: Machine) -> None:
    assert eight.cores == 8
    eight.runs_in("/gone")
    assert eight.cores == 8
    (eight.process / "mountinfo").write_text("something else\n")
    assert eight.cores == 8


def test_what_this_machine_says_is_understood() -> None:
    assert 0 < machine.available_cores() <= (os.cpu_count() or 1)


def test_at_least_one_thread(eight: Machine) -> None:
    eight.runs_in("/")
    for quota, threads in (("50000 100000", 1), ("250000 100000", 2)):
        eight.limit(".", cpu__max=quota)
        assert machine.thread_count(eight.process) == threads


def test_the_cpu_engine_keeps_to_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "thread_count", lambda: 1)
    assert tiny_model.onnx_engine()._threads == 1


def test_a_containers_memory_counts(eight: Machine) -> None:
    eight.runs_in("/system.slice/kokoro.service")
    eight.limit("system.slice", memory__max="max")
    whole = machine.available_memory(eight.process)
    assert whole > 1 << 28
    eight.limit("system.slice/kokoro.service", memory__max=str(1 << 28))
    assert machine.available_memory(eight.process) == 1 << 28
    eight.limit("system.slice", memory__max=str(1 << 27))
    assert machine.available_memory(eight.process) == 1 << 27


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("processor\t: 0\nmodel name\t: Some CPU @ 2.5GHz\ncpu MHz\t: 2500.1\n\nprocessor\t: 1\n", "Some CPU @ 2.5GHz"),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n", "0x41 0xd0c 0x3"),
    ],
)
def test_a_processor_has_the_name_of_its_model(tmp_path: Path, content: str, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(content)
    assert machine.processor(tmp_path / "cpuinfo") == name


def test_a_system_without_that_file_names_its_processor_too(tmp_path: Path) -> None:
    assert machine.processor(tmp_path / "absent")
