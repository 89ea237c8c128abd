"""The modules of `kokoro.KModel` as a place for its weights: their parameters, shapes and strides, no forward pass.

`BatchedKokoro` reads nothing else. `reference.load` returns a KModel that can be called, but takes several times as
long: it imports transformers for its ALBERT, which takes seconds, and makes random weights, which a file then replaces.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kokoro_server.engine import vocab
from kokoro_server.engine.model import reference

PACKAGE = "kokoro_modules"  # a separate name, because `kokoro.modules` must get the real ALBERT


class SkipInit(TorchFunctionMode):
    """Modules made inside do not initialize their parameters, which a file replaces.

    The meta device would do the same, but it imports half of torch's compiler.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init" or func in (Tensor.uniform_, Tensor.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


class AlbertModel(nn.Module):
    """The parameters of `transformers.AlbertModel` by the same names, with one layer for all."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        width, hidden, epsilon = config.embedding_size, config.hidden_size, config.layer_norm_eps
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(config.vocab_size, width),
                "position_embeddings": nn.Embedding(config.max_position_embeddings, width),
                "token_type_embeddings": nn.Embedding(config.type_vocab_size, width),
                "LayerNorm": nn.LayerNorm(width, eps=epsilon),
            }
        )
        attention: dict[str, nn.Module] = {
            name: nn.Linear(hidden, hidden) for name in ("query", "key", "value", "dense")
        }
        layer = nn.ModuleDict(
            {
                "full_layer_layer_norm": nn.LayerNorm(hidden, eps=epsilon),
                "attention": nn.ModuleDict({**attention, "LayerNorm": nn.LayerNorm(hidden, eps=epsilon)}),
                "ffn": nn.Linear(hidden, config.intermediate_size),
                "ffn_output": nn.Linear(config.intermediate_size, hidden),
            }
        )
        group = nn.ModuleDict({"albert_layers": nn.ModuleList([layer])})
        self.encoder = nn.ModuleDict(
            {
                "embedding_hidden_mapping_in": nn.Linear(width, hidden),
                "albert_layer_groups": nn.ModuleList([group]),
            }
        )
        self.pooler = nn.Linear(hidden, hidden)


def albert_config(**given: Any) -> SimpleNamespace:
    """`transformers.AlbertConfig` with the defaults that matter here."""
    defaults = {"embedding_size": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "num_hidden_groups": 1}
    return SimpleNamespace(**(defaults | given))


def load(weights: Path, configuration: Mapping[str, Any] | None = None) -> Any:
    """The modules with the weights of a converted file. AssetError unless it has exactly the model's tensors."""
    return reference.load_strictly(build(configuration), weights, assign=True)


def shapes(configuration: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a model."""
    return {name: tuple(tensor.shape) for name, tensor in build(configuration).state_dict().items()}


def build(configuration: Mapping[str, Any] | None = None) -> Any:
    """The modules without weights."""
    config = configuration or vocab.config()
    modules, istftnet = _package()
    hidden, style = config["hidden_dim"], config["style_dim"]
    with SkipInit(), reference.quiet():
        bert = modules.CustomAlbert(albert_config(vocab_size=config["n_token"], **config["plbert"]))
        model = nn.ModuleDict(
            {
                "bert": bert,
                "bert_encoder": nn.Linear(bert.config.hidden_size, hidden),
                "predictor": modules.ProsodyPredictor(
                    style, hidden, config["n_layer"], config["max_dur"], config["dropout"]
                ),
                "text_encoder": modules.TextEncoder(
                    hidden, config["text_encoder_kernel_size"], config["n_layer"], config["n_token"]
                ),
                "decoder": istftnet.Decoder(hidden, style, config["n_mels"], **config["istftnet"]),
            }
        )
    return model.eval()


def _package() -> tuple[ModuleType, ModuleType]:
    """`kokoro.modules` and `kokoro.istftnet`, with the ALBERT of this module."""
    reference.register(PACKAGE)
    reference.register("kokoro")  # one of its modules names it
    with _light_transformers():
        return importlib.import_module(f"{PACKAGE}.modules"), importlib.import_module(f"{PACKAGE}.istftnet")


@contextmanager
def _light_transformers() -> Iterator[None]:
    light, before = ModuleType("transformers"), sys.modules.get("transformers")
    light.__dict__.update(AlbertModel=AlbertModel, AlbertConfig=albert_config)
    sys.modules["transformers"] = light
    try:
        yield
    finally:
        del sys.modules["transformers"]
        if before is not None:
            sys.modules["transformers"] = before
