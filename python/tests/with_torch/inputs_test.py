"""What forward() may take and return."""

import collections
import dataclasses
import functools
import unittest
import warnings
from typing import Any, Optional

import torch
import torch.utils.checkpoint
import transformers
from torch.export import Dim

import onnxfit

IDS = torch.zeros(4, 16, dtype=torch.long)


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    scale: float = 2.0
    mask: Optional[torch.Tensor] = None
    more: Any = None


@dataclasses.dataclass(frozen=True)
class Result:
    logits: torch.Tensor
    hidden: torch.Tensor
    name: object = None


class Plain:
    """No dataclass."""

    def __init__(self, ids):
        self.ids = ids


class Net(torch.nn.Module):
    """What forward() returns is said by `give`, what it is given by `take`."""

    def __init__(self, take=None, give=None):
        super().__init__()
        self.embed = torch.nn.Embedding(100, 64)
        self.head = torch.nn.Linear(64, 100)
        self.take, self.give = take, give

    def run(self, ids):
        hidden = self.embed(ids)
        logits = self.head(hidden)
        return self.give(logits, hidden) if self.give else logits

    def forward(self, batch, *more):
        return self.run(self.take(batch, *more) if self.take else batch)


class ByName(Net):
    def forward(self, *, ids, mask=None):
        return self.run(ids)


def allocated(model, inputs, **flags):
    return onnxfit.estimate(model, inputs, **flags).peak.allocated_bytes


class Inputs(unittest.TestCase):
    def setUp(self):
        self.plain = allocated(Net(), IDS)

    def test_dataclasses_and_objects(self):
        rows = [(lambda batch: batch.ids, Batch(IDS)),
                (lambda batch: batch.ids, (Batch(IDS, mask=None),)),
                (lambda batch: batch.more["ids"], Batch(None, more={"ids": IDS})),
                (lambda batch: batch.more[0].ids, Batch(None, more=[Batch(IDS)])),
                (lambda batch: batch.ids, Plain(IDS)),
                (lambda batch: batch.ids, {"batch": Batch(IDS)}),
                (lambda batch: batch["x"].ids, {"batch": {"x": Batch(IDS)}}),
                (lambda batch: batch["input_ids"],
                 (transformers.BatchEncoding({"input_ids": IDS}),))]
        for take, inputs in rows:
            self.assertEqual(allocated(Net(take), inputs), self.plain)

    def test_nested_dictionaries_and_lists(self):
        rows = [(lambda batch: batch["text"]["ids"], {"batch": {"text": {"ids": IDS}}}),
                (lambda batch: batch["ids"], ({"ids": IDS, "name": "train"},)),
                (lambda batch: batch[0], ([IDS],)),
                (lambda batch: batch["ids"], (collections.OrderedDict(ids=IDS),))]
        for take, inputs in rows:
            self.assertEqual(allocated(Net(take), inputs), self.plain)

    def test_named_tuples_are_the_arguments(self):
        Pair = collections.namedtuple("Pair", "ids mask")
        self.assertEqual(allocated(Net(lambda ids, mask: ids), Pair(IDS, None)), self.plain)

    def test_by_name_alone(self):
        self.assertEqual(allocated(ByName(), {"ids": IDS}), self.plain)
        self.assertEqual(allocated(ByName(), transformers.BatchEncoding({"ids": IDS})), self.plain)

    def test_the_batch_within(self):
        model = Net(lambda batch: batch.ids)
        self.assertEqual(onnxfit.estimate(model, Batch(IDS)).settings.batch, 4)
        self.assertEqual(allocated(model, Batch(IDS[:1]), batch=4), self.plain)

    def test_compiled_modules(self):
        answer = onnxfit.estimate(torch.compile(Net()), IDS)
        self.assertEqual((answer.settings.compile, answer.model.path), ("inductor", "Net.pt2"))
        self.assertFalse(answer.settings.cuda_graphs)
        recorded = onnxfit.estimate(torch.compile(Net(), mode="reduce-overhead"), IDS)
        self.assertTrue(recorded.settings.cuda_graphs)
        eager = onnxfit.estimate(torch.compile(Net()), IDS, compile="none")
        self.assertEqual(eager.peak.allocated_bytes, self.plain)

    def test_what_forward_does_not_take(self):
        rows = [(ByName(), {"tokens": IDS},
                 "ByName: inputs: expected those of forward(*, ids, mask=None), found tokens: "
                 "missing a required argument: 'ids'"),
                (ByName(), IDS, "found 1 by position: too many positional arguments"),
                (ByName(), {"ids": IDS, "tokens": IDS}, "unexpected keyword argument 'tokens'"),
                (Net(), "ids.pt", "Net: inputs: expected a tensor, or some in a tuple or a "
                                  "dictionary, found str"),
                (Net(), (), "found an empty tuple"),
                (Net(lambda batch: batch.ids), IDS,
                 "Net: expected a forward that runs with these inputs, found: "
                 "'FakeTensor' object has no attribute 'ids'")]
        for model, inputs, said in rows:
            with self.assertRaises(onnxfit.OnnxfitError) as caught:
                onnxfit.estimate(model, inputs)
            self.assertIn(said, str(caught.exception))


