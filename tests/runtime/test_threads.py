"""The end of a process whose threads are still at work."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAVES = """
import atexit, sys, threading
from kokoro_server.runtime import threads

atexit.register(lambda: print("Python ended it"))
if {loading}:
    threads.start_loading(threading.Event().wait)
print("said")
threads.leave(3)
"""


@pytest.mark.parametrize(("loading", "printed"), [(False, "said\nPython ended it\n"), (True, "said\n")])
def test_a_process_that_loads_a_model_leaves_without_pythons_end(loading: bool, printed: str) -> None:
    """Which would stop a thread in native code: onnxruntime's then ends the process by SIGABRT."""
    command = [sys.executable, "-c", LEAVES.format(loading=loading)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, printed, "")
