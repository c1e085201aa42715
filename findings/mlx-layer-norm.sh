#!/usr/bin/env bash
# mx.fast.layer_norm of a 4 MiB matrix takes 12 MiB on mlx's CPU backend (the "fast" call falls back
# to its parts, in which three full matrices live at once).
# Packages: mlx 0.32.4 mlx-cpu 0.32.4; CPU only.
# Output seen:
#   layer_norm: peak 12.01 MiB
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

peak("layer_norm", lambda x: mx.fast.layer_norm(x, None, None, 1e-5), mx.ones((1024, 1024)))
PROGRAM
cat > "$folder/stated" <<'STATED'
layer_norm: peak 12.01 MiB
STATED
"$folder/venv/bin/python" "$folder/program.py" > "$folder/seen" 2> "$folder/log" || { cat "$folder/log" >&2; exit 1; }
cat "$folder/seen"
diff "$folder/stated" "$folder/seen" || { echo "the output differs from what is stated" >&2; exit 1; }
