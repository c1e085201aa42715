"""Functions with a backward of their own, as PyTorch's allocator counted them: a training step of
AdamW and cross_entropy, of torch 2.11.0 over a CUDA runtime whose kernels do nothing (requested,
allocated and reserved bytes at the peak of the third step)."""

import dataclasses
import unittest

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import onnxfit

ROWS = 4096


class Swish(torch.autograd.Function):
    """Saves its input alone."""

    @staticmethod
    def forward(ctx, i):
        ctx.save_for_backward(i)
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx, grad):
        i, = ctx.saved_tensors
        s = torch.sigmoid(i)
        return grad * (s * (1 + i * (1 - s)))


class Matrix(torch.autograd.Function):
    """A linear layer: gradients as they are asked for."""

    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x.mm(w.t()) + b

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = g.mm(w)
        if ctx.needs_input_grad[1]:
            gw = g.t().mm(x)
        if ctx.needs_input_grad[2]:
            gb = g.sum(0)
        return gx, gw, gb


class Keeping(torch.autograd.Function):
    """Has a tensor in an attribute of its context, which lives as long as the node."""

    @staticmethod
    def forward(ctx, x):
        e = x.exp()
        ctx.e = e * 2
        y = e + 1
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors
        t = g * ctx.e
        return t * y


class Pair(torch.autograd.Function):
    """Of two results, with a context that is set up apart."""

    @staticmethod
    def forward(a, b):
        return a * b, a + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g1, g2):
        a, b = ctx.saved_tensors
        return g1 * b + g2, g1 * a + g2


class Reversal(torch.autograd.Function):
    """Returns what it was given."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g.neg() * 0.5


class Reversible(torch.autograd.Function):
    """Computes what its layers were given from what they returned, and goes backward through each."""

    @staticmethod
    def forward(ctx, x, blocks):
        a, b = torch.chunk(x, 2, dim=-1)
        for f, g in blocks:
            a = a + f(b)
            b = b + g(a)
        ctx.blocks = blocks
        ctx.save_for_backward(a.detach(), b.detach())
        return torch.cat([a, b], dim=-1)

    @staticmethod
    def backward(ctx, grad):
        da, db = torch.chunk(grad, 2, dim=-1)
        a, b = ctx.saved_tensors
        for f, g in reversed(ctx.blocks):
            with torch.enable_grad():
                a.requires_grad = True
                ga = g(a)
                ga.backward(db, retain_graph=True)
            with torch.no_grad():
                b = b - ga
                del ga
                da = da + a.grad
                a.grad = None
            with torch.enable_grad():
                b.requires_grad = True
                fb = f(b)
                torch.autograd.backward(fb, da)
            with torch.no_grad():
                a = a - fb
                del fb
                db = db + b.grad
                b.grad = None
                a = a.detach()
                b = b.detach()
        return torch.cat([da, db], dim=-1), None


class Again(torch.autograd.Function):
    """A checkpoint by hand."""

    @staticmethod
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        d = x.detach()
        d.requires_grad_(True)
        with torch.enable_grad():
            y = ctx.run(d)
        torch.autograd.backward(y, g)
        return None, d.grad


@dataclasses.dataclass
class Holder:
    a: torch.Tensor
    b: torch.Tensor


class Holding(torch.autograd.Function):
    """Has tensors in an object that it has in an attribute."""

    @staticmethod
    def forward(ctx, x):
        ctx.h = Holder(x.exp(), x.sin())
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.h.a * ctx.h.b


class Dropping(torch.autograd.Function):
    """Lets go of its attributes in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.e = x.exp()
        ctx.l = [x.sin()]
        return x * 2

    @staticmethod
    def backward(ctx, g):
        e = ctx.e
        ctx.e = None
        last = ctx.l.pop()
        del ctx.l
        r = g * e
        del e
        r = r * last
        del last
        return r.exp().sin().cos()


