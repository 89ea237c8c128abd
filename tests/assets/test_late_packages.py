"""misaki from the cache, where pip has not installed it: on Python 3.13 and later."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

from kokoro_server.assets.late_packages import FOLDER

NAME = "misaki-0.9.4-py3-none-any.whl"
READS = """
import sys
from importlib.machinery import PathFinder
from pathlib import Path

class NotInstalled(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "misaki":
            path = [each for each in sys.path if each.endswith(".whl")]
        return PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = NotInstalled

from kokoro_server.assets import late_packages
from kokoro_server.assets.catalog import Package, PinnedFile

package = Package("pip", "misaki==0.9.4", PinnedFile({name!r}, {digest!r}, {size}))
for _ in range(2):
    late_packages.ensure_misaki(Path({cache!r}), package)

from kokoro_server import languages
from kokoro_server.g2p.service import phonemizers, stubs

stubs.install()
for language in (languages.EN_US, languages.EN_GB, languages.ES):
    assert phonemizers.load(language)("no").phonemes
import misaki
assert {name!r} in misaki.__file__, misaki.__file__
assert sum(each.endswith(".whl") for each in sys.path) == 1
"""


def test_english_is_read_with_misaki_from_the_cache(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("misaki")
    assert spec is not None
    assert spec.origin is not None
    wheel = tmp_path / FOLDER / NAME
    wheel.parent.mkdir()
    root = Path(spec.origin).parent
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in root.rglob("*"):
            if file.suffix not in (".pyc", ".whl") and file.is_file():
                archive.write(file, Path("misaki", file.relative_to(root)))
    content = wheel.read_bytes()
    code = READS.format(name=NAME, digest=hashlib.sha256(content).hexdigest(), size=len(content), cache=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert [path.name for path in wheel.parent.iterdir()] == [NAME]
