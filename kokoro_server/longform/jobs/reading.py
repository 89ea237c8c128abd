"""`python -m kokoro_server.longform.jobs.reading`: reads an uploaded document, in a process of its own.

Documents come from strangers, and some take long: the server does not wait for them, memory and time are limited, and a
crash ends this process alone. It reads a request as JSON from standard input, and writes a description or an error.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections import Counter
from pathlib import Path

from kokoro_server.client import Voice
from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.errors import KokoroError, NothingToSay, SetupError, UnreadableDocument
from kokoro_server.longform.books.documents import read_document
from kokoro_server.longform.books.plan import estimated_seconds, make_plan
from kokoro_server.longform.books.speakers import speakers
from kokoro_server.longform.bulk import lines, parquet
from kokoro_server.longform.jobs.folders import writable
from kokoro_server.longform.jobs.job import book_options
from kokoro_server.runtime.json import JsonObject
from kokoro_server.voices.contents import VoiceFinder

MEMORY = 6 << 30  # bytes of address space, most of which a process never uses
PARQUET_MEMORY = 512 << 20  # bytes
NICE = 10  # speech comes first
MAX_REMARKS = 20
MAX_CHAPTERS = 10_000  # the Bible has 1,189
MAX_TITLE = 300  # characters


def main() -> None:
    request = json.load(sys.stdin)
    _limit(request["cpu_s"])
    listed = ((voice["name"], voice["language"]) for voice in request["voices"])
    speech_defaults.set(SpeechDefaults.described(**request["defaults"], listed=listed))
    try:
        about = read(request)
    except KokoroError as error:
        about = {"error": {"code": error.code, "message": error.message, "field": error.field}}
    except MemoryError:
        about = {"error": {"code": "unreadable_document", "message": "it takes too much memory", "field": "file"}}
    json.dump(about, sys.stdout)


def read(request: JsonObject) -> JsonObject:
    path, name = Path(request["path"]), request["name"]
    finder = VoiceFinder(voice["name"] for voice in request["voices"])
    if path.suffix.lower() in lines.SUFFIXES:
        try:
            return _list(path, finder, request["options"], request["max_text"])
        except SetupError as error:
            raise UnreadableDocument(error.message.replace(str(path), name), field="file") from error
    book = read_document(name, path.read_bytes())
    if len(book.chapters) > MAX_CHAPTERS:
        raise UnreadableDocument(f"{name}: it has more than {MAX_CHAPTERS} chapters", field="file")
    options = book_options(request["options"], book)
    plan = make_plan(book, options, [Voice(**voice) for voice in request["voices"]])
    if target := request["target"]:
        with writable():
            Path(target).write_text(book.to_json(), encoding="utf-8")
    chapters: list[JsonObject] = [
        {
            "number": planned.number + 1,
            "title": planned.chapter.title[:MAX_TITLE] or f"Chapter {planned.number + 1}",
            "level": planned.chapter.level,
            "characters": planned.characters,
            "seconds": round(estimated_seconds(planned, options.speed), 1),
        }
        for planned in plan.chapters
    ]
    return {
        "kind": "book",
        "voices": sorted(finder.names_in(list({voice for passage in plan.passages for voice in passage.voices}))),
        "title": book.title[:MAX_TITLE],
        "author": ", ".join(book.authors)[:MAX_TITLE] or None,
        "language": book.language[:MAX_TITLE] if book.language else None,
        "chapters": chapters,
        "characters": plan.characters,
        "seconds": round(sum(chapter["seconds"] for chapter in chapters), 1),
        "remarks": [remark[:MAX_TITLE] for remark in book.remarks[:MAX_REMARKS]],
        "notes": [note[:MAX_TITLE] for note in plan.notes[:MAX_REMARKS]],
        "omissions": dict(Counter(omission.kind for omission in book.omissions)),
        "speakers": [{"name": name, "lines": count} for name, count in speakers(book)] if not target else [],
    }


def _list(path: Path, finder: VoiceFinder, options: JsonObject, max_text: int) -> JsonObject:
    count, characters, wrong = 0, 0, list[str]()
    voices = finder.names_in([options, list(speech_defaults.get().voices.values())])
    for line in lines.read(path, max_text):
        count += 1
        voices |= finder.names_in(line.fields)
        characters += line.characters
        if line.error and len(wrong) < MAX_REMARKS:
            wrong.append(f"line {line.number}: {line.error.message}")
        if parquet.memory_taken() > PARQUET_MEMORY:  # the process that speaks it would need the same
            raise UnreadableDocument("some of its rows take too much memory to read", field="file")
    if not count:
        raise NothingToSay("the file has no lines", field="file")
    about = {"kind": "list", "lines": count, "characters": characters, "remarks": wrong, "notes": []}
    return about | {"voices": sorted(voices)}


def _limit(cpu_s: int) -> None:
    os.umask(0o077)
    with contextlib.suppress(ImportError, ValueError, OSError):  # not every system has these limits
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s += math.ceil(used.ru_utime + used.ru_stime)  # to begin takes seconds on a busy machine
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))  # the second one kills without a reason
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.nice(NICE)


if __name__ == "__main__":
    main()
