# syntax=docker/dockerfile:1
# Targets:
#   all-in-one   speech and G2P in one container, for a CPU: docker build -t kokoro-server .
#   cpu, cuda    the speech server alone, without GPL code; needs G2P_SERVICE_URL
#   g2p          the G2P service, which has GPL-3 code
#   cluster      cuda with Ray Serve, for several machines; has HAProxy, a program under the GPL-2
# deploy/README.md tells how to run them. All are for amd64 and arm64, cuda for what PyPI has torch with CUDA for.

FROM debian:trixie-slim AS python
# Of Debian's packages no version is named: its stable release changes for security alone, and those changes are wanted.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --user-group --no-create-home --home-dir /tmp kokoro \
 && install -d -o kokoro -g kokoro /cache /opt/kokoro/cache
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
COPY deploy/docker/check-health /usr/local/bin/


FROM python AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/venv
WORKDIR /build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_DEPS=1 PIP_CONSTRAINT=/build/constraints.txt
COPY constraints.txt deploy/docker/*.txt ./

# Each process's packages first: a change to the code does not install them again.
FROM build AS build-server
RUN pip install -r server.txt

FROM build-server AS build-cpu
RUN pip install -r cpu.txt
COPY . .
RUN pip install .

# misaki and kokoro run on every Python this server runs on but declare a narrower range.
FROM build AS build-g2p
RUN pip install --ignore-requires-python -r g2p.txt
COPY . .
RUN pip install .

FROM build-cpu AS build-all
RUN pip install --ignore-requires-python -r g2p.txt av

FROM build-server AS build-cuda
# torch brings all that it needs; of kokoro only the model's classes are used, and misaki stays away. The versions of
# what is not named with one are in constraints.txt.
# hadolint ignore=DL3013
RUN PIP_NO_DEPS=0 pip install torch==2.13.0 && pip install --ignore-requires-python attrs kokoro loguru
COPY . .
RUN pip install .
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev \
 && rm -rf /var/lib/apt/lists/* \
 && LD_LIBRARY_PATH=/tmp TRITON_CACHE_DIR=/opt/kokoro/cache/triton python deploy/docker/triton_driver.py

FROM build-cuda AS build-cluster
RUN pip install -r cluster.txt


# The model travels in the image: a container starts without a network. What was built here for this class of processors
# is used on others of its class; the first start on another builds anew, from the weights.
FROM build-cpu AS model-cpu
ARG KOKORO_ASSET_SOURCE=auto
RUN KOKORO_CACHE_DIR=/opt/kokoro/cache kokoro-server assets build && rm /opt/kokoro/cache/.lock

FROM build-cuda AS model-cuda
ARG KOKORO_ASSET_SOURCE=auto
RUN KOKORO_CACHE_DIR=/opt/kokoro/cache kokoro-server assets fetch && rm /opt/kokoro/cache/.lock


# The root may be read-only: everything is written to /cache or /tmp.
FROM python AS server
COPY deploy/docker/entrypoint /usr/local/bin/
ENV HOST=0.0.0.0 KOKORO_CACHE_DIR=/cache JOBS_PATH=/cache/jobs
USER 10001:10001
VOLUME /cache
EXPOSE 8880 10200
HEALTHCHECK --start-period=300s --interval=10s --timeout=3s \
    CMD ["check-health", "PORT", "8880", "/health/live"]
ENTRYPOINT ["entrypoint"]
CMD ["kokoro-server", "serve"]

FROM server AS cuda
ENV TRITON_CACHE_DIR=/cache/triton NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=model-cuda /opt/kokoro/cache /opt/kokoro/cache
COPY --from=build-cuda /opt/venv /opt/venv

# Ray, which also writes to /tmp. Started as it is, a container is a cluster of one machine.
FROM server AS cluster
ENV TRITON_CACHE_DIR=/cache/triton NVIDIA_DRIVER_CAPABILITIES=compute,utility RAY_USAGE_STATS_ENABLED=0 JOBS_PATH=none
COPY --from=model-cuda /opt/kokoro/cache /opt/kokoro/cache
COPY --from=build-cluster /opt/venv /opt/venv
EXPOSE 6379 8265 8900
CMD ["kokoro-server", "cluster", "up"]

FROM python AS g2p
ENV G2P_HOST=0.0.0.0
COPY --from=build-g2p /opt/venv /opt/venv
USER 10001:10001
EXPOSE 5000
HEALTHCHECK --start-period=60s --interval=10s --timeout=3s \
    CMD ["check-health", "G2P_PORT", "5000", "/health"]
CMD ["kokoro-server", "g2p"]

FROM server AS cpu
COPY --from=model-cpu /opt/kokoro/cache /opt/kokoro/cache
COPY --from=build-cpu /opt/venv /opt/venv

FROM server AS all-in-one
COPY --from=model-cpu /opt/kokoro/cache /opt/kokoro/cache
COPY --from=build-all /opt/venv /opt/venv
