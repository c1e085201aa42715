"""A module's program from watched runs of it: what torch.export would write, and besides when Python
lets go of each tensor."""

from __future__ import annotations

import inspect
import json
import zipfile
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnxfit import fake_card, free_sizes, plain_values, schema_json, steady, watching
from onnxfit.errors import note
from onnxfit.inputs import Free, Inputs, positional
from onnxfit.schema_json import Json

if TYPE_CHECKING:
    import torch

    from onnxfit.recording import Recording

# Where free sizes are run, beside where they are asked for.
_OTHERS = ((2, 3, 5), (3, 5, 7), (5, 7, 11))


class Program(NamedTuple):
    """What the command reads, and what this package asks of it."""

    json: Json
    precision: str
    weights: Mapping[str, str]  # the member that would hold each: of tied ones, the same
    inputs: Dict[str, torch.Tensor]  # by name, fake
    output: Any  # what the module returns, of fake tensors
    output_names: List[str]  # of each leaf of it; "" of what is no tensor
    frees: List[Free]  # sizes that are free
    why_fixed: str = ""  # where a size that was to be is not

    def is_free(self, name: str) -> bool:
        return any(free.name == name for free in self.frees)

    def _tensors(self) -> Dict[str, Json]:
        return self.json["graph_module"]["graph"]["tensor_values"]  # type: ignore[no-any-return]

    def free_axes(self, tensor: torch.Tensor) -> Tuple[int, ...]:
        """Which dimensions of a tensor of `output` follow a free size."""
        names = {id(leaf): name for leaf, name in zip(_leaves(self.output), self.output_names)}
        sizes = self._tensors()[names[id(tensor)]]["sizes"]
        return tuple(axis for axis, size in enumerate(sizes) if "as_int" not in size)

    def has_size(self, least: int) -> bool:
        """Whether a tensor has a dimension of that size, or more."""
        return any(size.get("as_int", 0) >= least for tensor in self._tensors().values()
                   for size in tensor["sizes"])


class _Run(NamedTuple):
    graph: Json
    output: Any
    output_names: List[str]
    inputs: Dict[str, torch.Tensor]
    specs: List[Json]
    weights: Dict[str, str]
    more: Json  # what a whole step says beside its calls


# --- Names --------------------------------------------------------------------------------------


def _argument_names(model: torch.nn.Module) -> List[str]:
    try:
        return list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):  # of C++
        return []


def _identifier(text: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in text)


def _positional_names(model: torch.nn.Module, count: int) -> List[str]:
    """Of the arguments that forward() is given by position."""
    names = positional(model)
    return [*names, *(f"args_{at}" for at in range(len(names), count))][:count]


def _input_names(model: torch.nn.Module, inputs: Inputs) -> List[str]:
    """Of each tensor, by the argument that it is, or is in: "x", "states_0"."""
    from torch.utils import _pytree as pytree
    import torch
    named = [*zip(_positional_names(model, len(inputs.args)), inputs.args),
             *inputs.kwargs.items()]
    found: List[str] = []
    for name, value in named:
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
                        for key in path]
                found.append(_identifier("_".join([name, *keys])))
    return found


# --- One run ------------------------------------------------------------------------------------


def _leaves(output: Any) -> List[Any]:
    """What a module returned, one after the other."""
    from torch.utils import _pytree as pytree
    return list(pytree.tree_leaves(plain_values.result(output)))


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
        """Of "" the types are the module's own."""
        import torch
        if not name:
            return Precision("own")
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64,
                 "fp32": torch.float32}
        if name.startswith("amp-"):
            return Precision(name, None, kinds[name[4:]])
        return Precision(name, kinds[name])

    def outside_autocast(self, labels: torch.Tensor) -> torch.Tensor:
        """Labels like an output, which nobody makes under autocast."""
        import torch
        return labels.to(torch.float32) if labels.dtype is self.autocast else labels


