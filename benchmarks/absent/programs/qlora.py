"""bitsandbytes: a base in four bits, peft's adapters, paged AdamW in eight bits."""
import tempfile

import peft
import torch
import transformers


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = torch.randint(0, 32000, (512,))
        return {"input_ids": tokens, "labels": tokens}


torch.manual_seed(0)
folder = tempfile.mkdtemp()
config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                                  num_attention_heads=16, num_key_value_heads=4)
transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
model = transformers.AutoModelForCausalLM.from_pretrained(
    folder, device_map={"": 0}, dtype=torch.bfloat16,
    quantization_config=transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16))
model = peft.prepare_model_for_kbit_training(model)
model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
transformers.Trainer(model, transformers.TrainingArguments(
    folder + "/out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=4, bf16=True,
    optim="paged_adamw_8bit", gradient_checkpointing=True, report_to=[], disable_tqdm=True,
    save_strategy="no"), train_dataset=Tokens()).train()
model.save_pretrained(folder + "/adapter")
