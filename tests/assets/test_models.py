"""Folders of models: whole ones, and all the ways in which they can be damaged, hostile or incomplete."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from kokoro_server.assets.models import folder, install, weights
from kokoro_server.assets.models.folder import ModelFolder
from kokoro_server.engine.model import skeleton
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM
from kokoro_server.errors import AssetError, ConfigError
from kokoro_server.voices.of_model import check_packs
from tests import other_models

Damage = Callable[[Path], object]
SHAPES = {"bert.a": (2, 3), "decoder.b": (4,)}


def config(**changes: Any) -> Damage:
    """A change of config.json. A name with a dot is within a part of it."""

    def change(model: Path) -> None:
        content = json.loads((model / "config.json").read_text())
        for name, value in changes.items():
            part, _, key = name.rpartition("__")
            (content[part] if part else content)[key] = value
        (model / "config.json").write_text(json.dumps(content))

    return change


def card(text: str) -> Damage:
    return lambda model: (model / "model.toml").write_text(text)


def file(name: str, content: bytes | str) -> Damage:
    return lambda model: (model / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def without(name: str) -> Damage:
    return lambda model: (model / name).unlink()


def renamed(name: str) -> Damage:
    return lambda model: (model / "voices" / "df_anna.bin").rename(model / "voices" / name)


HEAD = 'name = "A"\nlicense = "B"\n'
FOLDERS: dict[str, tuple[Damage, str]] = {
    "no card": (without("model.toml"), r"model\.toml: missing; write one with"),
    "card is no TOML": (card("name = "), "cannot be read as TOML .*correct it"),
    "card is no UTF-8": (file("model.toml", b"\xff\xfe\x00"), "cannot be read as TOML"),
    "card is huge": (file("model.toml", "#" * 600_000), "too many for a description"),
    "card without a name": (card('license = "B"\n[languages.de]'), "has no name; add name"),
    "card without a licence": (card('name = "A"\n[languages.de]'), "has no license; add license"),
    "card without languages": (card(HEAD), r"has no language; add a table such as \[languages\.de\]"),
    "card with an unknown field": (card(HEAD + "pickle = true\n[languages.de]"), "unknown: pickle; allowed are"),
    "card with a line break": (card('name = "A\\nB"\nlicense = "B"\n[languages.de]'), "must be a line of at most"),
    "unknown language": (card(HEAD + "[languages.klingon]"), "no language .* has this code; use one of en-US"),
    "language is no table": (card(HEAD + 'languages = "de"'), "has no language"),
    "unknown g2p": (card(HEAD + '[languages.de]\ng2p = "exec"'), "g2p is 'exec'; use one of misaki"),
    "misaki for German": (card(HEAD + '[languages.de]\ng2p = "misaki"'), "misaki cannot read German"),
    "espeak for Japanese": (card(HEAD + '[languages.ja]\ng2p = "espeak"'), "read by misaki alone"),
    "table without letters": (card(HEAD + '[languages.de]\ng2p = "table"'), "belong together"),
    "letters that are numbers": (card(HEAD + '[languages.de]\ng2p = "table"\nletters = {a = 1}'), "text for text"),
    "letter of two": (card(HEAD + '[languages.de]\nletter = "de"'), "it must be one of a to z"),
    "two languages, one letter": (
        card(HEAD + '[languages.de]\nletter = "d"\n[languages.nl]\nletter = "d"'),
        "give each a `letter` of its own",
    ),
    "default voice is missing": (card(HEAD + 'voice = "df_x"\n[languages.de]'), "name one of df_anna, dm_bert"),
    "weights elsewhere": (
        card(HEAD + 'weights = "../../etc/passwd.pth"\n[languages.de]'),
        "must name a file of the folder",
    ),
    "named weights are missing": (card(HEAD + 'weights = "x.pth"\n[languages.de]'), "copy it there"),
    "no config": (without("config.json"), r"config\.json: missing; copy it"),
    "config is no JSON": (file("config.json", "{"), "cannot be read as JSON .*copy it again"),
    "config is deeply nested": (file("config.json", "[" * 100_000), "cannot be read as JSON"),
    "config is huge": (file("config.json", " " * 300_000), "too many for a model's configuration"),
    "config is a list": (file("config.json", "[]"), "must be a JSON object"),
    "config says something twice": (file("config.json", '{"vocab": {"a": 1, "a": 2}}'), "'a' is there twice"),
    "no layers": (config(n_layer=None), "n_layer is missing; it must be a whole number from 1 to 12"),
    "a size that is a text": (config(n_layer="3"), "n_layer is '3'"),
    "a size that is true": (config(n_layer=True), "n_layer is True"),
    "a size that fills the memory": (config(plbert__hidden_size=10**9), "plbert.hidden_size is 1000000000"),
    "heads that do not divide": (config(plbert__num_attention_heads=7), "cannot be divided by"),
    "an even kernel": (config(text_encoder_kernel_size=4), "must be odd"),
    "styles of another width": (config(style_dim=64), "style_dim is 64; this server runs models with 128 alone"),
    "another sample rate": (config(istftnet__upsample_rates=[8, 8]), "upsample_rates is .* alone"),
    "blocks without kernels": (config(istftnet__resblock_kernel_sizes=[]), "list of 1 to 5 odd numbers"),
    "dilations of another count": (config(istftnet__resblock_dilation_sizes=[]), "three numbers for each kernel"),
    "no vocabulary": (config(vocab={}), "vocab is missing"),
    "vocabulary without a space": (config(vocab={"a": 1}), "vocab has no space"),
    "phonemes of two characters": (config(vocab={" ": 1, "ab": 2}), "must be a single character"),
    "the number of the pad": (config(vocab={" ": 0}), "must be from 1 to 199, below n_token"),
    "a number past the end": (config(vocab={" ": 1, "a": 500}), "must be from 1 to 199, below n_token"),
    "one number twice": (config(vocab={" ": 1, "a": 2, "b": 2}), "the number 2: a b"),
    "no weights": (without("model.safetensors"), "has no weights; copy a file there"),
    "two files of weights": (file("b.pth", b""), 'name one of them in model.toml: weights = "b.pth"'),
    "no voices": (lambda model: [path.unlink() for path in (model / "voices").iterdir()], "has no voices; copy packs"),
    "a voice's name": (renamed("Anna.bin"), "cannot be a voice's name; rename the file"),
    "a voice of another language": (renamed("zf_anna.bin"), 'add letter = "z" to the language of this voice'),
    "a voice twice": (file("voices/df_anna.pt", b""), "is the same voice; remove one of the two"),
}


def described(parent: Path, name: str = "german") -> Path:
    model = other_models.describe(parent / name)
    (model / "model.safetensors").touch()
    return model


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_wrong_folder_is_refused_with_advice(kind: str, tmp_path: Path) -> None:
    damage, message = FOLDERS[kind]
    model = described(tmp_path)
    assert folder.read(model).default_voice == "df_anna"
    damage(model)
    with pytest.raises(AssetError, match=message) as raised:
        folder.read(model)
    assert str(tmp_path) in raised.value.message
    assert len(raised.value.message) < 2_000
    assert folder.scan(tmp_path).models == {}


@pytest.mark.parametrize("name", ["Deutsch", "a b", "tts-1", "-x", "x" * 100])
def test_names_that_no_model_can_have(name: str, tmp_path: Path) -> None:
    described(tmp_path, name)
    assert list(folder.scan(tmp_path).broken) == [name]


def test_hidden_folders_and_files_do_not_count(tmp_path: Path) -> None:
    described(tmp_path, ".adding-1")
    (tmp_path / "README").touch()
    assert folder.scan(tmp_path) == folder.ModelShelf()
    with pytest.raises(ConfigError, match=r"MODELS_PATH=.*it must be a folder"):
        folder.scan(tmp_path / "README")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/kokoro-was-here",)


def checkpoint(path: Path, content: object) -> None:
    """As torch.save writes it, but for the pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps(content))


