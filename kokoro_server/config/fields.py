"""How a setting is written: its variable, its older names, its bounds, and the readers that it is meant for."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from pydantic import AliasChoices, Field

T = TypeVar("T")


class SettingGroup(StrEnum):
    """The readers that a setting is meant for."""

    EVERYDAY = "everyday"
    OPERATORS = "operators"
    EXPERTS = "experts"


EVERYDAY, OPERATORS, EXPERTS = SettingGroup


def setting(
    group: SettingGroup, name: str, default: T, *aliases: str, ge: float | None = None, le: float | None = None
) -> T:
    """A field read from the variable `name`, or from one of its older names, the `aliases`."""
    names = AliasChoices(name, *aliases)
    field: T = Field(default, validation_alias=names, ge=ge, le=le, json_schema_extra={"group": group})
    return field
