"""A program as people write it around a file on the CPU, without onnxfit: host.py asks what it had at most.

    host_script.py MODEL.onnx BATCH LENGTH [RUNS]     # prints bytes: the most that it had at once
    host_script.py --fill MODEL.onnx                  # random numbers for weights in files that are not there

Needs numpy and onnxruntime; onnx for --fill.
"""

import resource
import sys
from pathlib import Path

import numpy

TYPES = {"tensor(float)": numpy.float32, "tensor(float16)": numpy.float16, "tensor(int64)": numpy.int64,
         "tensor(int32)": numpy.int32, "tensor(bool)": numpy.bool_}


def fill(path):
    import onnx
    numbers = numpy.random.default_rng(0)
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        stored = {entry.key: entry.value for entry in tensor.external_data}
        if not stored:
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        values = numbers.standard_normal(list(tensor.dims), dtype=numpy.float32) * 0.02
        file = path.parent / stored["location"]
        with file.open("r+b" if file.exists() else "w+b") as out:
            out.seek(int(stored.get("offset", 0)))
            out.write(values.astype(dtype).tobytes())


def main():
    if sys.argv[1] == "--fill":
        fill(Path(sys.argv[2]))
        return
    import onnxruntime
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    batch, length, runs = int(sys.argv[2]), int(sys.argv[3]), int((sys.argv[4:] or [3])[0])
    feeds = {}
    for one in session.get_inputs():
        dims = [batch if axis == 0 else size if isinstance(size, int) else length
                for axis, size in enumerate(one.shape)]
        feeds[one.name] = numpy.ones(dims, TYPES[one.type])
    for _ in range(runs):
        outputs = session.run(None, feeds)
    del outputs
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main()
