"""The engine against plain `kokoro.KModel` and others, on the same machine in the same run.

    python -m benchmarks.engine_bench --device cpu --out benchmarks/results/engine_cpu.json
    python -m benchmarks.engine_bench --device cuda --out benchmarks/results/engine_cuda.json

`engine_cpu` and `engine_cuda` say what is measured on either.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def main() -> None:
    options = parse()
    if options.device == "cuda":
        from benchmarks import engine_cuda as bench
    else:
        from benchmarks import engine_cpu as bench  # type: ignore[no-redef]
    bench.run(options)
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--weights", type=Path, help="a converted safetensors file; by default the cache's")
    parser.add_argument("--voices", type=Path, help="a folder of voice packs; by default the cache's")
    parser.add_argument("--rounds", type=int, default=5, help="figures are medians over so many")
    parser.add_argument("--out", type=Path, default=Path("engine_bench.json"))
    parser.add_argument("--add", action="store_true", help="to the rounds or precisions that the file has already")
    cpu = parser.add_argument_group("on a CPU")
    cpu.add_argument("--threads", type=int, default=2, help="of every contender")
    cpu.add_argument("--clips", type=words, default=["short", "medium", "long"], help="short,medium,long or some")
    cpu.add_argument("--batches", type=numbers, default=[1, 4, 8], help="rows at once, such as 1,4,8; '' for none")
    cpu.add_argument("--only", type=words, help="these contenders and no others")
    cpu.add_argument("--hide-amx", action="store_true", help="for our kernels, as if there were AVX512-VNNI alone")
    cpu.add_argument(
        "--hide-avx512", action="store_true", help="for our kernels and torch, as if there were AVX2 alone"
    )
    cuda = parser.add_argument_group("on a GPU")
    cuda.add_argument("--precisions", type=words, default=["fp16", "tf32", "bf16", "fp32"], help="the first in detail")
    return parser.parse_args()


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def numbers(text: str) -> list[int]:
    return [int(word) for word in words(text)]


if __name__ == "__main__":
    main()
