"""generate() of a Llama in a loop, as a server written by hand has it: long prompts, then tokens."""
import readings
import torch
import transformers

torch.manual_seed(0)
config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
                                  num_key_value_heads=4, pad_token_id=0)
model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).cuda().eval()
calls = []
model.register_forward_hook(lambda *_: readings.end("prefill") if calls.append(0) or len(calls) == 1 else None)
for batch, length in ((2, 1024), (8, 64), (1, 2048)):
    prompt = torch.randint(3, 32000, (batch, length)).cuda()
    calls.clear()
    readings.begin()
    text = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=96)
    readings.end("decoding")
    assert text.shape == (batch, length + 96) and len(calls) == 96, (text.shape, len(calls))
readings.tell()
