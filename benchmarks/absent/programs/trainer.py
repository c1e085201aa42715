"""transformers' Trainer: bf16, checkpoints of activations, evaluation, the best state saved and loaded."""
import tempfile

import torch
import transformers


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.randint(0, 50257, (256,))
        return {"input_ids": tokens, "labels": tokens, "attention_mask": torch.ones_like(tokens)}


torch.manual_seed(0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=6))
with tempfile.TemporaryDirectory() as folder:
    trainer = transformers.Trainer(model, transformers.TrainingArguments(
        folder, per_device_train_batch_size=8, num_train_epochs=1, bf16=True, gradient_checkpointing=True,
        eval_strategy="steps", eval_steps=4, save_strategy="steps", save_steps=4, logging_steps=2,
        load_best_model_at_end=True, metric_for_best_model="eval_loss", dataloader_num_workers=2,
        report_to=[], disable_tqdm=True), train_dataset=Tokens(), eval_dataset=Tokens())
    trainer.train()
    loss = trainer.evaluate()["eval_loss"]
assert 0 < loss < 100, loss
