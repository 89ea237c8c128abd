# mypy: ignore-errors
"""Triton kernels that can be compiled beside each other, before they are launched for the first time."""

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
    """A Triton kernel, launched as any: `kernel[grid](...)`. Within `only_compiling` it is not run."""

    def __init__(self, function: Callable[..., None], do_not_specialize: tuple[str, ...] = ()) -> None:
        self._function = triton.jit(function, do_not_specialize=do_not_specialize)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        if _only_compiling.get():
            return partial(self._function.warmup, grid=grid)
        return self._function[grid]


def kernel(*any_integer: str) -> Callable[[Callable[..., None]], Kernel]:
    """A kernel whose arguments of these names are integers that it is not compiled anew for.

    By default Triton does so for 1 and for multiples of 16. That pays where it makes addresses aligned; where it does
    not, a first start would only have more to compile.
    """
    return partial(Kernel, do_not_specialize=any_integer)


@contextmanager
def only_compiling(threads: int) -> Iterator[None]:
    """Have kernels that are launched in here compiled and not run. At the end, all of them are.

    Most of a compilation runs without the interpreter's lock, and its end in a process of its own.
    """
    with ThreadPoolExecutor(threads, "kokoro-compile") as pool, triton.AsyncCompileMode(pool):
        token = _only_compiling.set(True)
        try:
            yield
        finally:
            _only_compiling.reset(token)
