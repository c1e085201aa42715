"""Writes a program of torch.export as the .pt2 that the command reads (estimator/pt2/): the JSON of
torch/_export/serde/schema.py, but for what nobody reads there, and no weights.  torch.export.save
takes half a second for a ResNet, copying and verifying; this, milliseconds.  What is not known here
raises schema_json.Unknown."""

from __future__ import annotations

import functools
import json
import operator
import re
import zipfile
from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from onnxfit import schema_json
from onnxfit.schema_json import Json

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


# Kinds of torch.export's signature, and what each calls its target.
_INPUTS = {"PARAMETER": "parameter_name", "BUFFER": "buffer_name",
           "CONSTANT_TENSOR": "tensor_constant_name", "CUSTOM_OBJ": "custom_obj_name", "TOKEN": ""}
_INPUT_KINDS = {"CONSTANT_TENSOR": "tensor_constant"}  # the others are theirs in lower case
_OUTPUTS = {"LOSS_OUTPUT": "", "BUFFER_MUTATION": "buffer_name",
            "PARAMETER_MUTATION": "parameter_name", "USER_INPUT_MUTATION": "user_input_name",
            "GRADIENT_TO_PARAMETER": "parameter_name",
            "GRADIENT_TO_USER_INPUT": "user_input_name", "TOKEN": ""}


@functools.lru_cache(maxsize=None)
def _kind_name(kind: Any) -> str:
    return str(kind.name)


def _is_tensor(value: object) -> bool:
    return hasattr(value, "dtype")


class _Sizes:
    """Numbers, and expressions of symbols, each of which is written once."""

    def __init__(self) -> None:
        self._written: Dict[Any, Json] = {}

    def of(self, size: Any) -> Json:
        if type(size) is int:
            return {"as_int": size}
        expression = size.node.expr
        if expression not in self._written:
            self._written[expression] = self._symbolic(size, expression)
        return self._written[expression]

    def _symbolic(self, size: Any, expression: Any) -> Json:
        import sympy  # type: ignore[import-untyped]
        if expression.is_number:
            return {"as_int": int(expression)}
        written: Json = {"expr_str": sympy.srepr(expression)}
        if size.node.hint is not None:
            written["hint"] = {"as_int": int(size.node.hint)}
        return {"as_expr": written}


