"""SSML: a document becomes a script, whose text is read like any other. Markup that the model cannot follow is refused.

White space is a single space, `p` and `s` end sentences, `break` is a pause; `prosody`, `emphasis`, `voice` and `lang`
change the delivery; `sub`, `say-as` and `phoneme` prescribe how their text is said. Offsets are in the markup.
"""

from __future__ import annotations

import re

from kokoro_server.text import voice_tags
from kokoro_server.text.markup import PRONUNCIATION_MARKUP
from kokoro_server.text.pauses import MAX_SECONDS, PAUSE_MARKUP, Pause
from kokoro_server.text.script import Cast, Delivery, Run, Script
from kokoro_server.text.spoken import Claim
from kokoro_server.text.ssml import elements, phonemes, say_as, values
from kokoro_server.text.ssml.buffer import TextBuffer
from kokoro_server.text.ssml.document import Document, Tag
from kokoro_server.text.traced import Traced

_PRESCRIBING = ("phoneme", "say-as", "sub")  # they say how their text is said, and have nothing but text
_MARKS = re.compile(r"[.,;:!?…)\]”’\"'»。，、！？]+(?=\s|\Z)")
_BRACKETS = str.maketrans("[]", "()")
_LONGEST_WORD = 200  # characters that may be given phonemes
_LONGEST_ALIAS = 1_000  # characters


def script(markup: str, delivery: Delivery, cast: Cast) -> Script:
    """The script of a document. `delivery` holds where no element changes it.

    Takes a while for a long one: call it in a thread. Raises InvalidSSML.
    """
    writer = _Writer(delivery, cast)
    Document(markup, writer).parse()
    return writer.parts