WHOLE = {"bert.a": np.ones((2, 3), np.float32), "decoder.b": np.ones(4, np.float16)}
WEIGHTS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "empty": ("a.safetensors", lambda path: path.touch(), "not a safetensors file, or cut short .*fetch it again"),
    "a header that lies": (
        "a.safetensors",
        lambda path: path.write_bytes((2**60).to_bytes(8, "little") + b"{}"),
        "not a safetensors file",
    ),
    "cut short": (
        "a.safetensors",
        lambda path: (save_file(WHOLE, path), path.write_bytes(path.read_bytes()[:-4])),
        "not a safetensors file, or cut short",
    ),
    "whole numbers": (
        "a.safetensors",
        lambda path: save_file({**WHOLE, "bert.a": np.ones((2, 3), np.int64)}, path),
        "has tensors of I64; save them as F16 or F32 or F64",
    ),
    "a tensor is missing": (
        "a.safetensors",
        lambda path: save_file({"bert.a": WHOLE["bert.a"]}, path),
        "decoder.b: the model file has no such parameter",
    ),
    "every wrong shape is named": (
        "a.safetensors",
        lambda path: save_file({"bert.a": np.ones(3, np.float32), "decoder.b": np.ones(5, np.float32)}, path),
        r"bert\.a: shape \(3,\), expected \(2, 3\); decoder\.b: shape \(5,\), expected \(4,\); take both from the same",
    ),
    "not a number": (
        "a.safetensors",
        lambda path: save_file({**WHOLE, "bert.a": np.full((2, 3), np.nan, np.float32)}, path),
        "bert.a: not finite",
    ),
    "a pickle that runs code": ("a.pth", lambda path: checkpoint(path, Evil()), "not a torch file .*is no tensor"),
    "a pickle without tensors": ("a.pth", lambda path: checkpoint(path, {}), "no tensors"),
    "a checkpoint that is no zip": ("a.pth", lambda path: path.write_bytes(b"\x80\x02}."), "not a torch file"),
    "no ONNX": ("a.onnx", lambda path: path.write_bytes(b"\xff" * 100), "cannot be read .*fetch it again"),
    "an empty ONNX": ("a.onnx", lambda path: path.touch(), "no such parameter"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_wrong_weights_are_refused_with_advice(kind: str, tmp_path: Path) -> None:
    name, write, message = WEIGHTS[kind]
    write(tmp_path / name)
    with pytest.raises(AssetError, match=message) as raised:
        weights.read(tmp_path / name, SHAPES)
    assert str(tmp_path / name) in raised.value.message
    assert not Path("/tmp/kokoro-was-here").exists()


def test_names_of_other_savers_are_understood(tmp_path: Path) -> None:
    """Of DataParallel, and of torch's newer weight norm."""
    saved = {
        "bert.module.a": WHOLE["bert.a"],
        "decoder.module.c.parametrizations.weight.original0": np.ones((2, 1, 1), np.float32),
        "decoder.module.c.parametrizations.weight.original1": np.zeros((2, 2, 2), np.float32),
    }
    save_file(saved, tmp_path / "a.safetensors")
    shapes = {"bert.a": (2, 3), "decoder.c.weight_g": (2, 1, 1), "decoder.c.weight_v": (2, 2, 2)}
    state = weights.read(tmp_path / "a.safetensors", shapes)
    assert state["decoder.c.weight_g"].sum() == 2
    assert state["decoder.c.weight_v"].sum() == 0


def test_a_conversion_that_was_killed_is_made_again(tmp_path: Path) -> None:
    model = folder.read(other_models.write(tmp_path / "german"))
    left = tmp_path / "cache" / "models" / "00.safetensors.unfinished"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    made = weights.ensure(
        tmp_path / "cache", model.weights, model.config, lambda: skeleton.shapes(model.config.content)
    )
    assert [*left.parent.iterdir()] == [made.path]


PACK = np.full((MAX_TOKENS, STYLE_DIM), 0.5, np.float32)
PACKS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "cut short": ("df_x.bin", lambda path: path.write_bytes(PACK.tobytes()[:-4])),
    "not finite": ("df_x.bin", lambda path: path.write_bytes((PACK * np.inf).tobytes())),
    "noise": ("df_x.bin", lambda path: path.write_bytes((PACK * 1e6).tobytes())),
    "of another shape": ("df_x.npy", lambda path: np.save(path, PACK[:, :3])),
    "objects": ("df_x.npy", lambda path: np.save(path, np.array([Evil()], dtype=object), allow_pickle=True)),
    "that claims to be huge": (
        "df_x.npy",
        lambda path: path.write_bytes(
            b"\x93NUMPY\x01\x00\x76\x00"
            + b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 99999999), }".ljust(117)
            + b"\n"
        ),
    ),
    "two tensors": ("df_x.safetensors", lambda path: save_file({"a": PACK, "b": PACK}, path)),
    "no safetensors": ("df_x.safetensors", lambda path: path.write_bytes(b"{}")),
    "a pickle that runs code": ("df_x.pt", lambda path: checkpoint(path, Evil())),
}


