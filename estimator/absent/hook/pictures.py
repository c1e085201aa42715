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


class Pictures:
    """Looks come from a thread of their own: programs that only infer have no steps."""

    def __init__(self, record, events):
        self.record, self.events = record, events
        self.lock = threading.Lock()
        self.highest = self.pictured = 0
        self.since = self.last = 0  # events, at the look before the highest was there, and at the last

    def start(self):
        _thread.start_new_thread(self.look_often, ())

    def look_often(self):
        while not self.record.written:
            time.sleep(EVERY)
            with self.lock:
                if not self.record.written and not self.record.users_history:
                    self.record.guarded("pictures", self.look)

    def look(self):
        bytes_, events = peaks.so_far(self.record.torch.cuda.device_count())
        if bytes_ > self.highest * HIGHER:
            self.highest, self.since = bytes_, self.last
        self.last = events
        if self.highest > self.pictured and events - self.since > self.events * PART:
            self.pictured = self.highest
            snapshot = self.record.torch.cuda.memory._snapshot()
            notes.write("peak.pickle", pickle.dumps(snapshot))
