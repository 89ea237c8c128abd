"""EPUB 2 and 3: the files of the spine in order, with chapters by the table of contents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.book import Book, Picture
from kokoro_server.longform.books.documents import epub_contents, gutenberg, notes, omissions
from kokoro_server.longform.books.documents.archive import Archive, resolve
from kokoro_server.longform.books.documents.elements import Budget, Element, parse
from kokoro_server.longform.books.documents.encoding import decode
from kokoro_server.longform.books.documents.epub_contents import ContentsEntry
from kokoro_server.longform.books.documents.flow import CONTENTS, DocumentFlow, starts_from_headings, with_chapters
from kokoro_server.longform.books.documents.hypertext import Walker
from kokoro_server.longform.books.documents.limits import MAX_COVER, MIB

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_LOCKS = ("META-INF/license.lcpl", "META-INF/sinf.xml")
# Obfuscated fonts are no lock: the text is open.
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_HYPERTEXT = ("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document", "text/xml")
_HYPERTEXT_SUFFIXES = (".xhtml", ".html", ".htm", ".xml", ".svg")
_PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
# Of the guide of EPUB 2.
_GUIDE = {"cover": omissions.COVER, "toc": CONTENTS, "index": omissions.INDEX, "copyright-page": omissions.COPYRIGHT}
_OUTSIDE = "text outside the reading order"
_MISSING = "file that is missing"
_NO_TEXT = "file that is no text"


@dataclass(frozen=True, slots=True)
class _Item:
    """A file of the manifest."""

    name: str
    media_type: str
    properties: tuple[str, ...]

    @property
    def is_hypertext(self) -> bool:
        """By its type, or by its name where the type is wrong or missing."""
        return self.media_type in _HYPERTEXT or self.name.lower().endswith(_HYPERTEXT_SUFFIXES)


def read(content: bytes, title: str) -> Book:
    return _Epub(Archive(content), title).read()


class _Epub:
    def __init__(self, archive: Archive, title: str) -> None:
        self._archive = archive
        self._fallback_title = title
        self._budget = Budget()
        self._remarks: list[str] = []
        self._refuse_locked()
        self._opf = self._package_name()
        self._package = self._xml(self._opf)
        self._facts = self._package.find("metadata")
        self._manifest = {
            item.get("id"): _Item(
                resolve(item.get("href"), self._opf)[0],
                item.get("media-type").lower().partition(";")[0].strip(),
                tuple(item.get("properties").split()),
            )
            for item in self._package.all("item")
        }

    def read(self) -> Book:
        spine = list(self._spine())
        files = {
            item.name: self._html(item.name) for item, _ in spine if item.is_hypertext and self._archive.find(item.name)
        }
        if not files:
            raise UnreadableDocument("it has no text in its reading order (the spine of the package)")
        entries = self._entries()
        starts = epub_contents.starts(entries, files)
        languages = (root.find("html").language for root in files.values())
        language = self._metadata("language") or next(filter(None, languages), None)
        flow, omitted = DocumentFlow(), self._omitted()
        walker = Walker(flow, notes.linked(files), language)
        for item, linear in spine:
            if root := files.get(item.name):
                kind = omitted.get(item.name) if linear else _OUTSIDE
                walker.walk(root, starts.get(item.name, {}), kind)
            else:
                flow.leave(_NO_TEXT if self._archive.find(item.name) else _MISSING, item.name)
        items = gutenberg.without_licence(flow.items)
        book = Book(
            self._metadata("title") or self._fallback_title,
            authors=tuple(self._authors()),
            language=language,
            cover=self._cover(files),
            remarks=tuple(dict.fromkeys(self._remarks)),
        )
        return with_chapters(book, items if starts else starts_from_headings(items))

    def _refuse_locked(self) -> None:
        locked = any(self._archive.find(name) for name in _LOCKS)
        if self._archive.find(_ENCRYPTION):
            methods = {method.get("algorithm") for method in self._xml(_ENCRYPTION).all("EncryptionMethod")}
            locked = locked or not methods <= {*_FONTS}
        if locked:
            raise UnreadableDocument("it is encrypted (DRM), so its text cannot be read; only open EPUBs can")

    def _package_name(self) -> str:
        if not self._archive.find(_CONTAINER):
            found = next((name for name in self._archive.names() if name.lower().endswith(".opf")), None)
        else:
            roots = [root.get("full-path") for root in self._xml(_CONTAINER).all("rootfile")]
            found = next((root for root in roots if self._archive.find(root)), None)
        if found is None:
            raise UnreadableDocument(f"it is not an EPUB: {_CONTAINER} names no package that is in it")
        return found

    def _xml(self, name: str) -> Element:
        return parse(decode(self._archive.text(name), declared=True)[0], self._budget, is_html=False)

    def _html(self, name: str) -> Element:
        text, guessed = decode(self._archive.text(name), declared=True)
        if guessed:
            self._remarks.append(f"{name} is not UTF-8 and does not say what it is: read as {guessed}")
        return parse(text, self._budget)

    def _spine(self) -> Iterator[tuple[_Item, bool]]:
        """The files of the text, each once, and whether it is in the reading order."""
        references = [
            (self._item(item.get("idref")), item.get("linear") != "no") for item in self._package.all("itemref")
        ]
        any_linear = any(linear for _, linear in references)
        seen: set[str] = set()
        for item, linear in references:
            if item.name not in seen:
                seen.add(item.name)
                yield item, linear or not any_linear

    def _item(self, id: str) -> _Item:
        """An id that the manifest lacks becomes the name of a missing file."""
        return self._manifest.get(id) or _Item(id, "", ())

    def _entries(self) -> list[ContentsEntry]:
        for item in self._manifest.values():
            is_nav = "nav" in item.properties and self._archive.find(item.name)
            if is_nav and (entries := epub_contents.from_nav(self._html(item.name), item.name)):
                return entries
        named = self._manifest.get(self._package.find("spine").get("toc"))
        for item in self._manifest.values():
            is_ncx = item is named or item.media_type == "application/x-dtbncx+xml"
            if is_ncx and self._archive.find(item.name):
                return epub_contents.from_ncx(self._xml(item.name), item.name)
        return []

    def _omitted(self) -> dict[str, str]:
        """Files that are omitted as a whole, with the kind of omission."""
        found = {item.name: CONTENTS for item in self._manifest.values() if "nav" in item.properties}
        for reference in self._package.all("reference"):
            if kind := _GUIDE.get(reference.get("type").lower()):
                name, fragment = resolve(reference.get("href"), self._opf)
                if not fragment:
                    found.setdefault(name, kind)
        return found

    def _metadata(self, name: str) -> str:
        return next((text for element in self._facts.all(name) if (text := element.text())), "")

    def _authors(self) -> Iterator[str]:
        roles = {
            meta.get("refines").lstrip("#"): meta.text()
            for meta in self._facts.all("meta")
            if meta.get("property") == "role"
        }
        for creator in self._facts.all("creator"):
            role = creator.get("opf:role") or creator.get("role") or roles.get(creator.get("id"), "aut")
            if role == "aut" and creator.text():
                yield creator.text()

    def _cover(self, files: dict[str, Element]) -> Picture | None:
        for name in self._cover_names(files):
            item = next((item for item in self._manifest.values() if item.name == name), None)
            if item is None or not self._archive.find(name):
                continue
            if item.media_type in _PICTURES:
                try:
                    return Picture(item.media_type, self._archive.read(name, MAX_COVER))
                except UnreadableDocument:  # a book can do without its cover
                    self._remarks.append(f"its cover is left out: it is larger than {MAX_COVER // MIB} MiB, or broken")
            elif item.media_type.startswith("image/"):
                self._remarks.append(f"its cover is left out: {item.media_type} is no picture that players show")
        return None

    def _cover_names(self, files: dict[str, Element]) -> Iterator[str]:
        items = self._manifest.values()
        yield from (item.name for item in items if "cover-image" in item.properties)
        for meta in self._package.all("meta"):
            if meta.get("name") == "cover" and (item := self._manifest.get(meta.get("content"))):
                yield item.name
        for reference in self._package.all("reference"):
            if reference.get("type").lower() == "cover":
                name, _ = resolve(reference.get("href"), self._opf)
                yield name
                yield from _pictures(files.get(name), name)
        yield from (item.name for item in items if "cover" in item.name.rpartition("/")[2].lower())


def _pictures(root: Element | None, name: str) -> Iterator[str]:
    for element in root.walk() if root is not None else ():
        if source := element.get("src") or element.get("xlink:href"):
            yield resolve(source, name)[0]
