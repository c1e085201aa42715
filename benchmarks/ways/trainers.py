"""Libraries that run the loop."""

import tempfile

from evaluations import BATCHES
from networks import NotForThis, inner, is_of_transformers  # which says where zoo's files are
from optimizers import of_torch

from family import LOSSES

STEPS = 3


MIXED = {"amp-bf16": "bf16", "amp-fp16": "fp16"}  # as accelerate names them
OF_LIGHTNING = {"amp-bf16": "bf16-mixed", "amp-fp16": "16-mixed"}


class Accelerated:
    """accelerate 1.15.0 in the reference loop: what it makes of model, optimizer and backward."""

    def __init__(self, model, optimizer, precision):
        from accelerate import Accelerator
        self.accelerator = Accelerator(mixed_precision=MIXED.get(precision, "no"))
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


def accelerate_accumulate(family, model, target, batch, precision):
    """Its documentation's loop with gradient_accumulation_steps=2."""
    import torch
    from accelerate import Accelerator
    (_, *shape), is_whole, _ = target
    accelerator = Accelerator(mixed_precision=MIXED.get(precision, "no"),
                              gradient_accumulation_steps=2)
    model.to("cuda").train()
    model, optimizer = accelerator.prepare(model, of_torch("AdamW")(model))
    torch.cuda.reset_peak_memory_stats()
    steps = []
    for micro in range(2 * STEPS):
        *inputs, y = [*family.inputs(batch, "cuda", torch.float32).values(), torch.zeros(
            batch, *shape, device="cuda", dtype=torch.long if is_whole else torch.float32)]
        with accelerator.accumulate(model):
            loss = LOSSES[family.loss](model(*inputs), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if micro % 2:
            note(steps)
    return steps


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
            save_strategy="no", bf16=precision == "amp-bf16", fp16=precision == "amp-fp16",
            disable_tqdm=True, **arguments)
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


def trainer_adamw(*what):
    return trainer(*what, optim="adamw_torch", weight_decay=0.01)


def trainer_sgd(*what):
    return trainer(*what, optim="sgd", weight_decay=0.01)


def trainer_with(optim):
    """An optimizer by the Trainer's name for it."""
    return lambda *what: trainer(*what, optim=optim)


def trainer_galore(*what):
    """Whose bases are found in every step, of 200 by its default."""
    import linalg_of_card
    import torch
    linalg_of_card.use()
    model = inner(what[1])
    names = dict(model.named_parameters())
    if not any(isinstance(module, torch.nn.Linear) and f"{path}.weight" in names
               for path, module in model.named_modules()):
        raise NotForThis("no nn.Linear with a weight of its own")
    return trainer(*what, optim="galore_adamw", optim_target_modules="all-linear",
                   optim_args="rank=16, update_proj_gap=1, scale=0.25")


def trainer_accumulate(*what):
    return trainer(*what, gradient_accumulation_steps=2)


