"""The documentation's examples of other services' packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.pages import Example
from tests.servers import Server

pytestmark = pytest.mark.clients

EXAMPLES = [
    example for page in pages.PAGES for example in pages.examples(page) if example.run_by == "make test-clients"
]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_writes_audio(example: Example, tiny_server: Server, tmp_path: Path) -> None:
    code = example.code.replace("localhost:8880", tiny_server.url.removeprefix("http://"))
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=300)
    (written,) = tmp_path.iterdir()
    assert written.stat().st_size > 1000
