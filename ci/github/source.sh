#!/bin/bash
# Tells GITHUB_OUTPUT where the action's own onnxfit is built (binary), and a key that changes
# with all that it is made of: sources, machine and C library.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"

parts() {
  find CMakeLists.txt CMakePresets.json project estimator cli -type f -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum
  getconf GNU_LIBC_VERSION
  uname -m
}

key=$(parts | sha256sum)
{
  echo "binary=$root/build/release/onnxfit"
  echo "key=onnxfit-${key:0:16}"
} >>"${GITHUB_OUTPUT:-/dev/stdout}"
