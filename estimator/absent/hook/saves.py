"""What Python alone can hold back: trackers, uploads, and libraries that call the kernel by
themselves.  That nothing of the user's files is written over is held below all languages
(estimator/absent/kept_rule.h)."""

import functools
import os
import tempfile

# Trackers and uploads: nobody wants the losses of a run that computes nothing.  HF_HUB_OFFLINE is
# the user's: a program may have to fetch what it trains.
OFF = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "DVC_STUDIO_OFFLINE": "true",
    "SWANLAB_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_TRACKING_URI": "file:{run}/mlruns",
    # Which kernel is fastest, torch.compile keeps for later runs: here all take no time.
    "TORCHINDUCTOR_CACHE_DIR": "{scratch}/onnxfit_torchinductor_{user}",
}

# Functions that rename a file of their own without libc: the path's position and keyword.
# (safetensors 0.8.0, by the crates tempfile and rustix.)
LIBRARIES = {"safetensors": (("serialize_file", 1, "filename"),)}

# Functions by which weights would leave the machine.
UPLOADS = {"huggingface_hub.hf_api": ("create_commit", "create_repo")}


def wrap_module(module):
    for name, position, keyword in LIBRARIES.get(module.__name__, ()):
        if hasattr(module, name):
            setattr(module, name, with_saved_path(getattr(module, name), position, keyword))
    for function in UPLOADS.get(module.__name__, ()):
        setattr(module.HfApi, function, refuse(function))


def with_saved_path(call, position, keyword):
    @functools.wraps(call, updated=())
    def wrapped(*args, **kwargs):
        if keyword in kwargs:
            kwargs[keyword] = saved_path(kwargs[keyword])
        elif position < len(args):
            args = list(args)
            args[position] = saved_path(args[position])
        return call(*args, **kwargs)
    return wrapped


def saved_path(path):
    """Where the run keeps what is written to that path."""
    import ctypes
    find = getattr(ctypes.CDLL(None, use_errno=True), "onnxfit_saved_path", None)
    if find is None or not isinstance(path, (str, bytes, os.PathLike)):
        return path
    find.restype = ctypes.c_char_p
    found = find(os.fsencode(path))
    if found is None:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)
    return os.fsdecode(found)


def refuse(function):
    def refused(*args, **kwargs):
        raise RuntimeError("onnxfit run: %s() would upload what was not computed; nothing was sent"
                           % function)
    return refused


def choose_again(config):
    """Of torch._inductor.config.  What it takes to choose a kernel is in every run's peak then, as in
    a program's first run on a card, and not only until it has been kept."""
    config.autotune_local_cache = False


def start():
    run = os.path.abspath(os.environ["ONNXFIT_RUN"])
    for name, value in OFF.items():
        os.environ[name] = value.format(run=run, scratch=tempfile.gettempdir(), user=os.getuid())
