"""Who may change which custom voices, and how many each caller may have.

A voice belongs to the caller that defined it first: `voices.json` keeps the name of the API key, or without keys the
client's address. All others are the server's: packs, entries that an operator wrote without an `owner`, and the names
by which clients of other services ask for their default voices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_server.errors import Conflict, Forbidden
from kokoro_server.voices.names import OPENAI_VOICES

MAX_OWNED = 100  # voices that one caller may have: a tenth of all
DEEPGRAM = "aura-"  # begins the names of Deepgram's voices

RULE = "only its owner or one of ADMIN_KEYS may change it"


@dataclass(frozen=True, slots=True)
class VoiceEditor:
    """A caller that defines or removes voices."""

    name: str  # of its API key; without keys, its address
    edits_all: bool = True  # with keys, only one of ADMIN_KEYS does
    is_limited: bool = True

    def check_change(self, name: str, entries: Mapping[str, Any]) -> None:
        """Raises Forbidden unless this caller may define or remove the voice."""
        if self.edits_all:
            return
        if name in entries and (owner := owner_of(entries[name])) != self.name:
            raise Forbidden(f"the voice {name!r} belongs to {'another key' if owner else 'the server'}: {RULE}")
        if name not in entries and _is_known_elsewhere(name):
            raise Forbidden(f"{name!r} is one of the server's names: only one of ADMIN_KEYS may change it")

    def check_room(self, entries: Mapping[str, Any]) -> None:
        """Raises Conflict if this caller has all the voices that it may have."""
        if self.is_limited and sum(owner_of(entry) == self.name for entry in entries.values()) >= MAX_OWNED:
            raise Conflict(f"each caller may define {MAX_OWNED} voices, and this one has them all; delete one first")


def owner_of(entry: object) -> str | None:
    """The owner of an entry of `voices.json`. None: it is the server's."""
    return entry.get("owner") if isinstance(entry, dict) else None


def _is_known_elsewhere(name: str) -> bool:
    return name.lower() in OPENAI_VOICES or name.lower().startswith(DEEPGRAM)
