"""The text side, batched: from tokens to durations and features by ALBERT, the duration predictor and text encoder."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_server.engine.model.layers import EPSILON, AdaINParams, Linear, StyleProjections
from kokoro_server.engine.model.lengths import Lengths, Placement
from kokoro_server.engine.model.ops import Ops


class LayerNorm:
    def __init__(self, weight: Tensor, bias: Tensor, epsilon: float, placement: Placement) -> None:
        self.weight, self.bias, self.epsilon = placement(weight), placement(bias), epsilon
        self.shape = (int(weight.shape[0]),)

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.epsilon)


class Albert:
    """One transformer layer, applied `depth` times."""

    def __init__(self, module: Any, ops: Ops, placement: Placement) -> None:
        config = module.config
        self.depth, self.heads = config.num_hidden_layers, config.num_attention_heads
        embeddings, layer = module.embeddings, module.encoder.albert_layer_groups[0].albert_layers[0]
        attention = layer.attention

        def linear(*parts: Any) -> Linear:
            weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
            return ops.linear(weight, bias, placement)

        def norm(part: Any) -> LayerNorm:
            return LayerNorm(part.weight, part.bias, part.eps, placement)

        self.word_embeddings = placement(embeddings.word_embeddings.weight)
        self.position_embeddings = placement(
            embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
        )
        self.embedding_norm = norm(embeddings.LayerNorm)
        self.embedding_projection = linear(module.encoder.embedding_hidden_mapping_in)
        self.qkv = linear(attention.query, attention.key, attention.value)
        self.attention_out, self.attention_norm = linear(attention.dense), norm(attention.LayerNorm)
        self.feed_forward_in, self.feed_forward_out = linear(layer.ffn), linear(layer.ffn_output)
        self.feed_forward_norm = norm(layer.full_layer_layer_norm)

    def __call__(self, tokens: Tensor, lengths: Lengths) -> Tensor:
        x = F.embedding(tokens, self.word_embeddings) + self.position_embeddings[: tokens.shape[1]]
        x = self.embedding_projection(self.embedding_norm(x))  # (rows, tokens, hidden)
        mask = lengths.mask[:, None, None] if lengths.padded else None
        for _ in range(self.depth):
            x = self.attention_norm(x + self._attend(x, mask))
            x = self.feed_forward_norm(x + self.feed_forward_out(F.gelu(self.feed_forward_in(x), approximate="tanh")))
        return x

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        rows, time, _ = x.shape
        query, key, value = self.qkv(x).view(rows, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.attention_out(attended.transpose(1, 2).flatten(2))


class DurationEncoder:
    """LSTMs with an adaptive layer norm after each; the style itself is appended to every input."""

    def __init__(self, module: Any, projections: StyleProjections, ops: Ops, placement: Placement) -> None:
        self.lstms = [ops.lstm(part, placement) for part in module.lstms if isinstance(part, nn.LSTM)]
        self.norms = [projections.add(part) for part in module.lstms if not isinstance(part, nn.LSTM)]

    def __call__(self, x: Tensor, style: Tensor, styles: list[AdaINParams], lengths: Lengths) -> Tensor:
        appended = style[:, None].expand(-1, x.shape[1], -1)
        x = lengths.mask_(torch.cat([x, appended], 2))
        for lstm, norm in zip(self.lstms, self.norms, strict=True):
            y = F.layer_norm(lstm(x, lengths), (lstm.lstm.hidden_size * 2,), eps=EPSILON)
            y = torch.addcmul(styles[norm].shift, y, styles[norm].scale)
            x = lengths.mask_(torch.cat([y, appended], 2))
        return x  # (rows, tokens, hidden + style)


class TextEncoder:
    """The decoder's own view of the tokens: convolutions and one LSTM."""

    def __init__(self, module: Any, ops: Ops, placement: Placement) -> None:
        self.embedding = placement(module.embedding.weight)
        self.convs = [ops.conv_fp32_activations(part[0], placement, placement.dtype) for part in module.cnn]
        self.norms = [LayerNorm(part[1].gamma, part[1].beta, part[1].eps, placement) for part in module.cnn]
        self.lstm = ops.lstm(module.lstm, placement)

    def __call__(self, tokens: Tensor, lengths: Lengths) -> Tensor:
        x = lengths.mask_(F.embedding(tokens, self.embedding))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = lengths.mask_(F.leaky_relu_(norm(conv(x, lengths)), 0.2))
        return self.lstm(x, lengths)  # (rows, tokens, hidden)


class DurationPredictor:
    def __init__(self, module: Any, ops: Ops, placement: Placement) -> None:
        self.lstm = ops.lstm(module.lstm, placement)
        projection = module.duration_proj.linear_layer
        self.projection = Linear(projection.weight, projection.bias, placement)

    def __call__(self, x: Tensor, speed: Tensor, lengths: Lengths) -> Tensor:
        """Frames per token, at least one; 0 in padding. (rows, tokens)"""
        frames = torch.sigmoid(self.projection(self.lstm(x, lengths))).sum(2) / speed[:, None]
        return frames.round().clamp(min=1).long() * lengths.mask
