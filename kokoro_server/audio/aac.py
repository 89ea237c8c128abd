"""`python -m kokoro_server.audio.aac RATE BIT_RATE`: 32-bit float samples on stdin, AAC in ADTS on stdout.

A separate program, so that PyAV's GPL libraries never enter the speech server's process.
"""

from __future__ import annotations

import signal
import sys

import av
import numpy as np

CHUNK = 4096  # samples


def encode(sample_rate: int, bit_rate: int) -> None:
    with av.open(sys.stdout.buffer, "w", format="adts") as container:
        stream = container.add_stream("aac", rate=sample_rate, layout="mono", bit_rate=bit_rate)
        while data := sys.stdin.buffer.read(CHUNK * 4):
            samples = np.frombuffer(data, "<f4").reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            frame.sample_rate = sample_rate
            container.mux(stream.encode(frame))
            sys.stdout.buffer.flush()
        container.mux(stream.encode(None))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends this process
    encode(*map(int, sys.argv[1:]))
