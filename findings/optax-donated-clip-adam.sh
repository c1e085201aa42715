#!/usr/bin/env bash
# Donating weights and optimizer state of a clipped Adam step (8 weights of 4 MiB) makes XLA's CPU
# temporaries grow from 0 to 64 MiB: of the 96 MiB that are donated only 32 are saved.
# Packages: jax 0.10.2 jaxlib 0.10.2 numpy 2.4.6 optax 0.2.8; CPU only.
# Output seen:
#   kept: temp 0.00 MiB
#   donated: temp 64.00 MiB
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 optax==0.2.8
cat > "$folder/program.py" <<'PROGRAM'
import jax, jax.numpy as jnp
S = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
def temp(name, f, *args, **options):
    got = jax.jit(f, **options).lower(*args).compile().memory_analysis()
    print(f"{name}: temp {got.temp_size_in_bytes / 2**20:.2f} MiB")

import optax
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
def step(params, state, x):
    def loss(params):
        h = x
        for w in params: h = jax.nn.relu(h @ w)
        return (h**2).mean()
    updates, state = tx.update(jax.grad(loss)(params), state, params)
    return optax.apply_updates(params, updates), state
params = [S(1024, 1024)] * 8
args = params, jax.eval_shape(tx.init, params), S(64, 1024)
temp("kept", step, *args)
temp("donated", step, *args, donate_argnums=(0, 1))
PROGRAM
cat > "$folder/stated" <<'STATED'
kept: temp 0.00 MiB
donated: temp 64.00 MiB
STATED
"$folder/venv/bin/python" "$folder/program.py" > "$folder/seen" 2> "$folder/log" || { cat "$folder/log" >&2; exit 1; }
cat "$folder/seen"
diff "$folder/stated" "$folder/seen" || { echo "the output differs from what is stated" >&2; exit 1; }
