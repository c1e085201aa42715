"""Runs training scripts that others have published on a card that is not there, unchanged, with
data made up here, and writes a row for each: how it ended, after how many steps, what it took.

    public.py > public.csv                        # packages in a temporary environment: 6 GB
    public.py --python PYTHON --checkouts FOLDER  # what is installed, and what lies in FOLDER
    public.py --only yolo --keep FOLDER           # one of them, and what it printed

A script of a repository is run where FOLDER has a checkout of it, by the repository's name."""

import argparse
import csv
import gzip
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Seen to run together.
PACKAGES = ("torch==2.11.0", "torchvision==0.26.0", "transformers==5.17.0", "trl==1.16.0",
            "peft==0.21.0", "open_clip_torch==3.3.0", "braceexpand", "webdataset",
            "ultralytics==8.4.190", "torch_geometric==2.8.1", "timm==1.0.31")


@dataclass(frozen=True)
class Script:
    name: str
    source: str  # a package, or a repository's folder
    command: tuple  # {python}, {data}, {out}, {packages} and {bin} (where they are), {torchrun}
    folder: str = ""  # below the repository
    steps: int = 0  # after which it is ended; 0: it ends by itself
    cards: int = 1


IN_PACKAGES = ("trl", "open_clip_torch", "ultralytics")  # their scripts are

PYTHON = "{python}"
TRL = ("--model_name_or_path", "{data}/tiny", "--output_dir", "{out}", "--max_steps", "4",
       "--per_device_train_batch_size", "4", "--report_to", "none")
SHAKESPEARE = ("train.py", "config/train_shakespeare_char.py", "--max_iters=6", "--eval_iters=2",
               "--compile=False")

SCRIPTS = (
    Script("trl sft", "trl", (PYTHON, "{packages}/trl/scripts/sft.py", "--dataset_name",
                              "{data}/sft", "--gradient_checkpointing") + TRL),
    Script("trl dpo", "trl", (PYTHON, "{packages}/trl/scripts/dpo.py", "--dataset_name",
                              "{data}/dpo", "--use_peft") + TRL),
    Script("open_clip", "open_clip_torch", (
        PYTHON, "-m", "open_clip_train.main", "--dataset-type", "synthetic", "--train-num-samples",
        "64", "--batch-size", "16", "--epochs", "1", "--model", "RN50", "--precision", "amp",
        "--workers", "1", "--logs", "{out}")),
    Script("yolo", "ultralytics", (
        "{bin}/yolo", "train", "model=yolo11n.yaml", "data={data}/yolo.yaml",
        "epochs=1", "batch=8", "imgsz=320", "device=0", "workers=1", "amp=False",
        "project={out}")),
    Script("nanoGPT", "nanoGPT", (PYTHON,) + SHAKESPEARE),
    Script("nanoGPT, two cards", "nanoGPT", ("{torchrun}",) + SHAKESPEARE + (
        "--gradient_accumulation_steps=2",), cards=2),
    Script("timm train.py", "pytorch-image-models", (
        PYTHON, "train.py", "{data}/images", "--model", "resnet50", "-b", "16", "--epochs", "1",
        "--num-classes", "4", "--amp", "-j", "2", "--channels-last", "--model-ema", "--output",
        "{out}")),
    Script("mnist", "examples", (PYTHON, "main.py", "--epochs", "1"), "mnist"),
    Script("vae", "examples", (PYTHON, "main.py", "--epochs", "1"), "vae"),
    Script("dcgan", "examples", (PYTHON, "main.py", "--dataset", "fake", "--niter", "1",
                                 "--dry-run", "--accel", "--outf", "{out}"), "dcgan"),
    Script("imagenet", "examples", (PYTHON, "main.py", "-a", "resnet18", "--epochs", "1", "-b",
                                    "16", "-j", "1", "{data}/images"), "imagenet"),
    Script("LSTM", "examples", (PYTHON, "main.py", "--accel", "--epochs", "1", "--data",
                                "{data}/text"), "word_language_model"),
    Script("Transformer", "examples", (PYTHON, "main.py", "--accel", "--epochs", "1", "--data",
                                       "{data}/text", "--model", "Transformer"),
           "word_language_model"),
    Script("DDP tutorial, two cards", "examples", ("{torchrun}", "multigpu_torchrun.py", "2", "10"),
           "distributed/ddp-tutorial-series", cards=2),
    Script("FSDP2, two cards", "examples", ("{torchrun}", "example.py"), "distributed/FSDP2",
           cards=2),
    Script("PyG gcn", "pytorch_geometric", (PYTHON, "gcn.py", "--epochs", "10"), "examples"),
    Script("PyG gat", "pytorch_geometric", (PYTHON, "gat.py", "--epochs", "10"), "examples"),
    Script("PyG link prediction", "pytorch_geometric", (PYTHON, "link_pred.py"), "examples",
           steps=10),
    Script("x-transformers enwik8", "x-transformers", (PYTHON, "train_enwik8.py"), steps=8),
    Script("CleanRL ppo", "cleanrl", (PYTHON, "cleanrl/ppo.py", "--total-timesteps", "2048")),
)

