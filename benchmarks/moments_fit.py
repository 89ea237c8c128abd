"""Fits the map from the inputs of the generator's stages to the moments of their norms (a GPU, some six minutes).

    python -m benchmarks.moments_fit WEIGHTS VOICES OUT [--rows 80000] [--seconds 180] [--device cuda]

Speaks random parts of the benchmark's sentences, in all voices and at speeds from 0.7 to 1.4, by the torch model in
single precision. OUT is the table that `engine.cpu.moments` reads. Then speaks other sentences and short words with the
moments that the map predicts, and prints how far they are from those spoken as usual, in dB of the log-mel spectrum;
beside it, how far two noises are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor
from torch.nn import functional

from benchmarks import corpus
from kokoro_server.engine import vocab
from kokoro_server.engine.cpu.moments import FLOOR, MOST_DEVIATIONS, fingerprint
from kokoro_server.engine.model import reference
from kokoro_server.engine.model.kokoro import HALF_STYLE, BatchedKokoro, TokenBatch
from kokoro_server.engine.model.layers import EPSILON, Conv, InstanceNorm
from kokoro_server.engine.model.ops import Ops
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME
from kokoro_server.voices import VoiceBook

ROWS_AT_ONCE = 96
HELD_OUT = 56  # sentences that the map does not see
RANK = 256
RIDGE = 1e-5
NORMS = 22  # of a stage
SHORT = ("ˌOkˈA.", "hˈA.", "wˈɜɹld.", "səbmˈɪt bˈʌtᵊn.", "hˈɛlp.", "jˈɛs.", "nˈO.", "sˈɛtɪŋz.", "θˈɪŋk.", "hˈʊ.")

Spoken = tuple[str, str]  # phonemes and voice
Moments = tuple[Tensor, Tensor]  # means and variances


class Watch:
    """What the norms of the stages see: recorded, or given instead of what they would measure."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[Moments] = []
        self.given: list[Moments] = []


def watched_ops(watch: Watch) -> Ops:
    class WatchedNorm(InstanceNorm):
        @cached_property
        def _statistics(self) -> tuple[Tensor, Tensor]:
            if watch.on and watch.given:
                mean, variance = watch.given.pop(0)
            else:
                mean = self.lengths.mean(self.x)
                variance = self.lengths.mean((self.x - mean).square())
            if watch.on:
                watch.seen.append((mean, variance))
            return self.x - mean, torch.rsqrt(variance + EPSILON)

    class WatchedOps(Ops):
        instance_norm = WatchedNorm

        def conv(self, module: Any, placement: Any, gain: Any = None) -> Conv:
            return Conv(module, placement, gain, WatchedNorm)

    return WatchedOps()


