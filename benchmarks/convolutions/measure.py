"""What PyTorch asks cuDNN for in each convolution of a list, on the card at hand: a file as
`onnxfit verify --save` writes it.

    measure.py calls.json card.json [--jobs N] [--seconds S] [--benchmark]

Both memory formats, fp32 (with TF32, PyTorch's default) and bf16; forward and each of the two
gradients by itself.  Processes share the card; those that S seconds do not see begin are left out.
--benchmark: with torch.backends.cudnn.benchmark, which tries plans in the first call; each row has
the most that it allocated then beside the result, too, as "tried".
"""

import argparse
import json
import multiprocessing
import random
import sys
import time
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import on_card  # noqa: E402
import recorder  # noqa: E402

# By the number of dimensions of a tensor; PyTorch has no other of lines.
FORMATS = {False: dict.fromkeys((3, 4, 5), torch.contiguous_format),
           True: {4: torch.channels_last, 5: torch.channels_last_3d}}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PASSES = {"forward": None, "data_gradient": [True, False, False],
          "weight_gradient": [False, True, False]}
CHUNK = 20


# --- One convolution -------------------------------------------------------------------------

def made(shape, dtype, form):
    return torch.zeros(shape, dtype=dtype, device="cuda").contiguous(memory_format=form)


def workspace_in(events):
    """Of a call that allocates its result, then what it gives back; None where it does more."""
    words = events.split()
    if len(words) == 1:
        return 0
    return int(words[1][1:]) if len(words) == 3 and words[2] == "-1" else None


def most_beside_result(events):
    """Of all that lives at a time, the first allocation, the result, left out."""
    sizes = [int(word[1:]) for word in events.split() if word[0] == "+"]
    alive = most = 0
    for word in events.split()[1:]:
        if word[0] == "+":
            alive += int(word[1:])
        elif word[1:].isdigit() and int(word[1:]):
            alive -= sizes[int(word[1:])]
        most = max(most, alive)
    return most


def asked(call):
    """Workspace, and what the first call took, in which cuDNN's plan is made."""
    first = recorder.Recorder().of(call)[1]
    return workspace_in(recorder.Recorder().of(call)[1]), most_beside_result(first)


def row_of(call, dtype, is_last, name, y, workspace):
    """As the file has it: lines are planes of height 1."""
    x, weight, stride, padding, dilation, transposed, _, groups = call
    flat = len(x) == 3
    row = {"pass": name, "dtype": dtype,
           **{key: [*dims[:2], 1, *dims[2:]] if flat else dims
              for key, dims in (("input", x), ("weight", weight), ("output", y))},
           "stride": [1] * flat + stride, "padding": [0] * flat + padding,
           "dilation": [1] * flat + dilation, "groups": groups}
    return {**row, **({"transposed": True} if transposed else {}),
            **({"channels_last": True} if is_last else {}), "bytes": workspace}


def result_of(call):
    """Its shape."""
    x, weight = (torch.empty(shape, device="meta") for shape in call[:2])
    return list(torch.ops.aten.convolution(x, weight, None, *call[2:]).shape)


def rows_of(call, dtype, is_last):
    form, shape = FORMATS[is_last][len(call[0])], result_of(call)
    x, weight, gradient = (made(dims, DTYPES[dtype], form) for dims in (*call[:2], shape))
    for name, mask in PASSES.items():
        workspace, tried = asked(
            (lambda: torch.ops.aten.convolution(x, weight, None, *call[2:])) if mask is None else
            lambda: torch.ops.aten.convolution_backward(gradient, x, weight, None, *call[2:], mask))
        if workspace is not None:
            row = row_of(call, dtype, is_last, name, shape, workspace)
            yield {**row, "tried": tried} if torch.backends.cudnn.benchmark else row


# --- All of them -----------------------------------------------------------------------------

def runs_cudnn(call, is_last):
    """Not channel by channel in the order NCHW, where PyTorch's own kernels run but for fp16."""
    return is_last or call[7] == 1 or call[7] != call[0][1]


def jobs_of(calls):
    jobs = [(call, dtype, is_last) for is_last in FORMATS for call in calls for dtype in DTYPES
            if len(call[0]) in FORMATS[is_last] and runs_cudnn(call, is_last)]
    random.Random(0).shuffle(jobs)
    return [jobs[i:i + CHUNK] for i in range(0, len(jobs), CHUNK)]


def work(todo, done, end, benchmark):
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = benchmark
    while (chunk := todo.get()) is not None:
        rows = []
        for job in chunk if time.time() < end else []:
            try:
                with torch.no_grad():
                    rows += rows_of(*job)
            except RuntimeError as error:  # memory is short, or there is no such kernel
                print(job, error, file=sys.stderr)
        done.put(rows)


def card_of(rows):
    card = on_card.in_own_process(on_card.card)
    version = card["cudnn"]
    return {"card": card["name"], "compute_capability": int("".join(map(str, card["capability"]))),
            "multiprocessors": card["multiprocessors"], "driver": card["smi"][0][1],
            "cuda": card["cuda"], "cudnn": f"{version // 10000}.{version // 100 % 100}.{version % 100}",
            "loaded": [], "convolutions": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--benchmark", action="store_true")
    args = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    todo, done = spawn.Queue(), spawn.Queue()
    chunks = jobs_of(json.loads(args.calls.read_text()))
    for chunk in [*chunks, *[None] * args.jobs]:
        todo.put(chunk)
    workers = [spawn.Process(target=work, args=(todo, done, time.time() + args.seconds, args.benchmark))
               for _ in range(args.jobs)]
    for worker in workers:
        worker.start()
    rows = [row for _ in chunks for row in done.get()]
    args.out.write_text(json.dumps({"calibration": 1, "cards": [card_of(rows)]}))


if __name__ == "__main__":
    main()
