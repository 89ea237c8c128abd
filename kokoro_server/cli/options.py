"""The arguments of larger commands. The commands themselves take seconds to import."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from kokoro_server.audio.formats import FORMATS, SUFFIXES
from kokoro_server.cli import RunCommand
from kokoro_server.longform.books.options import LOUDEST, QUIETEST, BookFormat, parse_chapters

BOOK_FORMATS = get_args(BookFormat)
SLOWEST, FASTEST = 0.25, 4.0
MAX_PORT = 65_535
OFF = math.inf  # of --loudness
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
BULK_EXAMPLES = """\
examples:
  kokoro-server bulk texts.jsonl clips/
  kokoro-server bulk texts.csv clips/ --format opus -v am_michael
  kokoro-server bulk texts.parquet dataset/ --shards 1000 --verify
  zcat texts.jsonl.gz | kokoro-server bulk - clips/ --url http://speech.local:8880

A line is a request as of POST /tts with an id: {"id": "a1", "text": "Hello.", "voice": "af_bella", "speed": 1.1}.
Files are named by id; manifest.jsonl lists them in the order of the input with durations and word times, and
failures.jsonl lists the lines that failed. After an interruption, the same command continues; lines that have changed
since are made again."""


def add_say(commands: argparse._SubParsersAction[argparse.ArgumentParser], run: RunCommand) -> None:
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
        "-v",
        "--voice",
        help="a voice or a blend; see 'voices' (default: DEFAULT_VOICE or af_heart; in a book, one of each language)",
    )
    say.add_argument("-s", "--speed", type=_speed, default=1.0, help="0.25 to 4; 1 is the voice's own pace")
    say.add_argument(
        "-l",
        "--language",
        metavar="LANG",
        help="how to read the text; auto: as it is written (default: as the voice does)",
    )
    say.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"write to a file: {' '.join(SUFFIXES)}; a book: .{' .'.join(BOOK_FORMATS)} or a folder",
    )
    say.add_argument("--subtitles", type=Path, metavar="FILE", help="write subtitles too: .srt or .vtt")
    say.add_argument("--url", type=server_url, help="let a running server speak, such as http://127.0.0.1:8880")
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


def add_bulk(commands: argparse._SubParsersAction[argparse.ArgumentParser], run: RunCommand) -> None:
    bulk = commands.add_parser(
        "bulk",
        help="speak each line of a file into a file of its own, or into shards",
        description="Speaks every line of a file: exactly one output for each, however often it is stopped.",
        epilog=BULK_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    bulk.add_argument("input", help="lines of id, text and other fields: .jsonl .csv or .parquet, - for JSON lines")
    bulk.add_argument("out", type=Path, help="the folder to write to")
    bulk.add_argument(
        "-v", "--voice", help="of lines that name none (default: DEFAULT_VOICE or af_heart; with --url, the server's)"
    )
    bulk.add_argument(
        "--format",
        choices=FORMATS,
        help="of lines that name none (default: DEFAULT_FORMAT or wav; in shards, flac)",
    )
    bulk.add_argument("--shards", type=count, metavar="N", help="write WebDataset shards of N lines each, not files")
    bulk.add_argument(
        "--verify",
        nargs="?",
        const="base",
        metavar="MODEL",
        help="check with a Whisper model, by name or folder (default: base); adds word error rates to the manifest",
    )
    bulk.add_argument("--url", type=server_url, help="let a running server speak, such as http://127.0.0.1:8880")
    bulk.add_argument("--address", metavar="RAY", help="let a Ray cluster speak: ray://HOST:10001, or auto")
    bulk.add_argument(
        "--processes",
        type=count,
        metavar="N",
        help="processes that ask the server of --url (default: one for four cores)",
    )
    bulk.set_defaults(run=run)


def add_mcp(commands: argparse._SubParsersAction[argparse.ArgumentParser], run: RunCommand) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="speech as a tool of Claude Desktop, Cursor and others, by the Model Context Protocol",
        description="Speaks the Model Context Protocol on standard input and output. Programs start it; see the guide.",
    )
    mcp.add_argument("--url", type=server_url, help="let a running server speak, such as http://127.0.0.1:8880")
    mcp.add_argument(
        "--folder", type=Path, default=Path("~/Kokoro"), help="where files are written (default: %(default)s)"
    )
    mcp.set_defaults(run=run)


def add_screen_reader(commands: argparse._SubParsersAction[argparse.ArgumentParser], run: RunCommand) -> None:
    reader = commands.add_parser("screen-reader", help="speak for Orca and other screen readers on Linux")
    actions = reader.add_subparsers(title="actions", required=True, metavar="ACTION")
    install = actions.add_parser(
        "install",
        help="add a module to your Speech Dispatcher",
        description="Adds a module to Speech Dispatcher 0.11 or newer, for you alone. It speaks through a server.",
    )
    install.add_argument("--url", type=server_url, help="of the server (default: port PORT of this machine)")
    install.add_argument("-v", "--voice", help="of programs that choose none (default: that of the server)")
    install.set_defaults(run=run, action="install")
    actions.add_parser("uninstall", help="remove it").set_defaults(run=run, action="uninstall")


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {MAX_PORT}")
    return int(text)


def server_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return text
    except ValueError:  # the port is no number, or too large
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not like http://127.0.0.1:8880")


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


def _loudness(text: str) -> float:
    return OFF if text == "off" else _number(text, "neither off nor", QUIETEST, LOUDEST)


def _speed(text: str) -> float:
    return _number(text, "not", SLOWEST, FASTEST)


def _number(text: str, refused: str, lowest: float, highest: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not lowest <= number <= highest:
        raise argparse.ArgumentTypeError(f"{text!r} is {refused} a number from {lowest:g} to {highest:g}")
    return number


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser], run: RunCommand) -> None:
    models = commands.add_parser("models", help="the models of MODELS_PATH, beside Kokoro v1.0")
    actions = models.add_subparsers(title="actions", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="check a model's folder, and copy it into MODELS_PATH")
    add.add_argument("source", metavar="PATH|hf:REPO", help="a folder; or a repository of Hugging Face with its files")
    add.add_argument("--name", help="its name on this server (default: the folder's)")
    add.add_argument("--card", metavar="FILE", type=Path, help="a model.toml in place of the folder's own")
    actions.add_parser("list", help="show them: name, languages, voices, licence")
    check = actions.add_parser("check", help="read every file, and say what is wrong")
    check.add_argument("name", nargs="?", help="of one model (default: all)")
    remove = actions.add_parser("remove", help="delete a model's folder")
    remove.add_argument("name")
    for name, parser in actions.choices.items():
        parser.set_defaults(run=run, action=name)
