"""Libraries that run the loop."""

import tempfile

from evaluations import BATCHES
from networks import NotForThis, inner, is_of_transformers  # which says where zoo's files are
from optimizers import of_torch

from family import LOSSES

STEPS = 3


class Accelerated:
    """accelerate 1.15.0 in the reference loop: what it makes of model, optimizer and backward."""

    def __init__(self, model, optimizer, precision):
        from accelerate import Accelerator
        self.accelerator = Accelerator(
            mixed_precision="bf16" if precision == "amp-bf16" else "no")
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)

    def scale(self, loss):
        return Backward(self.accelerator, loss)

    def step(self, optimizer):
        optimizer.step()

    def update(self):
        pass


class Backward:
    def __init__(self, accelerator, loss):
        self.accelerator, self.loss = accelerator, loss

    def backward(self):
        self.accelerator.backward(self.loss)


def note(steps):
    """What a step has taken that ends."""
    import torch
    from measure_transformers import peak
    steps.append({"after_step": torch.cuda.memory_allocated(), "peak": peak()})
    torch.cuda.reset_peak_memory_stats()


def dataset(inputs, labels):
    """Samples on the host, as a tokenizer or a processor makes them."""
    import torch

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            return {name: tensor.clone() for name, tensor in {**inputs, "labels": labels}.items()}
    return Samples()


def sample_of(family, model, target):
    """One sample by the names that the model has for its inputs."""
    import torch
    (_, *shape), is_whole, *_ = target
    given = family.inputs(1, "cpu", torch.float32)
    names = [inner(model).main_input_name, *list(given)[1:]]
    inputs = {name: tensor[0] for name, tensor in zip(names, given.values())
              if name != "decoder_input_ids"}  # transformers makes it of the labels
    return inputs, torch.zeros(shape, dtype=torch.long if is_whole else torch.float32)


def trainer(family, model, target, batch, precision, metrics=None, **arguments):
    """transformers.Trainer, of which each step is asked when it ends, or its evaluation has."""
    import torch
    import transformers
    if not is_of_transformers(model) or not target[1]:
        raise NotForThis("no labels that the model takes")
    config = inner(model).config
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0  # as those of trained models have it
    steps = []
    is_evaluated = "eval_strategy" in arguments

    class Asked(transformers.TrainerCallback):
        def on_train_begin(self, *_, **__):
            torch.cuda.reset_peak_memory_stats()

        def on_step_end(self, *_, **__):
            if not is_evaluated:
                note(steps)

        def on_evaluate(self, *_, **__):
            note(steps)
    with tempfile.TemporaryDirectory() as folder:
        told = transformers.TrainingArguments(
            folder, per_device_train_batch_size=batch, max_steps=STEPS, report_to=[],
            save_strategy="no", bf16=precision == "amp-bf16", disable_tqdm=True, **arguments)
        data = dataset(*sample_of(family, model, target))
        evaluated = torch.utils.data.Subset(data, range(BATCHES * told.per_device_eval_batch_size))
        transformers.Trainer(inner(model), told, callbacks=[Asked()], train_dataset=data,
                             eval_dataset=evaluated, compute_metrics=metrics).train()
    return steps


def trainer_evaluation(*what, times=1, metrics=None):
    """Which computes a loss alone where nobody asks for metrics."""
    _, _, _, batch, _ = what
    return trainer(*what, metrics, eval_strategy="steps", eval_steps=1,
                   per_device_eval_batch_size=times * batch)


def trainer_evaluation_twice(*what):
    return trainer_evaluation(*what, times=2)


def trainer_keeping(*what):
    return trainer_evaluation(*what, metrics=lambda _: {"metric": 0.0})


def trainer_keeping_twice(*what):
    return trainer_evaluation(*what, times=2, metrics=lambda _: {"metric": 0.0})


def trainer_smoothing(*what):
    return trainer(*what, label_smoothing_factor=0.1)


class Batches:
    """As a loader's workers would give them, on the host."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 1000

    def __iter__(self):
        return (self.make() for _ in range(len(self)))


def lightning(family, model, target, batch, precision):
    """lightning.pytorch.Trainer, of which each step is asked when it ends."""
    import torch
    from lightning import pytorch as lit
    (_, *shape), is_whole, *_ = target
    kind = torch.long if is_whole else torch.float32
    steps = []

    class Module(lit.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            *given, y = batch.values()
            return LOSSES[family.loss](self.model(*given), y)

        def configure_optimizers(self):
            return of_torch("AdamW")(self.model)

    class Asked(lit.Callback):
        def on_train_start(self, *_):
            torch.cuda.reset_peak_memory_stats()

        def on_train_batch_end(self, *_):
            note(steps)

    def make():
        return {**family.inputs(batch, "cpu", torch.float32),
                "y": torch.zeros(batch, *shape, dtype=kind)}
    lit.Trainer(accelerator="cuda", devices=1, max_steps=STEPS, logger=False, callbacks=[Asked()],
                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                precision="bf16-mixed" if precision == "amp-bf16" else "32-true",
                ).fit(Module(), Batches(make))
    return steps


# --- timm ------------------------------------------------------------------------------------

def on_host(family, batch):
    """Images and classes, as fast_collate makes them."""
    import torch
    (image,) = family.inputs(batch, "cpu", torch.float32).values()
    return torch.zeros(image.shape, dtype=torch.uint8), torch.zeros(batch, dtype=torch.long)


def loaders(family, batch):
    """Of training and of validation: both are made before the first step."""
    from timm.data.loader import PrefetchLoader
    (image, _) = on_host(family, 1)
    batches = Batches(lambda: on_host(family, batch))
    return [PrefetchLoader(batches, channels=image.shape[1]) for _ in range(2)]


def train_one_epoch(model, criterion, loader, optimizer, autocast):
    """That of timm's train.py, which its wheel does not have: its statements that take memory, in
    their order (huggingface/pytorch-image-models, a6da4da1740cd57eaf864803f9dd65683cbcf6d7)."""
    def task(input, target):  # ClassificationTask.forward
        output = model(input)
        return {"loss": criterion(output, target), "output": output}
    optimizer.zero_grad()
    for batch_idx, (input, target) in enumerate(loader):
        def _forward():
            with autocast():
                result = task(input, target)
                _loss = result["loss"]
            return _loss, result

        def _backward(_loss):
            _loss.backward()
            optimizer.step()
        loss, result = _forward()
        _backward(loss)
        loss.item()
        optimizer.zero_grad()
        yield
        if batch_idx + 1 == STEPS:
            return


def timm(family, model, target, batch, precision, **optimizer):
    """train.py as it is, --amp --amp-dtype bfloat16 for that precision."""
    import torch
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.optim import create_optimizer_v2
    (_, *shape), is_whole, *_ = target
    given = family.inputs(1, "meta", torch.float32)
    if family.loss != "ce" or shape or len(given) != 1 or next(iter(given.values())).dim() != 4:
        raise NotForThis("it does not tell classes of images")
    model.to("cuda").train()
    loader, _of_validation = loaders(family, batch)
    optimizer = create_optimizer_v2(model, **{"opt": "sgd", "weight_decay": 2e-5, "momentum": 0.9,
                                              **optimizer})

    def autocast():
        return torch.autocast("cuda", torch.bfloat16, enabled=precision == "amp-bf16")
    torch.cuda.reset_peak_memory_stats()
    steps = []
    for _ in train_one_epoch(model, LabelSmoothingCrossEntropy(0.1), loader, optimizer, autocast):
        note(steps)
    return steps


def timm_adamw(*what):
    return timm(*what, opt="adamw", weight_decay=0.05)
