# CPU: docker build -t kokoro-server .
# CUDA comes with the same torch wheel on x86-64; run with --gpus all.
FROM python:3.12-slim

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 \
    HOST=0.0.0.0 KOKORO_CACHE_DIR=/cache

WORKDIR /app
RUN pip install torch==2.13.0
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY kokoro_server kokoro_server
RUN pip install --no-deps --ignore-requires-python -c constraints.txt kokoro misaki \
 && pip install -c constraints.txt '.[g2p]' \
 && useradd --create-home kokoro && mkdir /cache && chown kokoro /cache

USER kokoro
# The model travels in the image: a container starts without a network.
ARG KOKORO_ASSET_SOURCE=auto
RUN kokoro-server assets fetch

EXPOSE 8880
HEALTHCHECK --start-period=60s --interval=10s --timeout=3s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8880/health/live', timeout=2)"]
CMD ["kokoro-server", "serve"]
