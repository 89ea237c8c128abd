"""Every link of README and docs leads somewhere, and every page is in the site's navigation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages
from tests.servers import ROOT

OTHERS = [
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "deploy" / "README.md",
]


@pytest.mark.parametrize("page", [*pages.PAGES, *OTHERS], ids=pages.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for line, link in pages.links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in pages.anchors(target)):
            broken.append(f"{pages.name(page)}:{line}: {link}")
    assert broken == []


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", navigation)
    assert sorted(named) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in pages.PAGES[1:])


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three\n\n[a](#one-two-three) [b](gone.md) `[c](no.md)`\n\n```text\n[d](no.md)\n```\n")
    assert [link for _, link in pages.links(page)] == ["#one-two-three", "gone.md"]
    assert pages.anchors(page) == {"one-two-three"}
