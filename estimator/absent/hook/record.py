"""What PyTorch says of a process's memory, and how the process ended: `<pid>.torch.json` and
`<pid>.snapshot.pickle` in the run's folder, written when the process ends, however it does."""

import _thread
import atexit
import ctypes
import importlib
import os
import pickle
import signal
import sys
import threading
import time

ends = load("ends")  # noqa: F821, sitecustomize.py has given it
notes = load("notes")  # noqa: F821
outermost = load("outermost")  # noqa: F821
peaks = load("peaks")  # noqa: F821
phases = load("phases")  # noqa: F821
pictures = load("pictures")  # noqa: F821
refusals = load("refusals")  # noqa: F821
turns = load("turns")  # noqa: F821

EVENTS = 100000  # of the allocator's that are kept with their Python lines; the newest
MAX_STEPS = 10000  # of which the peaks are written; the last row is the most of all behind it, too
# PyTorch frees what collectives have worked on when its watchdog has seen that they ended, and it
# looks every 0.1 s (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 2.11).
WATCHDOG_SEEN = 0.25  # seconds
ENDS_EVERY = 0.5  # seconds between looks whether the run is about to be ended (run_folder.h)
GRACE = 5  # seconds that a program has to end after its time, before it is ended

RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


class EnoughRun(SystemExit):
    """As many steps, or as much time, as was asked for.  A SystemExit, so that `except Exception`
    in a trainer does not hold it, `finally` clauses run, and the exit code is 0."""