class _Runner(NamedTuple):
    """A module, the card and the loop that it runs in."""

    model: torch.nn.Module
    given: Inputs  # as its forward takes them
    card: fake_card.Card
    precision: Precision
    asks: bool  # of a whole step that asks for values: each run has as many questions
    is_warm: bool = False  # a run of the step goes before, which is no part of the program

    def run(self, parts: Inputs, is_repeated: bool) -> _Run:
        """One run of `parts`, given.apart() at some sizes, or two where the first leaves tensors."""
        step = watching.step_in(self.model)
        with step.holding(self.card) if step is not None else self.card.holding(self.model):
            return _run(self, parts, is_repeated)


def _run(runner: _Runner, parts: Inputs, is_repeated: bool) -> _Run:
    model, inputs, card, precision = runner[:4]
    import torch
    from torch.utils import _pytree as pytree
    names = dict(zip(map(id, parts.once().tensors()), _input_names(model, parts.once())))
    given: Dict[str, torch.Tensor] = {}
    specs, weights = _weights(model, given)
    users: Dict[str, torch.Tensor] = {}

    def on_card(tensor: torch.Tensor) -> torch.Tensor:
        name = names[id(tensor)]
        if name not in users:  # somebody may have given it twice
            users[name] = card.put(tensor)
        return users[name]

    mapped = parts.mapped(on_card)
    args, kwargs = plain_values.together((inputs.args, inputs.kwargs), (mapped.args, mapped.kwargs))
    del mapped
    step = watching.step_in(model)
    loop = step.loop if step is not None else watching.Loop(precision.autocast, model.training)

    def called(recorder: watching.Recorder) -> Any:
        if not any(tensor.requires_grad for tensor in users.values()) or not model.training:
            return model(*args, **kwargs)
        asking = pytree.tree_map_only(torch.Tensor, recorder.leaf, (args, kwargs))
        return model(*asking[0], **asking[1])

    warm = None
    if runner.is_warm:
        warm = watching.watch(model, called, {**given, **users}, loop, card.put)[0]
        step.drop_gradients()
    recorder, output = watching.watch(model, called, {**given, **users}, loop, card.put, warm=warm)
    outputs = [recorder.name_of(leaf) if isinstance(leaf, torch.Tensor) else ""
               for leaf in _leaves(output)]
    for path, tensor in model.named_buffers(remove_duplicate=False):
        name = "b_" + _identifier(path)
        if name in given and given[name] is not tensor:
            recorder.replace(name, tensor)
    shown = plain_values.without_identity(output)
    del output
    if is_repeated and (recorder.alive() or loop.is_step):
        again, output = watching.watch(model, called, {**given, **users}, loop, card.put,
                                       before=recorder)
        del output
        recorder.check_same(again)
        if step is not None and not runner.is_warm:
            steady.check(recorder.nodes, again.nodes)
        steady.merge(recorder.nodes, again.nodes)
    if any(name not in outputs for _, name in recorder.alive()):
        fake_card.forget_results()
    recorder.finish()
    constants = [{"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": name}}
                 for name in recorder.constants]
    inputs_json = [{"as_tensor": {"name": name}}
                   for name in [*given, *recorder.held, *recorder.constants, *users]]
    graph = {"inputs": inputs_json,
             "outputs": [{"as_tensor": {"name": name}} for name in outputs if name],
             "nodes": recorder.nodes, "tensor_values": recorder.tensors, "sym_int_values": {}}
    for name, path in recorder.held.items():
        specs.append({"buffer": {"arg": {"name": name}, "buffer_name": path, "persistent": False}})
        weights[path] = f"held_{len(weights)}"
    specs += constants
    specs += [{"user_input": {"arg": {"as_tensor": {"name": name}}}} for name in users]
    more = step.more(given) if step is not None else {}
    return _Run(graph, shown, outputs, users, specs, weights, more)


# --- The whole ----------------------------------------------------------------------------------


