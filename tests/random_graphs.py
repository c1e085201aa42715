"""Makes random networks from ONNX's own schemas: any operator, with inputs, attributes and
constants that its shape inference takes, chained.  graph_laws_test.py holds answers to the laws.

    python3 random_graphs.py --seed 1 --count 200 --output FOLDER|ARCHIVE.tar.xz

Needs the package onnx (1.23), which the tests that read its graphs do not.  The same seed gives the
same graphs.  Half of the graphs leave their batch free ("N"), half have fixed it to 2.
"""

import argparse
import io
import random
import sys
import tarfile
from pathlib import Path

import onnx
from onnx import AttributeProto, TensorProto, defs, helper, shape_inference

OPSETS = [13, 15, 17, 18, 20, 21, 23]
NODES = (2, 12)  # least and most
TRIES = 60  # for one operator; those that ask for more of their inputs are seldom met
MOST_ELEMENTS = 1 << 16
BATCH = 2

TYPES = {  # of values; the names of ONNX's schemas
    "tensor(float)": TensorProto.FLOAT, "tensor(double)": TensorProto.DOUBLE,
    "tensor(float16)": TensorProto.FLOAT16, "tensor(bfloat16)": TensorProto.BFLOAT16,
    "tensor(int64)": TensorProto.INT64, "tensor(int32)": TensorProto.INT32,
    "tensor(int8)": TensorProto.INT8, "tensor(uint8)": TensorProto.UINT8,
    "tensor(bool)": TensorProto.BOOL,
}
NAMES = {number: name for name, number in TYPES.items()}
# Of the free dimension in the inputs; parameters and constants never have it.
INPUTS = [(TensorProto.FLOAT, ["N", 3, 8, 8]), (TensorProto.FLOAT, ["N", 6, 16]),
          (TensorProto.FLOAT, ["N", 16]), (TensorProto.INT64, ["N", 5])]
SHAPES = [[], [1], [2], [3], [4], [8], [16], [3, 8], [16, 16], [8, 16], [6, 16], [1, 6, 16],
          [3, 8, 8], [1, 3, 8, 8], [4, 3, 3, 3], [3, 1, 3, 3], [6, 6, 3], [16, 6, 1], [3, 4, 2, 2],
          [32, 16], [1, 64, 16]]
STRINGS = {  # attributes that are one of few words
    "auto_pad": ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"], "mode": None,
    "approximate": ["none", "tanh"], "direction": ["forward", "reverse", "bidirectional"],
    "reduction": ["none", "mean", "sum", "add", "mul", "max"], "padding_mode": ["zeros", "border"],
    "equation": ["ij,jk->ik", "bij,bjk->bik", "...i,ij->...j", "bchw->bhwc", "bij->bj", "i,j->ij",
                 "bij,jk", "bi->b"]}
MODES = ["constant", "reflect", "edge", "nearest", "linear", "cubic", "bilinear", "DCR", "CRD"]
# What needs graphs, strings, sequences or training domains is made by hand elsewhere.
LEFT_OUT = {"If", "Loop", "Scan", "SequenceMap", "Constant", "Identity", "RandomNormal",
            "RandomUniform"}


def schemas(opset):
    """The newest of each operator at this opset."""
    newest = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain or schema.deprecated or schema.since_version > opset:
            continue
        if schema.name not in newest or newest[schema.name].since_version < schema.since_version:
            newest[schema.name] = schema
    kept = [s for name, s in sorted(newest.items()) if name not in LEFT_OUT]
    return [s for s in kept if not any("seq" in t or "optional" in t or "string" in t
                                       for put in [*s.inputs, *s.outputs]
                                       for t in [put.type_str])]


