from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from kokoro_server.g2p import extras
from kokoro_server.languages import Language
from tests.servers import ROOT


@pytest.mark.parametrize("language", extras.MODULES, ids=lambda language: language.code)
def test_the_advice_for_a_language_works(language: Language) -> None:
    """With pip before 23.3 too, which takes the name of an extra as it is spelled in the package."""
    [extra] = re.findall(r"kokoro-server\[(.+?)\]", extras.advice(language))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extra in project["optional-dependencies"]
    assert extras.advice(language).endswith(f"make serve LANGUAGES={extra}")
    subprocess.run(["make", "--dry-run", "serve", f"LANGUAGES={extra}"], cwd=ROOT, check=True, capture_output=True)
