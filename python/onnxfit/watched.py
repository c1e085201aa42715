"""A module's program from watched runs of it: what torch.export would write, and besides when Python
lets go of each tensor."""

from __future__ import annotations

import inspect
import json
import zipfile
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnxfit import fake_card, free_sizes, plain_values, schema_json, steady, watching
from onnxfit.inputs import Inputs
from onnxfit.schema_json import Json

if TYPE_CHECKING:
    import torch

# The batch is free where runs at these, and at one that is asked, differ in sizes alone.
_OTHER_BATCHES = (2, 3, 5, 7)


class Program(NamedTuple):
    """What the command reads, and what this package asks of it."""

    json: Json
    weights: Mapping[str, str]  # the member that would hold each: of tied ones, the same
    inputs: Dict[str, torch.Tensor]  # by name, fake
    output: Any  # what the module returns, of fake tensors
    output_names: List[str]  # of the tensors in it
    batch: str = ""  # a symbol or a number; "" where no input has it
    batch_place: Optional[Tuple[str, int]] = None
    why_fixed: str = ""


class _Run(NamedTuple):
    graph: Json
    output: Any
    output_names: List[str]
    inputs: Dict[str, torch.Tensor]
    specs: List[Json]
    weights: Dict[str, str]


# --- Names --------------------------------------------------------------------------------------


def _argument_names(model: torch.nn.Module) -> List[str]:
    try:
        return list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):  # of C++
        return []


def _identifier(text: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in text)


def _input_names(model: torch.nn.Module, inputs: Inputs) -> List[str]:
    """Of each tensor, by the argument that it is, or is in: "x", "states_0"."""
    from torch.utils import _pytree as pytree
    import torch
    names = _argument_names(model)
    named = [*zip(names + [f"args_{at}" for at in range(len(names), len(inputs.args))],
                  inputs.args), *inputs.kwargs.items()]
    found: List[str] = []
    for name, value in named:
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
                        for key in path]
                found.append(_identifier("_".join([name, *keys])))
    return found


# --- One run ------------------------------------------------------------------------------------


def _tensors_in(value: Any) -> List[torch.Tensor]:
    import torch
    from torch.utils import _pytree as pytree
    return [leaf for leaf in pytree.tree_leaves(plain_values.result(value))
            if isinstance(leaf, torch.Tensor)]


def _weights(model: torch.nn.Module, given: Dict[str, torch.Tensor]
             ) -> Tuple[List[Json], Dict[str, str]]:
    """The specs of parameters and buffers, which are added to `given` by name."""
    specs: List[Json] = []
    members: Dict[str, str] = {}
    numbers: Dict[int, int] = {}
    unsaved = {f"{path}.{name}" if path else name for path, module in model.named_modules()
               for name in module._non_persistent_buffers_set}
    for kind, prefix, found in (
            ("parameter", "p_", model.named_parameters(remove_duplicate=False)),
            ("buffer", "b_", model.named_buffers(remove_duplicate=False))):
        for path, tensor in found:
            name = prefix + _identifier(path)
            given[name] = tensor
            spec: Json = {"arg": {"name": name}, f"{kind}_name": path}
            if kind == "buffer":
                spec["persistent"] = path not in unsaved
            specs.append({kind: spec})
            members[path] = f"weight_{numbers.setdefault(id(tensor), len(numbers))}"
    return specs, members


class Precision(NamedTuple):
    """The types of a loop: --precision as the command takes it."""

    name: str
    floats: Optional[torch.dtype] = None  # of parameters and inputs; None: as they are
    autocast: Optional[torch.dtype] = None

    @staticmethod
    def of(name: str) -> Precision:
        import torch
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64,
                 "fp32": torch.float32}
        if name.startswith("amp-"):
            return Precision(name, None, kinds[name[4:]])
        return Precision(name, kinds[name])


def _run(model: torch.nn.Module, inputs: Inputs, card: fake_card.Card, precision: Precision,
         is_repeated: bool) -> _Run:
    with card.holding(model):
        return _run_there(model, inputs, card, precision, is_repeated)


