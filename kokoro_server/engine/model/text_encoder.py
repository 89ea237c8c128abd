"""From tokens to durations and features: ALBERT, the duration predictor and the text encoder, batched."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_server.engine.model.layers import EPSILON, Linear, Modulation, StyleTable
from kokoro_server.engine.model.lengths import Place, Span


class LayerNorm:
    def __init__(self, weight: Tensor, bias: Tensor, epsilon: float, place: Place) -> None:
        self.weight, self.bias, self.epsilon = place(weight), place(bias), epsilon
        self.shape = (int(weight.shape[0]),)

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.epsilon)


class Albert:
    """One transformer layer, applied `depth` times."""

    def __init__(self, module: Any, place: Place) -> None:
        config = module.config
        self.depth, self.heads = config.num_hidden_layers, config.num_attention_heads
        embeddings, layer = module.embeddings, module.encoder.albert_layer_groups[0].albert_layers[0]
        attention = layer.attention

        def linear(*parts: Any) -> Linear:
            weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
            return place.kernels.linear(weight, bias, place)

        def norm(part: Any) -> LayerNorm:
            return LayerNorm(part.weight, part.bias, part.eps, place)

        self.words = place(embeddings.word_embeddings.weight)
        self.positions = place(embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0])
        self.embedding_norm = norm(embeddings.LayerNorm)
        self.widen = linear(module.encoder.embedding_hidden_mapping_in)
        self.qkv = linear(attention.query, attention.key, attention.value)
        self.attention_out, self.attention_norm = linear(attention.dense), norm(attention.LayerNorm)
        self.feed_in, self.feed_out = linear(layer.ffn), linear(layer.ffn_output)
        self.feed_norm = norm(layer.full_layer_layer_norm)

    def __call__(self, tokens: Tensor, span: Span) -> Tensor:
        x = F.embedding(tokens, self.words) + self.positions[: tokens.shape[1]]
        x = self.widen(self.embedding_norm(x))  # (rows, tokens, hidden)
        mask = span.inside[:, None, None] if span.padded else None
        for _ in range(self.depth):
            x = self.attention_norm(x + self._attend(x, mask))
            x = self.feed_norm(x + self.feed_out(F.gelu(self.feed_in(x), approximate="tanh")))
        return x

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        rows, time, _ = x.shape
        query, key, value = self.qkv(x).view(rows, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.attention_out(seen.transpose(1, 2).flatten(2))


class DurationEncoder:
    """LSTMs with a styled layer norm after each; the style itself is appended to every input."""

    def __init__(self, module: Any, table: StyleTable, place: Place) -> None:
        self.lstms = [place.kernels.lstm(part, place) for part in module.lstms if isinstance(part, nn.LSTM)]
        self.norms = [table.add(part) for part in module.lstms if not isinstance(part, nn.LSTM)]

    def __call__(self, x: Tensor, style: Tensor, styles: list[Modulation], span: Span) -> Tensor:
        told = style[:, None].expand(-1, x.shape[1], -1)
        x = span.clear(torch.cat([x, told], 2))
        for lstm, norm in zip(self.lstms, self.norms, strict=True):
            y = F.layer_norm(lstm(x, span), (lstm.lstm.hidden_size * 2,), eps=EPSILON)
            y = torch.addcmul(styles[norm].shift, y, styles[norm].scale)
            x = span.clear(torch.cat([y, told], 2))
        return x  # (rows, tokens, hidden + style)


class TextEncoder:
    """The decoder's own view of the tokens: convolutions and one LSTM."""

    def __init__(self, module: Any, place: Place) -> None:
        self.embedding = place(module.embedding.weight)
        self.convs = [place.kernels.fine_conv(part[0], place, place.dtype) for part in module.cnn]
        self.norms = [LayerNorm(part[1].gamma, part[1].beta, part[1].eps, place) for part in module.cnn]
        self.lstm = place.kernels.lstm(module.lstm, place)

    def __call__(self, tokens: Tensor, span: Span) -> Tensor:
        x = span.clear(F.embedding(tokens, self.embedding))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = span.clear(F.leaky_relu_(norm(conv(x, span)), 0.2))
        return self.lstm(x, span)  # (rows, tokens, hidden)


class DurationPredictor:
    def __init__(self, module: Any, place: Place) -> None:
        self.lstm = place.kernels.lstm(module.lstm, place)
        projection = module.duration_proj.linear_layer
        self.projection = Linear(projection.weight, projection.bias, place)

    def __call__(self, x: Tensor, speed: Tensor, span: Span) -> Tensor:
        """Frames per token, at least one; 0 in padding. (rows, tokens)"""
        frames = torch.sigmoid(self.projection(self.lstm(x, span))).sum(2) / speed[:, None]
        return frames.round().clamp(min=1).long() * span.inside
