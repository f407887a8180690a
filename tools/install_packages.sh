#!/usr/bin/env bash
# Installs what weft needs to build, run and be tested on Debian 12. Does nothing if all of it is there.
set -euo pipefail

packages=(
  libtorch-dev libgloo-dev libopenblas0-openmp                          # the workers
  nlohmann-json3-dev libcli11-dev libfmt-dev                            # all of weft
  g++ cmake ninja-build mold ccache git                                 # the build
  libonnx-dev libprotobuf-dev protobuf-compiler                          # ONNX files
  zlib1g-dev                                                            # compressed problems of `weft solve`
  libmimalloc-dev                                                       # faster searches
  libgtest-dev libgmock-dev libbenchmark-dev clang-format python3       # tests and benchmarks
  clang libclang-rt-14-dev                                              # tests with sanitizers
  python3-torch python3-numpy python3-torchvision python3-onnx          # what numbers are compared with
  libonnx-testdata                                                      # ONNX models with expected outputs
  coinor-cbc                                                            # what choices within a cap are compared with
  iproute2                                                              # cables between namespaces, which tests cut
)

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "packages: all ${#packages[@]} are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "packages: these are missing, and installing them needs root or sudo: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "packages: installing ${missing[*]}"
"${as_root[@]}" apt-get update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
