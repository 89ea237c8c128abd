# For CPUs:        docker build -t kokoro-server .
# For NVIDIA GPUs: docker build -t kokoro-server:gpu --build-arg BACKEND=torch .     (x86-64; run with --gpus all)
FROM python:3.12-slim

ARG BACKEND=onnx
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 \
    HOST=0.0.0.0 KOKORO_CACHE_DIR=/cache

WORKDIR /app
# The kernels for GPUs are compiled where they run, with gcc, and kept in the cache: mount /cache to keep them for the
# next container too.
ENV TRITON_CACHE_DIR=/cache/triton
RUN if [ "$BACKEND" = torch ]; then \
      apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/* \
      && pip install torch==2.13.0; \
    fi
COPY pyproject.toml constraints.txt requirements-cpu.txt README.md LICENSE NOTICE ./
COPY kokoro_server kokoro_server
RUN lean="pip install --no-deps --ignore-requires-python -c constraints.txt"; \
    case "$BACKEND" in \
      torch) $lean kokoro misaki && pip install -c constraints.txt ".[torch,g2p]" ;; \
      onnx) $lean -r requirements-cpu.txt . ;; \
      *) echo "BACKEND=$BACKEND: must be onnx or torch" >&2; exit 1 ;; \
    esac \
 && pip install -c constraints.txt "kokoro-server[ja,zh]" \
 && useradd --create-home kokoro && mkdir /cache && chown kokoro /cache

USER kokoro
# The model travels in the image: a container starts without a network. On a processor of another class than this one's
# its first start builds the graphs anew, from the weights; mount /cache to keep them.
ARG KOKORO_ASSET_SOURCE=auto
RUN if [ "$BACKEND" = torch ]; then kokoro-server assets fetch; else kokoro-server assets build; fi

EXPOSE 8880 10200
HEALTHCHECK --start-period=300s --interval=10s --timeout=3s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8880/health/live', timeout=2)"]
CMD ["kokoro-server", "serve"]