class _GraphWriter:
    """One graph; those of its higher-order operators have writers of their own."""

    def __init__(self, module: torch.fx.GraphModule, sizes: _Sizes) -> None:
        self._module = module
        self._sizes = sizes
        self._names: Dict[str, str] = {}  # of elements that are taken out of results twice
        self.tensors: Dict[str, Json] = {}
        self.numbers: Dict[str, Json] = {}

    def write(self) -> Json:
        inputs: List[Json] = []
        nodes: List[Json] = []
        outputs: List[Json] = []
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                inputs.append(self._input(node))
            elif node.op == "output":
                results = node.args[0]
                outputs = [self._argument(result) for result in
                           (results if isinstance(results, (list, tuple)) else [results])]
            elif node.op == "call_function":
                if node.target is not operator.getitem:
                    nodes.append(self._call(node))
            elif node.op != "get_attr":
                raise schema_json.Unknown(node.op)
        return {"inputs": inputs, "outputs": outputs, "nodes": nodes,
                "tensor_values": self.tensors, "sym_int_values": self.numbers}

    # --- Values ---

    def _tensor(self, name: str, value: Any) -> Json:
        self.tensors[name] = schema_json.tensor(value, self._sizes.of)
        return {"as_tensor": {"name": name}}

    def _value(self, name: str, value: Any) -> Json:
        """What a call makes."""
        if _is_tensor(value):
            return self._tensor(name, value)
        kind = _kind_of_number(value)
        if kind == "as_sym_int":
            self.numbers[name] = self._sizes.of(value)
        return {kind: {"as_name": name}} if kind else {"as_none": True}

    def _input(self, node: torch.fx.Node) -> Json:
        value = node.meta["val"]
        if _is_tensor(value) or _kind_of_number(value, symbols_alone=True):
            return self._value(node.name, value)
        if hasattr(value, "class_fqn"):
            return {"as_custom_obj": {"name": node.name, "class_fqn": value.class_fqn}}
        return self._argument(value)

    def _results(self, node: torch.fx.Node) -> List[Json]:
        value = node.meta.get("val")
        count = schema_json.result_count(node.target)
        if count == 0:
            return []
        if not isinstance(value, (list, tuple)):
            return [self._value(node.name, value)]
        names = self._element_names(node)
        made = [self._value(names.get(index, f"{node.name}_unused_{index}"), element)
                for index, element in enumerate(value)]
        if count != 1:
            return made
        return [{"as_tensors": [element["as_tensor"] for element in made]}]

    def _element_names(self, node: torch.fx.Node) -> Dict[int, str]:
        names: Dict[int, str] = {}
        for user in node.users:
            if user.target is not operator.getitem:
                raise schema_json.Unknown("a list as an operand")
            index: Any = user.args[1]
            self._names[user.name] = names.setdefault(index, user.name)
        return names

    # --- Calls ---

    def _call(self, node: torch.fx.Node) -> Json:
        import torch
        target: Any = node.target
        if isinstance(target, torch._ops.HigherOrderOperator):
            given = [("", value) for value in node.args] + list(node.kwargs.items())
        else:
            names = schema_json.parameters(target)
            given = [*zip(names, node.args), *node.kwargs.items()]
        return {"target": schema_json.name_of(target), "name": node.name,
                "inputs": [{"name": name, "arg": self._argument(value)} for name, value in given],
                "outputs": self._results(node), "metadata": _metadata(node)}

    def _argument(self, value: Any) -> Json:
        return schema_json.argument(value, self._referred)

    def _referred(self, value: Any) -> Optional[Json]:
        import torch
        return self._reference(value) if isinstance(value, torch.fx.Node) else None

    def _reference(self, node: torch.fx.Node) -> Json:
        if node.op == "get_attr":
            body = getattr(self._module, str(node.target))
            return {"as_graph": {"name": str(node.target),
                                 "graph": _GraphWriter(body, self._sizes).write()}}
        name = self._names.get(node.name, node.name)
        value = node.meta.get("val")
        kind = "" if _is_tensor(value) else _kind_of_number(value)
        if kind:
            return {kind: {"as_name": name}}
        return {"as_tensor": {"name": name}}


def _kind_of_number(value: object, symbols_alone: bool = False) -> str:
    """"as_sym_int" of a whole number that a call makes; "" of what is none."""
    import torch
    rows: Tuple[Tuple[str, type, type], ...] = (
        ("as_sym_int", torch.SymInt, int), ("as_sym_float", torch.SymFloat, float),
        ("as_sym_bool", torch.SymBool, bool))
    return next((kind for kind, symbol, number in rows
                 if isinstance(value, symbol) or (type(value) is number and not symbols_alone)), "")


def _metadata(node: torch.fx.Node) -> Dict[str, str]:
    meta, written = node.meta, {}
    if meta.get("stack_trace"):
        written["stack_trace"] = meta["stack_trace"]
    if meta.get("nn_module_stack"):
        written["nn_module_stack"] = ";".join(
            f"{key},{path},{kind}" for key, (path, kind) in meta["nn_module_stack"].items())
    if meta.get("custom"):
        written["custom"] = json.dumps(meta["custom"])
    return written


def _spec(spec: Any, graph_argument: Json, targets: Mapping[str, str], prefix: str) -> Json:
    kind = _kind_name(spec.kind)
    if kind == f"USER_{prefix}":
        if prefix == "INPUT" and hasattr(spec.arg, "value"):
            return {"constant_input": {"name": spec.arg.name, "value": graph_argument}}
        return {f"user_{prefix.lower()}": {"arg": graph_argument}}
    if kind not in targets:
        raise schema_json.Unknown(kind)
    written: Json = {"arg": {"name": spec.arg.name}}
    if targets[kind]:
        written[targets[kind]] = spec.target
    if kind == "BUFFER":
        written["persistent"] = bool(spec.persistent)
    return {_INPUT_KINDS.get(kind, kind.lower()): written}