class Maker:
    """One graph: values that there are, and nodes that read them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.opset = self.random.choice(OPSETS)
        self.batch = self.random.choice(["N", BATCH])
        self.nodes, self.inputs, self.initializers = [], [], []
        self.values = []  # (name, type, dims), the newest last
        self.constants = {}

    def add_inputs(self):
        for dtype, dims in self.random.sample(INPUTS, self.random.randint(1, 2)):
            dims = [self.batch if d == "N" else d for d in dims]
            name = f"in{len(self.inputs)}"
            self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
            self.values.append((name, dtype, dims))

    def initializer(self, dtype, dims, numbers=None):
        """A parameter or constant; floats are left without elements where nobody reads them."""
        name = f"p{len(self.initializers)}"
        count = 1
        for dim in dims:
            count *= dim
        if numbers is None:
            numbers = [self.random.randint(0, 1) for _ in range(count)]
        tensor = helper.make_tensor(name, dtype, dims, numbers)
        self.initializers.append(tensor)
        return name, dtype, dims

    def numbers(self):
        """Some few integers, as shapes, axes, pads and lengths are."""
        pick = self.random
        some = pick.choice([[0], [1], [-1], [2], [0, 1], [1, -1], [0, -1], [2, 3], [1, 2],
                            [-1, 16], [0, 0, 16], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1] * 2,
                            [3, 3], [8, 2], [4, 4], [1, 2, 1], [0, 0, 2, 8]])
        return list(some)

    def make_input(self, allowed):
        """A new parameter or constant of one of the types."""
        types = [TYPES[t] for t in sorted(allowed) if t in TYPES]
        if not types:
            return None
        if TensorProto.INT64 in types and self.random.random() < 0.6:
            numbers = self.numbers()
            dims = [len(numbers)] if len(numbers) > 1 or self.random.random() < 0.7 else []
            return self.initializer(TensorProto.INT64, dims, numbers)
        dtype = TensorProto.FLOAT if TensorProto.FLOAT in types else self.random.choice(types)
        return self.initializer(dtype, self.random.choice(SHAPES))

    def pick_input(self, allowed, first):
        fitting = [v for v in self.values if NAMES.get(v[1]) in allowed]
        if fitting and (first or self.random.random() < 0.5):
            return self.random.choice(fitting[-4:])
        return self.make_input(allowed)

    def pick_inputs(self, schema):
        bound, chosen = {}, []
        variables = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        formals = list(schema.inputs)
        if formals and formals[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
            formals += [formals[-1]] * self.random.randint(0, 2)
        for i, formal in enumerate(formals):
            optional = formal.option == defs.OpSchema.FormalParameterOption.Optional
            if optional and self.random.random() < 0.5:
                if self.random.random() < 0.5:
                    break
                chosen.append(("", None, None))
                continue
            allowed = variables.get(formal.type_str, {formal.type_str})
            value = self.pick_input(bound.get(formal.type_str, allowed), i == 0)
            if value is None:
                return None
            if formal.type_str in variables and formal.is_homogeneous:
                bound[formal.type_str] = {NAMES[value[1]]}
            chosen.append(value)
        return chosen

    def attribute_value(self, name, kind, rank):
        pick = self.random
        if kind == AttributeProto.INT:
            if "axis" in name:
                return pick.randint(-rank, max(rank - 1, 0))
            if name in ("to", "dtype"):
                return pick.choice(list(TYPES.values()))
            return pick.choice([0, 1, 1, 2, 3, 4, 8])
        if kind == AttributeProto.FLOAT:
            return pick.choice([0.0, 0.1, 0.5, 1.0, 2.0])
        if kind == AttributeProto.INTS:
            if name == "perm":
                return pick.sample(range(rank), rank)
            if "ax" in name:
                return sorted(pick.sample(range(rank), pick.randint(1, rank))) if rank else [0]
            if name == "pads":
                return [pick.choice([0, 1, 1, 2])] * (2 * max(rank - 2, 1))
            return [pick.choice([1, 1, 2, 3])] * max(rank - 2, 1)
        if kind == AttributeProto.STRING:
            return pick.choice(STRINGS.get(name) or MODES)
        return None

    def attributes(self, schema, rank):
        found = []
        for name, attribute in sorted(schema.attributes.items()):
            if not attribute.required and self.random.random() < 0.6:
                continue
            kind = int(attribute.type)
            if (value := self.attribute_value(name, kind, rank)) is not None:
                found.append(helper.make_attribute(name, value, attr_type=kind))
        return found

    def types_of(self, node, inputs):
        """The outputs of `node` by ONNX's inference, or None where it is wrong or not known."""
        known = {name: helper.make_tensor_type_proto(dtype, dims)
                 for name, dtype, dims in inputs if name}
        tensors = {t.name: t for t in self.initializers[-8:] if t.name in known}
        schema = defs.get_schema(node.op_type, self.opset, "")
        try:
            types = shape_inference.infer_node_outputs(
                schema, node, known, tensors,
                opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        except Exception:  # of many kinds
            return None
        outputs = []
        for name in node.output:
            if name not in types or not types[name].HasField("tensor_type"):
                return None
            tensor = types[name].tensor_type
            if not tensor.HasField("shape") or tensor.elem_type not in NAMES:
                return None
            dims = [d.dim_value if d.HasField("dim_value") else d.dim_param
                    for d in tensor.shape.dim]
            if not self.is_sensible(dims):
                return None
            outputs.append((name, tensor.elem_type, dims))
        return outputs

    def is_sensible(self, dims):
        elements = 1
        for dim in dims:
            if dim not in ("N",) and (not isinstance(dim, int) or dim <= 0):
                return False
            elements *= BATCH if dim == "N" else dim
        return elements <= MOST_ELEMENTS and len(dims) <= 8

    def try_node(self, schema):
        before = len(self.initializers)
        inputs = self.pick_inputs(schema)
        if inputs:
            outputs = max(schema.min_output, 1)
            first = next((v for v in inputs if v[0]), None)
            rank = len(first[2]) if first else 0
            names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
            node = helper.make_node(schema.name, [v[0] for v in inputs], names)
            node.attribute.extend(self.attributes(schema, rank))
            types = self.types_of(node, inputs)
            reads = {v[0] for v in inputs} & {v[0] for v in self.values}
            if types is not None and reads:
                self.nodes.append(node)
                self.values += types
                return True
        del self.initializers[before:]
        return False

    def scale(self):
        """A product with a parameter, so that there is something to train."""
        fitting = [v for v in self.values if v[1] == TensorProto.FLOAT and v[2]
                   and isinstance(v[2][-1], int)]
        if not fitting:
            return
        name, dtype, dims = self.random.choice(fitting[-3:])
        out = f"v{len(self.nodes)}_0"
        if len(dims) > 1 and self.random.random() < 0.5:
            weight = self.initializer(TensorProto.FLOAT, [dims[-1], 8])
            self.nodes.append(helper.make_node("MatMul", [name, weight[0]], [out]))
            dims = [*dims[:-1], 8]
        else:
            weight = self.initializer(TensorProto.FLOAT, [dims[-1]])
            self.nodes.append(helper.make_node("Mul", [name, weight[0]], [out]))
        self.values.append((out, dtype, dims))

    def make(self):
        self.add_inputs()
        operators = schemas(self.opset)
        count = self.random.randint(*NODES)
        self.scale()
        while len(self.nodes) < count:
            schema = self.random.choice(operators)
            if not any(self.try_node(schema) for _ in range(TRIES)):
                self.scale()
        self.scale()
        return self.model()

    def model(self):
        read = {name for node in self.nodes for name in node.input}
        produced = {name for node in self.nodes for name in node.output}
        # The last first: the loss takes it, and gradient flows through what is before it.
        ends = [v for v in reversed(self.values) if v[0] not in read and v[0] in produced]
        floats = [v for v in ends if v[1] == TensorProto.FLOAT] or ends
        outputs = [helper.make_tensor_value_info(*v) for v in floats]
        used = [t for t in self.initializers if t.name in read]
        graph = helper.make_graph(self.nodes, "random", self.inputs, outputs, used)
        return helper.make_model(graph, ir_version=8,
                                 opset_imports=[helper.make_opsetid("", self.opset)],
                                 producer_name="random_graphs.py")


def write(models, output):
    """`models`: (name, bytes) in order; a folder, or an archive that is the same every time."""
    if not output.endswith(".tar.xz"):
        Path(output).mkdir(parents=True, exist_ok=True)
        for name, data in models:
            Path(output, name).write_bytes(data)
        return
    with tarfile.open(output, "w:xz", preset=9) as archive:
        for name, data in models:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    models = []
    for i in range(options.count):
        model = Maker(options.seed * 1_000_000 + i).make()
        models.append((f"random_{options.seed}_{i:04}.onnx", model.SerializeToString()))
    write(models, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
