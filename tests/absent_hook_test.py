"""What `onnxfit run` puts into Python programs (estimator/absent/hook), with a torch that is a few
lines: what acts when, what is written down, and that nothing leaves the machine."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

HOOK = Path(__file__).resolve().parent.parent / "estimator/absent/hook"

# As much of torch as the hook asks for.  Peaks behave as PyTorch's: one figure, set back by a reset.
TORCH = {
    "__init__.py": """
        import os, sys
        __version__ = "0.0"
        loads = globals().get("loads", 0) + 1
        class version: cuda = "13.0"
        grad = True
        def is_grad_enabled(): return grad
        from torch import _C, cuda, serialization, nn, optim
        finished = True
        """,
    "_C.py": """
        current, peak, taken, given, retries = 0, 0, 0, 0, 0
        observers = []
        def allocate(n):
            global current, peak, taken
            current += n
            taken += 1
            peak = max(peak, current)
        def free(n):
            global current, given
            current -= n
            given += 1
        def _cuda_attach_out_of_memory_observer(observer):
            observers.append(observer)
        def refuse(n):
            for observer in observers:
                observer(0, n, 4096, 512)
        def _figures():
            return {"all": {"current": current, "peak": peak}}
        reserved = 0
        def _cuda_memoryStats(device):
            return {"requested_bytes": _figures(), "allocated_bytes": _figures(),
                    "reserved_bytes": {"all": {"current": reserved, "peak": peak}},
                    "num_alloc_retries": retries, "num_ooms": 0,
                    "allocation": {"all": {"allocated": taken, "freed": given}},
                    "segment": {"all": {"allocated": 0, "freed": 0}}}
        def _cuda_resetPeakMemoryStats(device):
            global peak
            peak = current
        """,
    "cuda/__init__.py": """
        from torch import _C
        from torch.cuda import memory
        class OutOfMemoryError(RuntimeError): pass
        initialized, queued = False, []
        def _lazy_call(call):
            call() if initialized else queued.append(call)
        def init():
            global initialized
            initialized = True
            for call in queued: call()
        def is_initialized(): return initialized
        def _is_in_bad_fork(): return False
        def device_count(): return 1
        def current_device(): return 0
        def get_device_name(index): return "a card"
        def max_memory_allocated():
            return _C._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"]
        def reset_peak_memory_stats():
            _C._cuda_resetPeakMemoryStats(0)
        """,
    "cuda/memory.py": """
        history = []
        def _record_memory_history(enabled="all", *args, **kwargs):
            history.append((enabled, kwargs.get("max_entries")))
        def _snapshot():
            return {"history": history}
        """,
    "serialization.py": "",
    "optim/__init__.py": "from torch.optim.optimizer import Optimizer",
    "optim/optimizer.py": """
        hooks = []
        def register_optimizer_step_post_hook(hook): hooks.append(hook)
        class Optimizer:
            def __init__(self): pass
            def step(self):
                for hook in hooks: hook(self, (), {})
        made = []
        def step():
            made or made.append(Optimizer())
            made[0].step()
        """,
    "nn.py": """
        class Parameter: requires_grad = True
        class Module:
            training = True
            def __call__(self, *args):
                return self.forward(*args)
            def eval(self):
                for part in self.modules(): part.training = False
                return self
            def named_children(self):
                return [(n, x) for n, x in vars(self).items() if isinstance(x, Module)]
            def modules(self):
                yield self
                for _, part in self.named_children(): yield from part.modules()
            def parameters(self):
                for part in self.modules():
                    yield from (x for x in vars(part).values() if isinstance(x, Parameter))
        """,
}


class Hook(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.run_folder, self.user = self.folder / "run", self.folder / "user"
        self.packages = self.folder / "packages"
        for path in (self.run_folder, self.user, self.packages):
            path.mkdir()
        for name, text in TORCH.items():
            self.package("torch/" + name, text)

    def package(self, name, text):
        path = self.packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def start(self, program, **variables):
        script = self.user / "train.py"
        script.write_text(textwrap.dedent(program))
        environment = dict(os.environ, ONNXFIT_RUN=str(self.run_folder), ONNXFIT_RUN_VALUES="0",
                           TMPDIR=str(self.folder / "tmp"), HOME=str(self.folder / "home"),
                           PYTHONPATH=os.pathsep.join([str(HOOK), str(self.packages)]),
                           PYTHONDONTWRITEBYTECODE="1", **variables)
        return subprocess.Popen([sys.executable, script.name], cwd=self.user, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def program(self, program, code=0, **variables):
        process = self.start(program, **variables)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, err)
        self.pid = process.pid
        return out

    def record(self):
        return json.loads((self.run_folder / ("%d.torch.json" % self.pid)).read_text())

    def failures(self):
        return [path.read_text() for path in self.run_folder.glob("*.hook.txt")]


class Imports(Hook):
    def test_acts_once_behind_the_whole_import(self):
        self.package("torch/cuda/memory.py", TORCH["cuda/memory.py"] + """
        import sys
        assert "_onnxfit_record" not in sys.modules, "too early"
        """)
        out = self.program("""
            import torch, sys, torch.optim.optimizer
            import importlib
            importlib.import_module("torch")
            print(torch.finished, "_onnxfit_record" in sys.modules, len(torch.optim.optimizer.hooks))
            """)
        self.assertEqual(out, "True True 1\n")
        self.assertEqual(self.failures(), [])

    def test_nothing_of_ours_without_torch(self):
        out = self.program("""
            import sys
            print([name for name in sys.modules if name == "torch" or name == "_onnxfit_record"])
            """)
        self.assertEqual(out, "[]\n")
        self.assertEqual(list(self.run_folder.glob("*.json")), [])

    def test_an_engine_says_how_many_tokens_it_has_room_for(self):
        self.package("vllm/__init__.py", "")
        self.package("vllm/v1/__init__.py", "")
        self.package("vllm/v1/core/__init__.py", "")
        self.package("vllm/v1/core/kv_cache_utils.py", """
            def update_kv_cache_capacity(config, cache):
                config.cache_config.kv_cache_size_tokens = 640
                config.cache_config.kv_cache_max_concurrency = 2.5
            """)
        self.package("vllm/v1/core/kv_cache_planning.py", """
            def _check_enough_kv_cache_memory(available, needed, longest, longest_in):
                if needed() > available:
                    raise ValueError("no room")
            """)
        self.package("vllm-0.33.0.dist-info/METADATA", "Name: vllm\nVersion: 0.33.0\n")
        out = self.program("""
            from types import SimpleNamespace as Some
            from vllm.v1.core.kv_cache_utils import update_kv_cache_capacity
            from vllm.v1.core.kv_cache_planning import _check_enough_kv_cache_memory as check
            config = Some(cache_config=Some(cache_dtype="auto", block_size=16, gpu_memory_utilization=0.9),
                          model_config=Some(dtype="torch.bfloat16", max_model_len=256),
                          scheduler_config=Some(max_num_seqs=8, max_num_batched_tokens=512))
            update_kv_cache_capacity(config, Some(
                kv_cache_tensors=[Some(size=128, offset=0)] * 2, kv_cache_groups=[None, None]))
            check(10, lambda: 10, 5, len)
            try:
                check(10, lambda: 11, 512, lambda bytes: 7 * bytes)
            except ValueError as error:
                print(error)
            """)
        self.assertEqual(out, "no room\n")  # the engine's own answer stays
        said = json.loads((self.run_folder / ("%d.engine.json" % self.pid)).read_text())
        self.assertEqual(said, {
            "engine": "vLLM", "version": "0.33.0", "kv_tokens": 640, "kv_requests": 2.5, "kv_bytes": 128,
            "kv_groups": 2, "kv_type": "bfloat16", "block_tokens": 16, "share": 0.9, "longest": 512, "most_requests": 8,
            "most_tokens": 512, "available_bytes": 10, "needed_bytes": 11, "longest_that_fits": 70})
        self.assertEqual(self.failures(), [])

    def test_sglang_says_what_its_scheduler_decided(self):
        for package in ("", "kernels/", "kernels/ops/", "kernels/ops/memory/", "srt/", "srt/managers/",
                        "srt/mem_cache/", "srt/model_executor/"):
            self.package("sglang/%s__init__.py" % package, "")
        self.package("sglang/kernels/ops/memory/small_copy.py", "def try_small_copy(dsts, srcs): return True")
        self.package("sglang/srt/mem_cache/kv_cache_configurator.py", """
            from types import SimpleNamespace as Some
            schedule = Some(mem_fraction_static=0.5, chunked_prefill_size=512)
            def get_schedule(): return schedule
            class KVCacheConfigurator:
                gpu_id = 0
                def _profile_available_bytes(self, before):
                    if before < 1:
                        raise ValueError("no room")
                    return 2**29
            """)
        self.package("sglang/srt/model_executor/model_runner.py", """
            class ModelRunner:
                is_draft_worker = False
                def load_model(self):
                    self.weight_load_mem_usage = 0.25
            """)
        self.package("sglang/srt/managers/scheduler.py", """
            from sglang.srt.mem_cache.kv_cache_configurator import Some, get_schedule
            class Scheduler:
                page_size = 1
                def init_model_worker(self):
                    pool = Some(dtype="torch.bfloat16", get_kv_size_bytes=lambda: (64, 64))
                    self.tp_worker = Some(model_runner=Some(token_to_kv_pool=pool, is_hybrid_swa=False,
                                                            graph_memory_usage={"decode": 0.125, "prefill": 0.0}))
                    self.model_config = Some(context_len=256, hf_text_config=Some(max_position_embeddings=256))
                    self.max_total_num_tokens, self.max_running_requests, self.max_prefill_tokens = 640, 8, 1024
            """)
        self.package("sglang-0.5.23.dist-info/METADATA", "Name: sglang\nVersion: 0.5.23\n")
        out = self.program("""
            import torch
            torch.cuda.mem_get_info = lambda device: (2**28, 2**31)
            from sglang.kernels.ops.memory.small_copy import try_small_copy
            from sglang.srt.managers.scheduler import Scheduler
            from sglang.srt.mem_cache.kv_cache_configurator import KVCacheConfigurator
            from sglang.srt.model_executor.model_runner import ModelRunner
            ModelRunner().load_model()
            print(try_small_copy([], []), KVCacheConfigurator()._profile_available_bytes(1.5))
            Scheduler().init_model_worker()
            try:
                KVCacheConfigurator()._profile_available_bytes(0.5)
            except ValueError as error:
                print(error)
            """)
        self.assertEqual(out, "False 536870912\nno room\n")
        said = json.loads((self.run_folder / ("%d.engine.json" % self.pid)).read_text())
        self.assertEqual(said, {
            "engine": "SGLang", "version": "0.5.23", "weight_bytes": 2**28, "share": 0.5, "free_bytes": 2**29,
            "budget_bytes": 2**28, "total_bytes": 2**31, "available_bytes": 2**29, "kv_tokens": 640, "kv_requests": 2.5,
            "kv_groups": 1, "kv_bytes": 128, "kv_type": "bfloat16", "block_tokens": 1, "longest": 256,
            "longest_of_model": 256, "most_requests": 8, "most_tokens": 512, "graph_bytes": 2**27,
            "consumed_bytes": 2**28, "least_share": 0.5})
        self.assertEqual(self.failures(), [])

    def test_sglang_lets_processes_write_before_it_kills_them(self):
        self.package("sglang/__init__.py", "")
        self.package("sglang/srt/__init__.py", "")
        self.package("sglang/srt/utils/__init__.py", "")
        self.package("sglang/srt/utils/common.py", """
            import os, signal
            class Child:
                def __init__(self, pid): self.pid = pid
                def terminate(self): print(self.pid, "asked")
            class psutil:
                def __init__(self, pid): self.pid = pid
                def children(self, recursive): return [Child(1), Child(2)]
                Process = None
                def wait_procs(children, timeout): print([child.pid for child in children], "waited for")
            psutil.Process = psutil
            def kill_process_tree(parent_pid, include_parent=True):
                print("killed", include_parent)
            """)
        (self.run_folder / "2.events").write_text("")
        out = self.program("""
            from sglang.srt.utils.common import kill_process_tree
            kill_process_tree(None, include_parent=False)
            """)
        self.assertEqual(out, "2 asked\n[2] waited for\nkilled False\n")
        self.assertEqual(self.failures(), [])

    def test_torch_that_is_not_there_yet(self):
        (self.packages / "torch").rename(self.packages / "later")
        out = self.program("""
            import os, sys
            try:
                import torch
            except ImportError:
                print("none")
            os.mkdir(os.environ["TMPDIR"])
            os.symlink(sys.path[1] + "/later", os.environ["TMPDIR"] + "/torch")
            sys.path.insert(0, os.environ["TMPDIR"])
            sys.path_importer_cache.clear()
            import torch
            print("_onnxfit_record" in sys.modules)
            """)
        self.assertEqual(out, "none\nTrue\n")

    def test_users_sitecustomize_runs_and_has_the_name(self):
        self.package("sitecustomize.py", "users = 'theirs'")
        out = self.program("import sitecustomize; print(sitecustomize.users)")
        self.assertEqual(out, "theirs\n")

    def test_users_sitecustomize_that_fails_is_reported_by_python(self):
        self.package("sitecustomize.py", "raise ValueError('theirs')")
        process = self.start("print('goes on')")
        out, err = process.communicate(timeout=60)
        self.assertEqual(out, "goes on\n")
        self.assertIn("ValueError: theirs", err)

    def test_names_of_ours_are_the_users(self):
        (self.user / "values.py").write_text("mine = 1")
        (self.packages / "record.py").write_text("mine = 2")
        out = self.program("import torch, values, record, sys; print(values.mine, record.mine)")
        self.assertEqual(out, "1 2\n")

    def test_a_failure_of_ours_is_written_down_and_the_program_goes_on(self):
        self.package("torch/optim/optimizer.py", "class Optimizer: pass")
        out = self.program("import torch; print(torch.finished)")
        self.assertEqual(out, "True\n")
        self.assertIn("register_optimizer_step_post_hook", self.failures()[0])

    def test_a_package_that_was_looked_for_first(self):
        # as transformers does, before anybody imports it
        out = self.program("""
            import importlib.util, sys
            for _ in range(2):
                importlib.util.find_spec("torch")
            print("_onnxfit_record" in sys.modules)
            import torch
            print("_onnxfit_record" in sys.modules, torch.optim.optimizer.hooks != [])
            """)
        self.assertEqual(out, "False\nTrue True\n")

    def test_processes_that_have_it_say_so(self):
        self.program("""
            import os
            if os.fork() == 0:
                os._exit(0)
            os.wait()
            """)
        self.assertEqual(len(list(self.run_folder.glob("*.python"))), 2)

    def test_children_have_it(self):
        out = self.program("""
            import subprocess, sys
            code = "import torch, sys; print('_onnxfit_record' in sys.modules)"
            print(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE,
                                 text=True).stdout)
            """)
        self.assertEqual(out.strip(), "True")


# As much of JAX as the hook asks for: `up` says whether a program has used it.
JAX = {
    "__init__.py": """
        import atexit, jax._src.xla_bridge as bridge
        __version__ = "0.10"
        bytes_in_use = 100
        def stop(): bridge.up = False
        atexit.register(stop)
        class Device:
            platform, local_hardware_id = "gpu", 0
            def memory_stats(self):
                return {"peak_bytes_in_use": bytes_in_use, "peak_pool_bytes": 400,
                        "bytes_limit": 400}
        class Array:
            def __init__(self, error): self.error = error
            def block_until_ready(self):
                if self.error: raise RuntimeError(self.error)
        arrays = []
        def local_devices(): return [Device()]
        def live_arrays(): return arrays
        """,
    "_src/__init__.py": "",
    "_src/xla_bridge.py": """
        up = True
        def backends_are_initialized(): return up
        """,
}


# The same of TensorFlow.
TENSORFLOW = {
    "__init__.py": """
        __version__ = "2.21"
        import tensorflow.python.eager.context as context
        class config:
            class experimental:
                def get_memory_info(device): return {"current": 60, "peak": 70 + int(device[4:])}
                def get_memory_growth(gpu): return gpu == "growing"
            def list_logical_devices(kind): return [0, 1]
            def list_physical_devices(kind): return [physical]
        physical = "whole"
        """,
    "python/__init__.py": "",
    "python/eager/__init__.py": "",
    "python/eager/context.py": """
        class _context: _initialized = True
        def executing_eagerly(): return True
        """,
}


class OfTensorFlow(Hook):
    def pool(self, program, **variables):
        for name, text in TENSORFLOW.items():
            self.package("tensorflow/" + name, text)
        self.program(program, **variables)
        self.assertEqual(self.failures(), [])
        files = list(self.run_folder.glob("*.TensorFlow.pool.json"))
        return json.loads(files[0].read_text()) if files else None

    def test_figures_are_the_frameworks_own(self):
        pool = self.pool("import tensorflow")
        self.assertEqual([(row["index"], row["used_bytes"]) for row in pool["devices"]],
                         [(0, 70), (1, 71)])
        self.assertEqual(pool["in_advance"], "TF_FORCE_GPU_ALLOW_GROWTH=true")

    def test_what_grows_takes_nothing_in_advance(self):
        self.assertEqual(self.pool("import tensorflow; tensorflow.physical = 'growing'")["in_advance"], "")

    def test_what_grows_by_its_variable(self):
        self.assertEqual(self.pool("import tensorflow", TF_FORCE_GPU_ALLOW_GROWTH="true")["in_advance"], "")

    def test_nothing_is_asked_of_what_was_never_used(self):
        self.assertIsNone(
            self.pool("import tensorflow; tensorflow.context._context._initialized = False"))


class Pools(Hook):
    def setUp(self):
        super().setUp()
        for name, text in JAX.items():
            self.package("jax/" + name, text)

    def pool(self):
        files = list(self.run_folder.glob("*.JAX.pool.json"))
        return json.loads(files[0].read_text()) if files else None

    def test_figures_are_the_frameworks_own(self):
        self.program("import jax")
        self.assertEqual(self.pool()["devices"],
                         [{"index": 0, "used_bytes": 100, "pool_bytes": 400, "limit_bytes": 400,
                           "is_peak": True}])
        self.assertEqual(self.pool()["in_advance"], "XLA_PYTHON_CLIENT_PREALLOCATE=false")
        self.assertEqual((self.pool()["exception"], self.pool()["failed"]), ("", ""))
        self.assertEqual(self.failures(), [])

    def test_what_grows_takes_nothing_in_advance(self):
        self.program("import jax", XLA_PYTHON_CLIENT_PREALLOCATE="false")
        self.assertEqual(self.pool()["in_advance"], "")

    def test_nothing_is_asked_of_what_was_never_used(self):
        self.program("import jax; jax.bridge.up = False")
        self.assertEqual(self.pool(), None)

    def test_want_of_memory_that_nobody_read(self):
        self.program("import jax; jax.arrays.append(jax.Array('RESOURCE_EXHAUSTED: 1 GiB'))")
        self.assertEqual(self.pool()["failed"], "RESOURCE_EXHAUSTED: 1 GiB")

    def test_want_of_memory_that_ended_it(self):
        self.program("import jax; raise RuntimeError('RESOURCE_EXHAUSTED: 1 GiB')", code=1)
        self.assertEqual((self.pool()["out_of_memory"], self.pool()["exception"]),
                         (True, "RuntimeError: RESOURCE_EXHAUSTED: 1 GiB"))

    def test_a_process_that_leaves_at_once(self):
        self.program("import jax, os; os._exit(3)", code=3)
        self.assertEqual(self.pool()["devices"][0]["used_bytes"], 100)

    def test_a_child_tells_nothing_of_its_parents(self):
        self.program("""
            import jax, os
            if os.fork() == 0:
                jax.bytes_in_use = 7
                os._exit(0)
            os.wait()
            """)
        self.assertEqual(self.pool()["devices"][0]["used_bytes"], 100)


class Records(Hook):
    def test_peaks_of_the_run_and_of_steps(self):
        out = self.program("""
            import torch
            torch.cuda.init()
            torch._C.allocate(100); torch._C.free(60)
            torch.optim.optimizer.step()
            torch._C.allocate(20)
            print(torch.cuda.max_memory_allocated())
            torch.cuda.reset_peak_memory_stats()
            torch._C.allocate(10)
            torch.optim.optimizer.step()
            torch._C.free(30)
            print(torch.cuda.max_memory_allocated())
            """)
        self.assertEqual(out, "100\n70\n")  # the program's own readings, whatever we reset
        record = self.record()
        self.assertEqual(record["devices"][0]["allocated_bytes"], 100)
        self.assertEqual(record["steps"], 2)
        self.assertEqual(record["step_peaks"], [[100, 100], [70, 70]])
        with open(self.run_folder / ("%d.snapshot.pickle" % self.pid), "rb") as file:
            self.assertEqual(pickle.load(file)["history"], [("all", 100000)])

    def test_programs_own_history(self):
        self.program("""
            import torch
            torch.cuda.init()
            torch.cuda.memory._record_memory_history(max_entries=7)
            torch.cuda.memory._record_memory_history(enabled=None)
            """)
        with open(self.run_folder / ("%d.snapshot.pickle" % self.pid), "rb") as file:
            self.assertEqual(pickle.load(file)["history"],
                             [("all", 100000), ("all", 7), (None, None), ("all", 100000)])

    def test_pools_of_the_driver_have_no_history(self):
        self.package("torch/cuda/__init__.py", TORCH["cuda/__init__.py"] + """
        def get_allocator_backend(): return "cudaMallocAsync"
        """)
        self.program("""
            import torch
            torch.cuda.init()
            torch._C.allocate(100)
            """)
        self.assertEqual(self.record()["failures"], [])
        self.assertEqual(self.record()["devices"][0]["allocated_bytes"], 100)
        self.assertEqual(list(self.run_folder.glob("*.snapshot.pickle")), [])

    def test_ends(self):
        oom = "Tried to allocate 2.00 GiB. " + "x" * 3000
        rows = [
            ("pass", 0, None, None),
            ("import sys; sys.exit(3)", 3, None, None),
            ("raise ValueError('bad')", 1, "ValueError", "bad"),
            ("raise torch.cuda.OutOfMemoryError(%r)" % oom, 1, "torch.cuda.OutOfMemoryError", oom),
            ("import os; os._exit(4)", 4, None, None),
            ("import sys; sys.excepthook = lambda *a: None; raise KeyError('k')", 1,
             "KeyError", "'k'"),
        ]
        for text, code, exception, message in rows:
            with self.subTest(text):
                self.program("import torch\ntorch.cuda.init()\n" + text, code)
                end = self.record()["end"]
                self.assertEqual((end["exit_code"], end["exception"], end["message"]),
                                 (code, exception, message))
                self.assertEqual(end["out_of_memory"], message == oom)

    def test_signals(self):
        process = self.start("""
            import torch, time
            torch.cuda.init()
            print("ready", flush=True)
            time.sleep(60)
            """)
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.pid = process.pid
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(self.record()["end"]["by"], "SIGTERM")

    def test_enough_steps(self):
        out = self.program("""
            import torch
            torch.cuda.init()
            try:
                while True:
                    try:
                        torch.optim.optimizer.step()
                    except Exception:
                        pass
            finally:
                print("tidied")
            """, ONNXFIT_RUN_STEPS="3")
        self.assertEqual(out, "tidied\n")
        self.assertEqual((self.record()["steps"], self.record()["end"]["by"]), (3, "steps"))

    # A turn allocates what is written for it; whether it ends, and behind which turn.
    UNTIL_SAME = """
        import torch
        from torch import _C
        from torch.optim.optimizer import Optimizer
        torch.cuda.init()
        def turn(n, kept=0):
            _C.allocate(n); _C.free(n - kept)
        class Outer(torch.nn.Module):
            def __init__(self): self.inner = Inner()
            def forward(self, n): return self.inner(n)
        class Inner(torch.nn.Module):
            def forward(self, n): turn(n)
        net = Outer()
        """

    def until_same(self, program):
        self.program(textwrap.dedent(self.UNTIL_SAME) + textwrap.dedent(program),
                     ONNXFIT_RUN_UNTIL_SAME="1")
        self.assertEqual(self.failures(), [])
        record = self.record()
        return record["end"]["by"], record["steps"], record["calls"]

    def test_until_steps_are_the_same(self):
        rows = [
            ("o = Optimizer()\nfor n in [9, 5, 5, 5, 5, 5]: turn(n * 20000); o.step()", 4),
            ("o = Optimizer()\nfor n in range(6): turn(5); _C.reserved += n < 2; o.step()", 4),
            # two that alternate, in pairs
            ("o = Optimizer()\nfor n in [9, 5, 7, 5, 7, 5, 7, 7]: turn(n * 20000); o.step()", 7),
            # a loss that is kept is no growth, what grows by more is
            ("o = Optimizer()\nfor n in range(9): turn(99999, 512); o.step()", 3),
            ("o = Optimizer()\nfor n in range(9): turn(99999, 20000); o.step()", None),
            # what is computed before the first step is no turn
            ("o = Optimizer()\nfor n in range(9): net(7)\nfor n in range(9): turn(8); o.step()",
             3),
            # parts of a batch belong to one step
            ("o = Optimizer()\nfor n in range(20):\n  turn(5)\n  if n % 4 == 3: o.step()", 3),
            # each of several optimizers, which step by turns or not at all yet
            ("a, b = Optimizer(), Optimizer()\n"
             "for n in range(9): turn(5); a.step(); turn(7); b.step()", 6),
            ("a, b = Optimizer(), Optimizer()\nfor n in range(9): turn(5); a.step()", None),
            # the card was full in between
            ("o = Optimizer()\nfor n in range(4): turn(5); _C.retries += 1; o.step()", None),
        ]
        for text, steps in rows:
            with self.subTest(text):
                by, made, _ = self.until_same(text)
                self.assertEqual((by, made if by else None),
                                 ("until-same" if steps else None, steps))

    def test_until_calls_are_the_same(self):
        self.assertEqual(self.until_same("for n in [9, 5, 5, 5, 5, 5]: net(n * 20000)"),
                         ("until-same", 0, 4))
        self.assertEqual(self.until_same("for n in range(9): net(n * 20000)"), (None, 0, 9))

    def test_without_the_flag_no_end(self):
        self.program(textwrap.dedent(self.UNTIL_SAME) + "for n in range(9): net(5)")
        self.assertEqual(self.record()["end"]["by"], None)

    def test_refused_requests(self):
        self.program("""
            import torch
            torch.cuda.init()
            import sys
            sys.modules["_onnxfit_reads"].LIBRARY_FOLDERS += (sys.path[1],)  # where this torch is
            def ask(n):
                torch._C.refuse(n)
            ask(640)
            torch.optim.optimizer.step()
            ask(320)
            """)
        self.assertEqual([(row["line"], row["text"], row["bytes"], row["step"])
                          for row in self.record()["refused"]],
                         [(7, "torch._C.refuse(n)", 640, 0), (7, "torch._C.refuse(n)", 320, 1)])

    def test_a_refusal_in_a_thread_of_the_engines_is_of_the_line_that_waits(self):
        self.package("torch/engine.py", """
            import threading
            from torch import _C
            def run(n):
                thread = threading.Thread(target=_C.refuse, args=(n,))
                thread.start()
                thread.join()
            """)
        self.program("""
            import torch, torch.engine, sys
            torch.cuda.init()
            reads = sys.modules["_onnxfit_reads"]
            reads.LIBRARY_FOLDERS += (sys.path[1],)  # the packages of this test
            torch.engine.run(7)
            """)
        self.assertEqual([row["text"] for row in self.record()["refused"]],
                         ["torch.engine.run(7)"])

    def test_more_steps_than_rows(self):
        self.program("""
            import sys, torch
            sys.modules["_onnxfit_record"].MAX_STEPS = 2
            torch.cuda.init()
            for n in (5, 7, 9, 6):
                torch._C.allocate(n); torch._C.free(n)
                torch.optim.optimizer.step()
            """)
        self.assertEqual((self.record()["steps"], self.record()["step_peaks"]),
                         (4, [[5, 5], [9, 9]]))

    def test_a_peak_that_the_record_would_lose_is_pictured_once(self):
        out = self.program("""
            import time, torch
            torch.cuda.init()
            taken, snapshot = [], torch.cuda.memory._snapshot
            def _snapshot():
                taken.append(torch._C.taken)
                return snapshot()
            torch.cuda.memory._snapshot = _snapshot
            def pass_by(n):
                for _ in range(n):
                    torch._C.allocate(1); torch._C.free(1)
                time.sleep(0.6)  # two looks
                print(len(taken))
            torch._C.allocate(1000); torch._C.free(990)
            pass_by(10)  # events enough are left
            pass_by(30)  # and now not
            pass_by(300)  # nothing new
            torch._C.allocate(2000); torch._C.free(2000)
            pass_by(300)
            """, ONNXFIT_RUN_EVENTS="100")
        self.assertEqual(out, "0\n1\n1\n2\n")
        self.assertTrue((self.run_folder / ("%d.peak.pickle" % self.pid)).exists())

    def test_an_allocator_of_the_programs_is_never_looked_at_by_a_thread(self):
        self.package("torch/cuda/memory.py", TORCH["cuda/memory.py"] + """
        class CUDAPluggableAllocator: pass
        """)
        out = self.program("""
            import sys, threading, time, torch
            torch.cuda.init()
            torch.cuda.memory.CUDAPluggableAllocator()
            readers, read = set(), sys.modules["_onnxfit_peaks"].read
            def noted(device):
                readers.add(threading.current_thread() is threading.main_thread())
                return read(device)
            sys.modules["_onnxfit_peaks"].read = noted
            torch._C.allocate(1000); torch._C.free(1000)
            for _ in range(60): torch._C.allocate(1); torch._C.free(1)
            time.sleep(0.5)
            print(readers)
            class Net(torch.nn.Module):
                def forward(self): time.sleep(0.2)
            Net()(); Net()()
            print(readers)
            """, ONNXFIT_RUN_EVENTS="100")
        self.assertEqual(out, "set()\n{True}\n")
        self.assertTrue((self.run_folder / ("%d.peak.pickle" % self.pid)).exists())

    def test_a_run_that_is_short_has_no_picture_of_its_peak(self):
        self.program("import torch; torch.cuda.init(); torch._C.allocate(10)")
        self.assertEqual(list(self.run_folder.glob("*.peak.pickle")), [])

    def test_enough_time(self):
        out = self.program("""
            import torch
            torch.cuda.init()
            try:
                while True:
                    pass
            finally:
                print("tidied")
            """, ONNXFIT_RUN_SECONDS="1")
        self.assertEqual(out, "tidied\n")
        self.assertEqual(self.record()["end"]["by"], "seconds")

    def test_forked_children_write_only_with_cuda(self):
        self.program("""
            import os, torch
            if os.fork() == 0:
                os._exit(0)
            os.wait()
            """)
        self.assertEqual([path.name for path in self.run_folder.glob("*.json")],
                         ["%d.torch.json" % self.pid])


class Reads(Hook):
    def test_places(self):
        self.package("torch/serialization.py", "def _save(note): note('a copy to the host')")
        self.program("""
            import sys, torch
            note = sys.modules["_onnxfit_start"].load("reads").note
            for i in range(3):
                note("item()")
            found = (note(
                "bool()"), 1)
            torch.serialization._save(note)
            """)
        self.assertEqual([(row["line"], row["text"], row["what"], row["count"])
                          for row in self.record()["unknown_reads"]],
                         [(5, 'note("item()")', "item()", 3),
                          (6, 'note( "bool()")', "bool()", 1)])


    def test_what_is_only_shown(self):
        rows = [
            ("print(x.item())", "shown"),
            ("print(f'{x.item():.3f}', 1)", "shown"),
            ("print('%.3f' % (sum([x.item()]) / 2))", "shown"),
            ("print(\n    'loss',\n    x.item())", "shown"),
            ("log.info('%s', round(x.item(), 2))", "shown"),
            ("bar.set_postfix(loss=x.item())", "shown"),
            ("log.track({'loss': x.item()}, step=3)", "shown"),
            ("text = f'{x.item()}'", "shown"),
            ("for i in range(1):\n    print(i, x.item())", "shown"),
            ("total = x.item()", "decides"),
            ("total += x.item()", "decides"),
            ("losses.append(x.item())", "decides"),
            ("if x.item() > 1: print('large')", "decides"),
            ("if x.item() > 1:\n    print('large')", "decides"),
            ("while x.item() > 1: break", "decides"),
            ("for i in range(int(x.item())): print(i)", "decides"),
            ("with open('f' + str(x.item()), 'w'): print('in it')", "decides"),
            ("print(train(x.item()))", "decides"),
            ("train(x.item()).info('a')", "decides"),
            ("print(losses[x.item()])", "decides"),
            ("print('a' if x.item() else 'b')", "decides"),
            ("print(1); total = x.item()", "decides"),
            ("x.item()", "decides"),
            ("print(x.nonzero())", "decides"),
            ("self.log('loss', x.item())", "decides"),
        ]
        self.package("site-packages/reading.py", """
            import sys
            note = sys.modules["_onnxfit_start"].load("reads").note
            class X:
                def item(self): note("item()"); return 0
                def info(self, text): pass
                def nonzero(self): note("nonzero()"); return 0
            """)
        before = textwrap.dedent("""
            import os, sys, torch
            sys.path.append(%r)
            from reading import X
            class Log:
                def __getattr__(self, name): return lambda *args, **kwargs: None
            x, log, bar, self, losses, total = X(), Log(), Log(), Log(), [0], 0
            def train(value): return X()
            """ % str(self.packages / "site-packages"))
        for text, kind in rows:
            with self.subTest(text):
                self.program(before + text)
                self.assertEqual([row["kind"] for row in self.record()["unknown_reads"]], [kind])


class Uploads(Hook):
    def test_trackers_are_off(self):
        out = self.program("import os; print(os.environ['WANDB_MODE'])", WANDB_MODE="online")
        self.assertEqual(out, "disabled\n")

    def test_what_compilers_measured_is_not_kept_for_real_runs(self):
        out = self.program("import os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])",
                           TORCHINDUCTOR_CACHE_DIR="/theirs")
        self.assertIn("onnxfit", out)

    def test_compilers_measure_again_in_each_run(self):
        self.package("torch/_inductor/__init__.py", "")
        self.package("torch/_inductor/config.py", "autotune_local_cache = True")
        out = self.program("import torch._inductor.config as c; print(c.autotune_local_cache)")
        self.assertEqual(out, "False\n")

    def test_uploads_are_refused(self):
        self.package("huggingface_hub/__init__.py", "")
        self.package("huggingface_hub/hf_api.py", """
            class HfApi:
                def create_commit(self): print("sent")
                def create_repo(self): print("made")
            """)
        out = self.program("""
            from huggingface_hub import hf_api
            try:
                hf_api.HfApi().create_commit()
            except RuntimeError as error:
                print(error)
            """)
        self.assertIn("nothing was sent", out)


if __name__ == "__main__":
    unittest.main()