class Batches:
    """As a loader's workers would give them, on the host."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 1000

    def __iter__(self):
        return (self.make() for _ in range(len(self)))


def lightning(family, model, target, batch, precision, accumulate=1):
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

        def on_train_batch_end(self, _, __, ___, ____, batch_idx):
            if (batch_idx + 1) % accumulate == 0:
                note(steps)

    def make():
        return {**family.inputs(batch, "cpu", torch.float32),
                "y": torch.zeros(batch, *shape, dtype=kind)}
    lit.Trainer(accelerator="cuda", devices=1, max_steps=STEPS, logger=False, callbacks=[Asked()],
                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                precision=OF_LIGHTNING.get(precision, "32-true"),
                accumulate_grad_batches=accumulate).fit(Module(), Batches(make))
    return steps


def lightning_accumulate(*what):
    return lightning(*what, accumulate=2)


# --- ultralytics -------------------------------------------------------------------------------

def three_groups(model, decay):
    """Weights, norms and biases (ultralytics 8.4.190, engine/trainer.py: build_optimizer)."""
    from torch import nn
    norms = tuple(kind for name, kind in vars(nn).items() if "Norm" in name)
    sorted_out = [[], [], []]
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            at = 2 if "bias" in name else 1 if isinstance(module, norms) else 0
            sorted_out[at].append(parameter)
    return [{"params": group, "weight_decay": decay if at == 0 else 0.0}
            for at, group in enumerate(sorted_out)]


def ultralytics_step(family, model, target, batch, precision):
    """In the order of BaseTrainer: its optimizer, clipping and average, around cross entropy; YOLOs
    have losses of their own."""
    import copy
    import torch
    (_, *shape), is_whole, _ = target
    if family.loss != "ce":
        raise NotForThis("its loss is not of classes")
    model.to("cuda").train()
    optimizer = torch.optim.SGD(three_groups(model, 5e-4), lr=0.01, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "amp-fp16")
    average = copy.deepcopy(model).eval().requires_grad_(False)
    torch.cuda.reset_peak_memory_stats()
    steps = []
    for _ in range(STEPS):
        *inputs, y = [*family.inputs(batch, "cuda", torch.float32).values(),
                      torch.zeros(batch, *shape, device="cuda", dtype=torch.long)]
        with torch.autocast("cuda", torch.float16, enabled=precision == "amp-fp16"):
            loss = LOSSES[family.loss](model(*inputs), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        with torch.no_grad():
            pairs = [(a, b) for a, b in zip(average.state_dict().values(),
                                            model.state_dict().values()) if a.is_floating_point()]
            torch._foreach_lerp_(*map(list, zip(*pairs)), 0.1)
        note(steps)
    return steps


class WithLoss:
    """What BaseTrainer asks of a model: a dict of a batch gives the loss, as those of ultralytics
    have it (nn/tasks.py, BaseModel.forward and loss)."""

    def __new__(cls, model):
        from torch import nn
        from ultralytics.utils.loss import v8ClassificationLoss

        class Module(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = nn.ModuleList([model])  # whose last may be a head, of MuSGD
                self.criterion = v8ClassificationLoss()

            def forward(self, x):
                return self.loss(x) if isinstance(x, dict) else self.model[0](x)

            def loss(self, batch, preds=None):
                if preds is None:
                    preds = self.forward(batch["img"])
                return self.criterion(preds, batch)
        return Module()


class Loader(Batches):
    """As InfiniteDataLoader, as far as the trainer asks."""
    batch_size, drop_last, num_workers = 1, False, 0

    def __init__(self, make):
        super().__init__(make)
        self.sampler = self.dataset = range(len(self))


class Enough(Exception):
    """So many batches have run."""


def ultralytics_trainer(make_model, make_batch, **told):
    """BaseTrainer with that model and batches: ClassificationTrainer's, but for where they are from."""
    from types import SimpleNamespace
    from ultralytics.engine import trainer as engine
    engine.check_amp = lambda model: True  # it downloads a model to try
    engine.check_model_file_from_stem = lambda name: name

    class Trainer(engine.BaseTrainer):
        def get_dataset(self):
            return {"train": "", "val": "", "test": "", "nc": 1000,
                    "names": {}, "channels": 3}

        def setup_model(self):
            self.model = WithLoss(make_model())

        def get_dataloader(self, *_, **__):
            return Loader(make_batch)

        def get_validator(self):
            return SimpleNamespace(metrics=SimpleNamespace(keys=[]))

        def preprocess_batch(self, batch):
            batch["img"] = batch["img"].to(self.device, non_blocking=True)
            batch["cls"] = batch["cls"].to(self.device, non_blocking=True)
            return batch

        def label_loss_items(self, loss_items=None, prefix="train"):
            return []
    return Trainer(overrides={"task": "classify", "device": "0", "plots": False, "val": False,
                              "epochs": 100, "verbose": False, "imgsz": 224, "save": False,
                              "project": told.pop("folder"), **told})


def ultralytics(family, model, target, batch, precision, times=1, **told):
    """Its BaseTrainer as it is, of networks that tell classes of images; `times` micro-batches."""
    import torch
    (_, *shape), _, *_ = target
    given = family.inputs(1, "meta", torch.float32)
    if family.loss != "ce" or shape or len(given) != 1 or next(iter(given.values())).dim() != 4:
        raise NotForThis("it does not tell classes of images")
    steps, seen = [], []

    def make():
        (image,) = family.inputs(batch, "cpu", torch.float32).values()
        return {"img": image, "cls": torch.zeros(batch, dtype=torch.long)}

    def after_batch(_):
        seen.append(1)
        if len(seen) % times == 0:
            note(steps)
        if len(steps) == STEPS:
            raise Enough
    amp = {"amp-fp16": True, "amp-bf16": "bf16"}.get(precision, False)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ultralytics_trainer(lambda: model, make, folder=folder, batch=batch, amp=amp,
                                      nbs=times * batch, warmup_epochs=0, **told)
        trainer.add_callback("on_train_start", lambda _: torch.cuda.reset_peak_memory_stats())
        trainer.add_callback("on_train_batch_end", after_batch)
        try:
            trainer._do_train()
        except Enough:
            pass
    return steps


