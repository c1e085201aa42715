"""trl's GRPO: generate(), a model of rewards, the log probabilities of a frozen copy, and a step, in turn."""
import random
import tempfile

import datasets
import readings
import tokenizers
import torch
import transformers
import trl

random.seed(0)
torch.manual_seed(0)
words = {"[UNK]": 0, "[PAD]": 1, "[EOS]": 2, **{f"w{i}": i + 3 for i in range(997)}}
tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]",
                                                 eos_token="[EOS]")
model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
    vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
    num_key_value_heads=2, eos_token_id=2, pad_token_id=1, dtype="bfloat16")).to(torch.bfloat16)
prompts = [" ".join(f"w{random.randrange(997)}" for _ in range(random.randint(20, 60))) for _ in range(64)]


def rewards(completions, **_):
    readings.begin()  # what came behind generate() is no phase of its own
    return [float(len(text)) for text in completions]


trainer = trl.GRPOTrainer(model, rewards, args=trl.GRPOConfig(
    tempfile.mkdtemp(), per_device_train_batch_size=8, num_generations=4, max_completion_length=64, max_steps=4, bf16=True,
    beta=0.0, report_to=[], disable_tqdm=True, save_strategy="no", logging_steps=1),
    train_dataset=datasets.Dataset.from_dict({"prompt": prompts}), processing_class=tokenizer)
generate, calls, is_generating = model.generate, [], []


def read_generate(*args, **kwargs):
    readings.end("training")
    calls.clear()
    is_generating.append(True)
    result = generate(*args, **kwargs)
    is_generating.clear()
    readings.end("decoding")
    return result


model.generate = read_generate
model.register_forward_hook(
    lambda *_: readings.end("prefill") if is_generating and (calls.append(0) or len(calls) == 1) else None)
readings.begin()
trainer.train()
readings.end("training")
readings.tell()
