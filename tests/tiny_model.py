"""A KModel of a few thousand weights, for tests: the real classes and shapes of input, random weights."""

from __future__ import annotations

import getpass
import math
import tempfile
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx
import torch
from safetensors.numpy import load_file
from safetensors.torch import save
from torch import Tensor, nn

from kokoro_server import engine
from kokoro_server.engine import vocab
from kokoro_server.engine.cpu import build as graphs
from kokoro_server.engine.cpu import export
from kokoro_server.engine.cpu.engine import OnnxEngine
from kokoro_server.engine.model import reference, skeleton
from kokoro_server.engine.torch_engine import TorchEngine

HIDDEN = 32  # of the text side and the predictor
WIDTH = 16  # of the decoder's blocks
RESIDUAL = 8
GENERATOR = 16  # channels into the generator; halved at each of its two stages

FRAMES_PER_TOKEN = 1.9  # where the style says nothing; a random style adds to it
PITCH = 120.0  # Hz, the middle of what it says
LEVEL = -2.2  # log magnitude of its spectrum


def configuration() -> dict[str, Any]:
    full = vocab.config()
    albert = full["plbert"] | {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    albert |= {"num_hidden_layers": 2, "embedding_size": 16}
    generator = full["istftnet"] | {"upsample_initial_channel": GENERATOR, "resblock_kernel_sizes": [3, 5]}
    generator["resblock_dilation_sizes"] = [[1, 3, 5], [1, 3, 5]]
    return full | {"hidden_dim": HIDDEN, "n_layer": 2, "plbert": albert, "istftnet": generator}


def build(seed: int = 0) -> Any:
    """The same weights for the same seed. It speaks gibberish, with voiced and unvoiced stretches."""
    with torch.random.fork_rng(devices=[]), reference.quiet():
        torch.manual_seed(seed)
        model = reference.blank(configuration())
        shrink(model.decoder)
        with torch.no_grad():
            for module in model.modules():
                _randomise(module)
            _settle(model)
    return model.eval()


def torch_engine(seed: int = 0) -> TorchEngine:
    return TorchEngine.of(_modules(seed), torch.device("cpu"))


@cache
def _modules(seed: int) -> Any:
    """As a server has them: made without `transformers`, whose import takes seconds. Engines may share them."""
    model = skeleton.build(configuration())
    with reference.quiet():
        shrink(model.decoder)
    return reference.load_strictly(model, weights(seed), assign=True)


def weights(seed: int = 0) -> Path:
    """Those of `build`, made once."""
    path = _folder() / f"{seed}.safetensors"
    if not path.exists():
        _write(path, save({name: tensor.contiguous() for name, tensor in build(seed).state_dict().items()}))
    return path


@cache
def templates() -> dict[str, onnx.ModelProto]:
    """The tiny model's graphs without weights, traced once."""
    paths = {name: _folder() / f"{name}.onnx" for name in graphs.GRAPHS}
    if not all(path.exists() for path in paths.values()):
        for name, graph in export.templates(build()).items():
            _write(paths[name], graph.SerializeToString())
    return {name: onnx.load(path) for name, path in paths.items()}


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
        unfinished.write(content)
    Path(unfinished.name).replace(path)  # another process sees the whole file or none


@cache
def _folder() -> Path:
    """Of files that the tests' servers read too."""
    return Path(tempfile.gettempdir()) / f"kokoro-server-tests-{getpass.getuser()}" / _key()


def _key() -> str:
    """Changes with everything that decides what the weights and the templates look like."""
    sources = [path for path in Path(engine.__file__).parent.rglob("*") if path.suffix in {".py", ".json"}]
    versions = [metadata.version(name) for name in ("kokoro", "onnx", "torch", "transformers")]
    content = b"".join(path.read_bytes() for path in [Path(__file__), *sorted(sources)])
    return sha256(content + " ".join(versions).encode()).hexdigest()[:16]


def onnx_engine(seed: int = 0) -> OnnxEngine:
    state = load_file(weights(seed))
    with tempfile.TemporaryDirectory() as folder:
        graphs.assemble(templates(), state, Path(folder), "fp32")
        return OnnxEngine(Path(folder))


def shrink(decoder: Any) -> None:
    """The decoder's own widths are no part of the configuration: replace the blocks that have them."""
    block = type(decoder.encode)
    style = vocab.config()["style_dim"]
    joined = WIDTH + RESIDUAL + 2
    decoder.encode = block(HIDDEN + 2, WIDTH, style)
    decoder.decode = nn.ModuleList(
        [block(joined, WIDTH, style), block(joined, GENERATOR, style, upsample=True)],
    )
    residual = decoder.asr_res[0]
    decoder.asr_res[0] = type(residual)(HIDDEN, RESIDUAL, 1)


def _randomise(module: Any) -> None:
    """Gains near one, so that signals keep their size through the layers."""
    if hasattr(module, "weight_v"):
        shape = module.weight_v.shape
        fan_in = shape[0] * shape[2] / module.stride[0] if isinstance(module, nn.ConvTranspose1d) else shape[1:].numel()
        module.weight_v.normal_()
        norm = module.weight_v.flatten(1).norm(dim=1).view(-1, 1, 1)
        module.weight_g.copy_(norm / math.sqrt(fan_in) * _around_one(norm))
    elif hasattr(module, "alpha1"):
        for alpha in [*module.alpha1, *module.alpha2]:
            alpha.copy_(_around_one(alpha))
    elif isinstance(module, nn.InstanceNorm1d):
        module.weight.copy_(_around_one(module.weight))
        module.bias.normal_(std=0.1)


def _around_one(like: Tensor) -> Tensor:
    return torch.rand_like(like) * 0.6 + 0.7


def _settle(model: Any) -> None:
    """Durations, F0 and loudness like those of speech."""
    projection = model.predictor.duration_proj.linear_layer
    share = FRAMES_PER_TOKEN / projection.out_features
    projection.weight.mul_(3)
    projection.bias.fill_(math.log(share / (1 - share)))
    model.predictor.F0_proj.weight.normal_(std=130 / math.sqrt(HIDDEN / 2))
    model.predictor.F0_proj.bias.fill_(PITCH)
    model.decoder.F0_conv.weight_g.mul_(1 / PITCH)
    post = model.decoder.generator.conv_post
    post.weight_g.mul_(0.3)
    post.bias.fill_(LEVEL)