class WatchedKokoro:
    """Kokoro, and after each batch the inputs of its stages and the moments of their norms."""

    def __init__(self, weights: Path, voices: Path, device: torch.device) -> None:
        self._watch, self._device, self._book = Watch(), device, VoiceBook(voices)
        with torch.no_grad():
            self._model = BatchedKokoro(reference.load(weights), device, ops=watched_ops(self._watch))
        self._generator = self._model.decoder.generator
        self._inputs: dict[str, Any] = {}
        for number, stage in enumerate(self._generator.stages):
            stage.source_conv = self._watched_source(stage.source_conv, number)
            stage.upsample = self._watched_addend(stage.upsample, number)
        self._model.decoder.generator = self._generate

    def _watched_source(self, conv: Any, number: int) -> Any:
        def source(spectrum: Tensor, lengths: Any) -> Tensor:
            self._inputs[f"source{number}"], self._inputs[f"lengths{number}"] = conv(spectrum, lengths), lengths
            return self._inputs[f"source{number}"]

        return source

    def _watched_addend(self, upsample: Any, number: int) -> Any:
        def addend(x: Tensor, base: Tensor, extra: Any, lengths: Any) -> Tensor:
            before = base.clone()
            result = upsample(x, base, extra, lengths)
            self._inputs[f"addend{number}"] = result - before
            return result

        addend.stride = upsample.stride
        return addend

    def _generate(self, *given: Any) -> Tensor:
        self._watch.on, self._watch.seen = True, []
        audio = self._generator(*given)
        self._watch.on = False
        self._inputs["generator"] = given
        return audio

    @torch.no_grad()
    def speak(self, spoken: Sequence[Spoken], seed: int, speeds: Sequence[float] | None = None) -> list[Tensor]:
        tokens = [vocab.tokenize(phonemes) for phonemes, _ in spoken]
        padded = torch.zeros(len(spoken), max(map(len, tokens)) + 2, dtype=torch.long)
        for row, each in zip(padded, tokens, strict=True):
            row[1 : 1 + len(each)] = torch.tensor(each)
        styles = [
            np.asarray(self._book.style(voice, len(each))).reshape(-1)
            for (_, voice), each in zip(spoken, tokens, strict=True)
        ]
        batch = TokenBatch(
            padded.to(self._device), tuple(len(each) + 2 for each in tokens), torch.tensor(np.stack(styles)),
            torch.tensor(speeds or [1.0] * len(spoken), dtype=torch.float32),
        )  # fmt: skip
        aligned = self._model.align(batch)
        random = torch.Generator(self._device).manual_seed(seed)
        noise = torch.randn(
            len(spoken), aligned.lengths.size * SAMPLES_PER_FRAME, generator=random, device=self._device
        )
        self.counts, self._style = aligned.lengths.counts, aligned.style[:, :HALF_STYLE]
        return self._cut(self._model.audio(aligned, self._model.prosody(aligned), noise))

    @torch.no_grad()
    def speak_again(self, given: list[Moments]) -> list[Tensor]:
        """The last batch, its norms by these moments."""
        self._watch.given = given
        return self._cut(self._generate(*self._inputs["generator"]))

    def _cut(self, audio: Tensor) -> list[Tensor]:
        return [row[: count * SAMPLES_PER_FRAME] for row, count in zip(audio.clone(), self.counts, strict=True)]

    @torch.no_grad()
    def features(self) -> Tensor:
        """Of each row of the last batch, as `moments.features` has them."""
        found = []
        for name in ("addend0", "source0"):
            x, mask, steps = self._signal(name)
            bent, change = torch.maximum(x, 0.1 * x), (x[:, 1:] - x[:, :-1]) * mask[:, 1:]
            found += [(x * mask).sum(1) / steps, (x * x * mask).sum(1) / steps, (bent * mask).sum(1) / steps]
            found += [change.square().sum(1) / (steps - 1).clamp(min=1)]
            found += [((x.abs() + 1e-6).sqrt() * mask).sum(1) / steps, *self._two(name)]
        return torch.cat([*found, *self._two("source1"), self._style], 1)

    def _signal(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        mask = self._inputs[f"lengths{name[-1]}"].mask.float()[..., None]
        return self._inputs[name], mask, mask.sum(1)

    def _two(self, name: str) -> list[Tensor]:
        x, mask, steps = self._signal(name)
        mean = (x * mask).sum(1) / steps
        return [mean, torch.log((((x - mean[:, None]) * mask) ** 2).sum(1) / steps + FLOOR)]

    def targets(self) -> Tensor:
        """The moments of the last batch: of each norm the means, and the logarithms of the variances."""
        return torch.cat(
            [torch.cat([mean[:, 0], torch.log(variance[:, 0] + FLOOR)], 1) for mean, variance in self._watch.seen], 1
        )

    def widths(self) -> list[int]:
        return [mean.shape[2] for mean, _ in self._watch.seen]


class Map:
    """A linear map of reduced rank: ridge regression, and of it the directions in which predictions vary most."""

    def __init__(self, given: Tensor, wanted: Tensor, widths: Sequence[int]) -> None:
        self.widths = widths
        self.centre, self.scale = given.mean(0), given.std(0) + 1e-4
        self.offset = wanted.mean(0)
        # Means count by the deviation of their signal.
        starts = np.cumsum([0, *(2 * width for width in widths)])
        self.spread = torch.cat([
            torch.cat([torch.exp(0.5 * self.offset[at + width : at + 2 * width]), torch.ones_like(self.offset[:width])])
            for at, width in zip(starts, widths, strict=False)
        ])  # fmt: skip
        z, y = self._deviations(given).double(), ((wanted - self.offset) / self.spread).double()
        gram = z.T @ z + RIDGE * len(z) * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        whole = torch.linalg.solve(gram, z.T @ y)
        root = torch.linalg.cholesky(gram).T @ whole
        power, directions = torch.linalg.eigh(root @ root.T)
        outwards = (root.T @ (directions / power.clamp(min=1e-9).sqrt())).flip(1)[:, :RANK]
        self.inwards, self.outwards = (whole @ outwards).float(), outwards.T.float()

    def _deviations(self, given: Tensor) -> Tensor:
        return ((given - self.centre) / self.scale).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)

    def __call__(self, given: Tensor) -> list[Moments]:
        predicted = self._deviations(given) @ self.inwards @ self.outwards * self.spread + self.offset
        found, at = [], 0
        for width in self.widths:
            mean, variance = predicted[:, None, at : at + width], predicted[:, None, at + width : at + 2 * width]
            found.append((mean, (torch.exp(variance) - FLOOR).clamp(min=0)))
            at += 2 * width
        return found

    def write(self, path: Path, weights: str) -> None:
        table = {"centre": self.centre, "scale": self.scale, "inwards": self.inwards.half()}
        begin = 0
        for stage in range(2):
            width = self.widths[stage * NORMS]
            part = slice(begin, begin := begin + NORMS * 2 * width)
            step = self.outwards[:, part].abs().amax(1) / 127
            table[f"outwards{stage}"] = (self.outwards[:, part] / step[:, None]).round().to(torch.int8)
            table[f"step{stage}"] = step
            for name, values in (("offset", self.offset), ("spread", self.spread)):
                table[f"{name}{stage}"] = values[part].reshape(NORMS, 2, width)
        np.savez_compressed(path, weights=np.array(weights), **{name: x.cpu().numpy() for name, x in table.items()})


