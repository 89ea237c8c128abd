"""Values of the settings that admit clients: API keys, origins of web pages, host names."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path

ANY = "*"
CHALLENGE = 'Bearer realm="Kokoro Server"'  # WWW-Authenticate
MIN_KEY_LENGTH = 8
KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(r"[!-~]+")  # characters that an HTTP header may hold
ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
# Endings of names that no public DNS gives: those reserved by RFC 2606, 6761, 6762 and 8375, `internal`, reserved by
# ICANN, and those of RFC 6762's appendix G, which private networks use and ICANN does not delegate.
PRIVATE_ENDINGS = (
    *(".localhost", ".test", ".local", ".home.arpa", ".internal"),
    *(".intranet", ".private", ".corp", ".home", ".lan"),
)
HOST_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|[0-9a-f:.]+")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key's name and digest. The key itself is not kept, so that no dump or traceback can show it."""

    name: str
    digest: bytes = field(repr=False)


def digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def name_of(key: bytes, known: Sequence[ApiKey]) -> str | None:
    """The name of the key. The time this takes does not depend on the key, so that it cannot be guessed bit by bit."""
    presented, found = digest(key), None
    for candidate in known:
        if hmac.compare_digest(presented, candidate.digest):
            found = candidate.name
    return found


def parse_keys(text: str) -> tuple[ApiKey, ...]:
    """`alice=key,bob=key`."""
    return _keys(entry.strip() for entry in text.split(","))


def parse_names(text: str) -> tuple[str, ...]:
    """`alice,bob`, the names of keys."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not all(KEY_NAME.fullmatch(name) for name in names):
        raise ValueError
    return names


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """The keys of a file with a `name=key` on each line. A line that begins with `#` is a comment."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError("is no UTF-8 text") from None
    return _keys("" if line.lstrip().startswith("#") else line.strip() for line in lines)


def unique(keys: Iterable[ApiKey]) -> tuple[ApiKey, ...]:
    names, digests = set[str](), dict[bytes, str]()
    for key in keys:
        if key.name in names:
            raise ValueError(f"the name {key.name} is given twice")
        if key.digest in digests:
            raise ValueError(f"{digests[key.digest]} and {key.name} have the same key; each name needs its own")
        names.add(key.name)
        digests[key.digest] = key.name
    return tuple(keys)


def _keys(entries: Iterable[str]) -> tuple[ApiKey, ...]:
    keys = tuple(_key(number, entry) for number, entry in enumerate(entries, 1) if entry)
    if not keys:
        raise ValueError("holds no key; write name=key")
    return unique(keys)


def _key(number: int, entry: str) -> ApiKey:
    # The messages name an entry by its number: even the text before the = may be a key.
    name, separator, key = (part.strip() for part in entry.partition("="))
    if not separator or not KEY_NAME.fullmatch(name):
        raise ValueError(f"entry {number} is not name=key; a name has letters, digits, '.', '_' and '-'")
    if len(key) < MIN_KEY_LENGTH:
        raise ValueError(f"entry {number}: a key needs at least {MIN_KEY_LENGTH} characters")
    if not KEY.fullmatch(key):
        raise ValueError(f"entry {number}: a key has printable ASCII characters and no spaces")
    return ApiKey(name, digest(key.encode()))


def parse_origins(text: str) -> tuple[str, ...]:
    """`https://example.org,http://localhost:3000`, `null` for pages without an origin, or `*`."""
    origins = tuple(part.removesuffix("/") for part in _parts(text))
    if not all(ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError
    return origins


def parse_hosts(text: str) -> tuple[str, ...]:
    """`speech.example.org,*.lan`, or `*`."""
    names = tuple(part.strip("[]") for part in _parts(text))
    if not all(name == ANY or HOST_NAME.fullmatch(name) for name in names):
        raise ValueError
    return names


def parse_proxies(text: str) -> tuple[str, ...]:
    """`10.0.0.5,192.168.0.0/16,::1`, or `*`."""
    addresses = tuple(_parts(text))
    for address in addresses:
        if address != ANY:
            ip_network(address)  # raises ValueError
    if ANY in addresses and len(addresses) > 1:
        raise ValueError
    return addresses


def _parts(text: str) -> list[str]:
    return [part.strip().lower() for part in text.split(",") if part.strip()]


def host_name(netloc: str) -> str:
    """The name or address of a Host header, or of the network location of a URL, without its port."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0].lower()
    return netloc.partition(":")[0].rstrip(".").lower()


@lru_cache(1024)
def is_loopback(name: str) -> bool:
    """Whether this name or address always means the machine itself."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return is_address(name) and ip_address(name).is_loopback


def is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def is_private_name(name: str) -> bool:
    """Whether no stranger can make this name point to an address: it has one part only, or a private ending."""
    return "." not in name or name.endswith(PRIVATE_ENDINGS)