class ByList(Net):
    def forward(self, parts):
        return super().forward(torch.cat(parts))


class Forms(unittest.TestCase):
    """Inputs as people write them."""

    def test_arrays_of_numpy_and_lists(self):
        plain = allocated(Net(), IDS)
        for inputs in (IDS.numpy(), [IDS], (IDS.numpy(),), {"batch": IDS.numpy()}):
            self.assertEqual(allocated(Net(), inputs), plain)

    def test_a_list_is_one_argument_where_forward_takes_one(self):
        self.assertEqual(allocated(ByList(), [IDS, IDS]), allocated(ByList(), ([IDS, IDS],)))

    def test_a_dictionary_is_one_argument_where_forward_takes_one(self):
        model = Net(lambda batch: batch["ids"])
        model.forward = lambda batch: Net.forward(model, batch)
        self.assertEqual(allocated(model, {"ids": IDS, "mask": IDS}),
                         allocated(model, ({"ids": IDS, "mask": IDS},)))

    def test_inputs_on_meta_of_a_model_that_is_not(self):
        self.assertEqual(allocated(Net(), IDS.to("meta")), allocated(Net(), IDS))
        said = "inputs on meta have no values: they are zeros where the code asks"
        for take, expected in ((lambda ids: ids, False),
                               (lambda ids: ids if ids.sum() == 0 else ids + 1, True)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = onnxfit.estimate(Net(take), IDS.to("meta"))
            self.assertEqual(said in answer.assumptions, expected)

    def test_what_is_refused(self):
        linear, x = torch.nn.Linear(8, 4), torch.empty(4, 8)
        rows = [
            (linear, (4, 8), {}, "found sizes (try: torch.empty(4, 8), of tokens torch.zeros(4, 8, "
                                 "dtype=torch.long))"),
            (linear, x.shape, {}, "found sizes (try: torch.empty(4, 8)"),
            (linear, x.double(), {}, "Linear: linear: expected tensors of one type, as PyTorch "
             "does, found torch.float64 and torch.float32 (try: inputs of torch.float32)"),
            (Net(), IDS.float(), {}, "expected indices of whole numbers, found torch.float32 (try: "
                                     "inputs of torch.long)"),
            (linear, x, {"dims": {"seq": 64}}, "dims: expected none, since a module has the sizes "
             "of its inputs, but for the batch, found {'seq': 64}")]
        for model, inputs, more, said in rows:
            with self.subTest(said), self.assertRaises(onnxfit.OnnxfitError) as caught:
                onnxfit.estimate(model, inputs, **more)
            self.assertIn(said, str(caught.exception))

    def test_autocast_casts(self):
        linear, x = torch.nn.Linear(8, 4), torch.empty(4, 8, dtype=torch.bfloat16)
        self.assertGreater(onnxfit.estimate(linear, x, precision="amp-bf16").device_bytes, 0)

    def test_dimensions_that_are_free(self):
        seq = torch.zeros(4, 512, dtype=torch.long)
        free = {"batch": {0: Dim("batch"), 1: Dim("seq")}}
        for dims in ({"seq": 512}, None):
            answer = onnxfit.estimate(Net(), seq if dims is None else IDS, dynamic_shapes=free,
                                      dims=dims)
            self.assertEqual(answer.peak.allocated_bytes, allocated(Net(), seq))


class Results(unittest.TestCase):
    def test_dataclasses_and_objects(self):
        rows = [lambda logits, hidden: Result(logits, hidden, name=object()),
                lambda logits, hidden: {"logits": logits, "hidden": hidden, "kind": Net},
                lambda logits, hidden: [logits, Plain(hidden)]]
        pair = allocated(Net(give=lambda *both: both), IDS)
        for give in rows:
            self.assertEqual(allocated(Net(give=give), IDS), pair)

    def test_caches_of_transformers(self):
        config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100)
        model = transformers.GPT2LMHeadModel(config).train()
        with_cache = allocated(model, IDS)
        model.config.use_cache = False
        self.assertGreaterEqual(with_cache, allocated(model, IDS))

    def test_no_hook_stays(self):
        model = Net(give=Result)
        allocated(model, IDS)
        self.assertEqual((len(model._forward_hooks), len(model._forward_pre_hooks)), (0, 0))


class Programs(unittest.TestCase):
    def test_a_free_batch(self):
        program = torch.export.export(Net(), (IDS,), strict=False,
                                      dynamic_shapes={"batch": {0: Dim.DYNAMIC}})
        few, many = allocated(program, None, batch=4), allocated(program, None, batch=64)
        self.assertEqual(few, allocated(Net(), IDS))
        self.assertEqual(many, allocated(Net(), IDS, batch=64))

    def test_a_fixed_batch_is_another_s(self):
        program = torch.export.export(Net(), (IDS,), strict=False)
        self.assertEqual(onnxfit.estimate(program).settings.batch, 4)
        with self.assertRaises(onnxfit.OnnxfitError) as caught:
            onnxfit.estimate(program, batch=64)
        self.assertIn("4", str(caught.exception))


