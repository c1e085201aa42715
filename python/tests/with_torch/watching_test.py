"""Modules that are watched: what Python lets go of when, by closed forms, and what stays as it was."""

import functools
import random
import unittest
import warnings

import torch
from torch import nn

import onnxfit
from onnxfit import free_sizes, watched
from onnxfit.inputs import Inputs

ROWS, WIDTH = 1024, 256
X = torch.empty(ROWS, WIDTH, device="meta")
ACTIVATION = ROWS * WIDTH * 4


class Net(nn.Module):
    """Runs `way` on its input, with three layers without a bias."""

    def __init__(self, way):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.way = way

    def forward(self, x):
        return self.way(self, x)


def program(way, x=X, training=False, **more):
    model = Net(way).to("meta").train(training)
    given = Inputs.of(x, model)
    return watched.program(model, given, given.frees("n"), [x.shape[0]],
                           watched.Precision.of("fp32"), **more)


def nodes(made):
    return made.json["graph_module"]["graph"]["nodes"]


def states(way, part, **more):
    """Of each call its operator and what is said of it under `part`."""
    return [(node["name"], node["metadata"]["onnxfit"].get(part))
            for node in nodes(program(way, **more)) if part in node["metadata"]["onnxfit"]]


def popped(net, x):
    skips = [x.relu(), x.sigmoid()]
    x = skips.pop() + 1
    return x * skips.pop()


def in_helper(net, x):
    def helper(value):
        doubled = value * 2
        return doubled.tanh() - 1
    return helper(x).relu()


def in_dictionary(net, x):
    held = {"a": x.relu()}
    y = held["a"].tanh()
    del held["a"]
    return y.sigmoid()


def twice_and_one(x):
    return x * 2 + 1


def generated(net, x):
    def layers():
        for layer in net.layers:
            yield layer
    for layer in layers():
        x = layer(x)
    return x


class Deaths(unittest.TestCase):
    def test_of_a_list_that_is_popped(self):
        self.assertEqual(states(popped, "dies"),
                         [("add", ["sigmoid"]), ("mul", ["relu", "add"])])

    def test_of_a_helper(self):
        self.assertEqual(states(in_helper, "dies"),
                         [("sub", ["tanh", "mul"]), ("relu", ["sub"])])

    def test_of_a_dictionary(self):
        self.assertEqual(states(in_dictionary, "dies"), [("tanh", ["relu"]), ("sigmoid", ["tanh"])])

    def test_of_a_generator(self):
        self.assertEqual(states(generated, "dies"),
                         [("linear_1", ["linear"]), ("linear_2", ["linear_1"])])

    def test_peak_of_inference(self):
        weights = 3 * WIDTH * WIDTH * 4

        def kept(net, x):
            first = net.layers[0](x)
            second = net.layers[1](first)
            return net.layers[2](second) + first
        # The input, the output before, first, second, the last product and the sum.
        answer = onnxfit.estimate(Net(kept).eval(), torch.empty(ROWS, WIDTH), loss="none")
        workspace = answer.bytes_of("workspaces")
        self.assertEqual(answer.peak.exact_bytes - weights - workspace, 6 * ACTIVATION)


class Kept(unittest.TestCase):
    def test_an_attribute_until_it_is_bound_anew(self):
        def way(net, x):
            net.last = x.relu()
            return net.last + 1
        self.assertEqual(states(way, "dies_of_step_before")[0], ("relu", ["relu"]))

    def test_a_cache_is_made_once(self):
        @functools.lru_cache
        def table(length, device):
            return torch.arange(length, device=device) * 2

        def way(net, x):
            return x + table(WIDTH, x.device)
        self.assertEqual([name for name, _ in states(way, "once")], ["arange", "mul"])

    def test_the_module_is_as_it_was(self):
        def way(net, x):
            net.last = x
            net.seen.append(x)
            return net.layers[0](x)
        model = Net(way)
        model.seen = []
        weights = list(model.parameters())
        onnxfit.estimate(model, torch.empty(4, WIDTH), loss="mse")
        self.assertEqual((model.seen, hasattr(model, "last")), ([], False))
        self.assertTrue(all(a is b for a, b in zip(weights, model.parameters())))
        self.assertEqual(model(torch.zeros(2, WIDTH)).shape, (2, WIDTH))


class Modes(unittest.TestCase):
    def test_blocks_are_those_of_the_code(self):
        def way(net, x):
            with torch.no_grad():
                x = net.layers[0](x)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                x = net.layers[1](x)
            return x.float()
        self.assertEqual(states(way, "no_grad", training=True), [("linear", True)])
        self.assertEqual(states(way, "autocast", training=True), [("linear_1", 13)])

    def test_checkpoints_are_numbered(self):
        from torch.utils.checkpoint import checkpoint

        def way(net, x):
            for layer in net.layers[:2]:
                x = checkpoint(layer, x, use_reentrant=False)
            return net.layers[2](x)
        self.assertEqual(states(way, "checkpoint", training=True), [("linear", 0), ("linear_1", 1)])

    def test_casts_follow_the_precision(self):
        def way(net, x):
            return torch.nn.functional.linear(x, net.layers[0].weight).to(torch.float32) + x
        model = Net(way).to("meta").eval()
        given = Inputs.of(X, model)
        made = watched.program(model, given, [], [], watched.Precision.of("amp-bf16"))
        types = [made.json["graph_module"]["graph"]["tensor_values"][node["name"]]["dtype"]
                 for node in nodes(made)]
        self.assertEqual(types, [13, 7, 7])


