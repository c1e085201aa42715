"""What PyTorch took in the runs that the README files and tests/golden/ show: shown_runs.csv.

    measure_shown_runs.py > data/shown_runs.csv

The models of models/*.onnxtxt, written as modules, and those of torchvision, run by unchanged
PyTorch on the runtime that README.md tells of: three steps of the reference loop
(estimator/training/training.h) with AdamW, each run in a process of its own, since workspaces last as
long as that.  Bytes; what cuDNN would ask for and the CUDA context are not in them.
tests/shown_figures.py compares.
"""

import csv
import multiprocessing
import sys

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

STEPS = 3
COLUMNS = ["model", "batch", "precision", "parameters", "buffer_bytes", "step", "after_forward",
           "after_backward", "after_step", "exact", "allocated", "reserved"]


def relu():
    return nn.ReLU(inplace=True)


def head():
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def conv_bn(inputs, outputs, kernel, **more):
    return [nn.Conv2d(inputs, outputs, kernel, bias=False, **more), nn.BatchNorm2d(outputs)]


def mlp(hidden, count):
    layers = [nn.Linear(784, hidden), relu()]
    for _ in range(count - 1):
        layers += [nn.Linear(hidden, hidden), relu()]
    return nn.Sequential(*layers, nn.Linear(hidden, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
        nn.Sigmoid(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(),
        nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))


def vgg_small():
    def pair(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), relu(),
                nn.Conv2d(outputs, outputs, 3, padding=1), relu(), nn.MaxPool2d(2)]
    return nn.Sequential(*pair(3, 32), *pair(32, 64), nn.Flatten(), nn.Linear(4096, 256), relu(),
                         nn.Linear(256, 10))


class MatMulRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.ones(4, 8))
        self.w2 = nn.Parameter(torch.ones(8, 2))

    def forward(self, x):
        return torch.relu_(x @ self.w1) @ self.w2


class BranchConcat(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch1 = nn.Sequential(nn.Conv2d(16, 8, 1), relu())
        self.branch2 = nn.Sequential(nn.Conv2d(16, 12, 3, padding=1), relu())
        self.branch3 = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(16, 4, 1), relu())
        self.end = nn.Sequential(nn.Conv2d(24, 10, 1), *head())

    def forward(self, x):
        return self.end(torch.cat([self.branch1(x), self.branch2(x), self.branch3(x)], 1))


class ResidualBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(*conv_bn(16, 16, 3, padding=1), relu(),
                                   *conv_bn(16, 16, 3, padding=1))
        self.end = nn.Sequential(relu(), *head())

    def forward(self, x):
        y = self.block(x)
        y += x
        return self.end(y)


class EmbeddingMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.fc = nn.Linear(64, 4)

    def forward(self, words):
        return self.fc(self.embedding(words).mean(1))


# Model: module, the sizes of a sample.
MODELS = {
    "avgpool_head": (lambda: nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), relu(), *head(),
                                           nn.Linear(32, 10)), (3, 16, 16)),
    "branch_concat": (BranchConcat, (16, 16, 16)),
    "conv_bn_relu": (lambda: nn.Sequential(*conv_bn(3, 8, 3, padding=1), relu(), *head()),
                     (3, 16, 16)),
    "depthwise_separable": (lambda: nn.Sequential(
        *conv_bn(16, 16, 3, padding=1, groups=16), relu(), *conv_bn(16, 32, 1), relu(), *head()),
        (16, 16, 16)),
    "dropout_mlp": (lambda: nn.Sequential(nn.Linear(64, 256), relu(), nn.Dropout(0.5),
                                          nn.Linear(256, 10)), (64,)),
    "embedding_mean": (EmbeddingMean, (12,)),
    "layernorm_mlp": (lambda: nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), relu(),
                                            nn.Linear(256, 10)), (64,)),
    "lenet": (lenet, (1, 28, 28)),
    "linear": (lambda: nn.Sequential(nn.Linear(8, 4)), (8,)),
    "matmul_relu": (MatMulRelu, (4,)),
    "mlp_2000": (lambda: mlp(2000, 1), (784,)),
    "mlp_5x5000": (lambda: mlp(5000, 5), (784,)),
    "resnet18": (torchvision.models.resnet18, (3, 224, 224)),
    "resnet50": (torchvision.models.resnet50, (3, 224, 224)),
    "residual_block": (ResidualBlock, (16, 16, 16)),
    "vgg_small": (vgg_small, (3, 32, 32)),
}


# Model, batch, precision.
RUNS = [(name, 16, "fp32") for name in MODELS if not name.startswith("resnet")] + [
    ("mlp_2000", 64, "fp32"), ("mlp_5x5000", 64, "fp32"), ("resnet18", 32, "fp32"),
    *[("resnet50", batch, precision) for batch in (32, 64)
      for precision in ("fp32", "amp-bf16", "bf16")]]


def rows_of(name, batch, precision):
    from measure_transformers import compute_nothing
    compute_nothing()
    build, sizes = MODELS[name]
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = build().to(dtype).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters())
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=precision == "amp-bf16")
    input_dtype = torch.long if name == "embedding_mean" else dtype
    sums = [sum(p.numel() for p in model.parameters()),
            sum(b.numel() * b.element_size() for b in model.buffers())]
    rows = []
    for step in range(1, STEPS + 1):
        torch.cuda.reset_peak_memory_stats()
        data = {"x": torch.zeros(batch, *sizes, dtype=input_dtype, device="cuda"),
                "y": torch.zeros(batch, dtype=torch.long, device="cuda")}
        optimizer.zero_grad()
        with autocast:
            loss = F.cross_entropy(model(data["x"]), data["y"])
        row = [name, batch, precision, *sums, step, torch.cuda.memory_allocated()]
        loss.backward()
        row.append(torch.cuda.memory_allocated())
        optimizer.step()
        row.append(torch.cuda.memory_allocated())
        row += [torch.cuda.memory_stats()["requested_bytes.all.peak"],
                torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
        rows.append(row)
    return rows


def main():
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in RUNS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            writer.writerows(pool.apply(rows_of, run))


if __name__ == "__main__":
    main()
