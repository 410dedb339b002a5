#!/usr/bin/env bash
# Configures the full build (LibTorch and Python on) in BUILD, once.
#
#   scripts/configure.sh [BUILD] [CMAKE OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
shift || true
options=(
  -G Ninja
  -DCMAKE_C_COMPILER=clang-22
  -DCMAKE_CXX_COMPILER=clang++-22
  -DSEXTANT_ENABLE_TORCH=ON
  -DSEXTANT_ENABLE_PYTHON=ON
  "-DPython3_EXECUTABLE=$PWD/$build/venv/bin/python"
  "-DSEXTANT_PTXAS_PATH=$(echo "$PWD/$build"/venv/lib/python3*/site-packages/nvidia/cu13/bin/ptxas)"
  "$@"
)
stamp=$build/.configured
if [ ! -e "$build/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "${options[*]}" ]; then
  cmake -S . -B "$build" "${options[@]}" >"$build/configure.log" 2>&1 || {
    tail -30 "$build/configure.log" >&2
    echo "configure: error: cmake failed; all of it is in $build/configure.log" >&2
    exit 1
  }
  echo "${options[*]}" >"$stamp"
fi
