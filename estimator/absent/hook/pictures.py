"""The allocator's record has its newest events alone.  Where a program goes on for long behind its
peak, the lines that held it would be lost, so that a picture is taken before: `<pid>.peak.pickle`,
as memory_viz reads it."""

import _thread
import pickle
import threading
import time

notes = load("notes")  # noqa: F821, sitecustomize.py has given it
peaks = load("peaks")  # noqa: F821

EVERY = 0.1  # seconds between looks
PART = 0.7  # of the events that are kept: by then a peak is pictured
HIGHER = 1.01  # what is less above the last picture is told by that one


outermost = load("outermost")  # noqa: F821

has_others_allocator = [False]


class Pictures:
    """Looks come from a thread of their own: programs that only infer have no steps.  An allocator of the
    program's may be Python (vLLM's sleep mode): PyTorch calls it under its own lock, while it waits
    for the interpreter's, and a thread that looks holds that and waits for the other, both for
    ever.  From then on looks come behind calls of modules."""

    def __init__(self, record, events):
        self.record, self.events = record, events
        self.lock = threading.Lock()
        self.highest = self.pictured = 0
        self.since = self.last = 0  # events, at the look before the highest was there, and at the last
        self.looked = 0.0  # when

    def start(self):
        _thread.start_new_thread(self.look_often, ())

    def look_often(self):
        while not self.record.written and not has_others_allocator[0]:
            time.sleep(EVERY)
            self.look_if(lambda: not has_others_allocator[0])

    def after_call(self):
        if has_others_allocator[0] and time.monotonic() - self.looked > EVERY:
            self.looked = time.monotonic()
            self.look_if(lambda: True)

    def look_if(self, may):
        with self.lock:
            if may() and not self.record.written and not self.record.users_history:
                self.record.guarded("pictures", self.look)

    def look(self):
        if not self.record.cuda_is_up():
            return
        bytes_, events = peaks.so_far(self.record.torch.cuda.device_count())
        if bytes_ > self.highest * HIGHER:
            self.highest, self.since = bytes_, self.last
        self.last = events
        if self.highest > self.pictured and events - self.since > self.events * PART:
            self.pictured = self.highest
            snapshot = self.record.torch.cuda.memory._snapshot()
            notes.write("peak.pickle", pickle.dumps(snapshot))


def watch(torch, record):
    outermost.after.append(lambda module: record.pictures.after_call())
    kind = getattr(torch.cuda.memory, "CUDAPluggableAllocator", None)
    if kind is None:
        return
    begin = kind.__init__

    def __init__(self, *args, **kwargs):
        has_others_allocator[0] = True
        with record.pictures.lock:
            pass  # a look that has begun is over
        begin(self, *args, **kwargs)

    kind.__init__ = __init__
