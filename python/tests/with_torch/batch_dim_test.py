"""A batch that is not dimension 0."""

import unittest
import warnings

import torch
from torch import nn

import onnxfit

X = torch.empty(50, 32, 8)
SAID = "dimension 0 of the inputs is taken as the batch, which is time for "


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.l = nn.GRU(16, 16), nn.Linear(16, 3)

    def forward(self, seq, mask):
        return self.l(self.a(seq)[0].mean(0)) * mask


class Turned(nn.Module):
    """Batches first outside, time first inside."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32)

    def forward(self, x):
        return self.layer(x.permute(1, 0, 2)).permute(1, 0, 2)


class Names(unittest.TestCase):
    def test_inputs_are_named(self):
        for inputs, dims, said in (
                ({"seq": X, "mask": X}, {"Seq": 1, "mask": 1}, r"\(seq, mask\), found 'Seq'"),
                ((X, X), {"xx": 1}, r"\(seq, mask\), found 'xx'")):
            with self.assertRaisesRegex(onnxfit.OnnxfitError, said):
                onnxfit.estimate(Mixed(), inputs, batch_dim=dims)

    def test_a_batch_of_zero(self):
        with self.assertRaisesRegex(onnxfit.OnnxfitError, r"input: expected a batch of 1 or more"):
            onnxfit.estimate(nn.Linear(8, 8), torch.empty(0, 5, 8))


def answered(*args, **more):
    """The answer, and what a Python warning said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", onnxfit.OnnxfitWarning)
        answer = onnxfit.estimate(*args, **more)
    return answer, [str(w.message) for w in said if w.category is onnxfit.OnnxfitWarning]


class BatchDim(unittest.TestCase):
    def test_it_is_the_inputs_(self):
        answer, said = answered(nn.LSTM(8, 8), X, batch_dim=1)
        self.assertEqual((answer.settings.batch, said), (32, []))
        self.assertIn("the batch is dimension 1 of input", answer.assumptions)

    def test_another_batch_is_that_of_larger_inputs(self):
        state = tuple(torch.empty(1, 32, 8) for _ in range(2))
        many = tuple(torch.empty(1, 64, 8) for _ in range(2))
        rows = [(nn.LSTM(8, 8), X, torch.empty(50, 64, 8), 1),
                (nn.LSTM(8, 8), (X, state), (torch.empty(50, 64, 8), many), 1),
                (nn.LSTM(8, 8), X, torch.empty(50, 64, 8), -2),
                (Mixed(), (torch.empty(9, 32, 16), torch.empty(32, 1)),
                 (torch.empty(9, 64, 16), torch.empty(64, 1)), {"seq": 1}),
                (nn.Transformer(16, 2, 1, 1, 32), (torch.empty(9, 32, 16), torch.empty(7, 32, 16)),
                 (torch.empty(9, 64, 16), torch.empty(7, 64, 16)), 1)]
        for model, few, larger, batch_dim in rows:
            with self.subTest(type(model).__name__):
                asked, _ = answered(model, few, batch_dim=batch_dim, batch=64)
                given, _ = answered(model, larger, batch_dim=batch_dim)
                self.assertEqual((asked.settings.batch, asked.peak), (64, given.peak))

    def test_the_largest_batch(self):
        answer = onnxfit.max_batch(nn.LSTM(64, 64), torch.empty(50, 2, 64), batch_dim=1,
                                   memory="1GiB")
        self.assertGreater(answer.max_batch, 500)

    def test_where_the_module_says_it_a_warning(self):
        for model, x, name in ((nn.LSTM(8, 8), X, "LSTM"), (nn.GRU(8, 8), X[:, 0], "GRU"),
                               (nn.TransformerEncoderLayer(8, 2, 16), X,
                                "MultiheadAttention (self_attn)")):
            answer, said = answered(model, x)
            self.assertEqual(said, [f"{SAID}{name}, whose batch_first is False (try: batch_dim=1)"])
            self.assertIn(said[0], answer.assumptions)

    def test_where_it_does_not_none(self):
        for model, x in ((nn.LSTM(8, 8, batch_first=True), X), (Turned(), torch.empty(4, 9, 16)),
                         (nn.Linear(8, 8), X)):
            self.assertEqual(answered(model, x)[1], [])

    def test_what_is_no_dimension(self):
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "batch_dim: expected a dimension of "
                                                          r"inputs, found 5 of \[50, 32, 8\]"):
            onnxfit.estimate(nn.LSTM(8, 8), X, batch_dim=5)


if __name__ == "__main__":
    unittest.main()
