#!/usr/bin/env bash
# Builds the images `cpu` and `g2p` on a fresh Debian and lets them speak, each as its own user with nothing of root's
# rights, on a read-only root: for a machine that has no docker and reaches no registry of images.
#
#   sudo tests/deploy/fresh_root.sh WORK_FOLDER
#
# Needs Debian's podman, debootstrap and curl, root, and 8 GB. Leaves the audio and the logs in the folder; remove the
# rest with `podman --root WORK_FOLDER/storage --runroot WORK_FOLDER/run system reset`.
set -euo pipefail
mkdir -p "$1"
export WORK
WORK=$(realpath "$1")
cd "$(dirname "$0")/../.."
BASE=docker.io/library/debian:trixie-slim
PORT=${PORT:-18880} G2P_PORT=${G2P_PORT:-15000}

pod() { nice podman --root "$WORK/storage" --runroot "$WORK/run" "$@"; }

make_base() {
  debootstrap --variant=minbase trixie "$WORK/base"
  # What lets this machine reach the package registries, such as the certificate of a proxy.
  if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    install -D -t "$WORK/base/usr/local/share/ca-certificates" /usr/local/share/ca-certificates/*.crt
  fi
  tar -C "$WORK/base" --one-file-system -cf "$WORK/base.tar" .
  pod import "$WORK/base.tar" "$BASE"
  rm -rf --one-file-system "$WORK/base" "$WORK/base.tar"
}

build() {
  pod build --isolation chroot --format docker --pull=never --target "$1" -t "kokoro-server:$1" .
}

# start IMAGE NAME=VALUE... -- COMMAND...
start() {
  local root
  root=$(pod image mount "kokoro-server:$1")
  shift
  ROOT=$root exec unshare --mount --propagation private bash -c '
    set -euo pipefail
    at=$(mktemp -d "$WORK/root.XXXX")
    mount --bind "$ROOT" "$at" && mount -o remount,bind,ro "$at"
    mount -t proc proc "$at/proc" && mount -t sysfs -o ro sysfs "$at/sys" && mount --rbind /dev "$at/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$at/tmp" && mount -t tmpfs -o mode=1777 tmpfs "$at/cache"
    settings=()
    while [ "$1" != -- ]; do settings+=("$1"); shift; done
    shift
    exec env -i HOME=/tmp PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin "${settings[@]}" chroot "$at" \
      setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
  ' bash "$@"
}

wait_for() {
  for _ in $(seq 300); do
    if curl -sf -m 5 -o /dev/null "$1"; then return; fi
    sleep 1
  done
  echo "no answer from $1; see the logs in $WORK" >&2
  return 1
}

pod image exists "$BASE" || make_base
build g2p
build cpu

(start g2p G2P_HOST=127.0.0.1 "G2P_PORT=$G2P_PORT" -- kokoro-server g2p) >"$WORK/g2p.log" 2>&1 &
g2p=$!
(start cpu HOST=127.0.0.1 "PORT=$PORT" KOKORO_CACHE_DIR=/cache "G2P_SERVICE_URL=http://127.0.0.1:$G2P_PORT" \
  -- entrypoint kokoro-server serve) >"$WORK/server.log" 2>&1 &
server=$!
trap 'kill $server $g2p; wait || true; rmdir "$WORK"/root.*' EXIT

wait_for "http://127.0.0.1:$G2P_PORT/health"
wait_for "http://127.0.0.1:$PORT/health/ready"
for format in wav mp3; do
  curl -sSf "http://127.0.0.1:$PORT/tts" -H 'Content-Type: application/json' -o "$WORK/hello.$format" \
    -d "{\"text\": \"Hello from a read-only root.\", \"format\": \"$format\"}"
done
(start cpu "PORT=$PORT" -- check-health PORT 8880 /health/live)
ls -l "$WORK"/hello.*
if (start cpu -- sh -c 'touch /x /opt/x || command -v cc || command -v gcc || command -v clang || command -v tcc'); then exit 1; fi
if (start cpu -- python3 -c 'import misaki'); then exit 1; fi
echo spoken