class Twice(unittest.TestCase):
    """Of 8192 x 64 floats, 2 MiB a batch."""

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 64)

        def forward(self, x, target):
            return (self.layer(x) - target).pow(2).mean()

    def peak(self, *inputs, **more):
        answer = onnxfit.estimate(self.Loss(), inputs, optimizer="none", **more)
        return answer.peak.exact_bytes

    def test_a_tensor_given_twice_is_one(self):
        x = torch.zeros(8192, 64)
        for device in ("cpu", "meta"):
            y = x.to(device)
            two = self.peak(y, torch.zeros_like(y))
            self.assertEqual(two - self.peak(y, y), 8192 * 64 * 4)
        self.assertEqual(self.peak(x, x, batch=4096), self.peak(x[:4096], x[:4096].clone())
                         - 4096 * 64 * 4)

    def test_also_beside_others_and_by_name(self):
        class Named(self.Loss):
            def forward(self, *, input_ids, weight, labels):
                return super().forward(input_ids, labels) * weight.mean()
        x, weight = torch.zeros(8192, 64), torch.zeros(8192)
        peaks = [onnxfit.estimate(Named(), dict(input_ids=x, weight=weight, labels=labels),
                                  optimizer="none").peak.exact_bytes for labels in (x, x.clone())]
        self.assertEqual(peaks[1] - peaks[0], 8192 * 64 * 4)


class Leaves(unittest.TestCase):
    """An input that requires its gradient keeps it, as a parameter does."""

    class Frozen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 64).requires_grad_(False)
            self.head = torch.nn.Linear(64, 1)

        def forward(self, x):
            return self.head(self.layer(x).relu()).mean()

    def test_its_gradient_is_counted(self):
        # PyTorch 2.11's own figures, SGD, three steps: requested_bytes.all.peak
        for wants, peak in ((False, 24396296), (True, 28590600)):
            x = torch.zeros(8192, 64, requires_grad=wants)
            answer = onnxfit.estimate(self.Frozen(), x, optimizer="sgd",
                                      framework="pytorch-2.11", gpu="a100-80gb")
            self.assertEqual(answer.peak.exact_bytes, peak)


class Devices(unittest.TestCase):
    def test_a_parameter_elsewhere_is_named(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 8, device="meta")
                self.mask = torch.nn.Parameter(torch.zeros(8))

            def forward(self, x):
                return self.layer(x) * self.mask
        model = Net()
        with self.assertRaises(onnxfit.OnnxfitError) as caught:
            onnxfit.estimate(model, torch.empty(4, 8, device="meta"))
        self.assertEqual(str(caught.exception),
                         "Net: expected parameters, buffers and inputs on one device, found mask "
                         "on cpu, others on meta (try: model.to('meta'))")
        onnxfit.estimate(model.to("meta"), torch.empty(4, 8, device="meta"))


class Checkpoints(unittest.TestCase):
    class Net(torch.nn.Module):
        def __init__(self, way):
            super().__init__()
            sizes = (64, 128) * 4 + (64,)
            self.layers = torch.nn.Sequential(*[
                layer for pair in zip(sizes, sizes[1:])
                for layer in (torch.nn.Linear(*pair), torch.nn.GELU())])
            self.way = way

        def forward(self, x):
            return self.way(self.layers, x).mean()

    def test_the_last_part_of_a_sequence_is_none(self):
        def sequence(layers, x):
            return torch.utils.checkpoint.checkpoint_sequential(layers, 4, x, use_reentrant=False)
        answer = onnxfit.estimate(self.Net(sequence), torch.zeros(4096, 64), optimizer="sgd",
                                  framework="pytorch-2.11", gpu="a100-80gb")
        self.assertEqual(answer.peak.exact_bytes, 31493388)  # PyTorch 2.11's own

    def test_a_selective_one_is_refused_in_training(self):
        from torch.utils import checkpoint

        def selective(layers, x):
            return checkpoint.checkpoint(
                layers, x, use_reentrant=False, context_fn=functools.partial(
                    checkpoint.create_selective_checkpoint_contexts,
                    [torch.ops.aten.addmm.default]))
        x = torch.zeros(4096, 64)
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "expected no context_fn, found one"):
            onnxfit.estimate(self.Net(selective), x)
        onnxfit.estimate(self.Net(selective).eval(), x)


class Layouts(unittest.TestCase):
    def test_sparse_tensors_are_refused(self):
        class Graph(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("adjacency", torch.eye(8).to_sparse_csr())

            def forward(self, x):
                return self.adjacency @ x
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "Graph: buffer 'adjacency': expected a "
                                    "dense tensor, found one of layout torch.sparse_csr: "):
            onnxfit.estimate(Graph(), torch.empty(8, 4))


if __name__ == "__main__":
    unittest.main()
