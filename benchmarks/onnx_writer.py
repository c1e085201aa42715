"""Writes ONNX files of any size with Python's standard library alone: protobuf's wire
format by hand, field numbers from onnx.proto (ONNX 1.23.2)."""

import struct

FLOAT, INT64 = 1, 7  # TensorProto.DataType


def varint(number):
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def number(field, value):
    return varint(field << 3) + varint(value)


def header(field, length):
    """The key and length of a field whose bytes follow."""
    return varint(field << 3 | 2) + varint(length)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return header(field, len(data)) + data


def attribute(name, value):
    """AttributeProto of an int, a float, a list of ints, or a tensor (bytes)."""
    if isinstance(value, int):
        kind, data = 2, number(3, value)
    elif isinstance(value, float):
        kind, data = 1, varint(2 << 3 | 5) + struct.pack("<f", value)
    elif isinstance(value, bytes):
        kind, data = 4, block(5, value)
    else:
        kind, data = 7, b"".join(number(8, v) for v in value)
    return block(1, name) + data + number(20, kind)


def tensor(name, dtype, dims, data):
    """TensorProto; `data` is its bytes, or None for weights in a file that does not exist."""
    out = b"".join(number(1, d) for d in dims) + number(2, dtype) + block(8, name)
    if data is None:
        return out + block(13, block(1, "location") + block(2, "weights.bin")) + number(14, 1)
    return out + block(9, data)


def value_info(name, dtype, dims):
    """ValueInfoProto; a dimension is a number or the name of a free one."""
    shape = b"".join(
        block(1, number(1, d) if isinstance(d, int) else block(2, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, dtype) + block(2, shape)))


def model_prefix(graph_bytes):
    """ModelProto up to its graph of `graph_bytes` bytes, which ends the file."""
    opset = block(1, "") + number(2, 17)
    return number(1, 8) + block(2, "onnxfit") + block(8, opset) + header(7, graph_bytes)


class Graph:
    """A GraphProto that grows; operators return the name of their output."""

    def __init__(self):
        self.parts = [block(2, "main")]
        self.nodes = 0

    def op(self, op_type, *inputs, scope="", **attributes):
        self.nodes += 1
        output = f"v{self.nodes}"
        name = f"{'/' if scope else ''}{scope}/{op_type}_{self.nodes}"
        self.parts.append(block(1, b"".join(
            [block(1, read) for read in inputs]
            + [block(2, output), block(3, name), block(4, op_type)]
            + [block(5, attribute(key, value)) for key, value in attributes.items()])))
        return output

    def integers(self, *values):
        data = struct.pack(f"<{len(values)}q", *values)
        return self.op("Constant", value=tensor("", INT64, [len(values)], data))

    def scalar(self, value):
        """A float, or an int64 for an int."""
        dtype, code = (INT64, "q") if isinstance(value, int) else (FLOAT, "f")
        return self.op("Constant", value=tensor("", dtype, [], struct.pack("<" + code, value)))

    def weight(self, name, *dims):
        self.parts.append(block(5, tensor(name, FLOAT, dims, None)))
        return name

    def input(self, name, dtype, dims):
        self.parts.append(block(11, value_info(name, dtype, dims)))
        return name

    def output(self, name, dtype, dims):
        self.parts.append(block(12, value_info(name, dtype, dims)))

    def write(self, path):
        data = b"".join(self.parts)
        path.write_bytes(model_prefix(len(data)) + data)


def write_sparse(path, rows, columns, layers=1):
    """One or more layers whose weights of rows × columns float32 are a hole in the file."""
    size = 4 * rows * columns
    graph = Graph()
    out = graph.input("x", FLOAT, ["N", columns])
    for layer in range(layers):
        out = graph.op("Gemm", out, f"w{layer}", transB=1)
    graph.output(out, FLOAT, ["N", rows])
    head = b"".join(graph.parts)
    tensors = [tensor(f"w{layer}", FLOAT, [rows, columns], b"")[:-1] + varint(size)
               for layer in range(layers)]  # the length 0 of raw_data becomes `size`
    starts = [header(5, len(t) + size) + t for t in tensors]
    total = len(head) + sum(len(start) + size for start in starts)
    with open(path, "wb") as file:
        file.write(model_prefix(total) + head)
        for start in starts:
            file.write(start)
            file.seek(size, 1)
        file.truncate()
