"""What the package is asked: each function is a command."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import (TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple,
                    Union)

from onnxfit import _command, _config, flags, losses, optimizers
from onnxfit._from_json import from_json
from onnxfit.errors import OnnxfitError, noted
from onnxfit.inputs import BatchDim
from onnxfit.programs import ModelFile, ModelLike, kind_of, model_file
from onnxfit.results import Check, ClosedForm, Estimate, MaxBatch, Refusal, Sweep

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

Choice = Union[None, str, Sequence[str]]
Batch = Union[None, int, str, Sequence[int]]
Optimizer = Union[None, str, "torch.optim.Optimizer"]
Loss = Union[None, str, Any]  # a name, a module or a function


def _is_named(value: object) -> bool:
    """Whether an optimizer is said by name, or by names."""
    return value is None or isinstance(value, (str, list, tuple))


def _optimizer_keywords(optimizer: object, model: object, loop: object) -> Dict[str, object]:
    if _is_named(optimizer):
        return {"optimizer": optimizers.named(optimizer)}
    module = model if callable(getattr(model, "named_parameters", None)) else None
    optimizer = optimizers.made(optimizer, module)  # type: ignore[arg-type]
    found = optimizers.flags_of(optimizer, module)  # type: ignore[arg-type]
    groups = found.groups
    is_loops = loop not in (None, "plain") and found.optimizer != "musgd"
    if is_loops and optimizers.has_one_group(optimizer):
        groups = "one"  # where the loop would make others
    return {"optimizer": found.optimizer, "optimizer_impl": found.impl,
            "optimizer_args": found.args, "param_groups": groups, "galore": found.galore}


# Keywords that are no flags: how the module is exported.
_OF_EXPORT = ("dynamic_shapes", "batch_dim", "labels")
# Given by name, they go before what an object says.
_OF_OBJECTS = ("optimizer_impl", "optimizer_args", "param_groups", "galore", "label_smoothing")


def _told(model: ModelLike, keywords: Mapping[str, Any], loss: losses.Loss) -> Dict[str, Any]:
    """The flags that are given, objects as what they say."""
    optimizer = _optimizer_keywords(keywords["optimizer"], model, keywords.get("loop"))
    told = {**keywords, **optimizer, "loss": loss.flag, "label_smoothing": loss.smooths,
            "batch": flags.batch_of(keywords.get("batch")),
            "precision": flags.precision_of(keywords["precision"])}
    for name in _OF_OBJECTS:
        if keywords.get(name) is not None:
            told[name] = keywords[name]
    return {name: value for name, value in told.items()
            if value is not None and name not in _OF_EXPORT}


# Of a whole step these say how it is asked about; all else the step says.
_BESIDE_STEP = frozenset((
    "batch", "batch_dim", "gpu", "memory", "reserve", "strict", "framework", "alloc_conf",
    "cublas_conf", "overhead", "calibration", "cudnn", "cudnn_benchmark", "n", "verbose", "ascii",
    "why", "note", "all_gpus", "multiple_of", "max", "drop_batch"))


def _refuse_beside_step(keywords: Mapping[str, Any]) -> None:
    for name, value in keywords.items():
        if value not in (None, (), False) and name not in _BESIDE_STEP:
            raise OnnxfitError(f"{name}: expected none beside a step, which says it itself, found "
                               f"{value!r}")


# Their answers are others.
_ASKED_OF = {"lengths": "onnxfit.series", "runtime": "onnxfit.session", "solve": "onnxfit.solve"}


def _refuse_elsewhere(keywords: Mapping[str, Any]) -> None:
    for name, function in _ASKED_OF.items():
        if keywords.get(name) is not None:
            raise OnnxfitError(f"{name}: expected in {function}(), whose answer is another one")


@contextmanager
def prepared(model: ModelLike, inputs: object, keywords: Mapping[str, Any],
             takes_batch: bool = True) -> Iterator[Tuple[ModelFile, Dict[str, Any]]]:
    """The file of `model`, and all keywords: what they leave open, the model says; what is assumed
    on the way there is a note."""
    flags.check(set(keywords) - {*_OF_EXPORT})
    _refuse_elsewhere(keywords)
    kind = kind_of(model)
    is_module = kind == "module"
    if kind == "step":
        _refuse_beside_step(keywords)
    if is_module and keywords.get("dims") and keywords["dynamic_shapes"] is None:
        raise OnnxfitError(
            "dims: expected none, since a module has the sizes of its inputs, but for the batch, "
            f"found {keywords['dims']!r}", "inputs of other sizes, or dynamic_shapes=")
    labels = keywords["labels"]
    is_name = labels is None or isinstance(labels, str)
    with noted() as notes:
        loss = losses.of(keywords["loss"], None if is_name else labels,
                         is_module)
        given = _told(model, keywords, loss)
        if is_name and labels is not None:
            given["labels"] = labels
        batch = given.get("batch")
        with model_file(model, inputs, mode=given.get("mode"), batch_dim=keywords["batch_dim"],
                        dynamic_shapes=keywords["dynamic_shapes"], loss=loss.recorded,
                        batch=batch if isinstance(batch, int) else None,
                        precision=given.get("precision"),
                        takes_own_loss=not ({"loss", "loss_output", "labels"} & set(given))
                        ) as file:
            words: Dict[str, Any] = {**file.flags, **given}
            if file.sizes:
                words["dims"] = {**file.sizes, **given.get("dims", {})}
            if takes_batch and file.batch is not None:
                words.setdefault("batch", file.batch)
            if notes:
                words["note"] = [*flags.items(words.get("note", ())), *notes]
            yield file, words


def ours(file: ModelFile) -> List[str]:
    """Folders that are not the user's, and are not shown."""
    return [file.folder] if file.folder else []


