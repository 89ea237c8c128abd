"""`python -m kokoro_server.engine.cuda.kernels.halo_build`: compiles `halo_conv.cu` into `halo_conv.zip`.

It needs NVIDIA's compiler, `pip install nvidia-cuda-nvrtc-cu12==12.8.93`, and no GPU. The result is assembly, of which
every driver since 525 makes programs, so that nobody who serves speech needs a compiler.
"""

from __future__ import annotations

import ctypes
import importlib.util
import zipfile
from pathlib import Path

from kokoro_server.engine.cuda.kernels.halo_conv import PROGRAMS, WIDTHS

SOURCE = Path(__file__).with_name("halo_conv.cu")
VERSION = b".version 8.0"  # of the assembly: that of CUDA 12.0, the first that knows Hopper
OPTIONS = ["--gpu-architecture=compute_90a", "--std=c++17", "--device-as-default-execution-space"]


def main() -> None:
    with zipfile.ZipFile(PROGRAMS, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, assembly in compiled().items():
            archive.writestr(zipfile.ZipInfo(name), assembly, zipfile.ZIP_DEFLATED)  # without the time of day


def compiled() -> dict[str, bytes]:
    """The assembly of each program."""
    return {f"{number}_{width}.ptx": _compile(number, width) for number in ("float", "int") for width in WIDTHS}


def _compile(number: str, channels: int) -> bytes:
    compiler = _compiler()
    program = ctypes.c_void_p()
    options = [option.encode() for option in (*OPTIONS, f"-DNumber={number}", f"-DCHANNELS={channels}")]
    source = SOURCE.read_bytes()
    compiler.nvrtcCreateProgram(ctypes.byref(program), source, b"halo_conv.cu", 0, None, None)
    status = compiler.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if status:
        raise RuntimeError(_text(compiler, program, "ProgramLog").decode())
    assembly = _text(compiler, program, "PTX")
    compiler.nvrtcDestroyProgram(ctypes.byref(program))
    lines = (line for line in assembly.splitlines() if not line.startswith(b"//"))
    return b"\n".join(VERSION if line.startswith(b".version") else line for line in lines)


def _compiler() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia.cuda_nvrtc")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("it needs NVIDIA's compiler: pip install nvidia-cuda-nvrtc-cu12==12.8.93")
    return ctypes.CDLL(str(Path(found.submodule_search_locations[0]) / "lib" / "libnvrtc.so.12"))


def _text(compiler: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(compiler, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(compiler, f"nvrtcGet{what}")(program, text)
    return text.value


if __name__ == "__main__":
    main()
