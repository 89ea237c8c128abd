# mypy: ignore-errors
"""Triton kernels that can be compiled in parallel before their first launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import triton

_only_compiling: ContextVar[bool] = ContextVar("only_compiling", default=False)


class Kernel:
    """A Triton kernel, launched by `kernel[grid](...)`. Within `only_compiling` it is compiled and not run."""

    def __init__(self, function: Callable[..., None], do_not_specialize: tuple[str, ...] = ()) -> None:
        self._function = triton.jit(function, do_not_specialize=do_not_specialize)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        if _only_compiling.get():
            return partial(self._function.warmup, grid=grid)
        return self._function[grid]


def kernel(*any_integer: str) -> Callable[[Callable[..., None]], Kernel]:
    """Make a kernel that Triton does not specialize for the integer arguments of these names.

    By default Triton compiles variants for 1 and for multiples of 16. That pays where it makes addresses aligned.
    Elsewhere it only makes the first start longer.
    """
    return partial(Kernel, do_not_specialize=any_integer)


def runs() -> bool:
    """Whether a kernel that is launched here runs."""
    return not _only_compiling.get()


@contextmanager
def only_compiling(threads: int) -> Iterator[None]:
    """Compile the kernels launched inside, in parallel, and do not run them. Returns when all are compiled.

    Most of a compilation runs without the GIL, and its end in another process.
    """
    with ThreadPoolExecutor(threads, "kokoro-compile") as pool, triton.AsyncCompileMode(pool):
        token = _only_compiling.set(True)
        try:
            yield
        finally:
            _only_compiling.reset(token)
