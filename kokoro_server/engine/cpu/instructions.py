"""The instructions that this machine's processor multiplies bytes with.

They decide how weights are quantized and which kernels run, so a build serves processors of one class only.
"""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Set
from enum import StrEnum
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
DARWIN_FEATURES = {"asimddp": "FEAT_DotProd", "i8mm": "FEAT_I8MM"}
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 158, 0x1023, 18  # of Linux on x86-64


class Instructions(StrEnum):
    """The best instruction that a processor has for sums of products of bytes."""

    AMX_INT8 = "amxint8"  # products of matrices of u8 and s8 added to 32 bits, exactly; has AVX512_VNNI too
    AVX512_VNNI = "avx512vnni"  # four products of u8 and s8 added to 32 bits, exactly; 512-bit vectors
    AVX_VNNI = "avxvnni"  # the same with 256-bit vectors
    ARM_I8MM = "i8mm"  # products of two rows and two columns of s8 added to 32 bits, exactly; has ARM_DOTPROD too
    ARM_DOTPROD = "dotprod"  # four products of s8 and s8 added to 32 bits, exactly; 128-bit vectors
    AVX512_BW = "avx512bw"  # two products of u8 and s8 added in 16 bits, where they may saturate; 512-bit vectors
    AVX2 = "avx2"  # the same with 256-bit vectors
    OTHER = "other"  # none that our kernels use

    @property
    def exact(self) -> bool:
        """Whether sums of products with signed bytes are exact, whatever the bytes are."""
        return self.build in {Instructions.AVX512_VNNI, Instructions.AVX_VNNI, Instructions.ARM_DOTPROD}

    @property
    def adds_in_16_bits(self) -> bool:
        """Whether kernels need weights whose products cannot leave 16 bits; see `quantization.quantize_in_groups`."""
        return self in {Instructions.AVX512_BW, Instructions.AVX2}

    @property
    def build(self) -> Instructions:
        """The class whose build this one runs too."""
        return NEWER.get(self, self)

    @property
    def has_kernels(self) -> bool:
        """Whether we have kernels for it."""
        return self is not Instructions.OTHER


NEWER = {Instructions.AMX_INT8: Instructions.AVX512_VNNI, Instructions.ARM_I8MM: Instructions.ARM_DOTPROD}


@cache
def instructions() -> Instructions:
    """The class of this machine."""
    machine, found = platform.machine().lower(), flags()
    which = classify(machine, found)
    if which is Instructions.AMX_INT8 and not _may_use_matrices():
        return classify(machine, found - {"amx_int8"})
    return which


def _may_use_matrices() -> bool:
    """Ask Linux for AMX's registers, for all threads of this process."""
    failed: int = ctypes.CDLL(None).syscall(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    return failed == 0


def classify(machine: str, flags: Set[str]) -> Instructions:
    if machine in {"aarch64", "arm64"}:
        # onnxruntime is exact without the instruction too, because it widens to 16 bits. Our kernels need it.
        if "asimddp" not in flags:
            return Instructions.OTHER
        return Instructions.ARM_I8MM if "i8mm" in flags else Instructions.ARM_DOTPROD
    if {"avx512_vnni", "avx512bw", "avx512vl"} <= flags:
        return Instructions.AMX_INT8 if {"amx_tile", "amx_int8"} <= flags else Instructions.AVX512_VNNI
    if "avx_vnni" in flags:
        return Instructions.AVX_VNNI
    if {"avx512f", "avx512bw"} <= flags:
        return Instructions.AVX512_BW
    return Instructions.AVX2 if {"avx2", "fma"} <= flags else Instructions.OTHER


def flags() -> frozenset[str]:
    """The processor's features by the names that Linux gives them, on every system."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return _darwin_flags() if platform.system() == "Darwin" else frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())


def _darwin_flags() -> frozenset[str]:
    return frozenset(flag for flag, feature in DARWIN_FEATURES.items() if _has(feature))


def _has(feature: str) -> bool:
    command = ["/usr/sbin/sysctl", "-n", f"hw.optional.arm.{feature}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip() == "1"
    except (OSError, subprocess.SubprocessError):
        return False
