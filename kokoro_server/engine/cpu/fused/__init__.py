"""The generator's residual blocks as kernels that numba compiles: norm, activation, quantization, product, statistics.

The graph of onnxruntime writes a signal to memory after each of these; here 192 steps at a time stay in the cache of a
core from one end to the other. Needs numba and one of the `instructions` that there are kernels for.
"""
