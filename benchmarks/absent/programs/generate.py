"""generate(): caches that grow, static and offloaded ones, sampling and beams."""
import torch
import transformers

torch.manual_seed(0)
config = transformers.LlamaConfig(hidden_size=512, intermediate_size=1408, num_hidden_layers=4,
                                  num_attention_heads=8, num_key_value_heads=4, pad_token_id=0)
model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).cuda().eval()
prompt = torch.randint(3, 32000, (4, 128)).cuda()
for kind in ({}, {"cache_implementation": "static", "disable_compile": True},
             {"cache_implementation": "offloaded"}, {"do_sample": True, "top_p": 0.9}, {"num_beams": 3}):
    torch.cuda.reset_peak_memory_stats()
    text = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=64, **kind)
    assert text.shape == (4, 192), (kind, text.shape)
    print(kind, torch.cuda.max_memory_allocated())