class Sizes(unittest.TestCase):
    def test_expressions_of_one_and_two(self):
        where = free_sizes.points((8, 16), [(2, 32), (3, 48)])
        for make, text in ((lambda b, s: b * s, "s0*s1"), (lambda b, s: 2 * b + 1, "2*s0+1"),
                           (lambda b, s: s * b + s, "s1*(s0+1)")):
            terms = free_sizes._through(where, [make(*point) for point in where])
            values = {"s0": 5, "s1": 7}
            self.assertEqual(free_sizes._at(terms, (5, 7)), eval(text, {}, values))

    def test_squares_want_one_more_point(self):
        points = [(8,), (2,), (3,), (5,)]
        terms = free_sizes._through(points, [n * n for n, in points])
        self.assertEqual(terms, {(2,): 1})
        with self.assertRaises(free_sizes.NotFree):
            free_sizes._through(points[:3], [64, 4, 9])

    def test_a_product_of_batch_and_batch(self):
        few = onnxfit.estimate(Net(lambda net, x: (x @ x.t()).flatten()[:, None]).eval(),
                               torch.empty(8, WIDTH), loss="none", batch=64)
        many = onnxfit.estimate(Net(lambda net, x: (x @ x.t()).flatten()[:, None]).eval(),
                                torch.empty(64, WIDTH), loss="none")
        self.assertEqual(few.peak, many.peak)

    def test_what_does_not_follow_the_batch_is_fixed(self):
        def way(net, x):
            for row in x:
                x = x + row
            return x
        with self.assertWarnsRegex(onnxfit.OnnxfitWarning, "does not follow s0"):
            onnxfit.estimate(Net(way).eval(), torch.empty(4, WIDTH), loss="none")


class Below(unittest.TestCase):
    """What operators and helpers do that no call of the code's own shows."""

    def test_results_of_several_have_names_of_their_own(self):
        def way(net, x):
            values, places = x.max(1)
            return values + x.max(1)[0], places
        made = nodes(program(way))
        names = [result["as_tensor"]["name"] for node in made for result in node["outputs"]]
        self.assertEqual(len(names), len(set(names)), names)

    def test_parts_of_operators_see_autocast(self):
        def way(net, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return torch.square(net.layers[0](x))
        made = program(way).json["graph_module"]["graph"]["tensor_values"]
        self.assertEqual([made[name]["dtype"] for name in ("linear", "square")], [13, 7])

    def test_functions_that_are_scripted_are_seen(self):
        script = torch.jit.script(twice_and_one)
        made = nodes(program(lambda net, x: script(x)))
        self.assertEqual([node["name"] for node in made], ["mul", "add"])

    def test_caches_keep_nothing_of_a_run(self):
        @functools.lru_cache
        def table(width):
            return torch.arange(width, device="cuda")
        for _ in range(2):
            made = nodes(program(lambda net, x: x + table(WIDTH)))
            self.assertEqual([node["name"] for node in made], ["arange", "add"])
        self.assertEqual(table.cache_info().currsize, 0)

    def test_a_buffer_that_is_replaced_goes(self):
        def way(net, x):
            if net.table.dtype is not torch.float64:
                net.table = net.table.to(torch.float64)
            return x + net.table

        class Holder(Net):
            def __init__(self):
                super().__init__(way)
                self.register_buffer("table", torch.empty(WIDTH))
        model = Holder().to("meta").eval()
        given = Inputs.of(X, model)
        made = watched.program(model, given, given.frees("n"), [ROWS], watched.Precision.of("fp32"))
        self.assertEqual(nodes(made)[0]["metadata"]["onnxfit"], {"once": True, "dies": ["b_table"]})
        self.assertEqual(model.table.dtype, torch.float32)

    def test_numbers_drawn_at_random_are_their_mean(self):
        def way(net, x):
            return x * random.random() + random.uniform(2, 4)
        made = nodes(program(way))
        self.assertEqual([node["inputs"][1]["arg"] for node in made],
                         [{"as_float": 0.5}, {"as_float": 3.0}])


class Outside(unittest.TestCase):
    def test_tensors_that_are_no_buffers_are_on_the_card(self):
        scale = torch.ones(WIDTH)
        made = program(lambda net, x: x * scale)
        self.assertEqual(made.json["graph_module"]["signature"]["input_specs"][3],
                         {"tensor_constant": {"arg": {"name": "c_constant_0"},
                                              "tensor_constant_name": "c_constant_0"}})

    def test_tensors_on_no_device_are_said(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = onnxfit.estimate(Net(lambda net, x: net.layers[0](x) + torch.zeros(WIDTH)),
                                      torch.empty(4, WIDTH), loss="mse")
        self.assertIn("tensors that the code makes on no device are taken to be on the card",
                      "\n".join(answer.assumptions))


if __name__ == "__main__":
    unittest.main()
