"""500 steps of a small GPT on batches whose lengths vary, padded to the longest of each."""
import random

import torch
import transformers

random.seed(0)
torch.manual_seed(0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=8000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(500):
    lengths = [random.randint(16, 512) for _ in range(8)]
    tokens = torch.zeros(8, max(lengths), dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.randint(1, 8000, (length,))
        mask[row, :length] = 1
    tokens, mask = tokens.cuda(), mask.cuda()
    optimizer.zero_grad()
    model(input_ids=tokens, attention_mask=mask, labels=tokens.masked_fill(mask == 0, -100)).loss.backward()
    optimizer.step()
