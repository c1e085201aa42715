"""A script as people write them, for what docs/run.md shows: trains a network on made-up pictures."""

import argparse

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()

    pictures = TensorDataset(torch.randn(256, 3, 224, 224), torch.randint(0, 1000, (256,)))
    loader = DataLoader(pictures, args.batch_size, shuffle=True, num_workers=2, pin_memory=True)
    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(enabled=args.amp)
    losses = []
    for epoch in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16, enabled=args.amp):
                logits = model(images.cuda(non_blocking=True))
                loss = nn.functional.cross_entropy(logits, labels.cuda(non_blocking=True))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss)
        print(f"epoch {epoch}: {sum(losses).item() / len(losses):.3f}")
    torch.save(model.state_dict(), "resnet50.pt")


if __name__ == "__main__":
    main()