@pytest.mark.parametrize("kind", PACKS)
def test_a_wrong_voice_is_refused(kind: str, tmp_path: Path) -> None:
    name, write = PACKS[kind]
    model = described(tmp_path)
    check_packs(folder.read(model))
    write(model / "voices" / name)
    with pytest.raises(AssetError, match=r"voices/df_x\.\w+: "):
        check_packs(folder.read(model))
    assert not Path("/tmp/kokoro-was-here").exists()


def test_voices_may_be_arrays_and_safetensors(tmp_path: Path) -> None:
    model = described(tmp_path)
    np.save(model / "voices" / "df_one.npy", PACK)
    save_file({"any": PACK[:, None]}, model / "voices" / "df_two.safetensors")
    check_packs(folder.read(model))


def added(source: Path, models: Path) -> ModelFolder:
    return install.add(source, models, "mine")


def test_names_that_are_no_utf8_can_be_logged_and_sent(tmp_path: Path) -> None:
    described(tmp_path, os.fsdecode(b"caf\xe9"))
    voice = described(tmp_path) / "voices" / os.fsdecode(b"df_caf\xe9.bin")
    voice.touch()
    broken = folder.scan(tmp_path).broken
    assert list(broken) == ["caf\\udce9", "german"]
    for text in (*broken, *broken.values()):
        assert "caf\\udce9" in text.encode().decode() or text == "german"


