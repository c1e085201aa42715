# Installs the wheel that is in build/dist into a plain venv and asks it about models: the release
# does so in containers whose glibc is old (.github/workflows/release.yml).
#
#   sh tools/try_wheel.sh CLONE
set -eu
clone=$1
place=$(mktemp -d)
cd "$place"

# Prints a Python that can make a venv, and installs it where there is none.
find_python() {
  if command -v dnf >/dev/null; then
    dnf install -y -q python39 >&2
    echo python3.9
  elif python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo python3
  else
    apt-get update -q >&2
    apt-get install -y -q --no-install-recommends python3.9-venv >&2
    echo python3.9
  fi
}

"$(find_python)" -m venv venv
venv/bin/python -m pip install --quiet 'pip>=20.3'  # the first that knows manylinux_2_28
venv/bin/python -m pip install --no-index --find-links "$clone/build/dist" onnxfit
ldd --version 2>&1 | head -n 1
venv/bin/onnxfit --version
venv/bin/onnxfit check "$clone/models/onnxfit.toml"  # its lock has the answers of g++'s build
venv/bin/python -c "
import onnxfit
estimate = onnxfit.estimate('$clone/models/lenet.onnxtxt', batch=32, gpu='t4')
assert estimate.peak.device_bytes > 0, estimate
"
command=$(echo "$clone"/build/dist/onnxfit-*-linux-"$(uname -m)")
cp "$command" onnxfit
chmod +x onnxfit
./onnxfit check "$clone/models/onnxfit.toml"
