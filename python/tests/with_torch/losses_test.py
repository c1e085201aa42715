"""Losses that are recorded behind a model, to the byte."""

import functools
import unittest

import torch
from torch import nn
from torch.nn import functional

import onnxfit

BATCH = 16


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.second, self.head = nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.Linear(64, 40)

    def forward(self, x):
        x = functional.relu(self.norm(self.first(x)))
        x = functional.relu(self.second(x)).mean((2, 3))
        return self.head(x)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Dropout(0.1),
                                 nn.Linear(1024, 512))

    def forward(self, x):
        return self.net(x)


class Segments(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.head = nn.Conv2d(16, classes, 1)

    def forward(self, x):
        return self.head(torch.relu(self.first(x)))


class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, *inputs):
        return tuple(self.f(x) for x in inputs)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.a, self.b = nn.Linear(256, 512), nn.Linear(512, 300), nn.Linear(512, 200)

    def forward(self, x):
        hidden = torch.tanh(self.f(x))
        return {"a": self.a(hidden), "b": self.b(hidden)}


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(1000, 128), nn.LayerNorm(128)
        self.head = nn.Linear(128, 1000)

    def forward(self, ids):
        return self.head(self.norm(self.embed(ids)))


class Focal(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = 2.0

    def forward(self, logits, target):
        ce = functional.cross_entropy(logits, target, reduction="none")
        pt = torch.exp(-ce)
        return ((1 - pt) ** self.gamma * ce).mean()


class Dice(nn.Module):
    def forward(self, logits, target):
        p, t = torch.sigmoid(logits).flatten(1), target.flatten(1)
        shared = (p * t).sum(1)
        return 1 - ((2 * shared + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


class Center(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.zeros(40, 40))

    def forward(self, x, y):
        return (x - self.centers[y]).pow(2).sum(1).mean()


def multi(out, y):
    return (functional.cross_entropy(out["a"], y[:, 0])
            + 0.5 * functional.cross_entropy(out["b"], y[:, 1]))


def rmse(y, t):
    diff = y - t
    return torch.sqrt((diff * diff).mean() + 1e-6)


def distilled(y, t):
    return functional.kl_div(functional.log_softmax(y / 2, -1), functional.softmax(t / 2, -1),
                             reduction="batchmean") * 4


def words(y, t):
    return functional.cross_entropy(y.view(-1, 1000), t.view(-1))


def images(kind):
    return (torch.empty(BATCH, 3, 64, 64, dtype=kind),)


def vectors(kind, count=1):
    return tuple(torch.empty(BATCH, 256, dtype=kind) for _ in range(count))


def classes(*more):
    return lambda kind: torch.zeros(BATCH, *more, dtype=torch.long)


def floats(*more):
    return lambda kind: torch.empty(BATCH, *more, dtype=kind)


PRECISIONS = ("fp32", "amp-bf16", "bf16")
# Model, inputs, loss, labels where they do not follow, and what PyTorch 2.11 itself has in the
# second of three steps with AdamW, in each precision: the peak of what is asked for, and what is
# allocated after the forward pass.
ROWS = {
    "BCEWithLogitsLoss": (Convolutions, images, nn.BCEWithLogitsLoss(), None,
                          [(52780944, 40128512), (36398672, 30077952), (35434572, 29114880)]),
    "a weight": (Convolutions, images, nn.BCEWithLogitsLoss(weight=torch.ones(40)), None,
                 [(52781104, 40129024), (36398832, 30078464), (35434652, 29115392)]),
    "a function": (Perceptron, vectors, functional.l1_loss, None,
                   [(33896452, 27773440), (33896452, 28764672), (25992194, 22939136)]),
    "SmoothL1Loss": (Perceptron, vectors, nn.SmoothL1Loss(), None,
                     [(33929216, 27805696), (33929216, 28796928), (26008576, 22955008)]),
    "a sum": (Perceptron, vectors, nn.MSELoss(reduction="sum"), None,
              [(33929216, 27805696), (33929216, 28796928), (26008576, 22955008)]),
    "weights of classes": (Convolutions, images, nn.CrossEntropyLoss(weight=torch.ones(40)), None,
                           [(52778672, 40127488), (36396400, 30078464), (35433500, 29114880)]),
    "probabilities": (Convolutions, images, nn.CrossEntropyLoss(), floats(40),
                      [(52780944, 40128512), (36398672, 30076928), (35434572, 29114880)]),
    "classes of pixels": (lambda: Segments(7), images, nn.CrossEntropyLoss(weight=torch.ones(7)),
                          None, [(13900948, 7876608), (8396540, 6829568), (7212618, 3941376)]),
    "NLLLoss of a Sequential": (
        lambda: nn.Sequential(Convolutions(), nn.LogSoftmax(1)), images, nn.NLLLoss(), None,
        [(52778512, 40126976), (36396240, 30076416), (35433420, 29114368)]),
    "CosineEmbeddingLoss": (Twins, functools.partial(vectors, count=2), nn.CosineEmbeddingLoss(),
                            None, [(22325320, 20574208), (22065732, 20688896),
                                   (20206628, 19334144)]),
    "TripletMarginLoss": (Twins, functools.partial(vectors, count=3), nn.TripletMarginLoss(), None,
                          [(22382600, 20620800), (22082052, 20727296), (20235268, 19356160)]),
    "partial": (Convolutions, images,
                functools.partial(functional.cross_entropy, label_smoothing=0.1), None,
                [(52778512, 40128000), (36396240, 30078976), (35433420, 29115392)]),
    "a module of one's own": (Convolutions, images, Focal(), classes(),
                              [(52778512, 40129024), (36396240, 30080000), (35433420, 29116416)]),
    "parameters of its own": (Convolutions, images, Center(), classes(),
                              [(52804112, 40146432), (36421840, 30095872), (35446220, 29124608)]),
    "Dice of 32 bits": (lambda: Segments(1), images, Dice(), floats(1, 64, 64),
                        [(13637144, 5517312), (7739768, 3683840)]),
    "a function of one's own": (Perceptron, vectors, rmse, floats(512),
                                [(33896452, 27773440), (33896452, 28764672),
                                 (25992194, 22939136)]),
    "a teacher": (Perceptron, vectors, distilled, floats(512),
                  [(33896452, 27806208), (33896452, 28797440), (25992194, 22955520)]),
    "words": (Words, lambda kind: (torch.zeros(BATCH, 48, dtype=torch.long),), words, classes(48),
              [(31195880, 25053184), (29719276, 26648576), (24651124, 21581824)]),
    "two heads": (Two, vectors, multi, classes(2),
                  [(25866260, 22830080), (25866260, 23350272), (21977226, 20461056)]),
    "no labels": (Two, vectors, lambda out: out["a"].mean() + out["b"].pow(2).mean(), None,
                  [(25866004, 22809088), (25866004, 23312896), (21976970, 20449792)]),
}


def estimated(model, inputs, loss, labels=None, **more):
    return onnxfit.estimate(model, inputs, loss=loss, labels=labels, framework="pytorch-2.11",
                            gpu="a100-80gb", cudnn="none", **more)


def refused(test, *args, **more):
    with test.assertRaises(onnxfit.OnnxfitError) as caught:
        onnxfit.estimate(*args, **more)
    return str(caught.exception)


class Recorded(unittest.TestCase):
    def test_as_pytorch_has_it(self):
        for name, (build, inputs, loss, labels, expected) in ROWS.items():
            for precision, figures in zip(PRECISIONS, expected):
                kind = torch.bfloat16 if precision == "bf16" else torch.float32
                model = build().to(kind)
                its_own = loss.to(kind) if isinstance(loss, nn.Module) else loss
                with self.subTest(f"{name}, {precision}"):
                    step = estimated(model, inputs(kind), its_own,
                                     labels(kind) if labels else None,
                                     precision=precision).steps[1]
                    self.assertEqual((step.peak_exact, step.after_forward), figures)
                    if isinstance(loss, nn.Module):
                        loss.to(torch.float32)

    def test_the_module_is_as_it_was(self):
        model, loss = Convolutions(), nn.BCEWithLogitsLoss()
        estimated(model, images(torch.float32), loss)
        self.assertEqual(model(torch.zeros(2, 3, 8, 8)).shape, (2, 40))
        self.assertNotIn("forward", vars(model))
        self.assertEqual([name for name, _ in model.named_children()],
                         ["first", "norm", "second", "head"])

    def test_the_batch_is_free(self):
        for inputs, batch in ((BATCH, 64), (1, 64), (1, None), (BATCH, 1)):
            answer = estimated(Convolutions(), torch.empty(inputs, 3, 64, 64), functional.l1_loss,
                               batch=batch)
            self.assertEqual(answer.settings.batch, batch or inputs)
        ids, batched = torch.zeros(4, 8, dtype=torch.long), functools.partial(words)
        few = estimated(Words(), ids, batched, torch.zeros(4, 8, dtype=torch.long), batch=64)
        many = estimated(Words(), torch.zeros(64, 8, dtype=torch.long), batched,
                         torch.zeros(64, 8, dtype=torch.long))
        self.assertEqual(few.peak, many.peak)
        flat = estimated(Words(), ids, lambda y, t: functional.cross_entropy(y.flatten(0, 1), t),
                         torch.zeros(32, dtype=torch.long), batch=64)
        self.assertEqual(flat.peak.exact_bytes, many.peak.exact_bytes)

    def test_the_answer_says_so(self):
        answer = estimated(Convolutions(), images(torch.float32), Center(), classes()(None))
        self.assertIn("the loss is Center of labels int64[16], recorded behind the model",
                      answer.assumptions)
        self.assertIn("parameters of the loss (centers) are the model's: the optimizer steps "
                      "them, too", answer.assumptions)
        self.assertEqual(answer.model.parameters,
                         sum(p.numel() for p in Convolutions().parameters()) + 1600)

    def test_in_eval_there_is_none(self):
        model = Perceptron().eval()
        answer = estimated(model, vectors(torch.float32), nn.L1Loss())
        self.assertEqual(answer.peak, estimated(model, vectors(torch.float32), None).peak)
        self.assertIn("in eval no loss is computed: L1Loss changes nothing", answer.assumptions)

    def test_on_meta(self):
        with torch.device("meta"):
            model = Convolutions()
        loss = nn.BCEWithLogitsLoss(pos_weight=torch.ones(40))
        answer = estimated(model, torch.empty(BATCH, 3, 64, 64), loss)
        self.assertEqual(answer.steps[1].peak_exact, 52781104)
        self.assertEqual(loss.pos_weight.device.type, "cpu")

    def test_the_command_s_own_stay_flags(self):
        for loss, flag in ((nn.CrossEntropyLoss(), "cross-entropy"), (functional.mse_loss, "mse"),
                           ("CrossEntropyLoss", "cross-entropy"), (nn.MSELoss, "mse")):
            answer = estimated(Perceptron(), vectors(torch.float32), loss)
            self.assertEqual(answer.settings.loss, flag)
        recorded = estimated(Perceptron(), vectors(torch.float32), nn.MSELoss(), floats(512)(None))
        self.assertEqual(recorded.settings.loss, "none")
        self.assertEqual(recorded.peak, answer.peak)

    def test_logits_of_an_output(self):
        class Named(Perceptron):
            def forward(self, x):
                return {"hidden": x * 2, "logits": self.net(x)}

        inputs = vectors(torch.float32)
        theirs = estimated(Named(), inputs, lambda out, y: functional.l1_loss(out["logits"], y),
                           floats(512)(torch.float32))
        ours = estimated(Named(), inputs, nn.L1Loss())
        self.assertEqual(ours.peak, theirs.peak)
        self.assertIn("the loss takes the logits of what the model returns", ours.assumptions)

    def test_tokens_one_after_the_other(self):
        ids = torch.zeros(BATCH, 48, dtype=torch.long)
        ours = estimated(Words(), ids, nn.CrossEntropyLoss(reduction="sum"))
        self.assertEqual(ours.peak.exact_bytes,
                         estimated(Words(), ids, words, ids.clone()).peak.exact_bytes)
        self.assertIn("labels int64[16, 48]", ours.assumptions[0])
        pixels = nn.Sequential(nn.Conv1d(3, 7, 1))
        answer = estimated(pixels, torch.empty(4, 3, 50),
                           nn.CrossEntropyLoss(weight=torch.ones(7)))
        self.assertIn("labels int64[4, 50]", answer.assumptions[0])

    def test_a_model_that_returns_its_loss(self):
        class Inside(Perceptron):
            def __init__(self, give):
                super().__init__()
                self.give = give

            def forward(self, x, targets):
                logits = self.net(x)
                return self.give(logits, functional.cross_entropy(logits, targets))

        inputs = (*vectors(torch.float32), classes()(None))
        said = "the model returns its loss, and no other is computed (loss= says another)"
        alone = estimated(Inside(lambda logits, loss: loss), inputs, "none")
        for give in (lambda logits, loss: loss, lambda logits, loss: (loss,),
                     lambda logits, loss: (logits, loss),
                     lambda logits, loss: {"aux": loss * 2, "loss": loss, "logits": logits}):
            answer = estimated(Inside(give), inputs, None)
            self.assertEqual(answer.settings.loss, "none")
            self.assertIn(said, answer.assumptions)
        self.assertEqual(estimated(Inside(lambda logits, loss: loss), inputs, None).peak,
                         alone.peak)

        class Router(Perceptron):
            def forward(self, x):
                logits = self.net(x)
                return logits, logits.mean()

        answer = estimated(Router(), vectors(torch.float32), None)
        self.assertEqual(answer.settings.loss, "cross-entropy")

    def test_arrays_and_dictionaries_of_labels(self):
        x = vectors(torch.float32)
        plain = estimated(Perceptron(), x, functional.l1_loss, floats(512)(torch.float32))
        array = estimated(Perceptron(), x, functional.l1_loss,
                          torch.zeros(BATCH, 512).numpy())
        named = estimated(Perceptron(), x, lambda y, t: functional.l1_loss(y, t["a"]),
                          {"a": floats(512)(torch.float32)})
        self.assertEqual([array.peak.exact_bytes, named.peak.exact_bytes],
                         [plain.peak.exact_bytes] * 2)

    def test_other_names_of_labels(self):
        class WithLabels(Perceptron):
            def forward(self, x, labels=None):
                return self.net(x)

        self.assertEqual(
            estimated(WithLabels(), vectors(torch.float32), nn.L1Loss()).peak.exact_bytes,
            estimated(Perceptron(), vectors(torch.float32), nn.L1Loss()).peak.exact_bytes)


class FixedSizes(unittest.TestCase):
    def test_a_loss_that_takes_no_free_batch(self):
        with self.assertWarnsRegex(onnxfit.OnnxfitWarning, "its sizes are fixed"):
            answer = onnxfit.estimate(nn.Linear(8, 8), torch.randn(4, 8),
                                      loss=lambda y: sum(row.mean() for row in y))
        self.assertEqual(answer.settings.batch, 4)


class Refused(unittest.TestCase):
    def test_sentences(self):
        x, net = torch.empty(4, 256), Perceptron()
        rows = [
            ((net, x), {"loss": lambda y, t: (y - t).mean()},
             "expected labels= with an example of what <lambda> takes beside the output, found "
             "none (try: labels=torch.zeros(4, 512))"),
            ((net, x), {"loss": lambda y, t: functional.cross_entropy(y, t) * 2},
             "none (try: labels=torch.zeros(4, dtype=torch.long))"),
            ((net, x), {"loss": nn.CTCLoss()},
             "(targets, input_lengths, target_lengths), found none"),
            ((net, x), {"loss": nn.L1Loss(reduction="none")},
             "loss: expected one number from L1Loss, from which backward() starts, found a tensor "
             "of [4, 512]"),
            ((net, x), {"loss": nn.TripletMarginLoss()},
             "expected 3 tensors of floats from the model, as TripletMarginLoss takes, found 1"),
            ((net, x), {"loss": nn.L1Loss(), "labels": torch.empty(3, 3)},
             "Perceptron: expected a forward and a loss that run with these "
             "inputs and labels"),
            ((net, x), {"loss": 3}, "expected a name, a function or a module of torch.nn, found "
                                    "int"),
            ((torch.export.export(net, (x,)),), {"loss": nn.L1Loss()},
             "found L1Loss, which is recorded with a torch.nn.Module alone"),
        ]
        for args, more, said in rows:
            with self.subTest(said):
                self.assertIn(said, refused(self, *args, **more))


if __name__ == "__main__":
    unittest.main()
