"""What `onnxfit run` puts into a Python program from outside.  Its folder is first on PYTHONPATH, so
Python imports this file at its start, in the program and in each Python that it starts in turn.

Nothing is imported that the program does not import itself: a finder waits for the packages of
WATCHED and acts when one has been loaded in full.  A failure of ours is written to the run's
folder (`<pid>.hook.txt`), and the program goes on as if we were not there."""

import _thread
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    """A file of ours as a module.  The folder leaves sys.path, so the program's own `record` or
    `values` is never mistaken for ours, nor ours for the program's."""
    full_name = "_onnxfit_" + name
    if full_name in sys.modules:
        return sys.modules[full_name]
    path = os.path.join(HERE, name + ".py")
    spec = importlib.util.spec_from_file_location(full_name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[full_name] = module
    module.load = load
    spec.loader.exec_module(module)
    return module


def attempt(what, call, *args):
    """Calls, or writes down why it could not."""
    try:
        return call(*args)
    except Exception:
        try:
            load("notes").failure(what)
        except Exception:
            pass
        return None


def after_torch(torch):
    attempt("record", lambda: load("record").start(torch))
    if os.environ.get("ONNXFIT_RUN_VALUES", "1") != "0":
        attempt("values", lambda: load("values").start(torch))
        torch_is_there.append(True)
        after_values()


def after_others(module):
    attempt("saves", lambda: load("saves").wrap_module(module))


def after_inductor(config):
    attempt("saves", lambda: load("saves").choose_again(config))


def with_pool(name):
    """What `name` of pools.py does with a framework."""
    def after(module):
        attempt("pools", lambda: getattr(load("pools"), name)(module))
    return after


def after_engine(module):
    attempt("engines", lambda: load("engines").watch(module))


def after_phases(module):
    attempt("phases", lambda: load("phases").watch(module))


def with_values(name):
    """What `name` of where_on.py does with a package, once torch is there."""
    def after(module):
        if os.environ.get("ONNXFIT_RUN_VALUES", "1") != "0":
            then_with_torch.append(lambda: getattr(load("where_on"), name)(module))
            if torch_is_there:
                after_values()
    return after


def after_values():
    while then_with_torch:
        attempt("others with values", then_with_torch.pop())


then_with_torch = []  # what needs our mode, and so torch
torch_is_there = []

# What is done once a package has been loaded.
WATCHED = {
    "torch": after_torch,
    "jax": with_pool("watch_jax"),
    "cupy": with_pool("watch_cupy"),
    "tensorflow": with_pool("watch_tensorflow"),
    "safetensors": after_others,
    "huggingface_hub.hf_api": after_others,
    "triton.runtime.jit": with_values("around_triton"),
    "torch._inductor.config": after_inductor,
    "torch._inductor.constant_folding": with_values("around_folding"),
    "torch._inductor.fx_passes.joint_graph": with_values("around_folding"),
    "torch._inductor.runtime.benchmarking": with_values("around_benchmarks"),
    "transformers.generation.utils": after_phases,
    "accelerate.hooks": after_phases,
    "sglang.kernels.ops.memory.small_copy": after_engine,
    "sglang.srt.managers.scheduler": after_engine,
    "sglang.srt.mem_cache.kv_cache_configurator": after_engine,
    "sglang.srt.model_executor.model_runner": after_engine,
    "sglang.srt.utils.common": after_engine,
    "vllm.v1.core.kv_cache_planning": after_engine,
    "vllm.v1.core.kv_cache_utils": after_engine,
    "vllm.v1.worker.gpu_worker": after_engine,
}


class AfterImport:
    """Finds a watched package as Python would, and has its function called behind its loading.  Many
    only ask whether a package is there (importlib.util.find_spec), and import it later, or never."""

    searching = set()  # by which thread for which package: our own search asks us, too

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        search = _thread.get_ident(), name
        if name not in WATCHED or search in cls.searching:
            return None
        cls.searching.add(search)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            cls.searching.discard(search)
        if spec is not None and spec.loader is not None:
            attempt("import " + name, cls.call_behind, spec.loader, name)
        return spec

    @staticmethod
    def call_behind(loader, name):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            then = WATCHED.pop(name, None)
            if then is not None:
                then(module)

        loader.exec_module = exec_module


def run_the_users():
    """The sitecustomize that Python would have found without ours."""
    del sys.modules["sitecustomize"]
    try:
        spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
        if spec is None:
            return
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)
    finally:
        sys.modules.setdefault("sitecustomize", sys.modules["_onnxfit_start"])


def tell_that_we_are_here(create=os.open, close=os.close):
    """An empty file, `<pid>.python`: a Python without one was started in a way that left us out."""
    path = os.path.join(os.environ["ONNXFIT_RUN"], "%d.python" % os.getpid())
    close(create(path, os.O_WRONLY | os.O_CREAT, 0o600))


def leave_the_path():
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.curdir) != HERE]


def main():
    sys.modules["_onnxfit_start"] = sys.modules[__name__]
    leave_the_path()
    if os.environ.get("ONNXFIT_RUN"):
        attempt("start", tell_that_we_are_here)
        os.register_at_fork(after_in_child=lambda: attempt("start", tell_that_we_are_here))
        attempt("saves", lambda: load("saves").start())
        sys.meta_path.insert(0, AfterImport)
    run_the_users()


main()
