"""Device errors after which every further call in the process fails. Imports no torch."""

from __future__ import annotations

STICKY = (
    "illegal memory access",
    "illegal instruction",
    "device-side assert",
    "unspecified launch failure",
    "misaligned address",
    "invalid address space",
    "invalid program counter",
    "hardware stack error",
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "invalid access of peer gpu memory",
    "the launch timed out",
    "cuda error: unknown error",
)


def sticky_error(error: BaseException) -> BaseException | None:
    """The error, or one in its chain, if only a new process helps: later failures hide the first."""
    seen: BaseException | None = error
    while seen is not None:
        message = str(seen).partition("\n")[0].lower()  # the lines below are torch's advice on device-side assertions
        if any(text in message for text in STICKY):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None
