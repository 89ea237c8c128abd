"""Sessions of onnxruntime, set up as a server wants them."""

from __future__ import annotations

from pathlib import Path

import onnxruntime


def session(model: Path | bytes, threads: int, arena: bool = False) -> onnxruntime.InferenceSession:
    """An `arena` keeps the memory of the largest run. Only tensors over 32 MB, which malloc never keeps, need it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that spin while they wait would take cores from the event loop and from each other.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = arena
    # Freed memory is reused anyway. Planning the reuse takes 7 s at every start, and a memory pattern for each length
    # of text doubles the memory.
    options.enable_mem_reuse = options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def shrinking() -> onnxruntime.RunOptions:
    """Options for a run after which the system gets the memory arena back."""
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options
