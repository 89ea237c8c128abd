"""What a start begins before the application is imported."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.errors import SetupError
from kokoro_server.server.head_start import head_start
from tests import servers

REMOTE = Settings.load({"G2P_SERVICE_URL": "http://127.0.0.1:9"}, dotenv=None)
BEFORE_THE_MODEL = """
import json, sys
import kokoro_server.cli.main
from kokoro_server.longform.jobs.default_folder import with_default_folder
from kokoro_server.server.processes import run, supervisor
from kokoro_server.server.head_start import head_start
print(json.dumps(sorted(sys.modules)))
"""
WARNINGS_TURNED_ON_AND_OFF = """
import asyncio, threading, time, warnings
from kokoro_server.config.settings import Settings
from kokoro_server.server.head_start import head_start

imported = threading.Event()

def load(_settings):  # as packages of the model do
    while not imported.is_set():
        with warnings.catch_warnings():
            time.sleep(0.0005)

async def start():
    await head_start(Settings.load({"G2P_SERVICE_URL": "http://127.0.0.1:9"}, dotenv=None), load)
    from kokoro_server.server.app import create_app
    create_app(Settings(), lambda _settings: None)
    imported.set()

asyncio.run(start())
"""


async def test_the_model_is_loaded_while_the_caller_goes_on():
    may_go_on = threading.Event()

    def load(_settings):
        assert may_go_on.wait(60)
        return "a model"

    begun = await head_start(REMOTE, load)
    assert begun.g2p is None  # it is elsewhere
    may_go_on.set()
    assert await asyncio.to_thread(begun.load, REMOTE) == "a model"


async def test_a_model_that_cannot_be_loaded_says_so_when_it_is_wanted():
    def load(_settings):
        raise SetupError("no weights")

    begun = await head_start(REMOTE, load)
    with pytest.raises(SetupError, match="no weights"):
        begun.load(REMOTE)


async def test_the_g2p_service_has_been_launched():
    begun = await head_start(Settings.load({}, dotenv=None), lambda _settings: None)
    try:
        assert begun.g2p.state == "starting"
        assert servers.alive(begun.g2p.pid)
    finally:
        await begun.g2p.stop(0)
        await begun.g2p.stop()  # as the application and `run` both do


def test_a_start_warns_of_nothing_while_the_model_is_loaded():
    done = subprocess.run(
        [sys.executable, "-c", WARNINGS_TURNED_ON_AND_OFF], check=True, capture_output=True, text=True
    )
    assert done.stderr == ""


def test_a_start_imports_little_before_it_launches_what_takes_longest():
    output = subprocess.run([sys.executable, "-c", BEFORE_THE_MODEL], check=True, capture_output=True).stdout
    modules = json.loads(output)
    assert not {"fastapi", "kokoro_server.text.spoken", "kokoro_server.longform.books.production"} & set(modules)
    assert len(modules) < 800
