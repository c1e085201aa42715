"""Kernels that the program brings itself: Triton's, one of them chosen by its time, and liger-kernel's."""
import torch
import transformers
import triton
import triton.language as tl
from liger_kernel.transformers import apply_liger_kernel_to_llama


@triton.jit
def softmax_kernel(out, given, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(given + row * columns + at, mask=at < columns, other=-float("inf"))
    x = tl.exp(x - tl.max(x, 0))
    tl.store(out + row * columns + at, x / tl.sum(x, 0), mask=at < columns)


CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (256, 1024) for warps in (4, 8)]


@triton.autotune(configs=CONFIGS, key=["count"])
@triton.jit
def double_kernel(out, given, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(given + at, mask=at < count), mask=at < count)


def peak_of(call):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return torch.cuda.max_memory_allocated() - before


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def double(x):
    out = torch.empty_like(x)
    double_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](out, x, x.numel())
    return out


def train():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=512, intermediate_size=1408, num_hidden_layers=2,
                                      num_attention_heads=8, num_key_value_heads=4)
    model = transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 32000, (4, 1024), device="cuda")
    for _ in range(2):
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


x = torch.ones(1000, 512, device="cuda")
assert peak_of(lambda: softmax(x)) == x.nbytes
# Between the kernels that it times Triton fills a buffer of 256 MB, so that no cache helps them.
assert peak_of(lambda: double(x)) == x.nbytes + (256 << 20)
assert double_kernel.best_config in CONFIGS
assert peak_of(lambda: double(x)) == x.nbytes
plain = peak_of(train)
apply_liger_kernel_to_llama()
liger = peak_of(train)
assert liger < plain - 4 * 1024 * 32000 * 4, (plain, liger)  # logits in fp32 are never there
print(plain, liger)
