"""What a program does in turn, as the hook sees it (estimator/absent/hook/phases.py), with the torch of
absent_hook_test.py."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import absent_hook_test  # noqa: E402

# A module that holds `bytes` on the card and takes `extra` more while it is called.
MODULES = """
import contextlib, torch
from torch import _C as card, nn
torch.cuda.init()
class Net(nn.Module):
    def __init__(self, extra, holds=0):
        self.weight = nn.Parameter()
        self.extra = extra
        card.allocate(holds)
    def forward(self, *parts):
        card.allocate(self.extra)
        for part in parts: part()
        card.free(self.extra)
class Loss(nn.Module):
    def forward(self): pass
@contextlib.contextmanager
def no_grad():
    torch.grad = False
    yield
    torch.grad = True
def train(net):
    net.training = True
    net()
    Loss()()
    torch.optim.optimizer.step()
def evaluate(net):
    net.eval()
    with no_grad():
        net()
        Loss()()
"""

GENERATION = """
import functools
class GenerationMixin:
    def generate(self, tokens=9, fails=False, generation_config=None):
        from torch import _C as card
        self(7)
        for _ in range(tokens - 1):
            card.allocate(4)  # keys and values
            self(1)
        if fails: raise KeyError("ended")
        card.free(4 * (tokens - 1))
        return tokens
"""


class Phases(absent_hook_test.Hook):
    def setUp(self):
        super().setUp()
        self.package("mods.py", MODULES)
        self.package("transformers/__init__.py", "")
        self.package("transformers/generation/__init__.py", "")
        self.package("transformers/generation/utils.py", GENERATION)

    def phases(self, text, **variables):
        """By kind and name: times, the most allocated, what it left."""
        self.program("from mods import *\n" + text, **variables)
        self.assertEqual(self.failures(), [])
        rows = {}
        for row in self.record()["phases"]:
            card = row["devices"][0] if row["devices"] else {"allocated": 0, "left_allocated": 0}
            rows[" ".join(filter(None, (row["kind"], row["name"])))] = (
                row["times"], card["allocated"], card["left_allocated"])
        return rows

    def test_a_program_that_does_one_thing_has_none(self):
        loops = ("for _ in range(3): train(net)", "for _ in range(3): evaluate(net)",
                 "with no_grad(): net(); net()", "pass")
        for loop in loops:
            with self.subTest(loop):
                self.assertEqual(self.phases("net = Net(10)\n" + loop), {})

    def test_training_and_evaluation(self):
        rows = self.phases("""
net = Net(10, holds=100)
for epoch in range(2):
    train(net); train(net)
    net.extra = 30
    evaluate(net); evaluate(net)
    net.extra = 10
card.free(5)
""")
        self.assertEqual(rows, {"start": (1, 100, 100), "training": (2, 110, 100),
                                "evaluation": (2, 130, 95)})
        self.assertEqual(self.record()["step_peaks"], [[110, 110], [110, 110], [130, 130], [110, 110]])

    def test_a_programs_own_resets_hide_nothing(self):
        rows = self.phases("""
net = Net(50)
train(net)
torch.cuda.reset_peak_memory_stats()
train(net)
net.extra = 70
evaluate(net)
torch.cuda.reset_peak_memory_stats()
print(torch.cuda.max_memory_allocated())
""")
        self.assertEqual((rows["training"][1], rows["evaluation"][1]), (50, 70))

    def test_a_module_in_its_training_mode_belongs_to_training(self):
        rows = self.phases("""
net, teacher = Net(10), Net(20).eval()
for _ in range(2):
    with no_grad(): net(); teacher()
    train(net)
""")
        # The first time nobody knows yet that it will train; behind that, training goes on.
        self.assertEqual(rows, {"start": (1, 0, 0), "training": (3, 10, 0), "module Net": (2, 20, 0)})

    def test_training_that_begins_without_gradients_began_once(self):
        rows = self.phases("""
net = Net(10)
with no_grad(): net()
train(net)
net.extra = 30
evaluate(net)
""")
        self.assertEqual({name: row[:2] for name, row in rows.items()},
                         {"start": (1, 0), "training": (1, 10), "evaluation": (1, 30)})

    def test_replicas_and_checkpoints_in_other_threads_are_no_phases(self):
        rows = self.phases("""
import threading
net, replica = Net(10), Net(5).eval()
def replicate():
    with no_grad():
        thread = threading.Thread(target=replica); thread.start(); thread.join()
net.eval()
with no_grad(): net(replicate)
train(net)
""")
        self.assertEqual(set(rows), {"start", "evaluation", "training"})

    def test_prefill_and_decoding(self):
        rows = self.phases("""
