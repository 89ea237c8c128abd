"""Long work beside the load, which must end right whatever happens: jobs, and runs of `kokoro-server bulk`."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import Injector
from tests.chaos.verdicts import SECONDS_OFF, Judge, was_cut
from tests.servers import PYTHON, ROOT
from tests.soak import jobs
from tests.soak.answers import BrokenOff, FalseAnswer
from tests.soak.requests import VOICES, text

LINES = 24
VARIANTS = 3
PATIENCE = 1200.0  # seconds: a list whose server was away for long is tried again after five minutes
JOB_EVERY = 10.0  # seconds


@dataclass
class Jobs:
    judge: Judge
    expected: list[float | None] = field(default_factory=list)
    following: list[asyncio.Task[None]] = field(default_factory=list)

    async def learn(self) -> None:
        for variant in range(VARIANTS):
            self.expected.append((await jobs.job(self.judge.client, _chance(variant))).seconds)

    async def keep_submitting(self, injector: Injector, done: asyncio.Event) -> None:
        number = 0
        while not done.is_set():
            began, variant = injector.now(), number % VARIANTS
            number += 1
            try:
                answer = await jobs.submit(self.judge.client, _chance(variant))
            except jobs.PASSES as error:
                is_fair = isinstance(error, BrokenOff) or was_cut(injector, began)
                why = f"submitting: {type(error).__name__}: {error}"
                self.judge.count("job", "broken off" if is_fair else "bad", why, injector, began)
                continue
            if answer.is_right:
                following = self._follow(answer.json()["id"], variant, injector, began)
                self.following.append(asyncio.create_task(following))
            elif answer.status in (429, 503) and answer.retry_after:
                self.judge.count("job", "refused", "", injector, began)
            else:
                self.judge.count("job", "bad", f"submitting: {answer} {answer.content[:200]!r}", injector, began)
            await asyncio.sleep(JOB_EVERY)

    async def _follow(self, id: str, variant: int, injector: Injector, began: float) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                seconds = (await jobs.finished(self.judge.client, id, patient=True)).seconds or 0.0
            expected = self.expected[variant] or 0.0
            why = "" if abs(seconds - expected) <= 3 * SECONDS_OFF else f"{seconds} s instead of {expected}"
        except (FalseAnswer, TimeoutError) as error:
            why = f"{id}: {type(error).__name__}: {error}"
        self.judge.count("job", "bad" if why else "right", why, injector, began)


@dataclass
class Bulk:
    """Runs over the same lines, one after the other. `folder` gets a folder for each."""

    judge: Judge
    url: str
    folder: Path
    expected: dict[str, float] = field(default_factory=dict)
    runs: int = 0

    async def learn(self) -> None:
        chance = random.Random("bulk")
        lines = [{"id": f"{n}", "text": text(chance), "voice": chance.choice(VOICES)} for n in range(LINES)]
        written = "".join(f"{json.dumps(line)}\n" for line in lines)
        (self.folder / "lines.jsonl").write_text(written, encoding="utf-8")
        self.expected, why = await self._run()
        assert len(self.expected) == LINES, why

    async def keep_running(self, injector: Injector, done: asyncio.Event) -> None:
        while not done.is_set():
            began = injector.now()
            seconds, why = await self._run()
            wrong = [id for id, length in self.expected.items() if abs(seconds.get(id, 0.0) - length) > SECONDS_OFF]
            if wrong and not why:
                why = f"other lengths than undisturbed: {[(id, self.expected[id], seconds.get(id)) for id in wrong]}"
            self.judge.count("bulk run", "bad" if why else "right", why, injector, began)

    async def _run(self) -> tuple[dict[str, float], str]:
        """Seconds by id, and what went wrong."""
        self.runs += 1
        out = self.folder / f"run-{self.runs}"
        command = (PYTHON, "-m", "kokoro_server", "bulk", str(self.folder / "lines.jsonl"), str(out), "--url", self.url)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(PATIENCE):
                said, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            return {}, f"not done in {PATIENCE:g} s"
        manifest, failures = out / "manifest.jsonl", out / "failures.jsonl"
        about = [json.loads(line) for line in manifest.read_text().splitlines()] if manifest.exists() else []
        ids = [entry["id"] for entry in about]
        if process.returncode or len(ids) != len(set(ids)):
            failed = failures.read_text()[:400] if failures.exists() else ""
            return {}, f"status {process.returncode}, {len(ids)} lines: {said[-300:].decode()} {failed}"
        return {entry["id"]: entry["duration"] for entry in about}, ""


def _chance(variant: int) -> random.Random:
    return random.Random(f"job {variant}")