def _run_there(model: torch.nn.Module, inputs: Inputs, card: fake_card.Card, precision: Precision,
               is_repeated: bool) -> _Run:
    parts = inputs.apart()
    names = dict(zip(map(id, parts.once().tensors()), _input_names(model, parts.once())))
    given: Dict[str, torch.Tensor] = {}
    specs, weights = _weights(model, given)
    users: Dict[str, torch.Tensor] = {}

    def on_card(tensor: torch.Tensor) -> torch.Tensor:
        made = card.put(tensor)
        users[names[id(tensor)]] = made
        return made

    mapped = parts.mapped(on_card)
    args, kwargs = plain_values.together((inputs.args, inputs.kwargs), (mapped.args, mapped.kwargs))
    del mapped, parts
    loop = watching.Loop(precision.autocast, model.training)
    recorder, output = watching.watch(model, lambda: model(*args, **kwargs), {**given, **users},
                                      loop, card.put)
    outputs = [recorder.name_of(tensor) for tensor in _tensors_in(output)]
    shown = plain_values.without_identity(output)
    del output
    if is_repeated and recorder.alive():
        again, output = watching.watch(model, lambda: model(*args, **kwargs), {**given, **users},
                                       loop, card.put, before=recorder)
        del output
        steady.merge(recorder.nodes, again.nodes)
    constants = [{"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": name}}
                 for name in recorder.constants]
    inputs_json = [{"as_tensor": {"name": name}}
                   for name in [*given, *recorder.constants, *users]]
    graph = {"inputs": inputs_json, "outputs": [{"as_tensor": {"name": name}} for name in outputs],
             "nodes": recorder.nodes, "tensor_values": recorder.tensors, "sym_int_values": {}}
    specs += constants
    specs += [{"user_input": {"arg": {"as_tensor": {"name": name}}}} for name in users]
    return _Run(graph, shown, outputs, users, specs, weights)


# --- The whole ----------------------------------------------------------------------------------


def _sizes(inputs: Inputs, asked: Optional[int]) -> List[int]:
    """The batches to run: that which is asked, and others."""
    first = asked or inputs.batch or 1
    return [first, *(size for size in _OTHER_BATCHES if size != first)][:3]


def program(model: torch.nn.Module, inputs: Inputs, batch: Optional[int],
            precision: Precision, lend: Optional[fake_card.Lend] = None) -> Program:
    """`model` as it runs on a card with `inputs`, its batch free where sizes follow it; `lend` is
    told which fake tensors stand for the module's and the inputs'."""
    card = fake_card.Card(precision.floats, lend)
    why = ""
    with card.entered():
        batches = _sizes(inputs, batch) if inputs.batch else [0]
        runs = [_run(model, inputs.with_batch(batches[0]) if inputs.batch else inputs, card,
                     precision, True)]
        graph = runs[0].graph
        if inputs.batch:
            try:
                others = [_run(model, inputs.with_batch(size), card, precision, False).graph for size in batches[1:]]
                graph = free_sizes.merged([graph, *others], batches)
            except Exception as error:
                why = str(error)
    first = runs[0]
    place = next(((name, axes[0]) for name, axes in zip(first.inputs, inputs.apart().once().axes)
                  if axes), None)
    batch_size = "" if place is None else (
        str(batches[0]) if why else free_sizes.SYMBOL)
    return Program(_json(model, graph, first, {"precision": precision.name}), first.weights, first.inputs, first.output,
                   first.output_names, batch_size, place, why)


def _json(model: torch.nn.Module, graph: Json, run: _Run, state: Mapping[str, Any]) -> Json:
    import torch
    arguments = _argument_names(model)
    modules = [{"fqn": path, "signature": None} for path, _ in model.named_modules()]
    modules[0]["signature"] = {"forward_arg_names": arguments}  # type: ignore[assignment]
    outputs = [{"user_output": {"arg": {"as_tensor": {"name": name}}}}
               for name in run.output_names]
    return {"schema_version": schema_json.VERSION, "torch_version": torch.__version__,
            "onnxfit": {"watched": dict(state)},
            "graph_module": {"graph": graph, "signature": {"input_specs": run.specs,
                                                           "output_specs": outputs},
                             "module_call_graph": modules},
            "range_constraints": {free_sizes.SYMBOL: {"min_val": 1, "max_val": None}}}


def save(made: Program, path: str, more: Mapping[str, str]) -> None:
    """Writes the .pt2, with `more` members, texts by name."""
    weights = {"config": {name: {"path_name": member} for name, member in made.weights.items()}}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive_format", "pt2")
        file.writestr("archive_version", "0")
        file.writestr("models/model.json", json.dumps(made.json, check_circular=False))
        file.writestr("data/weights/model_weights_config.json", json.dumps(weights))
        for name, text in more.items():
            file.writestr(name, text)
        for member in sorted(set(made.weights.values())):
            file.writestr(f"data/weights/{member}", "0")
