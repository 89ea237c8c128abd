"""`make release-check`: the wheel and the sdist, each installed in a fresh environment, serve and speak.

    python -m tests.release_check [--tag v0.1.0]

The packages lie in dist/ afterwards. The model comes from the cache, and is fetched if it is not there.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import wave
from array import array
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
READY = re.compile(r"Kokoro Server is ready at (http://\S+)")
START_S = 900.0  # seconds for the model to be fetched and built
UNWANTED = ("torch", "transformers", "spacy-curated-transformers")  # nobody asked for a GPU


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release_check", description=__doc__)
    parser.add_argument("--tag", help="that the version must have")
    options = parser.parse_args()
    check_workflows()
    version = re.findall(r'__version__ = "(.+)"', (ROOT / "kokoro_server" / "__init__.py").read_text("utf-8"))[0]
    if options.tag and options.tag != f"v{version}":
        sys.exit(f"the tag is {options.tag}, but kokoro_server.__version__ is {version}")
    for package in build():
        assert f"-{version}" in package.name, package
        check(package, version)
    print(f"ok: {version}")
    return 0


def check_workflows() -> None:
    """Against the schema that check-jsonschema brings along; and by actionlint, where it is installed."""
    files = sorted(map(str, (ROOT / ".github" / "workflows").glob("*.yml")))
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    if actionlint := shutil.which("actionlint"):
        run(actionlint, *files)


def build() -> list[Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    found = sorted(DIST.iterdir())
    assert [path.name.endswith((".whl", ".tar.gz")) for path in found] == [True, True], found
    return found


def check(package: Path, version: str) -> None:
    with tempfile.TemporaryDirectory(prefix="release-check-") as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder, "Scripts" if os.name == "nt" else "bin")
        python, command = str(programs / "python"), str(programs / "kokoro-server")
        started = time.monotonic()
        run(python, "-m", "pip", "--disable-pip-version-check", "install", "-q", str(package))
        seconds, sizes = time.monotonic() - started, (megabytes(package), megabytes(*Path(folder).rglob("*")))
        print(f"{package.name}: {sizes[0]:.1f} MB, installed in {seconds:.0f} s, {sizes[1]:.0f} MB on disk")
        listed = json.loads(output(python, "-m", "pip", "list", "--format", "json"))
        installed = {each["name"].lower() for each in listed}
        assert not installed & set(UNWANTED), installed & set(UNWANTED)
        assert output(command, "--version").split() == ["kokoro-server", version]
        assert "kokoro-server serve" in output(command)
        speak(command, Path(folder))


def speak(command: str, folder: Path) -> None:
    """A server of this installation, in an empty folder, says a sentence."""
    started, log = time.monotonic(), folder / "log"
    environ = os.environ | {"JOBS_PATH": "none", "PYTHONPATH": ""}
    with log.open("wb") as stream:
        server = subprocess.Popen([command, "serve", "--port", "0"], cwd=folder, env=environ, stderr=stream)
    try:
        while not (found := READY.search(log.read_text("utf-8", "replace"))):
            assert server.poll() is None, log.read_text("utf-8", "replace")
            assert time.monotonic() - started < START_S, log.read_text("utf-8", "replace")
            time.sleep(0.2)
        body = json.dumps({"text": "This release speaks.", "voice": "af_heart"}).encode()
        request = urllib.request.Request(f"{found[1]}/tts", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            content = answer.read()
        with wave.open(io.BytesIO(content)) as sound:
            samples, rate = array("h", sound.readframes(sound.getnframes())), sound.getframerate()
        assert len(samples) > rate, len(samples)
        assert max(samples) > 1000, "silence"
        print(f"{len(samples) / rate:.1f} s of speech, {time.monotonic() - started:.0f} s from the start")
    finally:
        server.terminate()
        server.wait(60)


def megabytes(*paths: Path) -> float:
    return sum(path.stat().st_size for path in paths if path.is_file() and not path.is_symlink()) / 1e6


def run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
