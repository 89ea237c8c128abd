"""The generator's residual blocks as kernels that numba compiles: norm, activation, quantization, product, statistics.

onnxruntime's graph writes a signal to memory after each of these. Here 192 steps at a time stay in a core's cache from
beginning to end. Needs numba, and a processor class in `instructions` that has kernels.
"""