class Scaling(torch.autograd.Function):
    """Leaves it to the engine to sum up a gradient."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


class Halving(torch.autograd.Function):
    """Saves another type than that of its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.half())
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        h, = ctx.saved_tensors
        s = [h.sin(), h.cos(), h.exp(), h.tanh(), h.abs()]
        return g * sum(s).to(g.dtype)


class Asking(torch.autograd.Function):
    """A checkpoint by hand that asks for the gradients of weights, too."""

    @staticmethod
    def forward(ctx, run, n, *args):
        ctx.run, ctx.ins, ctx.params = run, list(args[:n]), list(args[n:])
        with torch.no_grad():
            return run(*ctx.ins)

    @staticmethod
    def backward(ctx, *gs):
        ctx.ins = [x.detach().requires_grad_(True) for x in ctx.ins]
        with torch.enable_grad():
            shallow = [x.view_as(x) for x in ctx.ins]
            out = ctx.run(*shallow)
        grads = torch.autograd.grad(out, ctx.ins + ctx.params, gs, allow_unused=True)
        del ctx.ins, ctx.params, out
        return (None, None) + grads


class Reading(Swish):
    """Its backward does what nobody can watch."""

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.from_numpy(ctx.saved_tensors[0].numpy())


class Net(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(256, 1024), nn.Linear(1024, 1024), nn.Linear(1024, 10)
        self.function = function

    def forward(self, x):
        x = self.function(self.a(x))
        x = self.function(self.b(x))
        return self.c(x)


class Own(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x):
        return Matrix.apply(x, self.weight, self.bias)


class Two(nn.Module):
    def __init__(self, reads_first):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(256, 1024), nn.Linear(256, 1024), nn.Linear(1024, 10)
        self.reads_first = reads_first

    def forward(self, x):
        p, q = Pair.apply(self.a(x), self.b(x))
        return self.c(p.relu() + q if self.reads_first else q)


def mlp():
    return nn.Sequential(nn.Linear(1024, 2048), nn.GELU(), nn.Linear(2048, 1024))


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(256, 2048), nn.Linear(2048, 10)
        self.blocks = nn.ModuleList([nn.ModuleList([mlp(), mlp()]) for _ in range(3)])

    def forward(self, x):
        return self.c(Reversible.apply(self.a(x), self.blocks))


class Blocks(nn.Module):
    def __init__(self, call, count=3):
        super().__init__()
        self.a, self.c = nn.Linear(256, 1024), nn.Linear(1024, 10)
        self.blocks = nn.ModuleList([mlp() for _ in range(count)])
        self.call = call

    def forward(self, x):
        x = self.a(x)
        for block in self.blocks:
            x = self.call(block, x)
        return self.c(x)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(256, 1024), nn.Linear(1024, 10)
        self.w = nn.Parameter(torch.ones(1024))

    def forward(self, x):
        return self.c(Scaling.apply(self.a(x), self.w))


def peak(model, precision="fp32"):
    return onnxfit.estimate(model, torch.empty(ROWS, 256), gpu="a100-40gb", precision=precision,
                            optimizer="adamw").peak


class Functions(unittest.TestCase):
    def check(self, model, precision, exact, allocated, reserved):
        found = peak(model, precision)
        self.assertEqual((found.exact_bytes, found.allocated_bytes, found.reserved_bytes),
                         (exact, allocated, reserved))

    def test_what_is_saved_is_kept_alone(self):
        swish = Swish.apply  # by the name that code gives it before anybody watches
        self.check(Net(swish), "fp32", 155672744, 155675648, 201326592)
        self.check(Net(swish), "bf16", 97384564, 97388032, 142606336)
        self.check(Net(swish), "amp-bf16", 111634632, 111638016, 146800640)

    def test_gradients_of_weights(self):
        model = nn.Sequential(Own(256, 1024), nn.ReLU(), Own(1024, 1024), nn.GELU(), Own(1024, 10))
        self.check(model, "fp32", 125268168, 125271552, 148897792)
        self.check(model, "amp-bf16", 125268168, 125271552, 148897792)

    def test_attributes_live_as_long_as_the_node(self):
        self.check(Net(Keeping.apply), "fp32", 172408956, 172410880, 230686720)
        self.check(Net(Keeping.apply), "amp-bf16", 177131644, 177133568, 222298112)

    def test_a_gradient_that_does_not_come_is_zeros(self):
        for reads_first in (True, False):
            self.check(Two(reads_first), "fp32", 146235560, 146238464, 222298112)
            self.check(Two(reads_first), "amp-bf16", 91709608, 91712512, 150994944)

    def test_what_is_returned_as_it_was_given_is_a_view(self):
        self.check(Net(Reversal.apply), "fp32", 126316744, 126320128, 184549376)

    def test_backward_passes_inside_of_one(self):
        self.check(Halves(), "fp32", 751710440, 751713792, 788529152)
        self.check(Halves(), "bf16", 418994324, 418997760, 494927872)
        self.check(Blocks(Again.apply), "fp32", 404312264, 404315648, 499122176)
        self.check(Blocks(Again.apply), "bf16", 241105044, 241108480, 337641472)

    def test_gradients_that_backward_asks_for(self):
        def call(block, x):
            return Asking.apply(block, 1, x, *block.parameters())
        self.check(Blocks(call, 4), "fp32", 471470280, 471473664, 566231040)

    def test_what_objects_hold_until_backward(self):
        self.check(Net(Holding.apply), "fp32", 222740604, 222742528, 285212672)
        self.check(Net(Dropping.apply), "fp32", 159871176, 159874560, 201326592)

    def test_other_types_and_shapes_than_those_of_arguments(self):
        self.check(Net(Halving.apply), "fp32", 164061352, 164064256, 247463936)
        self.check(Net(Halving.apply), "bf16", 120451156, 120454144, 184549376)
        self.check(Scaled(), "fp32", 126316744, 126320128, 167772160)

    def test_under_checkpoints_of_both_kinds(self):
        def plain(x):
            return checkpoint(lambda t: Swish.apply(t), x, use_reentrant=False)

        def reentrant(x):
            return checkpoint(lambda t: Swish.apply(t.exp()).sin(), x, use_reentrant=True)
        self.check(Net(plain), "fp32", 155672744, 155675648, 201326592)
        self.check(Net(reentrant), "fp32", 206004392, 206007296, 247463936)

    def test_a_backward_that_cannot_be_watched_is_said(self):
        answer = onnxfit.estimate(Net(Reading.apply), torch.empty(ROWS, 256), gpu="a100-40gb")
        said = [each for each in answer.assumptions if "Reading.backward" in each]
        self.assertEqual(len(said), 1)
        self.assertIn("as PyTorch's own", said[0])
        plain = peak(Net(lambda x: x * torch.sigmoid(x)))
        self.assertEqual(answer.peak.exact_bytes, plain.exact_bytes)

    def test_inference_saves_nothing(self):
        answer = onnxfit.estimate(Net(Swish.apply).eval(), torch.empty(ROWS, 256), gpu="a100-40gb",
                                  mode="eval")
        plain = onnxfit.estimate(Net(lambda x: x * torch.sigmoid(x)).eval(),
                                 torch.empty(ROWS, 256), gpu="a100-40gb", mode="eval")
        self.assertEqual(answer.peak.exact_bytes, plain.peak.exact_bytes)


class Steps(unittest.TestCase):
    def test_a_step_of_the_users_own_goes_through_it(self):
        model = Net(Swish.apply)
        optimizer = torch.optim.AdamW(model.parameters())

        def step(x, y):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()

        batch = (torch.empty(ROWS, 256), torch.zeros(ROWS, dtype=torch.long))
        found = onnxfit.estimate(step, batch, gpu="a100-40gb")
        self.assertEqual(found.peak.exact_bytes, 155672744)


if __name__ == "__main__":
    unittest.main()
