"""What PyTorch ran, the exports of its models, and what onnxfit says of a run.

A run's figures are, for each of three steps, the peaks (exact, allocated, reserved) and what is
allocated after forward, backward and step; of the model, its parameters and buffers; and the
optimizer's state.  Of an inference, the peaks and the model's.
"""

import fnmatch
import functools
import json
import lzma
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TRUTHS_ARE_OF = "pytorch-2.11"
PEAKS = {"exact": "requested", "allocated": "allocated", "reserved": "reserved"}
# Of a truth's model: the figure's name, and where a report has it.
OF_MODEL = {"params": ("parameters", lambda report: report["model"]["parameters"]),
            "buffer_bytes": ("buffers", lambda report: kind_bytes(report, "buffers")),
            "opt_state_bytes": ("optimizer_state", lambda report: report["optimizer_state_bytes"])}
SCALER_BYTES = 4 + 4  # of torch.amp.GradScaler: its scale and its growth tracker, told as buffers
AFTER = ["after_forward", "after_backward", "after_step"]
# Kinds with PyTorch's own program, and the mode of the runs that they are exported for:
# torch.export.save, python -m onnxfit export FILE.onnx.
PYTORCH = {"pt2-train": "train", "pt2-eval": "eval"}
PROGRAM = {**PYTORCH, "onnxfit": "train"}
LOSES_NOTHING = {"train", "dynamo-raw", *PROGRAM}  # exports in training mode
FOR_INFERENCE = "for inference"  # all other kinds
# What these files have lost and only their owner knows: the flags that say it.
GIVEN = [
    ("mlp_*", "onnx", ["--in-place", "never"]),  # nn.ReLU(), which does not work in place
    ("efficientnet_b0", "onnx", ["--assume", "in-place-dropout=yes"]),
    ("mnasnet1_0", "onnx", ["--assume", "in-place-dropout=yes"]),
    ("mnasnet1_0", "script", ["--out-of-place", "*/Add"]),  # self.layers(input) + input
    ("regnet_y_400mf", "script", ["--out-of-place", "*/Add"]),
    ("mobilenet_v3_small", "onnx", ["--assume", "in-place-dropout=yes"]),
    ("unet", "script", ["--assume", "conv-bias=yes"]),
    ("vgg11_bn", "script", ["--assume", "conv-bias=yes"]),
    ("groupnorm_net", "onnx", ["--in-place", "never"]),
    ("past_gpt", FOR_INFERENCE, ["--assume", "tied-head=no"]),
    ("past_llama", FOR_INFERENCE, ["--assume", "tied-head=no"]),
    # One tensor in the loop that was run, which is the labels, too.
    *[(name, "onnx", ["--labels", "decoder_input_ids"]) for name in ["t5_small", "mt5_large"]],
    *[(name, "pt2", ["--labels", "a_1"]) for name in ["t5_small", "mt5_large"]],
    *[(name, FOR_INFERENCE, ["--assume", "tied-head=yes"]) for name in ["t5_small", "mt5_large"]],
    *[(name, FOR_INFERENCE, ["--dropout", "0.1"]) for name in [
        "gpt2", "distilgpt2", "bert_base", "t5_*", "mt5_large", "bart",
        "electra", "lesson_gpt", "mbart", "mpnet", "nanogpt", "opt", "roberta", "torch_*"]],
    ("deberta_v2", "dynamo", ["--dropout", "0.1", "--dropout", "*pooler*=0"]),
    ("deberta_v2", "script", ["--dropout", "0.1"]),
    ("albert", FOR_INFERENCE, ["--dropout", "0", "--dropout", "classifier=0.1"]),
    *[(name, FOR_INFERENCE, ["--dropout", "0"]) for name in [
        "vit_*", "clip_vision", "dense_moe", "gemma", "gpt_neox", "llama_gqa", "qwen3",
        "unet_condition"]],
]
# Runs that make groups of their own.
FAMILIES = {f"truth_{name}.json.xz": "transformers, " for name in ["attention", "transformers"]}


