"""Asks cuDNN what its recurrent layers take: weight space, reserve and workspace, in bytes, on the
card at hand, whose capability (times ten), multiprocessors and threads of one --card tells.

    ask_cudnn.py FOLDER --card 80,108,2048 > answers.csv    # FOLDER has libcudnn.so.9
    ask_cudnn.py FOLDER --card 80,108,2048 --check ../../tests/data/cudnn_recurrent.csv
"""

import argparse
import csv
import ctypes
import random
import sys
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
ALGORITHMS = {"standard": 0, "persist_static": 1, "small_h": 3}
TYPES = {"fp32": 0, "fp64": 1, "fp16": 2, "bf16": 9}
CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE = 0, 1
MATH = {"default": 0, "tensor_op": 1, "fma": 3}
DOUBLE_BIAS = 2
UNPACKED, PACKED = 0, 1  # cudnnRNNDataLayout_t, steps first
TRAINING, INFERENCE = 1, 0


@dataclass(frozen=True)
class Layer:
    """As torch.nn.LSTM and its like are called: `lengths` are given where steps are packed."""
    mode: str = "lstm"
    dtype: str = "fp32"
    algorithm: str = "standard"
    input: int = 128
    hidden: int = 256
    projected: int = 0  # 0: not
    layers: int = 1
    directions: int = 1
    steps: int = 20
    batch: int = 8
    packed: int = 0
    dropout: int = 0


class Cudnn:
    def __init__(self, folder):
        self.library = ctypes.CDLL(str(Path(folder) / "libcudnn.so.9"), mode=ctypes.RTLD_GLOBAL)
        self.handle = ctypes.c_void_p()
        self._call("cudnnCreate", ctypes.byref(self.handle))
        self.no_dropout = self._new("cudnnCreateDropoutDescriptor")
        self._call("cudnnSetDropoutDescriptor", self.no_dropout, self.handle, ctypes.c_float(0),
                   None, ctypes.c_size_t(0), ctypes.c_ulonglong(0))
        self.dropout = self._new("cudnnCreateDropoutDescriptor")
        states = self.dropout_states()
        self._call("cudnnRestoreDropoutDescriptor", self.dropout, self.handle, ctypes.c_float(0.5),
                   ctypes.c_void_p(0x700000000000), ctypes.c_size_t(states), ctypes.c_ulonglong(0))

    def _new(self, create):
        made = ctypes.c_void_p()
        self._call(create, ctypes.byref(made))
        return made

    def _call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {status}")

    def dropout_states(self):
        size = ctypes.c_size_t()
        self._call("cudnnDropoutGetStatesSize", self.handle, ctypes.byref(size))
        return size.value

    def _descriptor(self, layer):
        """As RNNDescriptor::set of PyTorch 2.11 (ATen/cudnn/Descriptors.h)."""
        made = self._new("cudnnCreateRNNDescriptor")
        math = "tensor_op" if layer.dtype == "fp16" else "default"  # TF32 allowed: its default
        precision = CUDNN_DATA_DOUBLE if layer.dtype == "fp64" else CUDNN_DATA_FLOAT
        self._call("cudnnSetRNNDescriptor_v8", made, ALGORITHMS[layer.algorithm],
                   MODES[layer.mode], DOUBLE_BIAS, layer.directions - 1, 0, TYPES[layer.dtype],
                   precision, MATH[math], layer.input, layer.hidden,
                   layer.projected or layer.hidden, layer.layers,
                   self.dropout if layer.dropout else self.no_dropout, 0 if layer.packed else 1)
        return made

    def _data(self, layer):
        made = self._new("cudnnCreateRNNDataDescriptor")
        lengths = (ctypes.c_int * layer.batch)(*self.lengths(layer))
        fill = ctypes.c_double(0)
        self._call("cudnnSetRNNDataDescriptor", made, TYPES[layer.dtype],
                   PACKED if layer.packed else UNPACKED, layer.steps, layer.batch, layer.input,
                   lengths, ctypes.byref(fill))
        return made

    @staticmethod
    def lengths(layer):
        """Packed samples become shorter by a step each, down to one."""
        if layer.packed == 1:
            return [max(1, layer.steps - i) for i in range(layer.batch)]
        return [layer.steps] * layer.batch

    def sizes(self, layer):
        """(weights, reserve, workspace in training, in inference), or None where it refuses."""
        rnn, data = self._descriptor(layer), self._data(layer)
        sizes = [ctypes.c_size_t() for _ in range(5)]
        weights, reserve, training, inference, _ = sizes
        try:
            self._call("cudnnGetRNNWeightSpaceSize", self.handle, rnn, ctypes.byref(weights))
            self._call("cudnnGetRNNTempSpaceSizes", self.handle, rnn, TRAINING, data,
                       ctypes.byref(training), ctypes.byref(reserve))
            self._call("cudnnGetRNNTempSpaceSizes", self.handle, rnn, INFERENCE, data,
                       ctypes.byref(inference), None)
        except RuntimeError:
            return None
        finally:
            self._call("cudnnDestroyRNNDescriptor", rnn)
            self._call("cudnnDestroyRNNDataDescriptor", data)
        return [size.value for size in (weights, reserve, training, inference)]


