"""Compiles the C module through which Triton talks to NVIDIA's driver, into TRITON_CACHE_DIR.

Triton would do so at its first start, and needs a C compiler for nothing else: with the module in its cache, the image
needs none. It is the same for every GPU. The kernels themselves are compiled by the ptxas that Triton brings.
"""

from contextlib import suppress
from pathlib import Path

from triton import knobs
from triton.backends.nvidia import driver
from triton.runtime.build import compile_module_from_src

# It is in the cache before it is loaded, which fails here: libcuda.so.1 belongs to the driver of a machine with a GPU.
with suppress(ImportError):
    compile_module_from_src(
        src=Path(driver.__file__).with_name("driver.c").read_text(encoding="utf-8"),
        name="cuda_utils",
        library_dirs=driver.library_dirs(),
        include_dirs=driver.include_dirs,
        libraries=driver.libraries,
    )

(module,) = Path(knobs.cache.dir).glob("*/cuda_utils.*.so")
print(module)
