"""torch.compile: Triton compiles, nothing is launched; then with CUDA graphs."""
import torch

for mode in ("default", "reduce-overhead"):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(model, mode=mode)
    for _ in range(4):
        optimizer.zero_grad()
        compiled(torch.randn(256, 512, device="cuda")).square().mean().backward()
        optimizer.step()
    del model, optimizer, compiled
