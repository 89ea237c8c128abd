"""`kokoro-server models`: adding, listing, checking and removing folders of models."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kokoro_server.assets.models import folder
from kokoro_server.cli import main as cli
from kokoro_server.config.settings import Settings
from kokoro_server.engine import folders
from kokoro_server.engine.cpu import build_cache, calibration
from tests import other_models
from tests.assets.test_models import described


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return other_models.for_commands(tmp_path, monkeypatch)


def test_a_model_comes_and_goes(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other_models.write(tmp_path / "from" / "german")
    assert cli.main(["models", "add", "from/german", "--name", "mine"]) == 0
    assert "mine added; restart the server, then speak with mine/df_anna" in capsys.readouterr().out
    assert cli.main(["models", "list"]) == 0
    assert capsys.readouterr().out.split() == "mine de 2 voices CC0-1.0 German, for tests".split()
    assert cli.main(["voices", "-l", "en-US"]) == 0
    assert cli.main(["voices"]) == 0
    assert "mine/df_anna     de" in capsys.readouterr().out
    (models / "mine" / "voices" / "df_anna.bin").write_bytes(b"")
    assert cli.main(["models", "check"]) == 1
    assert "BAD  mine" in capsys.readouterr().out
    assert cli.main(["models", "remove", "mine"]) == 0
    assert list(models.iterdir()) == []


def test_what_was_made_of_a_model_goes_with_it(models: Path, tmp_path: Path) -> None:
    other_models.write(tmp_path / "from" / "german")
    assert cli.main(["models", "add", "from/german"]) == 0
    settings = Settings.load(dotenv=None)
    (converted,) = (settings.cache_dir / "models").iterdir()
    model = folder.scan(models).models["german"]
    made = folders.converted(settings, model)
    assert made.path == converted
    wanted = build_cache.key(calibration.digest(made.digest), "int8")

    def build(_weights: Path, target: Path, *_: object) -> None:
        (target / "graph.onnx").write_bytes(b"graph")

    other = build_cache.ensure(settings.cache_dir, converted, build_cache.key("0" * 64, "int8"), build)
    built = build_cache.ensure(settings.cache_dir, converted, wanted, build)
    assert cli.main(["models", "remove", "german"]) == 0
    assert not converted.exists()
    assert not built.exists()
    assert other.exists()


def test_what_a_killed_command_has_left_is_not_added(models: Path, tmp_path: Path) -> None:
    """Its process may have had the same number: in a container it is mostly 1."""
    left = models / f".adding-{os.getpid()}" / "german" / "voices"
    left.mkdir(parents=True)
    (left / "df_old.bin").write_bytes(b"")
    other_models.write(tmp_path / "from" / "german")
    assert cli.main(["models", "add", "from/german"]) == 0
    assert sorted(path.name for path in (models / "german" / "voices").iterdir()) == ["df_anna.bin", "dm_bert.bin"]


KILLED = """\
import os, shutil, signal
from kokoro_server.cli import main
from kokoro_server.engine import folders
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
{what} = die
main.main(["models", "add", "from/german"])
"""


@pytest.mark.parametrize("what", ["shutil.copyfile", "folders.converted"])
def test_what_a_killed_command_has_left_is_removed_by_the_next(what: str, models: Path, tmp_path: Path) -> None:
    other_models.write(tmp_path / "from" / "german")
    ended = subprocess.run([sys.executable, "-c", KILLED.format(what=what)], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = models.iterdir()
    assert left.name.startswith(".")  # a server leaves it out: it has not been checked
    assert cli.main(["models", "add", "from/german"]) == 0
    assert [path.name for path in models.iterdir()] == ["german"]


def test_a_wrong_model_is_not_added(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described(tmp_path / "from")
    assert cli.main(["models", "add", "from/german"]) == 1
    assert "not a safetensors file" in capsys.readouterr().err
    assert list(models.iterdir()) == []
    for source, message in (("nowhere", "no such folder"), ("from/german/voices", "missing; write one with")):
        assert cli.main(["models", "add", source]) == 1
        assert message in capsys.readouterr().err
    assert list(models.iterdir()) == []


def test_without_a_folder_for_models(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["models", "list"]) == 1
    assert "it must be a folder with a folder for each model" in capsys.readouterr().err
    monkeypatch.delenv("MODELS_PATH")
    assert cli.main(["models", "check"]) == 1
    assert "MODELS_PATH is not set" in capsys.readouterr().err
    assert not models.exists()


def test_what_the_system_refuses_is_one_line(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other_models.describe(tmp_path / "from" / "german")
    (tmp_path / "from" / "german" / "model.safetensors").write_bytes(b"")
    (tmp_path / "file").touch()
    monkeypatch.setenv("MODELS_PATH", str(tmp_path / "file" / "models"))
    assert cli.main(["models", "add", "from/german"]) == 1
    assert "german cannot be copied to" in capsys.readouterr().err


def test_a_link_is_removed_and_what_it_leads_to_stays(models: Path, tmp_path: Path) -> None:
    other_models.describe(tmp_path / "from" / "german")
    models.mkdir()
    (models / "linked").symlink_to(tmp_path / "from" / "german")
    assert cli.main(["models", "remove", "linked"]) == 0
    assert list(models.iterdir()) == []
    assert (tmp_path / "from" / "german" / "model.toml").is_file()


def test_an_interrupted_check_leaves_nothing(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    other_models.describe(tmp_path / "from" / "german")
    (tmp_path / "from" / "german" / "model.safetensors").write_bytes(b"")
    monkeypatch.setattr(folders, "converted", interrupted)
    assert cli.main(["models", "add", "from/german"]) == 130
    assert list(models.iterdir()) == []