def ultralytics_sgd(*what):
    return ultralytics(*what, optimizer="SGD")


def ultralytics_accumulate_sgd(*what):
    return ultralytics(*what, times=2, optimizer="SGD")


def ultralytics_musgd(*what):
    return ultralytics(*what, optimizer="MuSGD")


def ultralytics_adamw(*what):
    return ultralytics(*what, optimizer="AdamW")


# --- timm ------------------------------------------------------------------------------------

def on_host(family, batch, classes):
    """Images and classes, as fast_collate makes them, or targets, as FastCollateMixup does."""
    import torch
    (image,) = family.inputs(batch, "cpu", torch.float32).values()
    targets = torch.zeros(batch, classes) if classes else torch.zeros(batch, dtype=torch.long)
    return torch.zeros(image.shape, dtype=torch.uint8), targets


def loaders(family, batch, classes=None):
    """Of training and of validation: both are made before the first step."""
    from timm.data.loader import PrefetchLoader
    (image, _) = on_host(family, 1, classes)
    batches = Batches(lambda: on_host(family, batch, classes))
    return [PrefetchLoader(batches, channels=image.shape[1]) for _ in range(2)]


def train_one_epoch(model, criterion, loader, optimizer, autocast, scaler=None, model_ema=None):
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
            if scaler:
                return scaler(_loss, optimizer)  # NativeScaler
            _loss.backward()
            optimizer.step()
        loss, result = _forward()
        _backward(loss)
        loss.item()
        optimizer.zero_grad()
        if model_ema:
            model_ema.update(model, step=batch_idx)
        yield
        if batch_idx + 1 == STEPS:
            return


AMP_TYPES = {"amp-bf16": "bfloat16", "amp-fp16": "float16"}


def timm(family, model, target, batch, precision, mixes=False, averages=False, **optimizer):
    """train.py as it is, --amp --amp-dtype bfloat16 for that precision; --mixup 0.8 --cutmix 1."""
    import torch
    from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3, NativeScaler
    (_, *shape), is_whole, *_ = target
    given = family.inputs(1, "meta", torch.float32)
    if family.loss != "ce" or shape or len(given) != 1 or next(iter(given.values())).dim() != 4:
        raise NotForThis("it does not tell classes of images")
    model.to("cuda").train()
    loader, _of_validation = loaders(family, batch, classes_of(model) if mixes else None)
    optimizer = create_optimizer_v2(model, **{"opt": "sgd", "weight_decay": 2e-5, "momentum": 0.9,
                                              **optimizer})

    def autocast():
        return torch.autocast("cuda", getattr(torch, AMP_TYPES.get(precision, "bfloat16")),
                              enabled=precision in AMP_TYPES)
    scaler = NativeScaler(device="cuda") if precision == "amp-fp16" else None
    model_ema = ModelEmaV3(model, decay=0.9998) if averages else None
    criterion = SoftTargetCrossEntropy() if mixes else LabelSmoothingCrossEntropy(0.1)
    torch.cuda.reset_peak_memory_stats()
    steps = []
    for _ in train_one_epoch(model, criterion, loader, optimizer, autocast, scaler, model_ema):
        note(steps)
    return steps


def classes_of(model):
    import torch
    heads = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return heads[-1].out_features


def timm_mixup(*what):
    return timm(*what, mixes=True, opt="adamw", weight_decay=0.05)


def timm_ema(*what):
    return timm(*what, averages=True, opt="adamw", weight_decay=0.05)


def timm_lamb(*what):
    return timm(*what, opt="lamb", weight_decay=0.02)


def timm_adamw(*what):
    return timm(*what, opt="adamw", weight_decay=0.05)
