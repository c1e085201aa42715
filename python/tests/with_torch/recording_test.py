"""Models whose code asks for values, and those that do not, recorded."""

import unittest
import warnings
from unittest import mock

import torch
import torchvision
import transformers

import onnxfit
from onnxfit import recording, watched
from onnxfit.inputs import Inputs

IDS = torch.zeros(4, 16, dtype=torch.long)
COUNTS = torch.tensor([2, 0, 1])


class Net(torch.nn.Module):
    """Two layers, and what a test says of them in `way`."""

    def __init__(self, way=None):
        super().__init__()
        self.embed = torch.nn.Embedding(100, 64)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(2))
        self.way = way

    def forward(self, ids, *more):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x) if self.way is None else self.way(layer, x, *more)
        return x


def dropped(layer, x):
    if torch.rand([]) < 0.4:
        return x
    return layer(x)


def kept(layer, x):
    return layer(x) if torch.rand([], device=x.device) > 0.4 else x


def large(layer, x):
    return (layer(x)[..., None] * torch.arange(64.0, device=x.device)).relu().sum(-1)


def branch(layer, x):
    if x.sum() > 0:
        return large(layer, x)
    return layer(x)


def shortcut(layer, x):
    if x.sum() > 0:
        return layer(x)
    return large(layer, x)


class Asks(torch.nn.Module):
    """Takes the larger branch where a number that it computes is on one side of another."""

    def __init__(self, asks):
        super().__init__()
        self.first, self.asks = torch.nn.Linear(512, 512), asks
        self.more = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])

    def forward(self, x):
        h = self.first(x)
        return self.more(h) if self.asks(h) else h


ASKS = (lambda h: h.abs().mean().item() > 5, lambda h: float(h.std()) < 0.5,
        lambda h: (h > 0).sum().item() > 7, lambda h: int((h > 0).sum()) == 0,
        lambda h: h.mean().item() < -3)


def recorded(model, *inputs):
    given = Inputs(inputs, {})
    return recording.record(lambda told: watched.program(model, given, [], [],
                                                         watched.Precision.of(""), told))