class _Writer:
    """Writes a script while a document is parsed."""

    def __init__(self, delivery: Delivery, cast: Cast) -> None:
        self.parts: list[Run | Pause] = []
        self._cast = cast
        self._deliveries = [delivery]  # of the elements that are open, the innermost last
        self._buffer = TextBuffer()  # the text of the run that is being written
        self._delivery = delivery  # and how it is said
        self._prescribing: tuple[Tag, TextBuffer] | None = None  # an open element of `_PRESCRIBING` and its text

    def start(self, tag: Tag) -> None:
        if self._prescribing:
            raise tag.error(f"not allowed within <{self._prescribing[0].name}>, which has text only")
        if (len(self._deliveries) == 1) != (tag.name == "speak"):
            raise tag.error("a document is one <speak>, and everything else is in it")
        elements.check(tag)
        self._deliveries.append(elements.delivery(tag, self._deliveries[-1], self._cast))
        if tag.name == "p":
            self._buffer.end_paragraph(tag.start)
        elif tag.name == "s":
            self._buffer.end_sentence(tag.start)
        elif tag.name in _PRESCRIBING:
            self._prescribing = tag, TextBuffer()
        elif tag.name == "break":
            self._break(tag)

    def end(self, tag: Tag, position: int) -> None:
        self._deliveries.pop()
        if tag.name == "p":
            self._buffer.end_paragraph(position)
        elif tag.name == "s":
            self._buffer.end_sentence(position)
        elif self._prescribing:
            text, self._prescribing = self._prescribing[1].traced().strip(), None
            self._write_prescribed(tag, text, position)
        elif tag.name == "speak":
            self._close()

    def text(self, text: str, start: int, end: int) -> None:
        if self._prescribing:
            self._prescribing[1].add(text, start, end)
            return
        if self._delivery != self._deliveries[-1] and self._buffer.touches and (marks := _MARKS.match(text)):
            # The marks after an element belong to its text: alone they would be lost.
            self._buffer.add(marks[0], start, end if len(text) == 1 else start + marks.end())
            if len(text) == 1:
                return
            text, start = text[marks.end() :], start + marks.end()
        if text.strip():
            self._open()
        self._buffer.add(text, start, end)

    def _open(self) -> None:
        """Begins a run if the delivery has changed."""
        if self._delivery != self._deliveries[-1]:
            self._close(continues=not self._buffer.ended)
            self._delivery = self._deliveries[-1]

    def _close(self, *, continues: bool = False) -> None:
        buffer, self._buffer = self._buffer, TextBuffer()
        run = Run(buffer.traced(), self._delivery, buffer.claims, continues)
        if run.text.text.strip():
            voice_tags.refuse(run.text)
            self.parts.append(run)

    def _break(self, tag: Tag) -> None:
        seconds = elements.value(tag, "time", values.seconds, f"as 500ms or 1.5s, at most {MAX_SECONDS:g} s")
        if seconds is None:
            strength = tag.attributes.get("strength", "medium")
            if strength not in values.BREAKS:
                raise elements.wrong(tag, "strength", f"one of {' '.join(values.BREAKS)}")
            seconds = values.BREAKS[strength]
        if seconds is not None:
            self._close()
            self.parts.append(Pause(seconds))

    def _write_prescribed(self, tag: Tag, text: Traced, position: int) -> None:
        self._open()
        if tag.name == "phoneme":
            self._write_phonemes(tag, text, position)
        elif text.text:
            if PAUSE_MARKUP.search(text.text) or PRONUNCIATION_MARKUP.search(text.text):
                raise tag.error("there is a pause or a pronunciation within it, which would be said in its place")
            start = len(self._buffer)
            self._buffer.extend(text)
            self._buffer.claims.append(Claim(start, len(self._buffer), self._words(tag, text.text), tag.name))
        elif tag.name == "sub":
            raise tag.error("there is no text within it that the alias could stand for")

    def _words(self, tag: Tag, text: str) -> str:
        if tag.name == "sub":
            if len(tag.attributes["alias"]) > _LONGEST_ALIAS:
                raise elements.wrong(tag, "alias", f"at most {_LONGEST_ALIAS} characters")
            words = say_as.plain(" ".join(tag.attributes["alias"].split()), self._delivery.language)
            if not any(map(str.isalnum, words)):
                raise elements.wrong(tag, "alias", "something that can be said")
            return words
        kind, format = tag.attributes["interpret-as"].strip(), tag.attributes.get("format", "").strip()
        if kind not in say_as.KINDS:
            raise elements.wrong(tag, "interpret-as", f"one of {' '.join(say_as.KINDS)}")
        if format not in ("", *say_as.FORMATS.get(kind, ())):
            raise elements.wrong(tag, "format", f"one of {' '.join(say_as.FORMATS.get(kind, ('none',)))}")
        said = say_as.say(text, kind, format, self._delivery.language)
        if not said:
            what = f"{kind} {format}".strip()
            raise tag.error(f"{text[:40]!r} cannot be read as {what} in {self._delivery.language.name}")
        return said

    def _write_phonemes(self, tag: Tag, text: Traced, position: int) -> None:
        """As the notation for pronunciations in a text."""
        alphabet = tag.attributes.get("alphabet", "ipa").strip().lower()
        if alphabet not in phonemes.ALPHABETS:
            raise elements.wrong(tag, "alphabet", f"one of {' '.join(phonemes.ALPHABETS)}")
        found, problem = phonemes.parse(tag.attributes["ph"], alphabet, self._delivery.language, self._cast.vocabulary)
        if not problem and len(text.text) > _LONGEST_WORD:
            problem = f"there are more than {_LONGEST_WORD} characters within it"
        if problem:
            raise tag.error(problem)
        first, last = text.origin(0, len(text.text)) if text.text else (tag.start, position)
        self._buffer.insert("[", first)
        if text.text:
            self._buffer.extend(Traced(text.text.translate(_BRACKETS), text.starts, text.ends))
        else:
            self._buffer.insert(found.replace(" ", "") or "x", first, last)
        self._buffer.insert(f"](/{found}/)", last)