def _ask(command: str, model: ModelLike, inputs: object,
         keywords: Mapping[str, Any]) -> _command.Answer:
    with prepared(model, inputs, keywords, command == "estimate") as (file, words):
        return _command.ask([command, file.path, *flags.arguments(words)], hide=ours(file))


def _estimate_of(answer: _command.Answer) -> Estimate:
    return from_json(Estimate, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)


def estimate(model: ModelLike, inputs: object = None, *, batch: Optional[int] = None,
             precision: Optional[str] = None, optimizer: Optimizer = None, loss: Loss = None,
             labels: Any = None, gpu: Choice = None, batch_dim: BatchDim = 0,
             dynamic_shapes: Any = None, **more: Unpack[flags.EstimateFlags]) -> Estimate:
    """How much GPU memory a training step of `model` takes (of inference, in eval mode).

    `model` is the path of an ONNX or .pt2 file, a torch.export.ExportedProgram, or a
    torch.nn.Module on any device (meta, too) with `inputs`, an example of what forward() takes:
    a tensor, a tuple of arguments or a dictionary of named ones; or a function that is a whole
    step of training, with an example of what it is given.  `batch` is the inputs' where
    nobody says, their dimension `batch_dim`, of all or by name ({"x": 1}); mode and 16-bit types
    are the module's.  `dynamic_shapes` goes to torch.export.  Where that refuses a module, a run of
    it is recorded, and an OnnxfitWarning says what was fixed.

    `optimizer` and `loss` are names or the real objects.  Any function of the model's output and
    of labels is a loss, and is recorded with the module; `labels` is an example of them (several
    in a tuple), where the loss is not one of torch.nn, or the name of an input.  `onnxfit.flags`
    has all keywords, which are the flags of the command.  What had to be assumed is among the
    answer's assumptions.  Raises OnnxfitError where there is no answer."""
    answer = _ask("estimate", model, inputs,
                  {**more, "batch": batch, "precision": precision, "optimizer": optimizer,
                   "loss": loss, "labels": labels, "gpu": gpu, "batch_dim": batch_dim,
                   "dynamic_shapes": dynamic_shapes})
    if isinstance(answer.data, list):
        raise OnnxfitError("estimate: expected one run, found a table of several",
                           "onnxfit.sweep with the same arguments")
    return _estimate_of(answer)