def texts(random: np.random.Generator, sentences: Sequence[str], voices: Sequence[str], count: int) -> list[Spoken]:
    """Sentences and parts of them, many of a few words; most with a period."""

    def text() -> str:
        words, kind = sentences[random.integers(len(sentences))].split(" "), random.random()
        if kind >= 0.3:
            longest = len(words) if kind < 0.75 else min(3, len(words))
            length = int(random.integers(1, longest + 1))
            at = int(random.integers(len(words) - length + 1))
            words = words[at : at + length]
        part = " ".join(words).strip() or "hˈA"
        return part if part[-1] in ".!?," or random.random() < 0.1 else part.rstrip(",;:— ") + "."

    return sorted(((text(), voices[random.integers(len(voices))]) for _ in range(count)), key=lambda each: len(each[0]))


def collect(
    model: WatchedKokoro, spoken: Sequence[Spoken], random: np.random.Generator, seconds: float
) -> tuple[Tensor, Tensor]:
    given, wanted, started = [], [], time.monotonic()
    for at in random.permutation(range(0, len(spoken), ROWS_AT_ONCE)):
        rows = spoken[at : at + ROWS_AT_ONCE]
        speeds = np.where(random.random(len(rows)) < 0.7, 1.0, random.uniform(0.7, 1.4, len(rows)))
        model.speak(rows, int(random.integers(1 << 30)), speeds.tolist())
        given.append(model.features())
        wanted.append(model.targets())
        if time.monotonic() - started > seconds:
            break
    return torch.cat(given), torch.cat(wanted)


def log_mel(audio: Tensor) -> Tensor:
    edges = 700 * (10 ** (torch.linspace(0, 2595 * np.log10(1 + 12_000 / 700), 82) / 2595) - 1)
    bins, (low, middle, high) = torch.linspace(0, 12_000, 513), (edges[:-2, None], edges[1:-1, None], edges[2:, None])
    bands = torch.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)).clamp(min=0).to(audio)
    spectrum = torch.stft(audio, 1024, 256, window=torch.hann_window(1024).to(audio), return_complex=True)
    return 10 * torch.log10(bands @ spectrum.abs() ** 2 + 1e-6)


def distances(ones: Sequence[Tensor], others: Sequence[Tensor]) -> list[float]:
    return [float(functional.l1_loss(log_mel(one), log_mel(other))) for one, other in zip(ones, others, strict=True)]


def judge(model: WatchedKokoro, fitted: Map, spoken: Sequence[Spoken]) -> dict[str, dict[str, float]]:
    found: dict[str, list[float]] = {"two noises": [], "predicted": []}
    for at in range(0, len(spoken), ROWS_AT_ONCE):
        other = model.speak(spoken[at : at + ROWS_AT_ONCE], seed=2)
        usual = model.speak(spoken[at : at + ROWS_AT_ONCE], seed=1)
        found["two noises"] += distances(usual, other)
        found["predicted"] += distances(usual, model.speak_again(fitted(model.features())))
    return {
        name: {"mean": round(float(np.mean(each)), 3), "p99": round(float(np.percentile(each, 99)), 3),
               "below 1 dB": round(float(np.mean(np.array(each) < 1)), 4)}
        for name, each in found.items()
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("voices", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=80_000, help="to speak at most")
    parser.add_argument("--seconds", type=float, default=180.0, help="to speak at most")
    parser.add_argument("--judged", type=int, default=19, help="sentences, and short words, to judge by")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    random, voices = np.random.default_rng(0), sorted(path.stem for path in options.voices.glob("*_*"))
    sentences = [sentence["phonemes"] for sentence in corpus.sentences()]
    model = WatchedKokoro(options.weights, options.voices, torch.device(options.device))
    spoken = texts(random, sentences[HELD_OUT:], voices, options.rows)
    given, wanted = collect(model, spoken, random, options.seconds)
    print(f"fitting rows={len(given)} given={given.shape[1]} wanted={wanted.shape[1]}", flush=True)
    fitted = Map(given, wanted, model.widths())
    fitted.write(options.out, fingerprint(load_file(options.weights)))
    for name, judged in (("sentences", sentences[:HELD_OUT:3]), ("short words", SHORT)):
        pairs = [(text, voice) for text in judged[: options.judged] for voice in voices]
        print(name, judge(model, fitted, sorted(pairs, key=lambda pair: len(pair[0]))), flush=True)


if __name__ == "__main__":
    main()