class Numbers(unittest.TestCase):
    """What follows from a number that the code asks for."""

    def peak(self, asks, x, device="cpu"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", onnxfit.OnnxfitWarning)
            answer = onnxfit.estimate(Asks(asks).to(device), x, loss="mse")
        return answer.peak.exact_bytes, "".join(str(warning.message) for warning in said)

    def test_guesses_take_the_larger_way(self):
        x = torch.empty(64, 512, device="meta")
        large, _ = self.peak(lambda h: True, x, "meta")
        for asks in ASKS:
            peak, said = self.peak(asks, x, "meta")
            self.assertEqual(peak, large)
            self.assertIn("weights and inputs with values, not on meta, say which", said)

    def test_values_say_which_way(self):
        x = torch.ones(64, 512) * 1000  # weights of 262144 elements are computed with
        large, small = self.peak(lambda h: True, x)[0], self.peak(lambda h: False, x)[0]
        self.assertLess(small, large)
        for asks, expected in zip(ASKS, (large, small, large, small, None)):
            peak, said = self.peak(asks, x)
            self.assertIn("by the values of inputs and weights", said)
            if expected is not None:
                self.assertEqual(peak, expected)

    def test_weights_stay_as_they_are(self):
        def asks(h):
            return h.add_(1).mean().item() > 5

        model, x = Asks(asks), torch.ones(64, 512)
        before = [parameter.clone() for parameter in model.parameters()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", onnxfit.OnnxfitWarning)
            onnxfit.estimate(model, x, loss="mse")
        self.assertTrue(all(map(torch.equal, before, model.parameters())))
        self.assertTrue(torch.equal(x, torch.ones(64, 512)))

    def test_ctc_loss_with_lengths_of_values(self):
        with self.assertWarnsRegex(onnxfit.OnnxfitWarning, "by the values of inputs"):
            answer = onnxfit.estimate(Ctc(), (torch.randn(4, 50, 8), torch.ones(4, 10).long()),
                                      loss="none")
        self.assertGreater(answer.peak.exact_bytes, 4 * 50 * 21 * 4)

    def test_loops_of_a_guess_are_said(self):
        x = torch.empty(64, 512, device="meta")
        _, said = self.peak(lambda h: [h.sin() for _ in range((h > 0).sum().item())], x, "meta")
        self.assertIn("sizes, or how often a loop runs, follow from this guess", said)


class Ctc(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 20)

    def forward(self, x, labels):
        logs = self.layer(x).log_softmax(-1).transpose(0, 1)
        lengths = (labels > 0).sum(-1)
        steps = torch.full((x.shape[0],), x.shape[1])
        return torch.nn.functional.ctc_loss(logs, labels.masked_select(labels > 0), steps, lengths)


class Vmapped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        positions = torch.arange(4, device=x.device)
        seen = torch.vmap(lambda one: one.new_ones((), dtype=torch.bool))(positions)
        return self.layer(x) if bool(x.sum() > 100) and bool(seen.all()) else self.layer(self.layer(x))


class Means(torch.nn.Module):
    """Asks for a value of its input, in code that a free batch reaches."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x):
        if x.abs().mean() > 1:
            x = self.layer(x).relu()
        return self.layer(x)


def asserting(layer, x):
    assert x.mean() > 3, "a guess of False ends here"
    return layer(x)


def unending(layer, x):
    while not x.isfinite().all():
        x = layer(x)
    return layer(x)


def counted(layer, x, counts):
    for count in counts.tolist():
        for _ in range(count):
            x = layer(x)
    return x


def counted_here(layer, x):
    counts = torch.zeros(3, dtype=torch.long)
    counts[1:] = torch.arange(2) + 1
    return counted(layer, x, counts[torch.tensor([2, 1])])


def masked(layer, x):
    return x.masked_fill(x > 0, layer(x)[x > 0].sum())


def chosen(layer, x):
    return layer(x[x[..., 0] > 0])


def distinct(layer, x, counts):
    return layer(x) if torch.unique(counts // 2).shape[0] == 2 else x


def answered(test, way, *more, model=None, **flags):
    """The answer, and what was said of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", onnxfit.OnnxfitWarning)
        answer = onnxfit.estimate(model or Net(way), (IDS, *more), **flags)
    told = [str(w.message) for w in said if w.category is onnxfit.OnnxfitWarning]
    test.assertEqual({w.filename for w in said if w.category is onnxfit.OnnxfitWarning} -
                     {__file__}, set())
    return answer, "\n".join(told)


class Branches(unittest.TestCase):
    def test_tensors_of_vmap_are_no_values(self):
        estimate = onnxfit.estimate(Vmapped(), torch.empty(4, 8))
        self.assertGreater(estimate.peak.exact_bytes, 0)

    def test_random_numbers_are_at_their_mean(self):
        plain, _ = answered(self, None)
        for way in (dropped, kept):
            answer, said = answered(self, way)
            self.assertEqual(answer.peak.allocated_bytes, plain.peak.allocated_bytes)
            self.assertEqual("Net: its code asks for values, its batch is free",
                             said.splitlines()[0])
            self.assertIn("(random numbers at their mean)", said)
        self.assertIn("recording_test.py", said)
        self.assertIn("return layer(x) if torch.rand([], device=x.device) > 0.4 else x → True",
                      said)

    def test_the_batch_is_free(self):
        few, _ = answered(self, dropped, batch=2)
        many, _ = answered(self, dropped, batch=64)
        self.assertLess(few.peak.allocated_bytes, many.peak.allocated_bytes)

    def test_values_of_large_tensors_are_a_guess(self):
        answer, said = answered(self, branch, model=Net(branch).to("meta"))
        self.assertIn("if x.sum() > 0: → True (a guess)", said)
        self.assertIn("guesses are those that take more memory", said)
        larger, _ = answered(self, large)
        self.assertEqual(answer.peak.exact_bytes, larger.peak.exact_bytes)

    def test_a_guess_of_false_stays_where_it_takes_more(self):
        answer, said = answered(self, shortcut, model=Net(shortcut).to("meta"))
        self.assertIn("if x.sum() > 0: → False (a guess)", said)
        self.assertIn("recording_test.py:", answer.assumptions[1])
        self.assertIn("if x.sum() > 0: → False (a guess)", str(answer))
        larger, _ = answered(self, large)
        self.assertEqual(answer.peak.exact_bytes, larger.peak.exact_bytes)

    def test_values_are_computed_with_a_free_batch(self):
        x = torch.full((8, 64, 64), 3.0)
        for value, way in ((3.0, "True"), (0.5, "False")):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", onnxfit.OnnxfitWarning)
                onnxfit.estimate(Means(), x.fill_(value), loss="mse", batch=16)
            told = "\n".join(str(warning.message) for warning in said)
            self.assertIn(f"if x.abs().mean() > 1: → {way} (by the values of inputs and weights)",
                          told)
            self.assertIn("its batch is free", told)

    def test_a_guess_that_fails_is_changed(self):
        _, said = answered(self, asserting, model=Net(asserting).to("meta"))
        self.assertIn("assert x.mean() > 3", said)
        self.assertIn("→ True (a guess)", said)

    def test_a_loop_without_end_is_left(self):
        _, said = answered(self, unending, model=Net(unending).to("meta"))
        self.assertIn("while not x.isfinite().all(): → True (a guess)", said)

    def test_values_of_inputs(self):
        answer, said = answered(self, counted, COUNTS)
        thrice, _ = answered(self, lambda layer, x, counts: layer(layer(layer(x))), COUNTS)
        self.assertEqual(answer.peak.allocated_bytes, thrice.peak.allocated_bytes)
        self.assertIn("for count in counts.tolist(): → 2, 0, 1 (by the values of inputs and "
                      "weights)", said)

    def test_numbers_in_the_code_are_no_guess(self):
        _, said = answered(self, counted_here)
        self.assertNotIn("→", said)

    def test_masks_select_all_where_nobody_knows(self):
        _, answers, *_ = recorded(Net(masked).to("meta"), IDS.to("meta"))
        self.assertEqual([answer.value for answer in answers], [4 * 16 * 64] * 2)

    def test_sizes_that_follow_from_values(self):
        ids = torch.zeros(4, 16, dtype=torch.long, device="meta")
        with self.assertWarnsRegex(onnxfit.OnnxfitWarning, r"Net: its code asks for values.*\n"
                                   r".*return layer.* → 64 \(a guess\)"):
            some = onnxfit.estimate(Net(chosen).to("meta"), ids)
        self.assertEqual(some.settings.batch, 4)

    def test_sizes_within_operators_made_of_others(self):
        def repeated(layer, x, grid):
            rows = torch.repeat_interleave(grid[:, 2], grid[:, 1] * grid[:, 2])
            return layer(x) + rows.float().mean()
        for device in ("cpu", "meta"):  # the grid has values on both
            model = Net(repeated).to(device)
            program = recorded(model, IDS.to(device), torch.tensor([[1, 3, 5]])).program
            tensors = program.json["graph_module"]["graph"]["tensor_values"]
            made = [value["sizes"][0]["as_int"] for name, value in tensors.items()
                    if "repeat_interleave" in name]
            self.assertEqual(made, [15, 15], device)

    def test_distinct_values(self):
        answer, said = answered(self, distinct, COUNTS)
        plain, _ = answered(self, lambda layer, x, counts: layer(x), COUNTS)
        self.assertIn("torch.unique(counts // 2)", said)
        self.assertGreaterEqual(answer.peak.allocated_bytes, plain.peak.allocated_bytes)

    def test_values_that_nobody_knows_are_all_different(self):
        def inverse(layer, x):
            values, places = torch.unique(x, return_inverse=True)
            return layer(x) + values.mean() + places
        program, answers, *_ = recorded(Net(inverse).to("meta"), IDS.to("meta"))
        self.assertEqual([answer.value for answer in answers], [4 * 16 * 64] * 2)
        tensors = program.json["graph_module"]["graph"]["tensor_values"]
        made = [[size["as_int"] for size in value["sizes"]] for name, value in tensors.items()
                if "unique" in name]
        self.assertEqual(made, [[4096], [4, 16, 64], [0]] * 2)
        _, answers, *_ = recorded(Net(lambda layer, x: layer(x) * torch.bincount(
            x.long().flatten(), minlength=64)).to("meta"), IDS.to("meta"))
        self.assertEqual([answer.value for answer in answers], [64, 64])

    def test_a_backward_within_forward_is_refused_by_its_name(self):
        def slope(layer, x):
            x = x.detach().requires_grad_()
            return torch.autograd.grad(layer(x).sum(), x, create_graph=True)[0]
        with self.assertRaisesRegex(onnxfit.OnnxfitError, r"found torch.autograd.grad \(recording_test.py:"):
            onnxfit.estimate(Net(slope), (IDS,))

    def test_derivatives_are_refused_with_their_line(self):
        def forward_mode(layer, x):
            return torch.func.jvp(layer, (x,), (torch.ones_like(x),))[1]

        def per_sample(layer, x):
            return torch.func.vmap(torch.func.jacrev(layer))(x.flatten(0, 1)).sum(1)

        for way in (forward_mode, per_sample):
            with self.assertRaisesRegex(onnxfit.OnnxfitError, r"derivative.*recording_test.py:"):
                onnxfit.estimate(Net(way), (IDS,))

    def test_what_has_no_program_is_named(self):
        def jagged(layer, x):
            return layer(torch.nested.as_nested_tensor([x[0], x[1][:5]],
                                                       layout=torch.jagged)).values()

        rows = ((jagged, "found a nested tensor, whose sizes follow from values",
                 "a padded tensor with a mask in its place"),)
        for way, said, hint in rows:
            with self.assertRaises(onnxfit.OnnxfitError) as caught:
                onnxfit.estimate(Net(way), (IDS,))
            self.assertIn(said, str(caught.exception))
            self.assertEqual(caught.exception.hint, hint)

    def test_what_both_refuse_is_refused(self):
        def numpy(layer, x):
            return layer(torch.from_numpy(x.detach().numpy()))
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "Net: expected a forward that runs"):
            onnxfit.estimate(Net(numpy), (IDS,))


class Guesses(unittest.TestCase):
    def test_a_long_loop_of_guesses_ends(self):
        calls = []

        def generating(layer, x):
            while not (x > 3).all():
                for _ in range(20):
                    x = layer(x)
                calls.append(1)
            return x
        ids = torch.zeros(64, 32, dtype=torch.long)  # more elements than are computed
        with mock.patch.object(recording, "_MOST_CALLS", 200), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            onnxfit.estimate(Net(generating), ids)
        self.assertLess(len(calls), 500)  # so often might one line of one run ask


class Libraries(unittest.TestCase):
    def test_layerdrop_of_transformers(self):
        # PyTorch 2.11's own figures: benchmarks/accuracy, opt, batch 8, AdamW
        config = transformers.OPTConfig(
            vocab_size=5000, hidden_size=320, ffn_dim=1280, num_hidden_layers=3,
            num_attention_heads=4, word_embed_proj_dim=320, max_position_embeddings=256,
            use_cache=False)
        with torch.device("meta"):
            model = transformers.OPTForCausalLM(config).train()
        ids = torch.zeros(8, 96, dtype=torch.long)
        with self.assertWarnsRegex(onnxfit.OnnxfitWarning, "modeling_opt.py:"):
            answer = onnxfit.estimate(model, ids, framework="pytorch-2.11")
        self.assertEqual((answer.peak.allocated_bytes, answer.peak.reserved_bytes),
                         (169060352, 197132288))

    def test_recorded_programs_are_those_that_were_not(self):
        rows = [(torchvision.models.resnet18(), torch.empty(2, 3, 64, 64)),
                (torchvision.models.vit_b_16(), torch.empty(2, 3, 224, 224))]
        for model, example in rows:
            plain = watched.program(model, Inputs((example,), {}), [], [],
                                    watched.Precision.of(""))
            made, answers, *_ = recorded(model, example)
            self.assertEqual(made.json, plain.json)
            self.assertEqual([answer.by for answer in answers if answer.by != "code"], [])


if __name__ == "__main__":
    unittest.main()