# --- Data ------------------------------------------------------------------------------------

WORDS = "a and at away cat dog far from home mat on ran sat the to".split()
CHANCE = random.Random(0)


def sentence(least, most):
    return " ".join(CHANCE.choices(WORDS, k=CHANCE.randint(least, most)))


def lines(path, count, make):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(make() + "\n" for _ in range(count)))


def images(data):
    import numpy  # what is installed for the scripts
    from PIL import Image
    noise = numpy.random.default_rng(0)

    def image(path, side):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.integers(0, 255, (side, side, 3), dtype=numpy.uint8)).save(path)

    for split, count in (("train", 16), ("val", 8), ("validation", 8)):
        for i in range(4 * count):
            image(data / "images" / split / ("class%d" % (i % 4)) / ("%d.jpg" % i), 256)
    for i in range(24):
        image(data / "yolo/images" / ("%d.jpg" % i), 320)
        lines(data / "yolo/labels" / ("%d.txt" % i), 5,
              lambda: "%d %.3f %.3f 0.2 0.3" % (CHANCE.randint(0, 1), CHANCE.uniform(0.3, 0.7),
                                               CHANCE.uniform(0.3, 0.7)))
    (data / "yolo.yaml").write_text("path: %s\ntrain: images\nval: images\nnames: {0: a, 1: b}\n"
                                    % (data / "yolo"))


def texts(data):
    for split, count in (("train", 2000), ("valid", 200), ("test", 200)):
        lines(data / "text" / (split + ".txt"), count, lambda: sentence(5, 30))
    lines(data / "sft/train.jsonl", 200, lambda: json.dumps({"text": sentence(10, 200)}))
    lines(data / "dpo/train.jsonl", 100, lambda: json.dumps(
        {"prompt": sentence(5, 40), "chosen": sentence(5, 60), "rejected": sentence(5, 60)}))


def tiny_model(data):
    """A Llama of four layers and a tokenizer of the words above."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(special + WORDS)},
                                           unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>",
                            eos_token="</s>", unk_token="<unk>").save_pretrained(data / "tiny")
    LlamaForCausalLM(LlamaConfig(
        vocab_size=32000, hidden_size=512, intermediate_size=1376, num_hidden_layers=4,
        num_attention_heads=8, pad_token_id=0)).save_pretrained(data / "tiny")


def digits(folder):
    """MNIST's files, of noise."""
    raw = folder / "MNIST/raw"
    raw.mkdir(parents=True, exist_ok=True)
    for kind, count in (("train", 2560), ("t10k", 1000)):
        (raw / (kind + "-images-idx3-ubyte")).write_bytes(
            struct.pack(">IIII", 2051, count, 28, 28) + CHANCE.randbytes(28 * 28 * count))
        (raw / (kind + "-labels-idx1-ubyte")).write_bytes(
            struct.pack(">II", 2049, count) + bytes(CHANCE.randint(0, 9) for _ in range(count)))


def characters(folder, text):
    import numpy
    letters = sorted(set(text))
    ids = numpy.array([letters.index(letter) for letter in text], dtype=numpy.uint16)
    ids[:-5000].tofile(folder / "train.bin")
    ids[-5000:].tofile(folder / "val.bin")
    with open(folder / "meta.pkl", "wb") as file:
        pickle.dump({"vocab_size": len(letters), "itos": dict(enumerate(letters)),
                     "stoi": {letter: i for i, letter in enumerate(letters)}}, file)


def graph(folder, nodes=1500, words=300, classes=7, train=140, test=400):
    """Planetoid's files, a graph by chance."""
    import numpy
    import scipy.sparse
    noise = numpy.random.default_rng(0)
    raw = folder / "Cora/raw"
    raw.mkdir(parents=True, exist_ok=True)
    x = scipy.sparse.csr_matrix((noise.random((nodes, words)) < 0.02).astype(numpy.float32))
    y = numpy.eye(classes, dtype=numpy.int32)[noise.integers(0, classes, nodes)]
    edges = {node: [] for node in range(nodes)}
    for a, b in noise.integers(0, nodes, (4 * nodes, 2)).tolist():
        edges[a].append(b)
        edges[b].append(a)
    rest = nodes - test
    for name, value in (("x", x[:train]), ("allx", x[:rest]), ("tx", x[rest:]), ("y", y[:train]),
                        ("ally", y[:rest]), ("ty", y[rest:]), ("graph", edges)):
        (raw / ("ind.cora." + name)).write_bytes(pickle.dumps(value))
    (raw / "ind.cora.test.index").write_text("".join("%d\n" % i for i in range(rest, nodes)))


