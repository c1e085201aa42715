#!/bin/bash
# Installs onnxfit's wheel where nothing else is, and tells GITHUB_OUTPUT where the command is
# (binary).  Variables say which; none of them is ever run as shell code:
#   INSTALL_VERSION  such as 0.2.0
#   INSTALL_INDEX    the package index, '' for pip's own
set -euo pipefail

folder=${RUNNER_TEMP:-$(mktemp -d)}/onnxfit
index=()
[[ -z ${INSTALL_INDEX:-} ]] || index=(--index-url "$INSTALL_INDEX")

install() {
  python3 -m venv --clear "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    --only-binary onnxfit "${index[@]}" "onnxfit==$INSTALL_VERSION"
}

if ! (set -e; install); then
  echo "::error title=onnxfit check::onnxfit could not be installed: the log of this step has why"
  exit 2
fi
echo "binary=$folder/bin/onnxfit" >>"${GITHUB_OUTPUT:-/dev/stdout}"