def report(model: ModelLike, inputs: object = None, *,
           output: Union[None, str, "os.PathLike[str]"] = None, force: bool = False,
           batch: Optional[int] = None, precision: Optional[str] = None,
           optimizer: Optimizer = None, loss: Loss = None, labels: Any = None,
           gpu: Choice = None, batch_dim: BatchDim = 0, dynamic_shapes: Any = None,
           **more: Unpack[flags.RunFlags]) -> str:
    """The same as a page for a browser: one HTML file with pictures that needs no network.
    Returned as text and, with `output`, written there, which may not exist without `force`."""
    if output is not None and not force and os.path.lexists(output):
        raise OnnxfitError(f"{os.fspath(output)}: it exists already", "force=True")
    with prepared(model, inputs,
                  {**more, "batch": batch, "precision": precision, "optimizer": optimizer,
                   "loss": loss, "labels": labels, "gpu": gpu, "batch_dim": batch_dim,
                   "dynamic_shapes": dynamic_shapes}) as (file, words):
        page = _command.page(["report", file.path, *flags.arguments(words)], hide=ours(file))
    if output is not None:
        Path(output).write_text(page, encoding="utf-8")
    return page


def sweep(model: ModelLike, inputs: object = None, *, batch: Batch = None, precision: Choice = None,
          optimizer: Union[Optimizer, Sequence[str]] = None, loss: Loss = None,
          labels: Any = None, gpu: Choice = None, batch_dim: BatchDim = 0,
          dynamic_shapes: Any = None, **more: Unpack[flags.RunFlags]) -> Sweep:
    """A table of estimates: batch, precision, optimizer and sizes of `dims` may be lists, or
    ranges, Python's (range(8, 65, 8)) or as the command takes them ("8:64:8")."""
    answer = _ask("estimate", model, inputs,
                  {**more, "batch": batch, "precision": precision, "optimizer": optimizer,
                   "loss": loss, "labels": labels, "gpu": gpu, "batch_dim": batch_dim,
                   "dynamic_shapes": dynamic_shapes})
    data = answer.data if isinstance(answer.data, list) else [answer.data]
    rows = tuple(from_json(Refusal, row) if "error" in row else from_json(Estimate, row, raw=row)
                 for row in data)
    return Sweep(rows=rows, text=answer.text, raw={"rows": data}, holds=answer.code == 0)


def max_batch(model: ModelLike, inputs: object = None, *, precision: Choice = None,
              optimizer: Union[Optimizer, Sequence[str]] = None, loss: Loss = None,
              labels: Any = None, gpu: Choice = None, batch_dim: BatchDim = 0,
              dynamic_shapes: Any = None, **more: Unpack[flags.MaxBatchFlags]) -> MaxBatch:
    """The largest batch that a card trains, for each of `gpu` and `memory`, and what would raise
    it.  Everything else is as in estimate()."""
    answer = _ask("max-batch", model, inputs,
                  {**more, "precision": precision, "optimizer": optimizer, "loss": loss,
                   "labels": labels, "gpu": gpu, "batch_dim": batch_dim,
                   "dynamic_shapes": dynamic_shapes})
    return from_json(MaxBatch, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)


def _checked(config: str, words: Sequence[str], hide: Sequence[str] = ()) -> Check:
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        answer = _command.ask_once(["check", config, *words], Path(folder, "report.txt"), hide)
    checked = from_json(Check, answer.data, text=answer.text, raw=answer.data,
                        holds=answer.code == 0)
    if checked.checks and all(row.status == "error" for row in checked.checks):
        raise OnnxfitError("\n".join(f"{row.name}: {row.error}" for row in checked.checks))
    return checked


