"""accelerate: bf16, gradients accumulated over four batches and clipped, a schedule, metrics gathered."""
import accelerate
import torch
import transformers

torch.manual_seed(0)
accelerator = accelerate.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4)
config = transformers.BertConfig(num_hidden_layers=4, num_labels=3)
model = transformers.BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = torch.utils.data.TensorDataset(torch.randint(0, 30522, (100, 128)), torch.randint(0, 3, (100,)))
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
model, optimizer, loader, schedule = accelerator.prepare(
    model, optimizer, torch.utils.data.DataLoader(data, 8, shuffle=True), schedule)
seen = steps = 0
for tokens, labels in loader:
    with accelerator.accumulate(model):
        output = model(input_ids=tokens, labels=labels)
        accelerator.backward(output.loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            steps += 1
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    seen += accelerator.gather_for_metrics((output.logits.argmax(-1), labels))[1].numel()
assert (seen, steps) == (100, 4), (seen, steps)
