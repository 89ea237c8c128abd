"""Every fused part against the plain one that it stands for, on rows of very different lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.engine.cuda.kernels.card import Card  # noqa: E402
from kokoro_server.engine.cuda.kernels.eight_bits import ByteConv  # noqa: E402
from kokoro_server.engine.cuda.kernels.ops import CudaOps, gaussian_noise  # noqa: E402
from kokoro_server.engine.model import reference as kokoro  # noqa: E402
from kokoro_server.engine.model.harmonic_source import STEP  # noqa: E402
from kokoro_server.engine.model.layers import AdaINParams  # noqa: E402
from kokoro_server.engine.model.lengths import DeviceLengths, Lengths, Placement  # noqa: E402
from kokoro_server.engine.model.ops import Ops  # noqa: E402
from kokoro_server.engine.torch_engine import fp32_precision  # noqa: E402
from tests.gpu.test_cuda_engine import CARDS  # noqa: E402

SIZE, COUNTS = 700, (700, 333, 2)
HALF = 1e-3  # relative error of one operation in half precision
BYTES = 0.03  # in 8 bits


@pytest.fixture(scope="module")
def device() -> torch.device:
    return torch.device("cuda", 0)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return kokoro.blank()


@pytest.fixture(autouse=True)
def exact() -> Any:
    torch.manual_seed(0)
    with torch.inference_mode(), fp32_precision("ieee", "ieee", "ieee"):
        yield


class Pair:
    """The plain operations in single precision and the fused ones in `dtype`, with the lengths for each."""

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype = torch.float16,
        counts: tuple[int, ...] = COUNTS,
        card: Card | None = None,
    ) -> None:
        self.device, self.counts = device, counts
        self.ops = CudaOps(
            card or Card.of(device), halo=False
        )  # Triton's; test_halo_conv compares the others with them
        self.plain_ops = Ops()
        self.plain, self.fused = Placement(device, torch.float32), Placement(device, dtype)
        self.host = Lengths(counts, SIZE, self.plain)
        self.lengths = DeviceLengths(torch.tensor(counts, device=device), SIZE, self.fused)

    def signal(self, channels: int) -> Tensor:
        x = torch.randn(len(self.counts), SIZE, channels, device=self.device) * 2 + 1
        return self.host.mask_(x)


def error(expected: Tensor, actual: Tensor, counts: tuple[int, ...]) -> float:
    """The largest of the rows' relative errors; what lies beyond a row's end is nobody's business."""
    return max(
        ((expected[row, :count] - actual[row, :count].float()).norm() / expected[row, :count].norm()).item()
        for row, count in enumerate(counts)
    )


