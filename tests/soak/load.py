"""Clients that ask at random, a third of whom leave before they have their answer."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

from tests.servers import Server
from tests.soak.answers import REFUSED, Client, ask
from tests.soak.jobs import job
from tests.soak.kinds import KINDS
from tests.soak.requests import PAGES, Kind

EXPECTED = (200, 201, 202, 204, REFUSED)
LEAVES = 0.5  # of all clients, before a random moment: a third of all then have no answer yet
PATIENCE = 300  # seconds for an answer: one that takes longer is lost
LONGEST_STAY = 1.5  # seconds that one who leaves may stay
TIMES = 3  # of each kind, before anything is measured
WITH_JOBS = 4  # clients that also submit jobs: these go behind all else, and soon every client would wait for one


@dataclass
class Tally:
    sent: int = 0
    abandoned: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    said: dict[str, str] = field(default_factory=dict)  # the first unexpected answer of each kind and status

    @property
    def answered(self) -> int:
        return self.statuses.total()

    @property
    def unexpected(self) -> dict[str, int]:
        return {what: count for what, count in self.statuses.items() if int(what.split()[-1]) not in EXPECTED}


def client(server: Server, connections: int) -> Client:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=connections)
    http = Client(base_url=server.url, timeout=PATIENCE, limits=limits)
    http.wyoming = server.wyoming
    return http


async def run(server: Server, clients: int, seconds: float, seed: int, tally: Tally | None = None) -> Tally:
    """Counted in `tally`, if there is one already."""
    tally, end = tally or Tally(), time.monotonic() + seconds
    async with client(server, clients) as http:
        await asyncio.gather(
            *(_client(http, random.Random(f"{seed} {n}"), tally, end, n < WITH_JOBS) for n in range(clients))
        )
    return tally


async def all_kinds(server: Server, seed: int) -> None:
    """Each kind a few times, and each page: what the first one loads or makes is then there."""
    async with client(server, 1) as http:
        for page in PAGES:
            await ask(http, page, method="GET")
        for number, kind in enumerate(list(KINDS) * TIMES):
            await _ask(http, kind, random.Random(f"{seed} {number}"), Tally(), stay=None)


async def _client(http: Client, chance: random.Random, tally: Tally, end: float, with_jobs: bool) -> None:
    asked = {kind: weight for kind, weight in KINDS.items() if with_jobs or kind is not job}
    kinds, weights = list(asked), list(asked.values())
    while time.monotonic() < end:
        (kind,) = chance.choices(kinds, weights)
        stay = chance.uniform(0, LONGEST_STAY) ** 2 if chance.random() < LEAVES else None
        await _ask(http, kind, random.Random(chance.random()), tally, stay)


async def _ask(http: Client, kind: Kind, chance: random.Random, tally: Tally, stay: float | None) -> None:
    tally.sent += 1
    name = kind.__name__
    asking = asyncio.ensure_future(kind(http, chance))
    await asyncio.wait({asking}, timeout=PATIENCE if stay is None else stay)
    if not asking.done():
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asking
        if stay is None:
            tally.lost[f"{name} no answer"] += 1
        else:
            tally.abandoned += 1
    elif error := asking.exception():
        tally.lost[f"{name} {type(error).__name__}: {error}"[:200]] += 1
    else:
        answer = asking.result()
        tally.statuses[f"{name} {answer.status}"] += 1
        if answer.status not in EXPECTED:
            tally.said.setdefault(f"{name} {answer.status}", answer.content[:300].decode(errors="replace"))
