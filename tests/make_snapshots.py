"""Writes data/snapshots.zip: memory snapshots of real runs of a small network, and the network.

    cd tests && python3 make_snapshots.py    # takes PyTorch 2.11 and a card that it can use

Each run trains as its name says and dumps what torch.cuda.memory wrote down, while its names still
hold what they held.  What keeps memory is the run's name; snapshots_test.cc knows the lines.  Folders are taken off file names, but
for those of packages: "torch/nn/modules/linear.py", "make_snapshots.py".  data/leak/ has what
README.md shows: a program, its snapshot and its network.
"""

import importlib.util
import io
import os
import pickle
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

DATA = Path(__file__).resolve().parent / "data"
ARCHIVE = DATA / "snapshots.zip"
BATCH, LENGTH, WIDTH, WORDS, CLASSES, STEPS = 32, 64, 128, 1000, 1000, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.proj(torch.softmax(q @ k.transpose(1, 2), -1) @ v)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def batch():
    return (torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda"),
            torch.zeros(BATCH, dtype=torch.long, device="cuda"))


def on_card():
    model = Net().cuda()
    return model, torch.optim.AdamW(model.parameters())


def train(model, optimizer, keep=lambda value: None):
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        keep(loss)
        loss.backward()
        optimizer.step()
    return locals()


def plain():
    return train(*on_card())


def kept_loss():  # a list of losses that nobody detaches: 4 bytes and no more, after backward
    losses = []
    return train(*on_card(), losses.append), losses


def kept_graph():  # a sum of losses that is never backwarded, so that each keeps what it saved
    model, optimizer = on_card()
    total = 0
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total = total + F.cross_entropy(model(x), y)
    return locals()


def kept_scores():  # what a metric is made of, on the card
    model, optimizer = on_card()
    scores = []
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        out = model(x)
        scores.append(torch.softmax(out.detach(), 1))
        loss = F.cross_entropy(out, y)
        del out
        loss.backward()
        optimizer.step()
    return locals()


def kept_in_inference():
    model, _ = on_card()
    outputs = []
    with torch.no_grad():
        for _ in range(STEPS):
            x, _ = batch()
            outputs.append(model(x))
    return locals()


def kept_by_hook():
    model, optimizer = on_card()
    outputs = []
    model.blocks[0].down.register_forward_hook(lambda module, inputs, out: outputs.append(out))
    return train(model, optimizer), outputs


def accumulated():  # no leak: gradients of two batches
    model, optimizer = on_card()
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(2):
            x, y = batch()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
    return locals()


def late_history():  # that does not have the first two turns
    model, optimizer = on_card()
    outputs = []
    for turn in range(STEPS + 2):
        if turn == 2:
            torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
        x, y = batch()
        optimizer.zero_grad()
        outputs.append(model(x))
        loss = F.cross_entropy(outputs[-1], y)
        loss.backward()
        optimizer.step()
    return locals()


def full_card():
    torch.cuda.set_per_process_memory_fraction(150 * 2**20 / torch.cuda.mem_get_info()[1])
    try:
        return kept_graph()
    except torch.OutOfMemoryError as error:
        return error


HISTORIES = {  # by run: what of its history is recorded
    "plain": {},  # with the frames of C++, as by default
    "kept_loss": {"stacks": "python"},
    "kept_graph": {"stacks": "python"},
    "kept_scores": {"stacks": "python"},
    "kept_in_inference": {"stacks": "python"},
    "kept_by_hook": {"stacks": "python"},
    "accumulated": {"stacks": "python"},
    "late_history": None,
    "full_card": {"stacks": "python"},
    "short_history": {"stacks": "python", "max_entries": 600},
    "no_history": None,
}
RUNS = {"short_history": kept_scores, "no_history": plain}


def without_folders(name):
    for mark in ("/site-packages/", "/lib/python3."):
        if mark in name:
            return name.split(mark)[-1] if "site" in mark else "lib/python3." + name.split(mark)[-1]
    return Path(name).name if name.startswith("/") else name


