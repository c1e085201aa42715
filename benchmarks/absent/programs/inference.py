"""What inference_mode() does not take apart, sums of CUB's on a card that has no image of its own, Triton."""
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y):
    at = tl.program_id(0)
    tl.store(y + at, tl.load(x + at) + 1.0)


@torch.inference_mode()
def main():
    assert torch.cuda.get_device_capability() == (8, 9), torch.cuda.get_device_capability()
    large = torch.randn(1 << 20, device="cuda").long()
    counts = large.new_ones(4, dtype=torch.int32)
    places = counts.cumsum(0)
    out = torch.empty(4, device="cuda")
    add[(4,)](counts.float(), out)
    assert counts.cpu().tolist() == [1, 1, 1, 1], counts  # whole numbers that a kernel was given stay
    assert places.cpu().tolist() == [1, 2, 3, 4], places
    assert places.to(torch.int32).to("cpu", non_blocking=True, copy=True).numpy().sum() == 10
    assert torch.zeros_like(large[:3]).tolist() == [0, 0, 0]  # of a tensor that nobody knows


main()
