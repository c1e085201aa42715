"""accelerate tries ever smaller batches until the card takes one."""
import accelerate
import torch
import torchvision

tried = []


@accelerate.utils.find_executable_batch_size(starting_batch_size=1024)
def train(batch_size):
    tried.append(batch_size)
    model = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        images = torch.randn(batch_size, 3, 224, 224, device="cuda")
        optimizer.zero_grad()
        model(images).mean().backward()
        optimizer.step()


train()
print(tried)
assert 400 < tried[-1] < 600, tried