def _refuse_beside_config(keywords: Mapping[str, Any]) -> None:
    """A config says all of a run itself."""
    for name, value in keywords.items():
        if value is None or value == ():
            continue
        raise OnnxfitError(f"{name}: expected beside a model, found beside a config",
                           "a key of its [[check]]")


def _lock_words(lock: object, update: bool, name: str) -> List[str]:
    """Of a lock that is told, the check of this name alone: others may share it."""
    if lock is not None:
        return ["--lock", os.path.abspath(os.fspath(lock)), "--only", name]  # type: ignore[call-overload]
    if update:
        raise OnnxfitError("update: expected a lock that it writes, found none: only a config has "
                           "one beside it", "lock=\"model.lock.json\"")
    return []


def check(model: ModelLike = "onnxfit.toml", inputs: object = None, *,
          budget: flags.Sizes = (), against: Optional[str] = None,
          lock: Union[None, str, "os.PathLike[str]"] = None, name: Optional[str] = None,
          max_increase: Optional[flags.Size] = None, update: bool = False, only: flags.Names = (),
          batch: Optional[int] = None, precision: Optional[str] = None,
          optimizer: Optimizer = None, loss: Loss = None, labels: Any = None,
          batch_dim: BatchDim = 0, dynamic_shapes: Any = None,
          **more: Unpack[flags.RunFlags]) -> Check:
    """Holds the models of a config (a path that ends in .toml) to their budgets and to its lock,
    which `update` writes, or to that at the path `lock`; `only` picks some of them.

    Or holds one model, as estimate() takes them, to `budget`: cards that it must run on, shares
    of them ("30% of t4"), sizes; and to growing by `max_increase` ("2%") at most over `against`,
    such as a file of an earlier estimate's `raw` JSON, or over its row in `lock`, which `update`
    writes.  Several models share a lock by `name`, which is else the file's or the class's.

    Raises OnnxfitError where not one check has an answer."""
    keywords = {**more, "batch": batch, "precision": precision, "optimizer": optimizer,
                "loss": loss, "labels": labels, "batch_dim": batch_dim,
                "dynamic_shapes": dynamic_shapes}
    told = flags.arguments({"update": update, "against": against})
    if isinstance(model, (str, os.PathLike)) and os.fspath(model).endswith(".toml"):
        strict = keywords.pop("strict", False)
        keywords["batch_dim"] = batch_dim or None
        _refuse_beside_config({"inputs": inputs, "budget": budget, "max_increase": max_increase,
                               "name": name, **keywords})
        told += flags.arguments({"lock": lock, "only": only, "strict": strict})
        return _checked(os.fspath(model), told)
    with prepared(model, inputs, keywords) as (file, words):
        called = name or Path(file.path).stem
        told += _lock_words(lock, update, called)
        with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
            config = Path(file.folder or folder, "onnxfit.toml")
            config.write_text(_config.check({"model": os.path.abspath(file.path), **words,
                                             "name": called, "budget": budget or None,
                                             "lock": "none" if lock is None else None,
                                             "max_increase": max_increase}), encoding="utf-8")
            return _checked(str(config), told, hide=[*ours(file), folder])


def closed_form(params: Union[int, float, str], *, batch: Optional[int] = None,
                precision: Optional[str] = None, optimizer: Optional[str] = None,
                gpu: Choice = None, **more: Unpack[flags.NumbersFlags]) -> ClosedForm:
    """The same of a transformer that is given by its numbers, such as params="7B", layers=32,
    hidden=4096: a closed form."""
    words = flags.arguments({"params": params, **more, "batch": batch, "precision": precision,
                             "optimizer": optimizer, "gpu": gpu})
    answer = _command.ask(["estimate", *words])
    return from_json(ClosedForm, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)
