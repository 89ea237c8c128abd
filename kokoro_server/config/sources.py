"""Where settings come from: variables of the environment and of `.env`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from kokoro_server.errors import ConfigError


class Variables(PydanticBaseSettingsSource):
    """The variables of the environment or of `.env`, as a source of settings. A blank one counts as not set.

    The sources that pydantic-settings brings would keep the blanks around a value, would read variables that are named
    like the fields (`port`), and would replace `${...}` in `.env`.
    """

    def __init__(self, settings_cls: type[BaseSettings], texts: Mapping[str, str]) -> None:
        super().__init__(settings_cls)
        self._texts = {name: text.strip() for name, text in texts.items() if text.strip()}

    def get_field_value(self, field: FieldInfo, _field_name: str) -> tuple[str | None, str, bool]:
        """The field's text, the variable that holds it, and False: it is no JSON."""
        name = next((name for name in names_of(field) if name in self._texts), "")
        return self._texts.get(name), name, False

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields.items()
        found = {names_of(field)[0]: self.get_field_value(field, key)[0] for key, field in fields}
        return {name: text for name, text in found.items() if text is not None}


def names_of(field: FieldInfo) -> list[str]:
    """The variables that a field is read from: its name, then its older spellings."""
    alias: Any = field.validation_alias
    return list(alias.choices)


def read(dotenv: Path | None) -> dict[str, str]:
    if dotenv is None or not dotenv.is_file():
        return {}
    try:
        return {name: value or "" for name, value in dotenv_values(dotenv, interpolate=False).items()}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{dotenv}: cannot be read ({error})") from error
