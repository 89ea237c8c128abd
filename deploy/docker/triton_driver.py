"""Compiles the C module through which Triton talks to NVIDIA's driver, into TRITON_CACHE_DIR.

Triton would do so at its first start, and needs a C compiler for nothing else: with the module in its cache, the image
needs none. It is the same for every GPU. The kernels themselves are compiled by the ptxas that Triton brings.

The driver's library, libcuda.so.1, belongs to machines with a GPU. To link and load the module here, one that does
nothing is made in the folder LD_LIBRARY_PATH, which must be there before this program starts.
"""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

from triton.backends.nvidia import driver
from triton.runtime.build import compile_module_from_src

source = Path(driver.__file__).with_name("driver.c")
folder = Path(os.environ["LD_LIBRARY_PATH"])
include = [f"-I{path}" for path in (*driver.include_dirs, sysconfig.get_path("include"))]
subprocess.run(["gcc", "-c", "-fPIC", *include, source, "-o", folder / "driver.o"], check=True)
undefined = subprocess.run(["nm", "-u", folder / "driver.o"], check=True, capture_output=True, text=True).stdout
functions = [f"void {name}(void) {{}}\n" for name in re.findall(r"\bcu[A-Z]\w*", undefined)]
compiler = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", folder / "libcuda.so.1"]
subprocess.run(compiler, input="".join(functions), text=True, check=True)

compile_module_from_src(
    src=source.read_text(encoding="utf-8"),
    name="cuda_utils",
    library_dirs=driver.library_dirs(),
    include_dirs=driver.include_dirs,
    libraries=driver.libraries,
)
