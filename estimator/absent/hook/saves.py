"""What Python alone can keep from leaving the machine: trackers and uploads.  That nothing of the
user's files is written over is held below all languages (estimator/absent/kept_rule.h)."""

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

# Functions by which weights would leave the machine.
UPLOADS = {"huggingface_hub.hf_api": ("create_commit", "create_repo")}


def wrap_module(module):
    for function in UPLOADS.get(module.__name__, ()):
        setattr(module.HfApi, function, refuse(function))


def refuse(function):
    def refused(*args, **kwargs):
        raise RuntimeError("onnxfit run: %s() would upload what was not computed; nothing was sent"
                           % function)
    return refused


def start():
    run = os.path.abspath(os.environ["ONNXFIT_RUN"])
    for name, value in OFF.items():
        os.environ[name] = value.format(run=run, scratch=tempfile.gettempdir(), user=os.getuid())
