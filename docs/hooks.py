"""Hooks of mkdocs: scripts that the site carries itself, and links to files of the repository.

Material for MkDocs loads two scripts from a CDN unless a page has its own: Mermaid, which draws diagrams, and
iframe-worker, which lets a site be searched that is opened from a folder. The site must fetch nothing from elsewhere,
so it has both. Pages without a diagram do not load Mermaid, which is large.

A page may link to a file outside `docs/`, such as `../deploy/compose.yaml`. The link works in a checkout and in a code
browser; the site gets a copy of the file.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Script:
    """A file of an npm package."""

    package: str
    version: str
    member: str
    sha256: str

    @property
    def uri(self) -> str:
        return f"assets/javascripts/{self.package}.js"


MERMAID = Script(
    "mermaid",
    "11.17.2",
    "dist/mermaid.min.js",
    "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8",
)
IFRAME_WORKER = Script(
    "iframe-worker",
    "1.0.4",
    "shim/index.js",
    "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609",
)
COPIES = "repository"
AS_IS = {".json", ".png", ".svg"}  # any other file is shown as plain text
LINK = re.compile(r"(!?\[[^\]]*\])\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    for script in (MERMAID, IFRAME_WORKER):
        files.append(File.generated(config, script.uri, content=_content(script)))
    for page in files.documentation_pages():
        for _, target, _ in LINK.findall(page.content_string):
            if (path := _outside(page.src_uri, target)) and path.is_file():
                uri = _copy(path)
                if files.get_file_from_path(uri) is None:
                    files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    def replaced(link: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, link[2])
        if path is None or not path.exists():
            return link[0]  # mkdocs checks links within docs/, and complains of the rest
        if path.is_dir():
            return link[1][1:-1]  # a site has no listing of a folder
        return f"{link[1]}({posixpath.relpath(_copy(path), posixpath.dirname(page.file.src_uri) or '.')})"

    return LINK.sub(replaced, markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    if 'class="mermaid"' not in output:
        return output
    home = posixpath.relpath(".", posixpath.dirname(page.url) or ".")
    return output.replace("</head>", f'<script src="{posixpath.join(home, MERMAID.uri)}"></script></head>', 1)


def _outside(page: str, target: str) -> Path | None:
    """The file outside docs/ that a page links to."""
    uri = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if uri.startswith("docs/") else ROOT / uri


def _copy(path: Path) -> str:
    uri = PurePosixPath(COPIES, path.relative_to(ROOT).as_posix())
    return str(uri if path.suffix in AS_IS else uri.with_name(f"{uri.name}.txt"))


def _content(script: Script) -> bytes:
    """The script, kept in this environment once it has been fetched."""
    kept = Path(sys.prefix, f"{script.package}-{script.version}.js")
    if not kept.exists():
        with tarfile.open(fileobj=io.BytesIO(_package(script))) as package:
            member = package.extractfile(f"package/{script.member}")
            assert member is not None
            content = member.read()
        if hashlib.sha256(content).hexdigest() != script.sha256:
            raise ValueError(f"{script.package} {script.version}: wrong content, expected sha256 {script.sha256}")
        kept.write_bytes(content)
    return kept.read_bytes()


def _package(script: Script) -> bytes:
    """The npm package: by npm where it is installed, which knows this machine's registry, or from the public one."""
    if not (npm := shutil.which("npm")):
        url = f"https://registry.npmjs.org/{script.package}/-/{script.package}-{script.version}.tgz"
        with urllib.request.urlopen(url, timeout=120) as found:
            return bytes(found.read())
    name = f"{script.package}@{script.version}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([npm, "pack", "--silent", name], cwd=folder, check=True, timeout=300, stdout=subprocess.DEVNULL)
        return next(Path(folder).iterdir()).read_bytes()