def into_checkouts(checkouts, data):
    """What scripts look for below themselves."""
    text = (data / "text/train.txt").read_text()
    for name, make in (("examples", lambda f: digits(f / "data")),
                       ("nanoGPT", lambda f: characters(f / "data/shakespeare_char", text)),
                       ("pytorch_geometric", lambda f: graph(f / "data/Planetoid")),
                       ("x-transformers", lambda f: (f / "data/enwik8.gz").write_bytes(
                           gzip.compress((text * (1 + 95_000_000 // len(text)))[:95_000_000]
                                         .encode(), 1)))):
        if (checkouts / name).is_dir():
            make(checkouts / name)


# --- Runs ------------------------------------------------------------------------------------

def installed(folder):
    """A Python with PACKAGES."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "-q", *PACKAGES], check=True, stdout=sys.stderr)
    return folder / "bin/python"


def asked(python, code):
    return subprocess.run([python, "-c", code], check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout.strip()


def version(script, python, checkouts):
    if (checkouts / script.source).is_dir():
        commit = subprocess.run(["git", "-C", checkouts / script.source, "rev-parse", "--short=8",
                                 "HEAD"], stdout=subprocess.PIPE, encoding="utf-8", check=False)
        return commit.stdout.strip()
    return asked(python, "import importlib.metadata as m; print(m.version(%r))" % script.source)


def sentence_of(said):
    """Of a run that failed: what the program said last, else what onnxfit did."""
    lines = [line for line in said.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("error: ")]
    return ((own or lines or [""])[-1])[:MOST_SAID]


MOST_SAID = 120
COLUMNS = ("script", "source", "version", "code", "verdict", "seconds", "steps", "processes",
           "device_bytes", "allocated_bytes", "reserved_bytes", "unknown_reads", "said")


class Runner:
    def __init__(self, args, keep):
        self.args, self.keep = args, keep
        self.python = args.python.absolute() if args.python else installed(keep / "environment")
        self.packages = asked(self.python, "import trl, os; print(os.path.dirname("
                                           "os.path.dirname(trl.__file__)))")
        self.checkouts = args.checkouts.resolve()

    def is_there(self, script):
        return script.source in IN_PACKAGES or (self.checkouts / script.source).is_dir()

    def words(self, script, out):
        torchrun = [str(self.python), "-m", "torch.distributed.run", "--standalone",
                    "--nproc_per_node", str(script.cards)]
        words = []
        for word in script.command:
            words += torchrun if word == "{torchrun}" else [word.format(
                python=self.python, data=self.keep / "data", out=out, packages=self.packages,
                bin=self.python.parent)]
        return words

    def run(self, script):
        out = self.keep / script.name.replace(" ", "_").replace(",", "")
        out.mkdir(parents=True, exist_ok=True)
        answer = out / "answer.json"
        cards = ["--devices", "%dx%s" % (script.cards, self.args.gpu)] if script.cards > 1 else [
            "--gpu", self.args.gpu]
        steps = ["--steps", str(script.steps)] if script.steps else []
        folder = self.checkouts / script.source / script.folder
        began = time.monotonic()
        with open(out / "printed.txt", "wb") as printed:
            ended = subprocess.run(
                [self.args.binary, "run", *cards, *steps, "-f", "json", "--output", answer,
                 "--force", "--", *self.words(script, out)], cwd=folder if folder.is_dir() else out,
                env=dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                         YOLO_OFFLINE="1"), stdout=printed, stderr=printed, check=False)
        seconds = time.monotonic() - began
        said = (out / "printed.txt").read_text(errors="replace")
        found = json.loads(answer.read_text()) if answer.exists() else {}
        return dict(self.figures(found), script=script.name, source=script.source,
                    version=version(script, self.python, self.checkouts), code=ended.returncode,
                    seconds=round(seconds), said="" if found.get("exit_code") == 0 else
                    sentence_of(said))

    @staticmethod
    def figures(answer):
        processes = answer.get("processes") or []
        devices = [d for p in processes for d in p.get("devices", [])]

        def most(name):
            return max((d[name] for d in devices), default="")
        targets = answer.get("targets") or [{}]
        return {"verdict": targets[0].get("verdict", ""),
                "steps": max((p["steps"] for p in processes), default=""),
                "processes": len(processes),
                "device_bytes": max((t.get("used_bytes", 0) for t in targets), default=""),
                "allocated_bytes": most("allocated_bytes"),
                "reserved_bytes": most("reserved_bytes"),
                "unknown_reads": sum(len(p.get("unknown_reads", [])) for p in processes)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build/release/onnxfit"))
    parser.add_argument("--gpu", default="rtx3060")
    parser.add_argument("--python", type=Path,
                        help="that has the packages; else they are installed")
    parser.add_argument("--checkouts", type=Path, default=Path("checkouts"))
    parser.add_argument("--only", nargs="+", default=[""],
                        help="scripts whose names have one of these in them")
    parser.add_argument("--keep", type=Path, help="a folder for data and what scripts print")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        keep = (args.keep or Path(temporary)).resolve()
        runner = Runner(args, keep)
        # data is made by the Python that has the packages
        subprocess.run([runner.python, __file__, "--make-data", keep / "data", runner.checkouts],
                       check=True, stdout=sys.stderr)
        rows = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        rows.writeheader()
        for script in SCRIPTS:
            if runner.is_there(script) and any(word in script.name for word in args.only):
                rows.writerow(runner.run(script))
                sys.stdout.flush()


def make_data(data, checkouts):
    texts(data)
    images(data)
    tiny_model(data)
    into_checkouts(checkouts, data)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make-data"]:
        make_data(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