def _signature(signature: Any, graph: Json) -> Json:
    return {"input_specs": [_spec(spec, argument, _INPUTS, "INPUT")
                            for spec, argument in zip(signature.input_specs, graph["inputs"])],
            "output_specs": [_spec(spec, argument, _OUTPUTS, "OUTPUT")
                             for spec, argument in zip(signature.output_specs, graph["outputs"])]}


def _module_call(entry: Any) -> Json:
    names = getattr(entry.signature, "forward_arg_names", None)
    return {"fqn": entry.fqn, "signature": {"forward_arg_names": list(names)} if names else None}


def _limit(value: Any) -> Json:
    return int(value) if getattr(value, "is_Integer", False) else None


def to_json(program: ExportedProgram) -> Json:
    """The program as torch.export.save writes it, where that says anything of memory."""
    import torch
    graph = _GraphWriter(program.graph_module, _Sizes()).write()
    return {
        "schema_version": schema_json.VERSION, "torch_version": torch.__version__,
        "graph_module": {"graph": graph, "signature": _signature(program.graph_signature, graph),
                         "module_call_graph": [*map(_module_call, program.module_call_graph)]},
        "range_constraints": {str(symbol): {"min_val": _limit(limits.lower),
                                            "max_val": _limit(limits.upper)}
                              for symbol, limits in program.range_constraints.items()}}


def _storages(program: ExportedProgram) -> Dict[str, str]:
    """The member that would hold each parameter and buffer: of tied ones, the same."""
    numbers: Dict[int, int] = {}
    return {name: f"weight_{numbers.setdefault(id(tensor), len(numbers))}"
            for name, tensor in program.state_dict.items()}


def _named(written: Json, names: Mapping[str, str]) -> Json:
    """With `names` in the place of symbols: free dimensions as who exports the program calls them."""
    if isinstance(written, list):
        return [_named(item, names) for item in written]
    if not isinstance(written, dict):
        return written
    made = {key: _named(item, names) for key, item in written.items()}
    if isinstance(made.get("expr_str"), str):
        made["expr_str"] = re.sub(r"\w+", lambda word: names.get(word[0], word[0]),
                                  made["expr_str"])
    if "range_constraints" in made:
        made["range_constraints"] = {names.get(symbol, symbol): limits for symbol, limits
                                     in made["range_constraints"].items()}
    return made


def save(program: ExportedProgram, path: str, more: Mapping[str, str],
         names: Mapping[str, str] = {}) -> None:
    """Writes the .pt2, with `more` members, texts by name, and `names` of free dimensions, by
    symbol.  Members stand for weights where their names alone do not say what is tied: of several
    names, and of those that no call reads."""
    json_of_all = to_json(program)
    written = json.dumps(_named(json_of_all, names) if names else json_of_all,
                         check_circular=False)
    storages = _storages(program)
    uses = Counter(storages.values())
    unread = {node.name for node in program.graph.nodes
              if node.op == "placeholder" and not node.users}
    told = {storages[spec.target] for spec in program.graph_signature.input_specs
            if spec.target in storages
            and (uses[storages[spec.target]] > 1 or spec.arg.name in unread)}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive_format", "pt2")
        file.writestr("archive_version", "0")
        file.writestr("models/model.json", written)
        file.writestr("data/weights/model_weights_config.json", json.dumps(
            {"config": {name: {"path_name": storage} for name, storage in storages.items()}}))
        for name, text in more.items():
            file.writestr(name, text)
        for storage in sorted(told):
            file.writestr(f"data/weights/{storage}", "0")
