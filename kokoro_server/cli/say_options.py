"""The arguments of `kokoro-server say`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from kokoro_server.audio.formats import SUFFIXES
from kokoro_server.cli import RunCommand
from kokoro_server.longform.books.options import LOUDEST, QUIETEST, BookFormat, parse_chapters

BOOK_FORMATS = get_args(BookFormat)
SLOWEST, FASTEST = 0.25, 4.0
SAY_EXAMPLES = """\
examples:
  kokoro-server say "Hello there."
  kokoro-server say "Hello [pause:1.5s] there." -v "af_bella(2)+af_sky(1)" -s 1.1 -o hello.wav
  kokoro-server say -f book.txt -o book.mp3 --subtitles book.vtt
  pbpaste | kokoro-server say -f -
  kokoro-server say "Spoken elsewhere." --url http://speech.local:8880
  kokoro-server say --explain 'Dr. Ng paid $5 on 3/4/2025.'
  kokoro-server say alice.epub -o alice.m4b --voice-of "Alice=af_bella" --voice-of "the Queen=bf_emma"
  kokoro-server say alice.epub -o chapters --format opus --chapters 3-5
  kokoro-server say alice.epub --dry-run

Without --url the model is loaded into this process, and fetched first if it is missing. A file gets its name only when
it is complete. Spoken passages of a book are kept in BOOK.work until the book is complete: after an interruption, the
same command continues from there. Other texts start from the beginning."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], run: RunCommand) -> None:
    say = commands.add_parser(
        "say",
        help="speak a text: through a player, or into a file",
        description="Speaks a text through whatever player is installed, or into a file.",
        epilog=SAY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = say.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "text", nargs="?", help="text to say ([pause:1.5s] is silence), or a document: .epub .txt .md .html .pdf .docx"
    )
    what.add_argument("-f", "--file", metavar="FILE", help="a UTF-8 text file to say, - for standard input")
    say.add_argument(
        "-v", "--voice", help="a voice or a blend; see 'voices' (default: af_heart; in a book, one of each language)"
    )
    say.add_argument("-s", "--speed", type=_speed, default=1.0, help="0.25 to 4; 1 is the voice's own pace")
    say.add_argument("-l", "--language", metavar="LANG", help="how to read the text (default: as the voice does)")
    say.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"write to a file: {' '.join(SUFFIXES)}; a book: .{' .'.join(BOOK_FORMATS)} or a folder",
    )
    say.add_argument("--subtitles", type=Path, metavar="FILE", help="write subtitles too: .srt or .vtt")
    say.add_argument("--url", help="let a running server speak, such as http://127.0.0.1:8880")
    say.add_argument(
        "--explain", action="store_true", help="do not speak: show how the text would be read, and by which rules"
    )
    _add_book_options(say)
    say.set_defaults(run=run)


def _add_book_options(say: argparse.ArgumentParser) -> None:
    book = say.add_argument_group("books")
    book.add_argument("--dry-run", action="store_true", help="do not speak: list chapters, omissions and times")
    book.add_argument(
        "--chapters", type=_chapters, metavar="3-5", help="only these, as --dry-run numbers them: 1,3-5,9-"
    )
    book.add_argument("--dialogue-voice", metavar="VOICE", help="for text in quotation marks")
    book.add_argument(
        "--voice-of",
        type=_role,
        action="append",
        default=[],
        metavar="NAME=VOICE",
        help="for the lines of a character, where the text names who speaks; may be repeated",
    )
    book.add_argument(
        "--loudness",
        type=_loudness,
        default=-18.0,
        metavar="LUFS",
        help="by EBU R 128, -40 to -10, or off (default: -18; peaks stay under -3 dB, as audiobook shops ask)",
    )
    book.add_argument(
        "--read-along", type=Path, metavar="FILE", help="write an .epub that highlights the words while they are heard"
    )
    book.add_argument("--format", choices=BOOK_FORMATS, help="of the files of a folder (default: mp3)")
    book.add_argument(
        "--keep-work", action="store_true", help="keep the spoken passages, for other settings or formats"
    )


def _chapters(text: str) -> list[tuple[int, int | None]]:
    try:
        return parse_chapters(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _role(text: str) -> tuple[str, str]:
    name, _, voice = (part.strip() for part in text.partition("="))
    if not name or not voice:
        raise argparse.ArgumentTypeError(f"{text!r} is not like Alice=af_bella")
    return name, voice


def _loudness(text: str) -> float | None:
    if text == "off":
        return None
    try:
        loudness = float(text)
    except ValueError:
        loudness = 0.0
    if not QUIETEST <= loudness <= LOUDEST:
        raise argparse.ArgumentTypeError(f"{text!r} is neither off nor a number from {QUIETEST:g} to {LOUDEST:g}")
    return loudness


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not SLOWEST <= speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {SLOWEST:g} to {FASTEST:g}")
    return speed
