"""A training step of TensorFlow, in its own figures: parameters, momenta, batch and gradients."""

import ctypes
import importlib.util
from pathlib import Path

NVIDIA = Path(importlib.util.find_spec("nvidia").submodule_search_locations[0])
for name in ("nvjitlink/lib/libnvJitLink.so.12", "cusolver/lib/libcusolver.so.11"):
    ctypes.CDLL(str(NVIDIA / name))  # the wheel of 2.21 looks for it in none of these folders

import tensorflow as tf  # noqa: E402

SIZES = [1024, 4096, 4096, 1000]
BATCH = 512


class Network(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = [tf.Variable(tf.random.normal((a, b)) * 0.01) for a, b in zip(SIZES, SIZES[1:])]
        self.biases = [tf.Variable(tf.zeros((b,))) for b in SIZES[1:]]

    def __call__(self, x):
        for w, b in zip(self.weights[:-1], self.biases[:-1]):
            x = tf.nn.relu(x @ w + b)
        return x @ self.weights[-1] + self.biases[-1]


def main():
    with tf.device("GPU:0"):
        network = Network()
        momenta = [tf.Variable(tf.zeros_like(v)) for v in network.trainable_variables]
        x, y = tf.ones((BATCH, SIZES[0])), tf.zeros((BATCH,), tf.int32)

        def step():  # not as a tf.function, whose threads decide what lives at once: 4 % more, or less
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, network(x))
            for v, m, g in zip(network.trainable_variables, momenta,
                               tape.gradient(losses, network.trainable_variables)):
                m.assign(0.9 * m + g)
                v.assign_sub(0.1 * m)

        for _ in range(3):
            step()
    parameters = 4 * sum(a * b + b for a, b in zip(SIZES, SIZES[1:]))
    info = tf.config.experimental.get_memory_info("GPU:0")
    held = 2 * parameters + 4 * BATCH * (SIZES[0] + 1)
    assert held <= info["current"] < held + parameters, (held, info)  # rounded to 256 bytes
    activations = 4 * BATCH * sum(SIZES[1:])  # ReLUs in place
    assert info["peak"] >= held + activations, (held, info)
    assert info["peak"] <= held + 3 * activations + 3 * parameters, (held, info)


main()
