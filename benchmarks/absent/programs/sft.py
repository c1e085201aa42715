"""trl's SFT, padded and packed: how many tokens a step has depends on masks."""
import random
import tempfile

import datasets
import tokenizers
import torch
import transformers
import trl

random.seed(0)
torch.manual_seed(0)
words = {"[UNK]": 0, "[PAD]": 1, "[EOS]": 2, **{f"w{i}": i + 3 for i in range(997)}}
tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]",
                                                 pad_token="[PAD]", eos_token="[EOS]")
model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
    vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
    num_key_value_heads=2, eos_token_id=2, pad_token_id=1))
texts = [" ".join(f"w{random.randrange(997)}" for _ in range(random.randint(50, 400))) for _ in range(64)]
for packing in (False, True):
    torch.cuda.reset_peak_memory_stats()
    trainer = trl.SFTTrainer(model, args=trl.SFTConfig(
        tempfile.mkdtemp(), per_device_train_batch_size=8, max_steps=4, bf16=True, report_to=[], logging_steps=1,
        disable_tqdm=True, save_strategy="no", max_length=256, packing=packing),
        train_dataset=datasets.Dataset.from_dict({"text": texts}), processing_class=tokenizer)
    trainer.train()
    tokens = [row["num_tokens"] for row in trainer.state.log_history if "num_tokens" in row]
    assert tokens == sorted(tokens) and tokens[0] > 1000, tokens
    print("packing", packing, torch.cuda.max_memory_allocated(), tokens)
