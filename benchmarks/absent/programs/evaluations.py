"""transformers' Trainer that evaluates behind every epoch, with a larger batch than it trains with."""
import tempfile

import readings
import torch
import transformers


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = torch.randint(0, 50257, (128,))
        return {"input_ids": tokens, "labels": tokens}


class Reads(transformers.Trainer):
    def evaluation_loop(self, *args, **kwargs):
        readings.end("training")
        result = super().evaluation_loop(*args, **kwargs)
        readings.end("evaluation")
        return result


torch.manual_seed(0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4))
with tempfile.TemporaryDirectory() as folder:
    trainer = Reads(model, transformers.TrainingArguments(
        folder, per_device_train_batch_size=4, per_device_eval_batch_size=16, num_train_epochs=2, eval_strategy="epoch",
        save_strategy="no", logging_steps=4, report_to=[], disable_tqdm=True), train_dataset=Tokens(),
        eval_dataset=Tokens())
    readings.begin()
    trainer.train()
readings.tell()
