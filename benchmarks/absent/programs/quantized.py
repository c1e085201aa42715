"""torchao: weights of eight and four bits, optimizers of eight and four, compiled as they are."""
import gc

import torch
import torchao.optim
import transformers
from torchao.quantization import Int4WeightOnlyConfig, Int8WeightOnlyConfig, quantize_


def llama():
    config = transformers.LlamaConfig(hidden_size=512, intermediate_size=1408, num_hidden_layers=2,
                                      num_attention_heads=8, num_key_value_heads=4)
    return transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16)


def held_by(config):
    gc.collect()  # models before, which are in cycles
    before = torch.cuda.memory_allocated()
    model = llama().eval()
    whole = sum(x.nbytes for x in model.parameters())
    quantize_(model, config)
    with torch.no_grad():
        model.generate(torch.ones(2, 64, dtype=torch.long, device="cuda"), max_new_tokens=4, do_sample=False,
                       pad_token_id=0)
    return whole, torch.cuda.memory_allocated() - before


def states_of(kind, parameter):
    gc.collect()  # models before, which are in cycles
    before = torch.cuda.memory_allocated()
    optimizer = kind([parameter])
    for _ in range(2):
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    parameter.grad = None
    return torch.cuda.memory_allocated() - before


torch.manual_seed(0)
whole, int8 = held_by(Int8WeightOnlyConfig())
_, int4 = held_by(Int4WeightOnlyConfig(group_size=128, int4_packing_format="tile_packed_to_4d"))
assert int4 < int8 < whole, (whole, int8, int4)
parameter = torch.nn.Parameter(torch.ones(1024, 1024, device="cuda", dtype=torch.bfloat16))
for kind, bits, block in ((torchao.optim.AdamW8bit, 8, 256), (torchao.optim.AdamW4bit, 4, 128)):
    states = 2 * parameter.numel() * bits // 8 + 2 * 4 * parameter.numel() // block
    extra = states_of(kind, parameter) - states
    assert 0 <= extra < 8192, (kind, extra)  # and a table of the values that codes stand for
