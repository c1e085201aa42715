"""Writes llama_7b.onnx.xz: Llama with 6.7 billion parameters, as torch.export writes it, without a
weight.  Made with torch 2.11, transformers 5.17 and onnx 1.23; takes a minute and no memory to
speak of, since its tensors are fake.

    export_llama.py [LAYERS]     # 32
"""

import lzma
import sys
import warnings
from pathlib import Path

import onnx
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM

OUT = Path(__file__).parent / "llama_7b.onnx.xz"


def export(layers):
    """The exported program, and (type, dimensions) of its initializers by name."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        config = LlamaConfig(use_cache=False, num_hidden_layers=layers)
        model = LlamaForCausalLM(config).train()
        ids = torch.ones(2, 16, dtype=torch.long)
        program = torch.onnx.export(model, (ids,), dynamo=True, optimize=False,
                                    input_names=["input_ids"],
                                    dynamic_shapes=({0: "N", 1: "seq"},))
    stored = program.model.graph.initializers
    types = {name: (int(value.const_value.dtype), [int(size) for size in value.const_value.shape])
             for name, value in stored.items()}
    return program, types


def main():
    warnings.filterwarnings("ignore")
    program, types = export(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
    plain = OUT.with_suffix("")
    program.save(str(plain), include_initializers=False)
    model = onnx.load(str(plain))
    for name, (kind, dims) in types.items():
        tensor = model.graph.initializer.add(name=name, data_type=kind, dims=dims,
                                             data_location=onnx.TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="weights.bin")
    plain.unlink()
    OUT.write_bytes(lzma.compress(model.SerializeToString(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
