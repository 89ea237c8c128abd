"""The arguments of `kokoro-server bulk`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kokoro_server.audio.formats import FORMATS
from kokoro_server.cli import RunCommand

EXAMPLES = """\
examples:
  kokoro-server bulk texts.jsonl clips/
  kokoro-server bulk texts.csv clips/ --format opus -v am_michael
  kokoro-server bulk texts.parquet dataset/ --shards 1000 --verify
  zcat texts.jsonl.gz | kokoro-server bulk - clips/ --url http://speech.local:8880

A line is a request as of POST /tts with an id: {"id": "a1", "text": "Hello.", "voice": "af_bella", "speed": 1.1}.
Files are named by id; manifest.jsonl lists them in the order of the input with durations and word times, and
failures.jsonl lists the lines that failed. After an interruption, the same command continues; lines that have changed
since are made again."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], run: RunCommand) -> None:
    bulk = commands.add_parser(
        "bulk",
        help="speak each line of a file into a file of its own, or into shards",
        description="Speaks every line of a file: exactly one output for each, however often it is stopped.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    bulk.add_argument("input", help="lines of id, text and other fields: .jsonl .csv or .parquet, - for JSON lines")
    bulk.add_argument("out", type=Path, help="the folder to write to")
    bulk.add_argument("-v", "--voice", default="af_heart", help="of lines that name none (default: %(default)s)")
    bulk.add_argument(
        "--format",
        choices=FORMATS,
        help="of lines that name none (default: wav; in shards, flac)",
    )
    bulk.add_argument("--shards", type=_count, metavar="N", help="write WebDataset shards of N lines each, not files")
    bulk.add_argument(
        "--verify",
        nargs="?",
        const="base",
        metavar="MODEL",
        help="check with a Whisper model, by name or folder (default: base); adds word error rates to the manifest",
    )
    bulk.add_argument("--url", help="let a running server speak, such as http://127.0.0.1:8880")
    bulk.add_argument("--address", metavar="RAY", help="let a Ray cluster speak: ray://HOST:10001, or auto")
    bulk.add_argument(
        "--processes",
        type=_count,
        metavar="N",
        help="processes that ask the server of --url (default: one for four cores)",
    )
    bulk.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
