#!/usr/bin/env bash
# nn.Upsample(2, "linear") of mlx (8 MiB to 32 MiB) takes 192 MiB: six times its result.
# Packages: mlx 0.32.4 mlx-cpu 0.32.4; CPU only.
# Output seen:
#   upsample: peak 192.01 MiB
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlx==0.32.4 mlx-cpu==0.32.4
cat > "$folder/program.py" <<'PROGRAM'
import gc, mlx.core as mx, mlx.nn as nn
mx.set_default_device(mx.cpu)
def peak(name, f, *args):
    mx.eval(*args); mx.synchronize(); mx.clear_cache()
    before = mx.get_active_memory(); mx.reset_peak_memory()
    result = f(*args); mx.eval(result); mx.synchronize()
    print(f"{name}: peak {(mx.get_peak_memory() - before) / 2**20:.2f} MiB")

peak("upsample", nn.Upsample(2.0, "linear"), mx.ones((8, 64, 64, 64)))
PROGRAM
cat > "$folder/stated" <<'STATED'
upsample: peak 192.01 MiB
STATED
"$folder/venv/bin/python" "$folder/program.py" > "$folder/seen" 2> "$folder/log" || { cat "$folder/log" >&2; exit 1; }
cat "$folder/seen"
diff "$folder/stated" "$folder/seen" || { echo "the output differs from what is stated" >&2; exit 1; }
