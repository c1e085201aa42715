"""Trains a small network, and keeps more of it than it should: what README.md finds."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 512)
        self.head = nn.Linear(512, 1000)

    def forward(self, x):
        return self.head(F.relu(self.hidden(x)))


def train(steps=4):
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scores = []
    for _ in range(steps):
        x = torch.randn(256, 784, device="cuda")
        y = torch.randint(1000, (256,), device="cuda")
        optimizer.zero_grad()
        logits = model(x)
        scores.append(logits.softmax(-1))  # for a metric, some day
        loss = F.cross_entropy(logits, y)
        del logits
        loss.backward()
        optimizer.step()
    torch.cuda.memory._dump_snapshot("snapshot.pickle")


if __name__ == "__main__":
    torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
    train()
