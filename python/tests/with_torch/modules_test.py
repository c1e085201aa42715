"""Modules and programs of PyTorch, as users give them."""

import tempfile
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
import torchvision

import onnxfit
from onnxfit import optimizers
from onnxfit import exports
from onnxfit.results import Framework

IMAGES = torch.empty(8, 3, 224, 224)


def resnet18(device="meta"):
    with torch.device(device):
        return torchvision.models.resnet18()


class Fixed(torch.nn.Module):
    """A batch that becomes a number."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) + torch.zeros(len(list(range(x.shape[0]))), 4)


class Adapted(torch.nn.Module):
    """A frozen layer in 16 bits and an adapter beside it in 32, as peft makes them."""

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(64, 64).bfloat16().requires_grad_(False)
        self.adapter = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.base(x) + self.adapter(x.float()).to(x.dtype)


class Wide(torch.nn.Module):
    """Casts its logits to fp32 before it takes their logarithms."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(64, 4096)

    def forward(self, x):
        logits = self.head(x)
        return torch.nn.functional.log_softmax(logits.float(), -1)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(1000, 64)
        self.head = torch.nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids, mask=None):
        hidden = self.embed(ids)
        return self.head(hidden if mask is None else hidden * mask.unsqueeze(-1))


class Modules(unittest.TestCase):
    def test_on_the_cpu_and_on_meta_to_the_byte(self):
        # shared/truth of resnet18, fp32, AdamW, batch 8: PyTorch 2.11's own figures
        for device in ("cpu", "meta"):
            answer = onnxfit.estimate(resnet18(device), IMAGES, framework="pytorch-2.11")
            self.assertEqual(answer.peak.exact_bytes, 368256616)
            self.assertEqual(answer.peak.reserved_bytes, 476053504)
            self.assertEqual((answer.model.path, answer.settings.batch), ("ResNet.pt2", 8))

    def test_the_pytorch_is_the_installed_one(self):
        installed = ".".join(torch.__version__.split(".")[:2])
        for model in (Tied(), torch.export.export(Tied(), (torch.zeros(2, 8).long(),))):
            answer = onnxfit.estimate(model, torch.zeros(2, 8).long())
            self.assertEqual(answer.framework, Framework(f"pytorch-{installed}", "file",
                                                         torch.__version__))
            self.assertIn(f"PyTorch is pytorch-{installed}, which exported the model", str(answer))
        given = onnxfit.estimate(Tied(), torch.zeros(2, 8).long(), framework="pytorch-2.8")
        self.assertEqual(given.framework, Framework("pytorch-2.8", "given"))

    def test_a_pytorch_newer_than_all_that_are_known_is_warned_of(self):
        with mock.patch.object(torch, "__version__", "2.99.0+cpu"):
            answer = onnxfit.estimate(Tied(), torch.zeros(2, 8).long())
        self.assertEqual(answer.framework.basis, "nearest")
        self.assertIn("OF208", [warning.code for warning in answer.warnings])
        self.assertIn("PyTorch 2.99.0 wrote the file", str(answer))

    def test_no_folder_of_ours_is_shown(self):
        answer = onnxfit.estimate(resnet18(), IMAGES)
        self.assertTrue(str(answer).startswith("ResNet.pt2, batch 8, "))
        self.assertNotIn(tempfile.gettempdir(), str(answer.raw))

    def test_the_batch_is_free(self):
        model = resnet18()
        free = onnxfit.estimate(model, IMAGES[:1], batch=8)
        self.assertEqual(free.peak, onnxfit.estimate(model, IMAGES).peak)
        self.assertGreater(onnxfit.max_batch(model, IMAGES, memory="8GiB").max_batch, 100)

    def test_a_fixed_batch_is_exported_as_asked(self):
        answer = onnxfit.estimate(Fixed(), torch.empty(2, 4), batch=8)
        self.assertEqual(answer.settings.batch, 8)

    def test_the_mode_is_the_module_s(self):
        model = resnet18().eval()
        self.assertEqual(onnxfit.estimate(model, IMAGES).settings.mode, "eval")
        answer = onnxfit.estimate(model, IMAGES, mode="train")
        self.assertEqual((answer.settings.mode, answer.warnings), ("train", ()))
        self.assertFalse(any(module.training for module in model.modules()))

    def test_the_type_is_the_module_s(self):
        model = resnet18().to(torch.bfloat16)
        self.assertEqual(onnxfit.estimate(model, IMAGES.bfloat16()).settings.precision, "bf16")

    def test_parameters_of_several_types(self):
        model = Adapted()
        bytes_of = sum(p.numel() * p.element_size() for p in model.parameters())
        answer = onnxfit.estimate(model, torch.empty(4, 64, dtype=torch.bfloat16), loss="mse")
        self.assertEqual(answer.bytes_of("parameters"), bytes_of)
        self.assertIn("parameters have the types of the file", "\n".join(answer.assumptions))
        with self.assertRaises(onnxfit.OnnxfitError) as caught:  # as model.to(torch.bfloat16) does
            onnxfit.estimate(model, torch.empty(4, 64, dtype=torch.bfloat16), loss="mse",
                             precision="bf16")
        self.assertIn("linear of adapter: expected tensors of one type", str(caught.exception))

    def test_casts_that_a_program_spells_stay(self):
        model = Wide().to(torch.bfloat16).eval()
        x = torch.empty(4, 64, dtype=torch.bfloat16)
        answer = onnxfit.estimate(model, x, loss="none")
        head = 4 * 4096  # elements of the logits, in 16 bits and, cast, in 32, twice
        self.assertGreaterEqual(answer.peak.exact_bytes, head * (2 + 4 + 4))

    def test_frozen_parameters_are_read_off(self):
        model = resnet18()
        whole = onnxfit.estimate(model, IMAGES)
        for parameter in model.layer1.parameters():
            parameter.requires_grad_(False)
        frozen = onnxfit.estimate(model, IMAGES)
        self.assertIn("12 of 62 parameters are frozen", "\n".join(frozen.assumptions))
        self.assertLess(frozen.optimizer_state_bytes, whole.optimizer_state_bytes)

    def test_ties_stay(self):
        model, ids = Tied(), torch.zeros(4, 16, dtype=torch.long)
        self.assertEqual(onnxfit.estimate(model, ids).model.parameters, 64000)

    def test_named_inputs(self):
        inputs = {"ids": torch.zeros(4, 16, dtype=torch.long), "mask": torch.ones(4, 16)}
        self.assertEqual(onnxfit.estimate(Tied(), inputs, batch=3).settings.batch, 3)

    def test_a_module_and_its_budget(self):
        answer = onnxfit.check(resnet18(), IMAGES, budget="512MiB")
        self.assertEqual((answer.status, answer.checks[0].name), ("fail", "ResNet"))
        self.assertNotIn(tempfile.gettempdir(), str(answer))

    def test_a_program_stays_as_it_is(self):
        program = torch.export.export(resnet18("cpu"), (IMAGES,), strict=False)
        answer = onnxfit.estimate(program)
        self.assertEqual((answer.model.path, answer.settings.batch), ("program.pt2", 8))
        self.assertGreater(program.state_dict["fc.weight"].untyped_storage().nbytes(), 4)

    def test_a_file_has_no_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.pt2")
            exports.save(torch.export.export(resnet18("cpu"), (IMAGES,), strict=False), str(path))
            self.assertLess(path.stat().st_size, 400_000)
            torch.export.load(path)


