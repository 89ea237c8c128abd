"""How far an engine on CUDA is from the model in single precision, stage by stage alike: KModel's twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from kokoro_server.engine.cuda.engine import CudaEngine
from kokoro_server.engine.cuda.kernels.ops import gaussian_noise
from kokoro_server.engine.model.kokoro import BatchedKokoro
from kokoro_server.engine.model.lengths import DeviceLengths
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Result, Row
from kokoro_server.engine.torch_engine import fp32_precision, token_batch

GROUP = 8  # rows of a batch


class Exact:
    """The plain batched model, no shortcut of the hardware allowed."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self.device = device
        self.model = BatchedKokoro(model, device)

    @torch.inference_mode()
    def distance(self, engine: CudaEngine, rows: Sequence[Row]) -> dict[str, Any]:
        """Durations that differ, and the sound's error when both are given the same F0, energy and noise."""
        moved = tokens = 0
        ratios: list[float] = []
        for start in range(0, len(rows), GROUP):
            batch = rows[start : start + GROUP]
            with fp32_precision("ieee", "ieee", "ieee"):
                features = self.model.align(token_batch(batch, self.device))
                prosody = self.model.prosody(features)
                seeds = torch.tensor([row.seed for row in batch], device=self.device)
                noise = gaussian_noise(seeds, features.lengths.size * SAMPLES_PER_FRAME)
                wanted = self.model.audio(features, prosody, noise)
            lengths = DeviceLengths(features.lengths.on_device, features.lengths.size, engine.model.predictor_placement)
            with engine.fp32_mode():
                got = engine.model.audio(replace(features, lengths=lengths), prosody, noise)
            for i, (row, result) in enumerate(zip(batch, engine.synthesize(batch), strict=True)):
                durations = features.durations[i, : len(row.tokens) + 2].cpu().numpy()
                moved, tokens = moved + int((durations != result.durations).sum()), tokens + len(durations)
                end = features.lengths.counts[i] * SAMPLES_PER_FRAME
                ratios.append(snr(wanted[i, :end].double(), got[i, :end].double()))
        return {
            "sentences": len(rows),
            "durations": tokens,
            "durations_moved": moved,
            "snr_below_40_db": sum(ratio < 40 for ratio in ratios),
            "snr_db_min": round(min(ratios), 1),
            "snr_db_lowest": [round(ratio, 1) for ratio in sorted(ratios)[:5]],
            "snr_db_median": round(float(np.median(ratios)), 1),
        }


def snr(wanted: torch.Tensor, got: torch.Tensor) -> float:
    """Signal to error, in dB."""
    return 10 * float(torch.log10(wanted.square().sum() / (wanted - got).square().sum()))


def kmodel(model: Any) -> Callable[[Sequence[Row]], list[Result]]:
    """KModel itself, one row after the other, its noise drawn from torch's generator."""

    def speak(rows: Sequence[Row]) -> list[Result]:
        results = []
        for row in rows:
            torch.manual_seed(row.seed)
            tokens = torch.tensor([[0, *row.tokens, 0]], device=model.device)
            style = torch.tensor(row.style, device=model.device)[None]
            with fp32_precision("ieee", "ieee", "ieee"):
                audio, durations = model.forward_with_tokens(tokens, style, row.speed)
            results.append(Result(audio.cpu().numpy(), durations.cpu().numpy()))
        return results

    return speak
