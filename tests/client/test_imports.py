from __future__ import annotations

import ast
import sys
from pathlib import Path

import kokoro_server.client

ALLOWED = {"httpx", "kokoro_server", *sys.stdlib_module_names}


def test_the_client_needs_httpx_and_nothing_else() -> None:
    for path in Path(kokoro_server.client.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert {name.partition(".")[0] for name in names} <= ALLOWED, path
            assert all(name.startswith("kokoro_server.client") for name in names if name.startswith("kokoro_server"))