def test_a_folder_is_copied_whole_or_not_at_all(tmp_path: Path) -> None:
    source, models = described(tmp_path / "from"), tmp_path / "models"
    (source / "notes.txt").touch()
    (source / "setup.py").touch()
    assert sorted(path.name for path in added(source, models).path.iterdir()) == [
        *("config.json", "model.safetensors", "model.toml", "voices")
    ]
    with pytest.raises(AssetError, match="is there already; remove it first"):
        added(source, models)
    install.remove("mine", models)
    (source / "config.json").write_text("{}")
    with pytest.raises(AssetError, match=r"from/german/config\.json: "):
        added(source, models)
    assert list(models.iterdir()) == []
    with pytest.raises(AssetError, match="there is no such model"):
        install.remove("mine", models)


def test_a_link_to_a_file_elsewhere_is_not_copied(tmp_path: Path) -> None:
    source = described(tmp_path / "from")
    (source / "voices" / "df_x.bin").symlink_to("/etc/passwd")
    with pytest.raises(AssetError, match="links to a file elsewhere"):
        added(source, tmp_path / "models")


def test_only_names_of_models_are_removed(tmp_path: Path) -> None:
    for name in ("..", "/", "../x", "."):
        with pytest.raises(AssetError, match="cannot be a model's name"):
            install.remove(name, tmp_path)
