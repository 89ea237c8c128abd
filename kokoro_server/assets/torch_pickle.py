"""Interpret the pickles that torch.save writes, without `pickle`.

`pickle` calls what a file names and hashes what a file nests. A dict's key of tuples that share their parts has 246
bytes and takes years to hash. This interpreter knows only the opcodes of tensors in dicts, lists and tuples. Each one
takes a short step, and no step looks into a value. So the length of the pickle bounds the time.
"""

from __future__ import annotations

import pickletools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE")
WITHOUT_EFFECT = ("PROTO", "FRAME")
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
SHOWN = 100  # characters of a name in a message


@dataclass(frozen=True, slots=True)
class _Function:
    """What a pickle may call."""

    name: str


ORDERED_DICT = _Function("collections.OrderedDict")
SIZE = _Function("torch.Size")
TENSOR = _Function("torch._utils._rebuild_tensor_v2")
PARAMETER = _Function("torch._utils._rebuild_parameter")
FUNCTIONS = {function.name: function for function in (ORDERED_DICT, SIZE, TENSOR, PARAMETER)}


@dataclass(frozen=True, slots=True)
class StorageKind:
    """torch's class of a storage, such as FloatStorage."""

    name: str


class TorchPickle:
    """Runs one pickle. Raises ValueError, IndexError or KeyError if it is not one of tensors."""

    def __init__(self, storage: Callable[[Any], Any], tensor: Callable[..., Any]) -> None:
        """`storage` makes what a persistent id refers to; `tensor` takes a storage, offset, shape and strides."""
        self._storage = storage
        self._tensor = tensor
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, pickled: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(pickled):
            if opcode.name == "STOP":
                break
            self._step(opcode.name, argument)
        return self._stack.pop()

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in VALUES:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in TUPLES:
            stack.append(tuple(self._popped(len(stack) - TUPLES[name])))
        elif name not in WITHOUT_EFFECT:
            self._larger_step(name, argument)

    def _larger_step(self, name: str, argument: Any) -> None:
        stack, memo = self._stack, self._memo
        match name:
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "MARK":
                self._marks.append(len(stack))
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "EMPTY_LIST":
                stack.append([])
            case "APPEND":
                _extend(stack, self._popped(len(stack) - 1))
            case "APPENDS":
                _extend(stack, self._since_mark())
            case "EMPTY_DICT":
                stack.append({})
            case "SETITEM":
                _update(stack, self._popped(len(stack) - 2))
            case "SETITEMS":
                _update(stack, self._since_mark())
            case "GLOBAL":
                stack.append(_named(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                stack.append(_named(*self._popped(len(stack) - 2)))
            case "BINPERSID":
                stack.append(self._storage(stack.pop()))
            case "REDUCE":
                stack.append(self._call(*self._popped(len(stack) - 2)))
            case "BUILD":  # the version numbers of a module's state, which nothing reads
                stack.pop()
            case _:
                raise ValueError(f"it has the opcode {name}, which no tensor needs")

    def _call(self, function: object, arguments: object) -> Any:
        if isinstance(arguments, tuple):
            if function is TENSOR:
                return self._tensor(*arguments[:4])
            if function is PARAMETER:
                return arguments[0]
            if function is ORDERED_DICT and not arguments:
                return OrderedDict()
            if function is SIZE and len(arguments) == 1 and isinstance(arguments[0], tuple):
                return arguments[0]
        raise ValueError("it has a call that makes no tensor")

    def _since_mark(self) -> list[Any]:
        return self._popped(self._marks.pop())

    def _popped(self, start: int) -> list[Any]:
        if start < 0:
            raise ValueError("it takes more values than it has made")
        values = self._stack[start:]
        del self._stack[start:]
        return values


def _named(module: object, name: object) -> _Function | StorageKind:
    if isinstance(module, str) and isinstance(name, str):
        if function := FUNCTIONS.get(f"{module}.{name}"):
            return function
        if module == "torch" and name.endswith("Storage"):
            return StorageKind(name)
        raise ValueError(f"it names {f'{module}.{name}':.{SHOWN}}, which is no tensor")
    raise ValueError("it names something without a name")


def _extend(stack: list[Any], values: list[Any]) -> None:
    if not isinstance(stack[-1], list):
        raise ValueError("it appends to something that is no list")
    stack[-1].extend(values)


def _update(stack: list[Any], pairs: list[Any]) -> None:
    """Keys are text or whole numbers: the hash of anything else may take forever."""
    if not isinstance(stack[-1], dict) or len(pairs) % 2:
        raise ValueError("it sets items of something that is no dict")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if type(key) not in (str, int):
            raise ValueError(f"it has a dict whose key is a {type(key).__name__}")
        stack[-1][key] = value
