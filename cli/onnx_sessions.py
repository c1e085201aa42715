"""Sessions of ONNX Runtime, for `onnxfit estimate --runtime onnxruntime` (runtime_trial.cc).

    onnx_sessions.py ASKED.json ANSWER.json    # as `onnxfit run` starts it: on a card that is not there

Each session has its own arena, and what the card has used behind its making and behind each of its runs
is the answer.  It differs from session to session: weights are taken in a hash map's order.  The last
session asks us for memory instead of an arena (gpu_external_alloc): that shows what it asks for, weight
by weight and run by run, so that other orders can be played.

Needs Python's standard library, numpy and onnxruntime-gpu (1.31.1; from 1.21 on CUDA's libraries are
found in Python packages).
"""

import ctypes
import json
import os
import re
import sys
import time

# onnx.TensorProto.DataType: numpy's name, or of those that it has not, that of as many bytes
TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
         9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "uint16"}
ONLY_AS_BYTES = {16}  # bfloat16

# bfc_arena.cc, 1.31.1, level INFO: an extension is two lines, what lies outside of regions one
EXTENDING = re.compile(r"Extending BFCArena for Cuda\b")
EXTENDED = re.compile(r"Extended allocation by (\d+) bytes")
RESERVING = re.compile(r"Reserving memory in BFCArena for Cuda size: (\d+)")


class Card:
    """Used bytes, as the card tells them to this process."""

    def __init__(self):
        self.runtime = ctypes.CDLL(None)
        self.runtime.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
        self.runtime.cudaFree.argtypes = [ctypes.c_void_p]
        self.runtime.cudaFree(None)  # makes the context
        self.context = self.used()

    def used(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
        return total.value - free.value


class Log:
    """What the library says on standard error, which goes to a file instead."""

    def __init__(self, path):
        self.path = path
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.dup2(file, 2)
        os.close(file)
        self.read = 0
        self.reserved = 0  # bytes of all sessions

    def extensions(self):
        """What the card's arena took, since it was asked last."""
        with open(self.path, encoding="utf-8", errors="replace") as file:
            file.seek(self.read)
            text = file.read()
            self.read = file.tell()
        found, is_cuda = [], False
        for line in text.splitlines():
            if "Extending BFCArena for" in line:
                is_cuda = EXTENDING.search(line) is not None
            elif is_cuda and (extended := EXTENDED.search(line)):
                found.append(int(extended[1]))
            elif reserved := RESERVING.search(line):
                found.append(int(reserved[1]))
                self.reserved += found[-1]
        return found


class Requests:
    """Memory for a session without an arena, and in which order it is asked for: a number of bytes, or
    -1 - I where the I-th request of all is given back."""

    def __init__(self, runtime):
        self.runtime, self.asked, self.places, self.count = runtime, [], {}, 0
        self.functions = {
            "gpu_external_alloc": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(self.give),
            "gpu_external_free": ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.take),
            "gpu_external_empty_cache": ctypes.CFUNCTYPE(None)(lambda: None)}

    def give(self, size):
        pointer = ctypes.c_void_p()
        if self.runtime.cudaMalloc(ctypes.byref(pointer), size) != 0:
            return None
        self.places[pointer.value] = self.count
        self.count += 1
        self.asked.append(size)
        return pointer.value

    def take(self, address):
        if address in self.places:
            self.asked.append(-1 - self.places.pop(address))
            self.runtime.cudaFree(address)

    def options(self):
        return {name: str(ctypes.cast(function, ctypes.c_void_p).value)
                for name, function in self.functions.items()}

    def since_last(self):
        asked, self.asked = self.asked, []
        return asked


def is_on(value):
    return str(value).lower() not in ("0", "false")


def session_options(ort, settings):
    """Fields of SessionOptions by their names, and entries of its configuration.  Also those of runs."""
    options, of_runs = ort.SessionOptions(), ort.RunOptions()
    for name, value in settings.items():
        if name == "graph_optimization_level":
            options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, value)
        elif name in ("enable_mem_pattern", "enable_mem_reuse", "enable_cpu_mem_arena"):
            setattr(options, name, is_on(value))
        elif name in ("intra_op_num_threads", "inter_op_num_threads"):
            setattr(options, name, int(value))
        elif name.startswith("memory."):
            of_runs.add_run_config_entry(name, value)
        else:
            options.add_session_config_entry(name, value)
    return options, of_runs