def shared(snapshot):
    """The same with frames renamed, those that were one object still one."""
    seen = {}

    def renamed(value):
        if id(value) in seen:
            return seen[id(value)]
        if isinstance(value, dict):
            made = {key: sys.intern(without_folders(item)) if key == "filename" else renamed(item)
                    for key, item in value.items()}
        elif isinstance(value, list):
            made = [renamed(item) for item in value]
        else:
            return value
        seen[id(value)] = made
        return made
    return renamed(snapshot)


def take_folders_off(path):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    with open(path, "wb") as file:
        pickle.dump(shared(snapshot), file)


def dump(run, path):
    if HISTORIES[run] is not None:
        torch.cuda.memory._record_memory_history(**{"max_entries": 100000, **HISTORIES[run]})
    kept = RUNS.get(run, globals().get(run))()
    torch.cuda.memory._dump_snapshot(path)
    torch.cuda.memory._record_memory_history(enabled=None)
    del kept
    take_folders_off(path)


def without_paths(data):
    here = f"{DATA.parent}/".encode()
    packages = f"{Path(torch.__file__).parent.parent}/".encode()
    return data.replace(here, b"").replace(packages, b"")


SIZES = ({0: torch.export.Dim("batch", min=2, max=4096)},)


def network():
    return filled(Net()), (torch.zeros(BATCH, LENGTH, dtype=torch.long),)


def filled(model):
    """Each weight of one number, so that files are small, and no two are the same."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters(), 1):
            parameter.fill_(number)
    return model


def as_pt2(model, inputs):
    file, packed = io.BytesIO(), io.BytesIO()
    torch.export.save(torch.export.export(model, inputs, dynamic_shapes=SIZES), file)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(packed, "w") as small:
        for name in archive.namelist():
            if "/data/sample_inputs/" not in name:
                small.writestr(zipfile.ZipInfo(name), without_paths(archive.read(name)),
                               zipfile.ZIP_DEFLATED, 9)
    return packed.getvalue()


def as_onnx():
    """Of torch.onnx.export, weights named and left out."""
    import onnx  # pylint: disable=import-outside-toplevel
    model, inputs = network()
    program = torch.onnx.export(model.train(), inputs, dynamo=True, dynamic_shapes=SIZES,
                                optimize=False)
    proto = program.model_proto
    for weight in proto.graph.initializer:
        if len(weight.raw_data) > 1024:
            weight.ClearField("raw_data")
            weight.data_location = onnx.TensorProto.EXTERNAL
            weight.external_data.add(key="location", value="net.onnx.data")
    for node in proto.graph.node:
        for item in node.metadata_props:
            item.value = without_paths(item.value.encode()).decode()
    return proto.SerializeToString()


def write_example():
    folder = DATA / "leak"
    subprocess.run([sys.executable, "train.py"], cwd=folder, check=True)
    take_folders_off(folder / "snapshot.pickle")
    spec = importlib.util.spec_from_file_location("train", folder / "train.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    example = as_pt2(filled(program.Net()), (torch.zeros(256, 784),))
    (folder / "net.pt2").write_bytes(example)


def main():
    if len(sys.argv) > 2:
        return dump(sys.argv[1], sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, \
            zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for run in HISTORIES:
            path = os.path.join(folder, run)
            subprocess.run([sys.executable, __file__, run, path], check=True)
            archive.writestr(zipfile.ZipInfo(f"{run}.pickle"), Path(path).read_bytes(),
                             zipfile.ZIP_DEFLATED, 9)
        archive.writestr(zipfile.ZipInfo("net.pt2"), as_pt2(*network()))
        archive.writestr(zipfile.ZipInfo("net.onnx"), as_onnx(), zipfile.ZIP_DEFLATED, 9)
    write_example()


if __name__ == "__main__":
    main()
