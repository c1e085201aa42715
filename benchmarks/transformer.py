"""A transformer as the TorchScript exporter writes it: layer norm, GELU and attention in
parts, shapes computed by nodes.  About 125 nodes a layer."""

import math

from onnx_writer import FLOAT, INT64, Graph

SEQUENCE, HIDDEN, HEADS, VOCABULARY = 128, 256, 4, 1000


def layer_norm(g, x, name):
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1]))
    variance = g.op("ReduceMean", g.op("Pow", centred, g.scalar(2.0)), axes=[-1])
    deviation = g.op("Sqrt", g.op("Add", variance, g.scalar(1e-5)))
    scaled = g.op("Mul", g.op("Div", centred, deviation), g.weight(f"{name}.weight", HIDDEN))
    return g.op("Add", scaled, g.weight(f"{name}.bias", HIDDEN))


def linear(g, x, name, inputs, outputs):
    product = g.op("MatMul", x, g.weight(f"{name}.weight", inputs, outputs))
    return g.op("Add", product, g.weight(f"{name}.bias", outputs))


def dimension(g, x, axis):
    """One dimension of x as a tensor [1]."""
    size = g.op("Gather", g.op("Shape", x), g.scalar(axis), axis=0)
    return g.op("Unsqueeze", size, g.integers(0))


def heads(g, x):
    """[N, S, HIDDEN] as [N, HEADS, S, HIDDEN / HEADS]."""
    shape = g.op("Concat", dimension(g, x, 0), dimension(g, x, 1), g.integers(HEADS),
                 g.integers(HIDDEN // HEADS), axis=0)
    return g.op("Transpose", g.op("Reshape", x, shape), perm=[0, 2, 1, 3])


def causal_mask(g, x):
    """0 where a word may be seen and -10000 elsewhere, [S, S]."""
    length = g.op("Squeeze", dimension(g, x, 1), g.integers(0))
    positions = g.op("Range", g.scalar(0), length, g.scalar(1))
    later = g.op("Less", g.op("Unsqueeze", positions, g.integers(1)),
                 g.op("Unsqueeze", positions, g.integers(0)))
    return g.op("Where", later, g.scalar(-10000.0), g.scalar(0.0))


def attention(g, x, name):
    query, key, value = (heads(g, linear(g, x, f"{name}.{part}", HIDDEN, HIDDEN))
                         for part in ("query", "key", "value"))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g.op("Div", scores, g.scalar(math.sqrt(HIDDEN // HEADS)))
    weights = g.op("Softmax", g.op("Add", scores, causal_mask(g, x)), axis=-1)
    mixed = g.op("Transpose", g.op("MatMul", weights, value), perm=[0, 2, 1, 3])
    shape = g.op("Concat", dimension(g, x, 0), dimension(g, x, 1), g.integers(HIDDEN), axis=0)
    return linear(g, g.op("Reshape", mixed, shape), f"{name}.out", HIDDEN, HIDDEN)


def gelu(g, x):
    erf = g.op("Erf", g.op("Div", x, g.scalar(math.sqrt(2))))
    return g.op("Mul", g.op("Mul", x, g.op("Add", erf, g.scalar(1.0))), g.scalar(0.5))


def feed_forward(g, x, name):
    wide = gelu(g, linear(g, x, f"{name}.up", HIDDEN, 4 * HIDDEN))
    return linear(g, wide, f"{name}.down", 4 * HIDDEN, HIDDEN)


def write_transformer(path, layers):
    """Writes the model and returns how many nodes it has."""
    g = Graph()
    words = g.input("words", INT64, ["N", SEQUENCE])
    x = g.op("Gather", g.weight("embedding.weight", VOCABULARY, HIDDEN), words)
    for layer in range(layers):
        name = f"layers.{layer}"
        x = g.op("Add", x, attention(g, layer_norm(g, x, f"{name}.norm1"), f"{name}.attention"))
        x = g.op("Add", x, feed_forward(g, layer_norm(g, x, f"{name}.norm2"), f"{name}.mlp"))
    logits = linear(g, layer_norm(g, x, "norm"), "head", HIDDEN, VOCABULARY)
    g.output(logits, FLOAT, ["N", SEQUENCE, VOCABULARY])
    g.write(path)
    return g.nodes