@pytest.mark.parametrize("kind", ["leaky", "snake"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_styled_norms(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    pair = Pair(device, dtype)
    x = pair.signal(256)
    style = AdaINParams(*(torch.randn(3, 1, 256, device=device) for _ in range(2)))
    expected = getattr(pair.plain_ops.instance_norm(x, pair.host), kind)(style)
    actual = getattr(pair.ops.instance_norm(x.to(dtype), pair.lengths), kind)(style)
    assert error(expected, actual, COUNTS) < {torch.float32: 1e-4, torch.float16: HALF, torch.bfloat16: 1e-2}[dtype]
    assert not actual[1, 333 : 333 + 60].any()  # as far as a convolution may look


@pytest.mark.parametrize("name", ["resblocks.0.convs1.1", "resblocks.5.convs1.2", "noise_convs.1", "conv_post"])
def test_convolutions(name: str, device: torch.device, model: Any) -> None:
    pair, module = Pair(device), model.decoder.generator.get_submodule(name)
    x = pair.signal(module.in_channels)
    expected = pair.plain_ops.conv(module, pair.plain)(x, pair.host)
    actual = pair.ops.conv(module, pair.fused)(x.half(), pair.lengths)[..., : expected.shape[2]]
    assert error(expected, actual, COUNTS) < HALF


@pytest.mark.parametrize("name", ["decoder.decode.0.conv1", "predictor.F0_proj", "text_encoder.cnn.0.0"])
@pytest.mark.parametrize(("weights", "limit"), [(torch.float32, 3e-5), (torch.float16, HALF)])
def test_fine_convolutions(name: str, weights: torch.dtype, limit: float, device: torch.device, model: Any) -> None:
    pair, module = Pair(device, torch.float32), model.get_submodule(name)
    x = pair.signal(module.in_channels)
    expected = pair.plain_ops.conv(module, pair.plain)(x, pair.host)
    actual = pair.ops.conv_fp32_activations(module, pair.fused, weights)(x, pair.lengths)[..., : expected.shape[2]]
    assert error(expected, actual, COUNTS) < limit


def test_a_convolution_onto_a_base_and_the_norm_after_it(device: torch.device, model: Any) -> None:
    pair, module = Pair(device), model.decoder.generator.resblocks[4].convs2[0]
    x, base = pair.signal(module.in_channels), pair.signal(module.out_channels)
    style = AdaINParams(*(torch.randn(3, 1, module.out_channels, device=device) for _ in range(2)))
    expected = pair.plain_ops.conv(module, pair.plain).conv_with_stats(x, pair.host, base.clone())
    actual = pair.ops.conv(module, pair.fused).conv_with_stats(x.half(), pair.lengths, base.half())
    assert error(expected.x, actual.x, COUNTS) < HALF
    assert error(expected.snake(style)[:2], actual.snake(style)[:2], COUNTS[:2]) < 3 * HALF


@pytest.mark.parametrize("name", ["resblocks.2.convs1.2", "resblocks.4.convs1.1", "noise_res.1.convs2.0"])
def test_a_convolution_in_bytes_and_the_norm_after_it(name: str, device: torch.device, model: Any) -> None:
    pair, module = Pair(device), model.decoder.generator.get_submodule(name)
    channels = module.in_channels
    gain = (torch.rand(channels) + 0.5) * torch.randn(channels).sign()
    pair.ops.in_bytes = True
    x, base = pair.signal(channels), pair.signal(channels)
    first, second = (AdaINParams(*torch.randn(2, 3, 1, channels, device=device)) for _ in range(2))
    plain = pair.plain_ops.conv(module, pair.plain, gain)
    expected = plain.of_snake(pair.plain_ops.instance_norm(x, pair.host), first, pair.host, base.clone())
    conv = pair.ops.snake_conv(module, pair.fused, gain)
    assert isinstance(conv, ByteConv)
    actual = conv.of_snake(pair.ops.instance_norm(x.half(), pair.lengths), first, pair.lengths, base.half())
    assert error(expected.x, actual.x, COUNTS) < BYTES
    assert error(expected.snake(second)[:2], actual.snake(second)[:2], COUNTS[:2]) < 3 * BYTES
    assert conv.of_snake(pair.ops.instance_norm(x.half(), pair.lengths), first, pair.lengths).x.isfinite()[0].all()


@pytest.mark.parametrize(("index", "extra"), [(0, 0), (1, 1)])
def test_upsampling(index: int, extra: int, device: torch.device, model: Any) -> None:
    pair, module = Pair(device), model.decoder.generator.ups[index]
    x = pair.signal(module.in_channels)
    host, lengths = (lengths.scaled(module.stride[0], extra) for lengths in (pair.host, pair.lengths))
    base = torch.randn(3, host.size, module.out_channels, device=device)
    actual = pair.ops.upsample(module, pair.fused)(x.half(), base.half(), extra, lengths)
    expected = pair.plain_ops.upsample(module, pair.plain)(x, base, extra, host)
    assert error(expected, actual, host.counts) < HALF


def test_the_mean_of_three_blocks(device: torch.device) -> None:
    pair = Pair(device)
    parts = [pair.signal(128) for _ in range(3)]
    actual = pair.ops.leaky_mean([part.half() for part in parts], 0.1, pair.lengths)
    assert error(pair.plain_ops.leaky_mean(parts, 0.1, pair.host), actual, COUNTS) < HALF


def test_source_spectrum_and_inverse(device: torch.device, model: Any) -> None:
    pair = Pair(device, torch.float32)
    module = model.decoder.generator.m_source
    voiced = torch.rand(3, SIZE, 1, device=device) > 0.2
    f0 = pair.host.mask_(torch.rand(3, SIZE, 1, device=device) * 300 * voiced)[..., 0]
    noise = torch.randn(3, SIZE * STEP, device=device)
    source = pair.plain_ops.harmonic_source(module, pair.plain, None)(f0, noise)
    assert (source - pair.ops.harmonic_source(module, pair.fused, None)(f0, noise)).abs().max() < 1e-5
    spectrum = pair.plain_ops.stft(pair.plain, pair.plain)(source, pair.host)
    found = pair.ops.stft(pair.fused, pair.fused)(source, pair.lengths)[..., : spectrum.shape[2]]
    assert ((spectrum - found).abs() > 1e-3).double().mean() < 1e-6
    x = torch.randn(3, SIZE * 60 + 1, 24, device=device) / 2
    host, lengths = pair.host.scaled(60, 1), pair.lengths.scaled(60, 1)
    expected = pair.plain_ops.istft(pair.plain)(x, host)
    actual = pair.ops.istft(pair.fused)(x, lengths)
    assert expected.shape == actual.shape
    assert error(expected, actual, tuple(count * STEP for count in COUNTS)) < 1e-5


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 8, 9, 16, 33, 64, 70])
def test_lstms(rows: int, device: torch.device, model: Any) -> None:
    counts = (*(1 + row * 97 % SIZE for row in range(rows - 1)), SIZE)
    pair, module = Pair(device, torch.float32, counts), model.predictor.shared
    x = pair.signal(module.input_size)
    expected = pair.plain_ops.lstm(module, pair.plain)(x, pair.host)
    assert (expected - pair.ops.lstm(module, pair.fused)(x, pair.lengths)).abs().max() < 1e-4


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
@pytest.mark.parametrize("rows", [1, 2, 8, 33, 64])
def test_lstms_of_other_cards(rows: int, card: Card, device: torch.device, model: Any) -> None:
    counts = (*(1 + row * 97 % SIZE for row in range(rows - 1)), SIZE)
    pair, module = Pair(device, torch.float32, counts, card), model.predictor.shared
    x = pair.signal(module.input_size)
    expected = pair.plain_ops.lstm(module, pair.plain)(x, pair.host)
    assert (expected - pair.ops.lstm(module, pair.fused)(x, pair.lengths)).abs().max() < 1e-4


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_what_decides_f0_is_exact_on_other_cards(card: Card, device: torch.device, model: Any) -> None:
    pair, module = Pair(device, torch.float32, card=card), model.predictor.F0[0].conv1
    x = pair.signal(module.in_channels)
    expected = pair.plain_ops.conv(module, pair.plain)(x, pair.host)
    actual = pair.ops.conv_fp32_activations(module, pair.fused, torch.float32)(x, pair.lengths)
    assert error(expected, actual[..., : expected.shape[2]], COUNTS) < 3e-5


def normed(x: Tensor, style: AdaINParams) -> Tensor:
    """In double precision: (time, channels) of one row, through the norm and a leaky ReLU."""
    x, scale, shift = x.double(), style.scale[0].double(), style.shift[0].double()
    y = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt() * scale + shift
    return torch.where(y > 0, y, 0.2 * y)


@pytest.mark.parametrize("from_conv", [False, True])
def test_channels_that_hardly_change(from_conv: bool, device: torch.device) -> None:
    """Around 50, by a hundredth: of the sum of squares nothing would be left."""
    pair = Pair(device, torch.float32, counts=(SIZE,))
    style = AdaINParams(*(torch.randn(1, 1, 512, device=device) for _ in range(2)))
    if from_conv:
        module = torch.nn.Conv1d(512, 512, 3, padding=1)
        module.bias, module.weight = (
            torch.nn.Parameter(values) for values in (torch.full((512,), 50.0), module.weight * 0.01)
        )
        norm = pair.ops.conv_fp32_activations(module, pair.fused, torch.float32).conv_with_stats(
            pair.signal(module.in_channels), pair.lengths
        )
        assert 0.001 < float(norm.x[0, 5:-5].std(0).mean()) < 0.1
    else:
        norm = pair.ops.instance_norm(50 + 0.01 * torch.randn(1, SIZE, 512, device=device), pair.lengths)
    expected, actual = normed(norm.x[0], style), norm.leaky(style)[0].double()
    assert float((expected - actual).norm() / expected.norm()) < 2e-3


def test_a_split_product_is_as_good_as_single_precision(device: torch.device) -> None:
    pair = Pair(device, torch.float32)
    weight, bias, x = torch.randn(300, 768) / 28, torch.randn(300), pair.signal(768)
    exactly = x.double() @ weight.double().t().to(device) + bias.double().to(device)
    actual = pair.ops.linear(weight, bias, pair.fused)(x)
    assert ((exactly - actual).norm() / exactly.norm()).item() < 1e-6


def test_noise_hangs_on_nothing_but_the_seed(device: torch.device) -> None:
    seeds = torch.tensor([1, 2, 2**62 + 2, 2], device=device)
    noise = gaussian_noise(seeds, 100_000)
    assert noise.mean(1).abs().max() < 0.02
    assert (noise.std(1) - 1).abs().max() < 0.02
    assert torch.equal(noise[1], noise[3])
    assert not torch.equal(noise[1], noise[2])
    assert torch.equal(gaussian_noise(seeds[1:2], 500)[0], noise[1, :500])
