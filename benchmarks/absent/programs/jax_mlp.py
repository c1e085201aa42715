"""A training step of JAX, in its own figures: parameters, batch and gradients are what it holds."""

import jax
import jax.numpy as jnp

SIZES = [1024, 4096, 4096, 1000]
BATCH = 512


def weights(key):
    keys = jax.random.split(key, len(SIZES))
    return [(jax.random.normal(k, (a, b)) * 0.01, jnp.zeros(b)) for k, a, b in zip(keys, SIZES, SIZES[1:])]


def loss(params, x, y):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ w + b) * y, -1))


@jax.jit
def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def main():
    params = weights(jax.random.key(0))
    x, y = jnp.ones((BATCH, SIZES[0])), jnp.zeros((BATCH, SIZES[-1])).at[:, 0].set(1)
    for _ in range(3):
        value, params = step(params, x, y)
        value.block_until_ready()
    held = 4 * (sum(a * b + b for a, b in zip(SIZES, SIZES[1:])) + x.size + y.size)
    stats = jax.local_devices()[0].memory_stats()
    assert held <= stats["bytes_in_use"] < stats["peak_bytes_in_use"] <= stats["peak_pool_bytes"], stats
    assert stats["peak_bytes_in_use"] >= 2 * held - 4 * (x.size + y.size), stats  # both parameters


main()