class Refusals(unittest.TestCase):
    def refusal(self, *args):
        with self.assertRaises(onnxfit.OnnxfitError) as caught:
            onnxfit.estimate(*args)
        return str(caught.exception)

    def test_no_inputs(self):
        self.assertIn("expected example inputs", self.refusal(resnet18()))

    def test_experts_that_run_on_as_many_tokens_as_come(self):
        def forward(self, x):
            raise ValueError("Could not guard")

        experts = type("Experts", (torch.nn.Module,), {"forward": forward})()
        self.assertIn("try: model(", self.refusal(experts, torch.zeros(4, 2)))
        experts.config = SimpleNamespace(_experts_implementation="eager")
        self.assertIn("try: model.set_experts_implementation('grouped_mm')",
                      self.refusal(experts, torch.zeros(4, 2)))
        experts.gate = torch.nn.Linear(2, 2)
        model = torch.nn.Sequential(experts)

        def step(x):
            model(x).sum().backward()

        self.assertIn("try: model.set_experts_implementation('grouped_mm')",
                      self.refusal(step, torch.zeros(4, 2)))

    def test_other_code_of_such_a_library(self):
        class Dense(torch.nn.Module):
            config = SimpleNamespace(_experts_implementation="eager")

            def forward(self, x):
                raise ValueError("Could not guard")

        self.assertNotIn("experts", self.refusal(Dense(), torch.zeros(4, 2)))

    def test_what_has_no_program(self):
        class Sparse(torch.nn.Module):
            def forward(self, x):
                return torch.sparse.mm(x.to_sparse(), x)

        class Nested(torch.nn.Module):
            def forward(self, x):
                return torch.nested.nested_tensor([x, x], layout=torch.jagged).sin().values()

        class Flex(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.project = torch.nn.Linear(16, 16)

            def forward(self, x):
                from torch.nn.attention.flex_attention import flex_attention
                x = self.project(x)
                return flex_attention(x, x, x)

        square = torch.ones(4, 4)
        for model, x, said in ((Sparse(), square, "found a sparse tensor"),
                               (Nested(), square, "found a nested tensor"),
                               (Flex(), torch.ones(2, 2, 128, 16), "found flex_attention")):
            with self.subTest(said):
                told = self.refusal(model, x)
                self.assertIn(said, told)
                self.assertNotIn("torch.onnx.export", told)


class Optimizers(unittest.TestCase):
    def test_muon_as_an_object(self):
        layer = torch.nn.Linear(8, 8, bias=False)
        muon = torch.optim.Muon([layer.weight])
        self.assertEqual(optimizers.flags_of(muon, layer).optimizer, "muon")

    def test_lbfgs_keeps_a_history(self):
        layer = torch.nn.Linear(8, 8)
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "up to 200 tensors") as caught:
            optimizers.flags_of(torch.optim.LBFGS(layer.parameters()), layer)
        self.assertEqual(str(caught.exception).count(" Lion,"), 1)

    def settings(self, make, model=None, loss=None):
        """What an optimizer is taken for, and what is said."""
        model = model or resnet18()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", onnxfit.OnnxfitWarning)
            answer = onnxfit.estimate(model, IMAGES, optimizer=make(model), loss=loss)
        told = [w for w in said if w.category is onnxfit.OnnxfitWarning]
        self.assertEqual({Path(w.filename).name for w in told} - {Path(__file__).name}, set())
        settings = answer.settings
        return (settings.optimizer, settings.optimizer_impl), [str(w.message) for w in told]

    def test_classes_and_implementations(self):
        optim = torch.optim
        rows = [
            (lambda m: optim.AdamW(m.parameters()), ("adamw", None)),
            (lambda m: optim.AdamW(m.parameters(), foreach=False), ("adamw", "for-loop")),
            (lambda m: optim.Adam(m.parameters(), foreach=True), ("adam", "foreach")),
            (lambda m: optim.SGD(m.parameters(), lr=0.1), ("sgd", None)),
            (lambda m: optim.SGD(m.parameters(), lr=0.1, momentum=0.9), ("sgdm", None)),
            (lambda m: optim.RMSprop(m.parameters()), ("rmsprop", None)),
            (lambda m: optim.Adagrad(m.parameters()), ("adagrad", None)),
            (lambda m: optim.Adafactor(m.parameters()), ("adafactor", None)),
            (lambda m: optim.Adadelta(m.parameters(), foreach=False), ("adadelta", "for-loop")),
            (lambda m: optim.ASGD(m.parameters()), ("asgd", None)),
        ]
        for make, expected in rows:
            self.assertEqual(self.settings(make), (expected, []))

    def test_what_is_not_counted_is_said(self):
        _, said = self.settings(lambda m: torch.optim.AdamW(m.parameters(), maximize=True))
        self.assertEqual(said, ["optimizer: what maximize=True takes is not in the figures"])

    def test_arguments_that_take_memory_are_counted(self):
        model = resnet18()
        for arguments, expected in [({"amsgrad": True}, "amsgrad"), ({"weight_decay": 0.1}, None)]:
            optimizer = torch.optim.AdamW(model.parameters(), **arguments)
            settings = onnxfit.estimate(model, IMAGES, optimizer=optimizer).settings
            self.assertEqual(settings.optimizer_args, expected)

    def test_groups_that_differ_are_said(self):
        _, said = self.settings(lambda m: torch.optim.AdamW(
            [{"params": [p for n, p in m.named_parameters() if "bias" not in n]},
             {"params": [p for n, p in m.named_parameters() if "bias" in n], "weight_decay": 0}]))
        self.assertEqual(said, [
            "optimizer: 2 parameter groups that differ in weight_decay are stepped one after the "
            "other; the answer is for one group with the settings of the first"])

    def test_groups_of_matrices_are_played(self):
        model = resnet18()
        groups = [{"params": [p for p in model.parameters() if p.dim() > 1]},
                  {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0}]
        answer = onnxfit.estimate(model, IMAGES, optimizer=torch.optim.AdamW(groups))
        self.assertEqual(answer.settings.param_groups, "matrices")

    def test_parameters_that_are_left_out_are_said(self):
        _, said = self.settings(lambda m: torch.optim.SGD(m.fc.parameters(), lr=0.1))
        self.assertIn("conv1.weight, bn1.weight, bn1.bias and 57 more", said[0])

    def test_classes_and_functions_make_one(self):
        for make in (torch.optim.Adam, lambda parameters: torch.optim.Adam(parameters, lr=0.1)):
            answer = onnxfit.estimate(resnet18(), IMAGES, optimizer=make)
            self.assertEqual(answer.settings.optimizer, "adam")

    def test_others_are_refused(self):
        with self.assertRaises(onnxfit.OnnxfitError) as caught:
            self.settings(lambda m: torch.optim.Rprop(m.parameters()))
        self.assertIn("found torch.optim.rprop.Rprop", str(caught.exception))

    def test_two_that_step_in_turn_are_refused(self):
        model = resnet18()
        both = [torch.optim.Adam(model.parameters())] * 2
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "found a list with Adam"):
            onnxfit.estimate(model, IMAGES, optimizer=both)
        onnxfit.sweep(model, IMAGES, optimizer=["Adam", "SGD"])

    def test_one_group_goes_before_those_of_a_loop(self):
        model = resnet18()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for loop, groups in [("timm", "one"), ("plain", None)]:
            answer = onnxfit.estimate(model, IMAGES, optimizer=optimizer, loop=loop)
            self.assertEqual(answer.settings.param_groups, groups)

    def test_losses(self):
        def adam(model):
            return torch.optim.Adam(model.parameters())
        self.assertEqual(self.settings(adam, loss=torch.nn.CrossEntropyLoss())[1], [])
        with self.assertWarnsRegex(onnxfit.OnnxfitWarning, "CrossEntropyLoss: reduction=sum is not "
                                                           "in the figures"):
            program = torch.export.export(resnet18("cpu"), (IMAGES,), strict=False)
            onnxfit.estimate(program, loss=torch.nn.CrossEntropyLoss(reduction="sum"))
        smoothed = onnxfit.estimate(resnet18(), IMAGES,
                                    loss=torch.nn.CrossEntropyLoss(label_smoothing=0.1))
        self.assertTrue(smoothed.settings.label_smoothing)
        told = onnxfit.estimate(resnet18(), IMAGES, label_smoothing=False,
                                loss=torch.nn.CrossEntropyLoss(label_smoothing=0.1))
        self.assertFalse(told.settings.label_smoothing)


if __name__ == "__main__":
    unittest.main()
