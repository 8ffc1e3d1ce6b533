#!/usr/bin/env bash
# Brings what tests against real services need: the control plane and kwok (built from Go modules),
# and Debian's Prometheus and Chromium where this machine can install packages.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

missing=()
[ -x /usr/bin/prometheus ] || missing+=(prometheus)
[ -x /usr/bin/chromium ] || missing+=(chromium)
[ -x /usr/bin/chromedriver ] || missing+=(chromium-driver)
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "services: installing ${missing[*]}"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    else
        echo "services: as root, run: apt-get install ${missing[*]}" >&2
    fi
fi
bash "$root/tests/controlplane/build.sh"
