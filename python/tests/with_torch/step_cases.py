"""Training steps as people write them, and how PyTorch's own engine runs them.

    python step_cases.py NAME…      # under `onnxfit run`: a line a step, its name and its peak

A case is a function of a device that returns a step and, on the host, an example of a batch."""

import copy
import gc
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from in_place_cases import IN_PLACE_CASES

STEPS = 4


def layers(*widths):
    made = []
    for before, after in zip(widths, widths[1:]):
        made += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*made[:-1])


def classifier(device):
    return layers(256, 1024, 512, 10).to(device)


def labelled(rows=64):
    return torch.randn(rows, 256), torch.randint(0, 10, (rows,))


def plain(device, make=lambda parameters: torch.optim.SGD(parameters, 0.1)):
    model = classifier(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = make(model.parameters())

    def step(images, labels):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, labelled()


def momentum(device):
    return plain(device, lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9,
                                                            weight_decay=1e-4))


def adam(device):
    return plain(device, torch.optim.Adam)


def fused(device):
    return plain(device, lambda parameters: torch.optim.AdamW(parameters, fused=True))


def looped(device):
    return plain(device, lambda parameters: torch.optim.AdamW(parameters, foreach=False))


def kept_zeros(device):
    model = classifier(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(images, labels):
        optimizer.zero_grad(set_to_none=False)
        out = model(images)
        loss = F.cross_entropy(out, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, labelled()


def dropped_behind(device):
    model = classifier(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(images, labels):
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, labelled()


def clipped(device):
    model = classifier(device)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)

    def step(images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss, norm

    return step, labelled()


def scaled(device, make=torch.optim.AdamW, clips=True):
    model = classifier(device)
    optimizer = make(model.parameters())
    scaler = torch.amp.GradScaler("cuda")

    def step(images, labels):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        if clips:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step, labelled()


def scaled_fused(device):
    return scaled(device, lambda parameters: torch.optim.AdamW(parameters, fused=True), False)


def accumulated(device):
    model = classifier(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(images, labels):
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(4), labels.chunk(4)):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y) / 4
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return step, labelled(256)


def adversaries(device):
    made = layers(64, 512, 1024, 256).to(device)
    judge = layers(256, 1024, 256, 1).to(device)
    return made, judge, torch.optim.Adam(made.parameters()), torch.optim.Adam(judge.parameters())


def gan(device):
    generator, judge, of_generator, of_judge = adversaries(device)
    criterion = nn.BCEWithLogitsLoss()

    def step(real):
        rows = real.size(0)
        judge.zero_grad()
        label = torch.full((rows, 1), 1.0, device=device)
        real_loss = criterion(judge(real), label)
        real_loss.backward()
        fake = generator(torch.randn(rows, 64, device=device))
        label.fill_(0.0)
        fake_loss = criterion(judge(fake.detach()), label)
        fake_loss.backward()
        of_judge.step()
        generator.zero_grad()
        label.fill_(1.0)
        loss = criterion(judge(fake), label)
        loss.backward()
        of_generator.step()
        return (real_loss + fake_loss).item(), loss.item()

    return step, (torch.randn(128, 256),)


def frozen_in_turns(device):
    generator, judge, of_generator, of_judge = adversaries(device)

    def ask(network, for_gradients):
        for parameter in network.parameters():
            parameter.requires_grad = for_gradients

    def step(real):
        fake = generator(torch.randn(real.size(0), 64, device=device))
        ask(judge, False)
        of_generator.zero_grad()
        judge(fake).mean().neg().backward()
        of_generator.step()
        ask(judge, True)
        of_judge.zero_grad()
        loss = judge(fake.detach()).mean() - judge(real).mean()
        loss.backward()
        of_judge.step()
        return loss.detach()

    return step, (torch.randn(128, 256),)


def teacher(device):
    frozen = layers(256, 2048, 512, 10).to(device).eval()
    model = layers(256, 512, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(images, labels):
        with torch.no_grad():
            target = frozen(images).softmax(-1)
        logits = model(images)
        loss = F.cross_entropy(logits, labels) + F.kl_div(logits.log_softmax(-1), target,
                                                          reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, labelled()


def pairs(device):
    first, second = layers(256, 512, 128).to(device), layers(256, 512, 128).to(device)
    scale = nn.Parameter(torch.ones([], device=device) * 2.65)
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters(), scale])

    def step(images, texts):
        optimizer.zero_grad()
        a, b = F.normalize(first(images), dim=-1), F.normalize(second(texts), dim=-1)
        logits = scale.exp() * a @ b.t()
        own = torch.arange(len(images), device=images.device)
        loss = (F.cross_entropy(logits, own) + F.cross_entropy(logits.t(), own)) / 2
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            scale.clamp_(0, 4.6052)
        return loss.item()

    return step, (torch.randn(128, 256), torch.randn(128, 256))


def averaged(device):
    model = classifier(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(images, labels):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), model.parameters()):
                mean.mul_(0.999).add_(parameter, alpha=0.001)
        return loss.item()

    return step, labelled()


def two_heads(device):
    model = layers(256, 1024, 512).to(device)
    first, second = nn.Linear(512, 10).to(device), nn.Linear(512, 10).to(device)
    optimizer = torch.optim.SGD([*model.parameters(), *first.parameters(),
                                 *second.parameters()], 0.1, momentum=0.9)

    def step(images, labels):
        optimizer.zero_grad()
        states = model(images)
        one = F.cross_entropy(first(states), labels)
        one.backward(retain_graph=True)
        other = F.cross_entropy(second(states), labels)
        other.backward()
        optimizer.step()
        return one.item() + other.item()

    return step, labelled()


def own_norm(device):
    model = classifier(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(images, labels):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm()
        for parameter in model.parameters():
            parameter.grad.mul_(1 / (norm + 1e-6))
        optimizer.step()
        return loss.item()

    return step, labelled()


class Trainer:
    def __init__(self, device):
        self.model = classifier(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.losses = []

    def step(self, images, labels):
        out = self.model(images)
        loss = F.cross_entropy(out, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return loss, out


def method(device):
    return Trainer(device).step, labelled()


def bootstrapped(device):
    """BYOL: the average is data that is set."""
    online, head = layers(256, 512, 128).to(device), layers(128, 256, 128).to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = torch.optim.SGD([*online.parameters(), *head.parameters()], 0.05, momentum=0.9)

    def step(first, second):
        with torch.no_grad():
            goal = target(second)
        loss = -F.cosine_similarity(head(online(first)), goal, dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for mean, parameter in zip(target.parameters(), online.parameters()):
            mean.data = mean.data * 0.99 + parameter.data * 0.01
        return loss.item()

    return step, (torch.randn(128, 256), torch.randn(128, 256))


def closed(device):
    model = classifier(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(images, labels):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            return loss

        return optimizer.step(closure)

    return step, labelled()


def checkpointed(device):
    blocks = nn.ModuleList(layers(256, 1024, 256) for _ in range(3)).to(device)
    head = nn.Linear(256, 10).to(device)
    optimizer = torch.optim.AdamW([*blocks.parameters(), *head.parameters()])

    def step(images, labels):
        states = images
        for block in blocks:
            states = checkpoint(block, states, use_reentrant=False)
        losses = [F.cross_entropy(head(states), labels), states.square().mean()]
        optimizer.zero_grad()
        torch.autograd.backward(losses)
        optimizer.step()
        return losses[0].item()

    return step, labelled(256)


def with_norms(device):
    def normed():
        return nn.Sequential(nn.Linear(256, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Dropout(0.5),
                             nn.Linear(1024, 10)).to(device)

    frozen, model = normed().eval(), normed()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(images, labels):
        with torch.no_grad():
            target = frozen(images).softmax(-1)
        loss = F.cross_entropy(model(images), target) + F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, labelled()


CASES = (plain, momentum, adam, fused, looped, kept_zeros, dropped_behind, clipped, scaled,
         scaled_fused, accumulated, gan, frozen_in_turns, teacher, pairs, averaged, two_heads,
         own_norm, method, bootstrapped, *IN_PLACE_CASES,
         closed, with_norms, checkpointed)  # whose backward has a cublasLt workspace of its own


def peak(case):
    """What PyTorch asked for at once, in bytes."""
    torch.cuda.reset_peak_memory_stats()
    step, batch = case("cuda")
    for _ in range(STEPS):
        if len(batch) == 1:
            images = batch[0].cuda()
            result = step(images)
        else:
            images, labels = batch[0].cuda(), batch[1].cuda()
            result = step(images, labels)
    del result
    return torch.cuda.memory_stats()["requested_bytes.all.peak"]


if __name__ == "__main__":
    for chosen in CASES:
        if not sys.argv[1:] or chosen.__name__ in sys.argv[1:]:
            print(chosen.__name__, peak(chosen), flush=True)
            gc.collect()