def zeros(ort, inputs, is_bound):
    import numpy
    values = {}
    for one in inputs:
        data = numpy.zeros(one["dims"], TYPES[one["type"]])
        make = ort.OrtValue.ortvalue_from_numpy_with_onnx_type
        if is_bound:  # on the card, in an arena of the process that no session shares
            values[one["name"]] = ort.OrtValue.ortvalue_from_numpy(data, "cuda", 0)
        elif one["type"] in ONLY_AS_BYTES:
            values[one["name"]] = make(data, one["type"])
        else:
            values[one["name"]] = ort.OrtValue.ortvalue_from_numpy(data)
    return values


def bound(session, inputs, values):
    """Inputs that lie on the card, outputs that are to stay there."""
    binding = session.io_binding()
    for one in inputs:
        address = values[one["name"]].data_ptr()
        binding.bind_input(one["name"], "cuda", 0, one["type"], one["dims"], address)
    for output in session.get_outputs():
        binding.bind_output(output.name, "cuda")
    return binding


def phases(ort, asked, shapes, more_options, seen):
    """A session and its runs of each shape; `seen` is called behind each."""
    # One thread on the host, where nothing is computed.
    options, of_runs = session_options(ort, {"intra_op_num_threads": 1, **asked["session"]})
    provider = ("CUDAExecutionProvider", {**asked["provider_options"], **more_options})
    session = ort.InferenceSession(asked["model"], options, providers=[provider],
                                   enable_fallback=0)  # to the CPU
    if "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("the CUDA provider could not be loaded")
    seen()
    is_captured = is_on(asked["provider_options"].get("enable_cuda_graph", 0))
    for inputs, values in zip(asked["shapes"], shapes):
        binding = None
        for _ in range(asked["runs"]):
            if not asked["bound"]:
                session.run_with_ort_values(None, values, of_runs)
            else:
                if not is_captured:
                    binding = None  # the caller has had what the last run put out
                binding = binding or bound(session, inputs, values)
                session.run_with_iobinding(binding, of_runs)
            seen()


def session_of(ort, asked, shapes, card, log):
    """What the card and the arena have behind each phase, and what ended them, if anything did."""
    found, reserved = {"used": [], "extensions": []}, log.reserved

    def seen():
        found["used"].append(card.used() - card.context)
        found["extensions"].append(log.extensions())
    try:
        phases(ort, asked, shapes, {}, seen)
    except Exception as error:  # the library's own have no common class
        found["error"] = " ".join(str(error).split())
        log.extensions()
    found["reserved"] = log.reserved - reserved
    return found


def requests_of(ort, asked, shapes, card):
    """What a session asks its arena for: weights, then run by run."""
    requests, found = Requests(card.runtime), []
    phases(ort, asked, shapes, requests.options(), lambda: found.append(requests.since_last()))
    return {"weights": found[0], "runs": found[1:]}


def answer_of(asked, begin):
    import onnxruntime as ort
    answer = {"version": ort.__version__, "sessions": []}
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return {**answer, "missing": "cuda"}
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls(directory="")
    card = Card()
    log = Log(asked["log"])
    ort.set_default_logger_severity(1)  # INFO
    answer["context"] = card.context
    shapes = [zeros(ort, inputs, asked["bound"]) for inputs in asked["shapes"]]
    log.extensions()  # those for the inputs
    while len(answer["sessions"]) < asked["sessions"]:
        answer["sessions"].append(session_of(ort, asked, shapes, card, log))
        if "error" in answer["sessions"][-1] or time.time() - begin > asked["seconds"]:
            break
    try:
        answer["requests"] = requests_of(ort, asked, shapes, card)
    except Exception as error:
        answer["untraced"] = " ".join(str(error).split())
    return answer


def main():
    begin = time.time()
    with open(sys.argv[1], encoding="utf-8") as file:
        asked = json.load(file)
    try:
        answer = answer_of(asked, begin)
    except ImportError as error:
        answer = {"missing": "onnxruntime", "error": str(error)}
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the library's destructors would look for what is gone
