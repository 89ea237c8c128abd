"""`.env.example`, made of the settings: `python -m tests.env_example > .env.example`."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from pathlib import Path

from pydantic import AliasChoices

from kokoro_server.config.settings import Settings

HEADER = """\
# Kokoro Server: every setting, with its default. Copy to .env and change what you need.
# The environment wins over .env; an empty value means the default.
"""
HEADINGS = {
    "HOST": "Server",
    "API_KEYS": "Keys, limits and origins",
    "KOKORO_CACHE_DIR": "Model",
    "G2P_SERVICE_URL": "Text to phonemes",
    "MAX_TEXT_LENGTH": "Text",
    "ENABLE_KOKORO_BATCHING": "Batching",
}  # by the first setting of each part


def render() -> str:
    described = descriptions()
    parts = [HEADER]
    for key, field in Settings.model_fields.items():
        assert isinstance(field.validation_alias, AliasChoices)
        name, *aliases = map(str, field.validation_alias.choices)
        text = described[key] + "".join(f" (Also read as {alias}.)" for alias in aliases)
        comment = textwrap.wrap(text, 118, break_on_hyphens=False, break_long_words=False)
        if name in HEADINGS:
            parts.append(f"## {HEADINGS[name]}\n")
        parts.append("".join(f"# {line}\n" for line in comment) + f"{name}={_written(field.default)}\n")
    return "\n".join(parts)


def descriptions() -> dict[str, str]:
    """The docstring below each field of `Settings`, as one line."""
    [settings] = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(settings, ast.ClassDef)
    found = {}
    for field, below in zip(settings.body, settings.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                found[key] = " ".join(text.split())
    return found


def _written(default: object) -> str:
    match default:
        case None | () | Path():  # a path is the user's own folder, another on each machine
            return ""
        case bool():
            return str(default).lower()
        case float():
            return f"{default:g}"
    return str(default)


if __name__ == "__main__":
    sys.stdout.write(render())