# --- What is asked ---------------------------------------------------------------------------

SIZES = ["weights", "reserve", "training", "inference", "states"]
ASKED = 150  # layers


def number(chance, most):
    """Small ones, powers of two and others."""
    return chance.choice([chance.randint(1, most), chance.randint(1, 16),
                          2 ** chance.randint(0, most.bit_length() - 1)])


def some_layer(chance, card):
    """As PyTorch calls cuDNN: what its get_algo never asks for is left out."""
    algorithm = chance.choice(["standard", "standard", "small_h", "persist_static"])
    mode = chance.choice(list(MODES))
    dtype = chance.choice(["fp32", "fp16"] if card[0] < 80 else ["fp32", "fp16", "bf16"])
    layer = Layer(mode=mode, dtype=dtype, algorithm=algorithm, input=number(chance, 1500),
                  hidden=number(chance, 1100), layers=chance.choice([1, 2, 3, 4]),
                  directions=chance.choice([1, 2]), steps=number(chance, 500),
                  batch=number(chance, 200), dropout=chance.choice([0, 1]))
    if algorithm == "small_h":
        return replace(layer, hidden=number(chance, 384 if mode.startswith("rnn") else 192))
    if algorithm == "persist_static" and card[0] >= 80 and card[0] % 10 != 6:
        return replace(layer, mode=chance.choice(["lstm", "rnn_tanh"]), dtype="fp16", layers=1,
                       directions=1, hidden=128 * chance.randint(1, 8),
                       input=128 * chance.randint(1, 8), batch=8 * chance.randint(1, 16))
    layer = replace(layer, algorithm="standard", packed=chance.choice([0, 0, 1, 2]))
    if mode == "lstm" and layer.hidden > 1 and chance.random() < 0.4:
        layer = replace(layer, projected=chance.randint(1, layer.hidden - 1))
    return layer


def row_of(cudnn, card, layer):
    sizes = cudnn.sizes(layer)
    return sizes and [*card, *astuple(layer), sum(Cudnn.lengths(layer)), *sizes,
                      cudnn.dropout_states()]


def header():
    return ["capability", "multiprocessors", "threads", *(field.name for field in fields(Layer)),
            "rows", *SIZES]


def write(folder, card):
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header())
    cudnn, chance = Cudnn(folder), random.Random(card[0])
    for _ in range(ASKED):
        row = row_of(cudnn, card, some_layer(chance, card))
        if row is None:
            sys.exit("cuDNN refuses a layer")
        writer.writerow(row)


def check(folder, card, path):
    cudnn = Cudnn(folder)
    wrong = asked = 0
    with open(path) as file:
        for row in csv.DictReader(file):
            if [row[name] for name in header()[:3]] != [str(number) for number in card]:
                continue
            layer = Layer(*(type(field.default)(row[field.name]) for field in fields(Layer)))
            answer = row_of(cudnn, card, layer)
            asked += 1
            wrong += answer is None or [str(value) for value in answer] != list(row.values())
    print(f"{asked} asked, {wrong} wrong")
    return int(wrong > 0 or asked == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--card", required=True, help="such as 80,108,2048: an A100")
    parser.add_argument("--check", metavar="CSV")
    args = parser.parse_args()
    card = tuple(map(int, args.card.split(",")))
    if args.check:
        return check(args.folder, card, args.check)
    return write(args.folder, card)


if __name__ == "__main__":
    sys.exit(main())
