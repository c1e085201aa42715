"""A loop of pictures: two workers, pinned memory, channels_last, float16 with a scaler."""
import torch
import torchvision


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        return torch.rand(3, 224, 224), index % 1000


torch.manual_seed(0)
model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")
loader = torch.utils.data.DataLoader(Pictures(), 32, num_workers=2, pin_memory=True)
torch.backends.cudnn.benchmark = True
for images, labels in loader:
    images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.float16):
        loss = torch.nn.functional.cross_entropy(model(images), labels.cuda(non_blocking=True))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
assert scaler.get_scale() == 65536, scaler.get_scale()  # no step was skipped
assert len(optimizer.state) == len(list(model.parameters()))