from transformers.generation.utils import GenerationMixin
class Model(Net, GenerationMixin):
    def forward(self, tokens):
        card.allocate(self.extra * tokens); card.free(self.extra * tokens)
model = Model(10).eval()
for _ in range(2):
    with no_grad(): assert model.generate() == 9
    card.allocate(1)
""")
        self.assertEqual(rows, {"start": (1, 0, 0), "prefill": (2, 71, 1), "decoding": (2, 43, 1),
                                "between": (2, 2, 2)})
        decoding = [row for row in self.record()["phases"] if row["kind"] == "decoding"]
        self.assertEqual((decoding[0]["calls"], decoding[0]["growth"]), (8, 4))

    def test_generation_that_fails_or_is_nested_ends(self):
        rows = self.phases("""
from transformers.generation.utils import GenerationMixin
class Model(Net, GenerationMixin):
    def forward(self, tokens): card.allocate(tokens); card.free(tokens)
class Outer(Model):
    def forward(self, tokens): return Model(1).generate(tokens=2)
for kind, fails in ((Model, True), (Outer, False)):
    try:
        with no_grad(): kind(10).eval().generate(fails=fails)
    except KeyError: torch.grad = True
train(Net(10))
""")
        self.assertEqual({name: row[0] for name, row in rows.items()},
                         {"start": 1, "prefill": 2, "decoding": 2, "between": 2, "training": 1})

    def test_a_module_is_its_owners_whose_method_calls_it(self):
        rows = self.phases("""
class Coder(nn.Module):
    def __init__(self):
        self.encoder, self.decoder = Net(10), Net(30)
    def decode(self): self.decoder()
class Text(Net): pass
coder, text = Coder().eval(), Text(5).eval()
with no_grad():
    for _ in range(2): text(); coder.decode()
""")
        self.assertEqual(rows, {"start": (1, 0, 0), "module Text": (2, 5, 0),
                                "module Coder": (2, 30, 0)})

    def test_a_part_that_is_moved_to_the_card_begins_there(self):
        self.package("accelerate/__init__.py", "")
        self.package("accelerate/hooks.py", """
            class CpuOffload:
                def pre_forward(self, module, *args):
                    from torch import _C as card
                    card.allocate(40)
            """)
        rows = self.phases("""
import accelerate.hooks
class Vae(nn.Module):
    def __init__(self): self.decoder = Net(10)
    def decode(self):
        self._hf_hook.pre_forward(self)
        self.decoder()
class Text(Net): pass
vae, text = Vae().eval(), Text(5).eval()
vae._hf_hook = accelerate.hooks.CpuOffload()
with no_grad(): text(); vae.decode()
""")
        self.assertEqual(rows, {"start": (1, 0, 0), "module Text": (1, 5, 0), "module Vae": (1, 50, 40)})

    def test_more_modules_than_are_told_apart(self):
        rows = self.phases("""
nets = [type("Net%d" % n, (Net,), {})(n).eval() for n in range(40)]
with no_grad():
    for net in nets: net()
""")
        self.assertEqual(len(rows), 14)
        self.assertEqual(rows["module"], (1, 39, 0))

    def test_an_engine_that_sleeps(self):
        for package in ("vllm", "vllm/v1", "vllm/v1/worker"):
            self.package(package + "/__init__.py", "")
        self.package("vllm/v1/worker/gpu_worker.py", """
            from torch import _C as card
            class Worker:
                def __init__(self, model): self.model = model
                def load_model(self): card.allocate(100); self.model()
                def determine_available_memory(self): pass
                def compile_or_warm_up_model(self): pass
                def execute_model(self): self.model(); self.model()
                def sleep(self): card.free(90)
                def wake_up(self): card.allocate(90)
            """)
        rows = self.phases("""
from vllm.v1.worker.gpu_worker import Worker
net, worker = Net(10), Worker(Net(20).eval())
with no_grad(): worker.load_model()
for _ in range(2):
    with no_grad(): worker.execute_model(); worker.execute_model()
    worker.sleep()
    train(net)
    worker.wake_up()
""")
        self.assertEqual(rows, {
            "start": (1, 120, 100), "engine vLLM": (2, 120, 100), "sleep vLLM": (2, 100, 10),
            "training": (2, 20, 10), "wake vLLM": (2, 100, 100), "between": (4, 100, 100)})

    def test_a_child_has_its_own(self):
        self.program("""
            from mods import *
            import os
            net = Net(10)
            train(net); evaluate(net)
            if os.fork() == 0:
                train(net)
                os._exit(0)
            os.wait()
            """)
        self.assertEqual(len(self.record()["phases"]), 3)


if __name__ == "__main__":
    unittest.main()
