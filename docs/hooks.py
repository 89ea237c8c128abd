"""Hooks of mkdocs: diagrams that are drawn offline, and links to files of the repository.

Material for MkDocs loads Mermaid from a CDN unless the page has already loaded it. The site must fetch nothing from
elsewhere, so it carries the script itself, on the pages that have a diagram.

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
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
MERMAID = "11.17.2"
MERMAID_SHA256 = "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8"
SCRIPT = "assets/javascripts/mermaid.min.js"
COPIES = "repository"
AS_IS = {".json", ".png", ".svg"}  # any other file is shown as plain text
LINK = re.compile(r"(!?\[[^\]]*\])\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, SCRIPT, content=_mermaid()))
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
    return output.replace("</head>", f'<script src="{posixpath.join(home, SCRIPT)}"></script></head>', 1)


def _outside(page: str, target: str) -> Path | None:
    """The file outside docs/ that a page links to."""
    uri = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if uri.startswith("docs/") else ROOT / uri


def _copy(path: Path) -> str:
    uri = PurePosixPath(COPIES, path.relative_to(ROOT).as_posix())
    return str(uri if path.suffix in AS_IS else uri.with_name(f"{uri.name}.txt"))


def _mermaid() -> bytes:
    """The script, kept in this environment once it has been fetched."""
    kept = Path(sys.prefix, f"mermaid-{MERMAID}.js")
    if not kept.exists():
        with tarfile.open(fileobj=io.BytesIO(_package())) as package:
            member = package.extractfile("package/dist/mermaid.min.js")
            assert member is not None
            content = member.read()
        if hashlib.sha256(content).hexdigest() != MERMAID_SHA256:
            raise ValueError(f"mermaid {MERMAID}: wrong content, expected sha256 {MERMAID_SHA256}")
        kept.write_bytes(content)
    return kept.read_bytes()


def _package() -> bytes:
    """The npm package: by npm where it is installed, which knows this machine's registry, or from the public one."""
    if not (npm := shutil.which("npm")):
        with urllib.request.urlopen(
            f"https://registry.npmjs.org/mermaid/-/mermaid-{MERMAID}.tgz", timeout=120
        ) as found:
            return bytes(found.read())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([npm, "pack", "--silent", f"mermaid@{MERMAID}"], cwd=folder, check=True, timeout=300)
        return next(Path(folder).iterdir()).read_bytes()