def _others(frees: Sequence[Free], turn: int) -> Tuple[int, ...]:
    """Sizes to run at beside those of `frees`: small ones of the batch, a little less of a length."""
    made = []
    for at, free in enumerate(frees):
        chosen = next(other for other in (*_OTHERS[turn], *_OTHERS[2]) if other != free.size)
        made.append(chosen if at == 0 or free.size < 16 else free.size - 2 * chosen)
    return tuple(made)


def _multiples(frees: Sequence[Free], turn: int) -> Tuple[int, ...]:
    """The same of a batch that is taken apart."""
    return (frees[0].size * (2, 3, 5)[turn], *_others(frees, turn)[1:])


def _freed(runner: _Runner, parts: Inputs, frees: Sequence[Free], graph: Json) -> Json:
    """`graph`, of a run of `parts`, with `frees` as symbols.  Raises NotFree."""
    def run_at(point: Sequence[int]) -> Json:
        return runner.run(parts.resized(frees, point), runner.asks).graph

    def merged(others: Callable[[Sequence[Free], int], Tuple[int, ...]]) -> Json:
        where = free_sizes.points(tuple(first), [others(frees, 0), others(frees, 1)])
        graphs = [graph, *map(run_at, where[1:])]
        try:
            return free_sizes.merged(graphs, where, names)
        except free_sizes.OtherCalls:
            raise
        except free_sizes.NotFree:  # squares want one more
            where.append(others(frees, 2))
            return free_sizes.merged([*graphs, run_at(where[-1])], where, names)

    names, first = [free.name for free in frees], [free.size for free in frees]
    try:
        return merged(_others)
    except free_sizes.OtherCalls:  # a batch that the code takes apart has more parts than those
        return merged(_multiples)


def program(model: torch.nn.Module, given: Inputs, frees: Sequence[Free], sizes: Sequence[int],
            precision: Precision, told: Optional[Recording] = None,
            is_default: bool = False) -> Program:
    """`model` as it runs on a card with `given` at these `sizes` of `frees`, which are free where
    all sizes follow them, else the first alone, or none.  `told` answers questions for values,
    `is_default` puts what the code makes on no device there."""
    card = fake_card.Card(precision.floats, told.lend if told else None, is_default)
    asks = told is not None and watching.step_in(model) is not None
    runner = _Runner(model, given, card, precision, asks)
    why = ""
    with card.entered():
        parts = given.apart().resized(frees, sizes)
        try:
            first = runner.run(parts, True)
        except steady.OtherCalls:
            note("the step does otherwise the first time that it runs: what is played is how it runs "
                 "behind that")
            runner = runner._replace(is_warm=True)
            first = runner.run(parts, True)
        if told is not None:
            told.keep_answers()
        free = [one._replace(size=size) for one, size in zip(frees, sizes)]
        graph = first.graph
        while free:
            try:
                graph = _freed(runner, parts, free, first.graph)
                break
            except Exception as error:
                why = why or str(error)
                free = free[:1] if len(free) > 1 else []
    state = {"precision": precision.name, **first.more}
    return Program(_json(model, graph, first, state, free),
                   precision.name, first.weights, first.inputs, first.output, first.output_names,
                   free, why)


def _json(model: torch.nn.Module, graph: Json, run: _Run, state: Mapping[str, Any],
          frees: Sequence[Free]) -> Json:
    import torch
    arguments = _argument_names(model)
    modules = [{"fqn": path, "signature": None} for path, _ in model.named_modules()]
    modules[0]["signature"] = {"forward_arg_names": arguments}
    outputs = [{"user_output": {"arg": {"as_tensor": {"name": name}}}}
               for name in run.output_names if name]
    return {"schema_version": schema_json.VERSION, "torch_version": torch.__version__,
            "onnxfit": {"watched": dict(state)},
            "graph_module": {"graph": graph, "signature": {"input_specs": run.specs,
                                                           "output_specs": outputs},
                             "module_call_graph": modules},
            "range_constraints": {free.name: {"min_val": 1, "max_val": None} for free in frees}}


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
