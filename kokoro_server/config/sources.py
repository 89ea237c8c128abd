"""The texts of settings: variables of the environment and of `.env`, and the words for what they may hold.

The sources of pydantic-settings would keep the blanks around a value, replace `${...}` in `.env`, and take one of two
names without a word when both are set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from dotenv import dotenv_values
from pydantic.fields import FieldInfo

from kokoro_server.errors import ConfigError

log = logging.getLogger(__name__)

DOTENV = Path(".env")


def names_of(field: FieldInfo) -> list[str]:
    """The variables that a field is read from: its name, then its older names."""
    alias: Any = field.validation_alias
    return list(alias.choices)


def allowed(field: FieldInfo) -> str | None:
    """What a number, a flag or a choice may be, in words; None for other kinds, whose validators say it."""
    kind = _kind(field)
    if is_choice(field):
        return "one of " + ", ".join(get_args(kind))
    if kind is bool:
        return "true or false"
    bounds = {name: getattr(bound, name) for bound in field.metadata for name in ("ge", "le") if hasattr(bound, name)}
    if not bounds:
        return None
    return f"{'a whole number' if kind is int else 'a number'} from {bounds['ge']} to {bounds['le']}"


def is_choice(field: FieldInfo) -> bool:
    return get_origin(_kind(field)) is Literal


def _kind(field: FieldInfo) -> Any:
    """Its type, without None."""
    kind: Any = field.annotation
    return get_args(kind)[0] if type(None) in get_args(kind) else kind


def given_in(
    fields: Collection[FieldInfo], environ: Mapping[str, str], dotenv: Path | None
) -> dict[str, tuple[str, str]]:
    """By the newest name of each setting that is given: the name in use, and the text. A blank one is not given."""
    # A variable of the environment replaces that of the file even when it is empty.
    in_file = {name: text for name, text in read(dotenv).items() if name not in environ}
    unknown = {name for name in (*environ, *in_file) if name.startswith("KOKORO_")}
    given: dict[str, tuple[str, str]] = {}
    for names in map(names_of, fields):
        unknown.difference_update(names)
        for place in (in_file, environ):
            found = {name: text for name in names if (text := place.get(name, "").strip())}
            if len({*found.values()}) > 1:
                spelled = " and ".join(f"{name}={text!r}" for name, text in found.items())
                raise ConfigError(f"{spelled}: two names of one setting, with different values; set only {names[0]}")
            if found:
                given[names[0]] = next(iter(found.items()))
    for name in sorted(unknown):
        log.warning("%s is not a setting of this server and is ignored; see .env.example", name)
    return given


def read(dotenv: Path | None) -> dict[str, str]:
    if dotenv is None or not dotenv.is_file():
        return {}
    try:
        return {name: value or "" for name, value in dotenv_values(dotenv, interpolate=False).items()}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{dotenv}: cannot be read ({error})") from error


def export_otel(dotenv: Path = DOTENV) -> None:
    """Put OpenTelemetry's variables of `.env` into the environment, where its packages read them."""
    for name, text in read(dotenv).items():
        if name.startswith("OTEL_"):
            os.environ.setdefault(name, text)