class Record:
    def __init__(self, torch):
        self.torch = torch
        self.began = time.time()
        self.pid = os.getpid()
        self.forked = False
        self.written = False
        self.exit_code = None
        self.ended_by = None
        self.steps = 0
        self.step_peaks = []
        self.step_device = 0
        self.users_history = False  # the program records by itself
        self.max_steps = number("ONNXFIT_RUN_STEPS")
        self.max_seconds = number("ONNXFIT_RUN_SECONDS")
        self.phases = phases.start(torch, lambda: self.steps > 0)
        self.turns = turns.Turns(torch) if os.environ.get("ONNXFIT_RUN_UNTIL_SAME") else None
        self.events = int(os.environ.get("ONNXFIT_RUN_EVENTS", EVENTS))
        self.pictures = pictures.Pictures(self, self.events)
        self.guarded = guarded

    # How it begins.

    def on_first_cuda(self):
        """Called by PyTorch as soon as CUDA is there, in the thread that asked for it."""
        guarded("history", self.start_history)
        guarded("signals", self.catch_sigterm)
        guarded("refusals", lambda: refusals.watch(self.torch, self))
        if self.has_history():
            self.pictures.start()
        _thread.start_new_thread(self.write_before_the_end, ())

    def write_before_the_end(self):
        file = os.path.join(os.environ["ONNXFIT_RUN"], "ends")
        while not self.written and not os.path.exists(file):
            time.sleep(ENDS_EVERY)
        guarded("ends", self.finish)

    def has_history(self):
        """The driver's own pools (backend:cudaMallocAsync) keep none, and fail where they are asked."""
        backend = getattr(self.torch.cuda, "get_allocator_backend", lambda: "native")
        return backend() != "cudaMallocAsync"

    def start_history(self):
        if not self.users_history and self.has_history():
            self.record_history(enabled="all", context="alloc", stacks="python",
                                max_entries=self.events)

    def share_history(self):
        """The program may record by itself.  While it does, the history is its own."""
        memory = self.torch.cuda.memory
        self.record_history = memory._record_memory_history

        def _record_memory_history(enabled="all", *args, **kwargs):
            self.users_history = bool(enabled)
            self.record_history(enabled, *args, **kwargs)
            if not enabled and self.torch.cuda.is_initialized():
                guarded("history", self.start_history)

        memory._record_memory_history = _record_memory_history

    def catch_sigterm(self):
        """Only where nothing of the program's would: the default ends a process at once."""
        if (threading.current_thread() is threading.main_thread()
                and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
            signal.signal(signal.SIGTERM, self.on_sigterm)

    def on_sigterm(self, number, _):
        guarded("SIGTERM", lambda: self.finish(ended_by="SIGTERM"))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # Its steps.

    def on_step(self, optimizer):
        self.steps += 1
        may_end = guarded("steps", lambda: self.note_step(optimizer))
        if self.steps == 1:
            guarded("ranks", self.wait_for_watchdog)
        if self.max_steps and self.steps >= self.max_steps:
            self.enough("steps")
        if may_end:
            self.enough("until-same")

    def note_step(self, optimizer):
        mirrors = sys.modules.get("_onnxfit_mirrors")
        if mirrors is not None:
            mirrors.steps[0] = self.steps
        if not self.torch.cuda.is_initialized():
            return False
        rows = peaks.of_step(self.torch.cuda.device_count())
        self.step_device = self.torch.cuda.current_device()
        self.note_peaks(rows[self.step_device])
        self.phases.on_step()
        return self.turns is not None and self.turns.after_step(optimizer, rows)

    def wait_for_watchdog(self):
        """A first step takes a card longer than that, and us less: DDP's first buckets, which it
        replaces in the second, would lie beside the new ones on one rank and not on another."""
        distributed = sys.modules.get("torch.distributed")
        if (distributed is not None and distributed.is_available()
                and distributed.is_initialized() and "nccl" in distributed.get_backend()):
            time.sleep(WATCHDOG_SEEN)

    def note_peaks(self, row):
        pair = row.allocated, row.reserved
        if len(self.step_peaks) < MAX_STEPS:
            self.step_peaks.append(pair)
        else:
            self.step_peaks[-1] = tuple(map(max, self.step_peaks[-1], pair))

    def on_call(self, _):
        """Behind a call of an outermost module."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and guarded("calls", self.note_call):
            self.enough("until-same")

    def note_call(self):
        if len(self.turns.of_optimizers) or not self.torch.cuda.is_initialized():
            return False
        return self.turns.after_call(peaks.of_step(self.torch.cuda.device_count()))

    def watch_turns(self):
        self.turns.watch_optimizers(self.torch.optim.Optimizer)
        outermost.after.append(self.on_call)

    def enough(self, what):
        self.ended_by = what
        if threading.current_thread() is threading.main_thread():
            raise EnoughRun(0)
        guarded("enough", self.finish)
        self.real_exit(0)

    def watch_time(self):
        """Ends the main thread's Python from outside; it may be in a call that does not return."""
        time.sleep(max(0.0, self.began + self.max_seconds - time.time()))
        self.ended_by = "seconds"
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(threading.main_thread().ident), ctypes.py_object(EnoughRun))
        time.sleep(GRACE)
        guarded("seconds", self.finish)
        self.real_exit(0)

    # How it ends.

    def watch_ends(self):
        self.real_exit, exit_python = os._exit, sys.exit

        def _exit(status):
            guarded("_exit", lambda: self.finish(exit_code=status))
            self.real_exit(status)

        def exit_(status=None):
            self.exit_code = status
            exit_python(status)

        os._exit, sys.exit = _exit, exit_
        atexit.register(guarded, "atexit", self.finish)
        os.register_at_fork(after_in_child=self.in_child)

    def in_child(self):
        """A forked process has no CUDA, and its record is its own."""
        self.pid, self.forked, self.written = os.getpid(), True, False
        self.exit_code = self.ended_by = None
        self.steps, self.step_peaks = 0, []
        self.phases.restart()
        self.pictures = pictures.Pictures(self, self.events)
        del refusals.rows[:]

    def finish(self, exit_code=None, ended_by=None):
        if self.written or (self.forked and not self.cuda_is_up()):
            return
        self.written = True
        with self.pictures.lock:
            pass  # a picture that is being taken is finished
        self.exit_code = exit_code if exit_code is not None else self.exit_code
        self.ended_by = ended_by or self.ended_by
        notes.write_json("torch.json", self.summary())
        if self.cuda_is_up() and self.has_history():
            notes.write("snapshot.pickle", pickle.dumps(self.torch.cuda.memory._snapshot()))

    def cuda_is_up(self):
        return self.torch.cuda.is_initialized() and not self.torch.cuda._is_in_bad_fork()

    def summary(self):
        reads = sys.modules.get("_onnxfit_reads")
        return {
            "torch": self.torch.__version__, "cuda": self.torch.version.cuda,
            "python": sys.version.split()[0], "argv": sys.argv, "pid": self.pid,
            "parent": os.getppid(), "seconds": round(time.time() - self.began, 3),
            "ranks": {name: os.environ[name] for name in RANKS if name in os.environ},
            "cuda_initialized": self.cuda_is_up(),
            "devices": guarded("devices", self.devices) or [],
            "end": self.end(),
            "steps": self.steps,
            "calls": self.turns.calls if self.turns else 0,
            "refused": refusals.rows,
            "step_device": self.step_device,
            "step_peaks": [list(pair) for pair in self.step_peaks],
            "phases": guarded("phases", self.phases.summary) or [],
            "own_history": self.users_history,
            "values": "_onnxfit_values" in sys.modules,
            "unknown_reads": reads.listed() if reads else [],
            "failures": notes.failures[:notes.MAX_FAILURES],
        }

    def devices(self):
        if not self.cuda_is_up():
            return []
        rows = []
        for index in range(self.torch.cuda.device_count()):
            row = dict(peaks.of_run(index), index=index,
                       name=self.torch.cuda.get_device_name(index))
            rows.append(row)
        return rows

    def end(self):
        last = ends.last_exception()
        code = self.exit_code
        if code is None:
            code = 1 if last is not None else 0
        elif not isinstance(code, int):
            code = 1  # sys.exit("text")
        text = str(last) if last is not None else ""
        out_of_memory = (isinstance(last, self.torch.cuda.OutOfMemoryError)
                         or "CUDA error: out of memory" in text)
        return {"exit_code": code, "by": self.ended_by, "out_of_memory": out_of_memory,
                "exception": None if last is None else ends.name_of(type(last)),
                "message": None if last is None else text if out_of_memory else text[:2000]}


def guarded(what, call):
    try:
        return call()
    except Exception:
        notes.failure(what)
        return None


def number(name):
    try:
        return float(os.environ.get(name, "") or 0)
    except ValueError:
        return 0


def start(torch):
    record = Record(torch)
    record.watch_ends()
    guarded("peaks", lambda: peaks.start(torch))
    guarded("history", record.share_history)
    torch.cuda._lazy_call(record.on_first_cuda)

    def on_step(optimizer, args, kwargs):
        record.on_step(optimizer)

    on_step._torchdynamo_disable = True  # a compiled step calls it as it is
    importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(on_step)
    guarded("phases", lambda: outermost.watch(torch))
    guarded("pictures", lambda: pictures.watch(torch, record))
    if record.turns is not None:
        guarded("turns", record.watch_turns)
    if record.max_seconds:
        _thread.start_new_thread(record.watch_time, ())
