"""The forward pass as two ONNX graphs, traced from the same code that torch runs. Needs torch.

    text    tokens, style, speed                     → prosody, text (both per token), durations
    decode  prosody, text (both per frame), style, noise, semitones → audio

The graphs' initializers are the parameters of `kokoro.KModel` under their own names. Fused weight norms and joined
projections are computed in the graph. So a template, a graph without the values of its initializers, serves every set
of weights of one configuration, and `build` needs no torch to fill it.
"""

from __future__ import annotations

import gzip
import io
import warnings
from typing import Any, cast

import onnx
import torch
from torch import Tensor, nn
from torch.onnx.utils import register_custom_op_symbolic as register

from kokoro_server.engine.cpu import build
from kokoro_server.engine.cpu.traced_ops import SingleRow, TracedOps
from kokoro_server.engine.model import reference
from kokoro_server.engine.model.kokoro import HALF_STYLE, AlignedFeatures, BatchedKokoro
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, STYLE_DIM

OPSET = 17
PREFIX = "reference."
CPU = torch.device("cpu")


class TracedGraph(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.reference = model

    def batched(self) -> BatchedKokoro:
        """Built inside the trace, so that its work on the parameters is traced too."""
        return BatchedKokoro(self.reference, CPU, ops=TracedOps(self.reference))


class TextGraph(TracedGraph):
    def forward(self, tokens: Tensor, style: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        model = self.batched()
        features = model.encode(tokens, style, speed, SingleRow(tokens.shape[1], model.predictor_placement))
        return features.for_prosody, features.for_decoder, features.durations


class DecodeGraph(TracedGraph):
    def forward(self, prosody: Tensor, text: Tensor, style: Tensor, noise: Tensor, semitones: Tensor) -> Tensor:
        model = self.batched()
        lengths = SingleRow(prosody.shape[1], model.predictor_placement)
        features = AlignedFeatures(semitones, lengths, style, for_prosody=prosody, for_decoder=text)
        predicted = model.prosody(features)
        return model.audio(features, predicted.transposed(model.voiced(predicted), semitones), noise)


def exp2(g: Any, x: Any) -> Any:
    return g.op("Pow", g.op("Constant", value_t=torch.tensor(2.0)), x)


def templates(model: Any) -> dict[str, onnx.ModelProto]:
    """The two graphs of a `kokoro.KModel`, whose initializers have no values. Overwrites the model's weights."""
    hidden = model.text_encoder.embedding.embedding_dim
    tokens, frames = 7, 12
    style, one = torch.randn(1, STYLE_DIM) / 4, torch.ones(1)
    inputs: dict[str, tuple[TracedGraph, dict[str, Tensor], dict[str, dict[int, str]]]] = {
        "text": (
            TextGraph(model),
            {"tokens": torch.arange(tokens)[None] + 1, "style": style, "speed": one},
            {name: {1: "tokens"} for name in ("tokens", "prosody", "text", "durations")},
        ),
        "decode": (
            DecodeGraph(model),
            {
                "prosody": torch.randn(1, frames, hidden + HALF_STYLE) / 4,
                "text": torch.randn(1, frames, hidden) / 4,
                "style": style,
                "noise": torch.randn(1, frames * SAMPLES_PER_FRAME),
                "semitones": one,
            },
            {"prosody": {1: "frames"}, "text": {1: "frames"}, "noise": {1: "samples"}, "audio": {1: "samples"}},
        ),
    }
    outputs = {"text": ["prosody", "text", "durations"], "decode": ["audio"]}
    register("aten::exp2", exp2, OPSET)
    fill_distinct_(model)
    traced = {}
    for name, (part, values, axes) in inputs.items():
        written = io.BytesIO()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                part.eval(), tuple(values.values()), cast(Any, written), dynamo=False, opset_version=OPSET,
                input_names=list(values), output_names=outputs[name], dynamic_axes=axes,
                do_constant_folding=False, custom_opsets={"kokoro": 1},
            )  # fmt: skip
        traced[name] = without_values(onnx.load_from_string(written.getvalue()))
    return traced


@torch.no_grad()
def fill_distinct_(model: nn.Module) -> None:
    """Make all parameters different: the exporter merges equal ones into one initializer."""
    for number, parameter in enumerate(model.parameters()):
        parameter.fill_(1 / (number + 1))


def without_values(model: onnx.ModelProto) -> onnx.ModelProto:
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.name = tensor.name.removeprefix(PREFIX)
    for node in model.graph.node:
        node.ClearField("doc_string")
        node.ClearField("name")
        node.input[:] = [name.removeprefix(PREFIX) for name in node.input]
    model.graph.ClearField("value_info")
    return model


def compressed(model: onnx.ModelProto) -> bytes:
    return gzip.compress(model.SerializeToString(deterministic=True), mtime=0)


def main() -> None:
    """Write the templates of Kokoro-82M into the package."""
    for name, graph in templates(reference.blank()).items():
        build.template_path(name).write_bytes(compressed(graph))


if __name__ == "__main__":
    main()