@functools.cache
def truths():
    """Every run that PyTorch made: settings and figures.  `flags`, such as "--accumulate 2",
    are those of onnxfit that ask for the loop that was run."""
    runs = []
    for path in sorted((HERE / "data").glob("truth*.json.xz")):
        with lzma.open(path, "rt") as file:
            family = FAMILIES.get(path.name, "")
            runs += [{"flags": "", "family": family, **run} for run in json.load(file)]
    return runs


def unpack_models(folder):
    """The exports, below `folder`.  Returns {(model, kind): path}."""
    for path in sorted((HERE / "data").glob("models*.tar.xz")):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") \
                else archive.extractall(folder)
    paths = {}
    for path in sorted([*Path(folder).rglob("*.onnx"), *Path(folder).rglob("*.pt2")]):
        model, kind = path.name.split(".")[:2]
        paths[model, f"pt2-{kind}" if path.suffix == ".pt2" else kind] = path
    return paths


def given_flags(model, kind):
    def is_of(only):
        if only == FOR_INFERENCE:
            return kind not in LOSES_NOTHING
        if only in ("pt2", "onnx"):
            return (kind in PROGRAM) == (only == "pt2")
        return not only or kind in (only, f"{only}-new")
    return [flag for name, only, flags in GIVEN
            if fnmatch.fnmatchcase(model, name) and is_of(only) for flag in flags]


def by_version(flags):
    """Those of the PyTorch that the truths are of, unless `flags` name another."""
    return [] if "--framework" in flags else ["--framework", TRUTHS_ARE_OF]


def estimate(binary, path, truth, flags):
    """What `binary`, a path or a list with a command, prints of a run, as JSON."""
    program = binary if isinstance(binary, list) else [binary]
    asked = [*shlex.split(truth["flags"]), *flags]
    command = [*program, str(path), "-b", str(truth["batch"]), "-p", truth["precision"],
               "-o", truth["optimizer"], "--mode", truth["mode"], "--format", "json", "-n", "0",
               *asked, *by_version(asked)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=120)
    if result.returncode != 0:
        sys.exit(f"{path.name}: exit {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def figures(truth, report):
    """{name: (true, estimated)} of all figures of a run: "step2.reserved", "parameters"."""
    pairs = {}
    for number, (true, found) in enumerate(zip(truth["steps"], report["steps"], strict=True), 1):
        for ours, theirs in PEAKS.items():
            pairs[f"step{number}.{ours}"] = true["peak"][theirs], found[f"peak_{ours}"]
        for name in AFTER:
            if name in true:
                pairs[f"step{number}.{name}"] = true[name], found[name]
    for theirs, (name, found) in OF_MODEL.items():
        if truth.get(theirs) is not None:
            pairs[name] = truth[theirs] + beside(truth, theirs), found(report)
    return pairs


def beside(truth, figure):
    """Bytes that a report tells with a figure of the model's."""
    scales = truth["precision"] == "amp-fp16" and truth["mode"] == "train"
    return SCALER_BYTES if scales and figure == "buffer_bytes" else 0


def kind_bytes(report, kind):
    """What storages of a kind take at the peak."""
    return sum(part["bytes"] for part in report["breakdown"] if part["kind"] == kind)


def true_peak(truth, figure):
    """The largest of the steps."""
    return max(step["peak"][PEAKS[figure]] for step in truth["steps"])


def is_plain(run):
    """The loop of README.md: no flags, or those that say which loss."""
    return not run["flags"] or run["flags"].startswith("--loss")


def is_run(model, kind, truth):
    """Exports for inference have lost names that --freeze asks for; programs are of a mode."""
    if PROGRAM.get(kind, truth["mode"]) != truth["mode"]:
        return False
    return truth["model"] == model and (is_plain(truth) or kind in LOSES_NOTHING)
