#!/usr/bin/env bash
# np.fft.fft of 4 MiB of float32 (result: 8 MiB of complex64) has a peak of 40 MiB,
# rfft one of 20 MiB: of the loops (double, float, long double) the double one is taken, and
# input and result pass through whole arrays of twice the width.
# Packages: numpy 2.4.6; CPU only.
# Output seen:
#   fft: peak 40.0 MiB
#   rfft: peak 20.0 MiB
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
cat > "$folder/program.py" <<'PROGRAM'
import tracemalloc, numpy as np
tracemalloc.start()
def peak(name, f, *args):
    f(*args)
    before = tracemalloc.get_traced_memory()[0]; tracemalloc.reset_peak()
    result = f(*args)
    print(f"{name}: peak {(tracemalloc.get_traced_memory()[1] - before) / 2**20:.1f} MiB")

x = np.arange(2**20, dtype=np.float32)
peak("fft", np.fft.fft, x)
peak("rfft", np.fft.rfft, x)
PROGRAM
cat > "$folder/stated" <<'STATED'
fft: peak 40.0 MiB
rfft: peak 20.0 MiB
STATED
"$folder/venv/bin/python" "$folder/program.py" > "$folder/seen" 2> "$folder/log" || { cat "$folder/log" >&2; exit 1; }
cat "$folder/seen"
diff "$folder/stated" "$folder/seen" || { echo "the output differs from what is stated" >&2; exit 1; }
