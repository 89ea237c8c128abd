# mypy: ignore-errors
"""Triton kernels that can be compiled beside each other, before they are launched for the first time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
import triton

_compiled: ContextVar[list[Any] | None] = ContextVar("compiled", default=None)


class Kernel:
    """A Triton kernel, launched as any: `kernel[grid](...)`. Within `only_compiling` it is not run."""

    def __init__(self, function: Callable[..., None], do_not_specialize: tuple[str, ...] = ()) -> None:
        self._function = triton.jit(function, do_not_specialize=do_not_specialize)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        if (compiled := _compiled.get()) is None:
            return self._function[grid]
        return lambda *args, **options: compiled.append(self._function.warmup(*args, grid=grid, **options))


def kernel(*any_integer: str) -> Callable[[Callable[..., None]], Kernel]:
    """A kernel whose arguments of these names are integers that it is not compiled anew for.

    By default Triton does so for 1 and for multiples of 16. That pays where it makes addresses aligned; where it does
    not, a first start would only have more to compile.
    """
    return partial(Kernel, do_not_specialize=any_integer)


@contextmanager
def only_compiling(threads: int) -> Iterator[None]:
    """Have kernels that are launched in here compiled and not run. At the end, all of them are, and are loaded.

    Most of a compilation runs without the interpreter's lock; its end, and that of the launcher in C which each kind of
    kernel needs, in a process of its own.
    """
    device, compiled = torch.cuda.current_device(), []
    with ThreadPoolExecutor(threads, "kokoro-compile") as pool:
        with triton.AsyncCompileMode(pool):
            token = _compiled.set(compiled)
            try:
                yield
            finally:
                _compiled.reset(token)
        kernels = {id(found): found for found in compiled}.values()  # each is launched many times
        list(pool.map(partial(_load, device), kernels))


def _load(device: int, found: Any) -> None:
    with torch.cuda.device(device):
        made = found.result() if hasattr(found, "result") else found
        _ = made.run  # makes the launcher and loads the kernel
