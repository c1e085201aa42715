"""Peaks of what a program does in turn: it trains, evaluates, generates, moves parts of a pipeline to
the card and back, puts an engine to sleep.

A phase is known by what is called, and lasts until another begins:
  training            a module is called with gradients, or, if it trains, in its training mode; an
                      optimizer steps
  evaluation          a module that trains is called in its eval mode, without gradients
  module              one that does not train is called without: a part of a pipeline, a teacher
  prefill, decoding   generate() of transformers until the model's first call has returned, and since
  engine, sleep, wake calls of an engine's worker (engines_vllm.py)
Behind generate() and sleep(), whose ends are known, lies what is "between".  Modules without
parameters (a loss, a transform) are no phase.

Memory is read where one phase ends and another begins, and not at the calls between."""

import ctypes
import functools
import sys
import threading
import weakref

notes = load("notes")  # noqa: F821, sitecustomize.py has given it
outermost = load("outermost")  # noqa: F821
peaks = load("peaks")  # noqa: F821

MOST_MODULES = 12  # that are told apart
FRAMES = 30  # that are looked at for a module's owner
GUESSING = ("assistant_model", "prompt_lookup_num_tokens")  # generate()'s, with several tokens a call
WRAPPERS = ("module", "_orig_mod")  # the only child of DistributedDataParallel and torch.compile's

shared = None  # the process's, once torch is there


class Phase:
    def __init__(self, kind, name=""):
        self.kind, self.name = kind, name
        self.times = 0
        self.begun = self.ended = 0  # the place in the order of all: first, last
        self.cards = {}  # by device
        self.calls = 0  # of the model, in the generate() that had most
        self.growth = None  # bytes that each of them added

    def note(self, device, row, held):
        """What a stretch of it took, and left."""
        now, most = held
        figures = self.cards.setdefault(device, {"allocated": 0, "reserved": 0, "held": 0})
        for name, value in (("allocated", row.allocated), ("reserved", row.reserved), ("held", most)):
            figures[name] = max(figures[name], value)
        figures.update(left_allocated=row.allocated_now, left_reserved=row.reserved_now, left_held=now)

    def merge(self, later):
        """Another that is told as the same."""
        is_later = later.ended > self.ended
        self.times += later.times
        self.begun = min(self.begun, later.begun) if self.begun else later.begun
        self.ended = max(self.ended, later.ended)
        for device, figures in later.cards.items():
            mine = self.cards.setdefault(device, dict(figures))
            for name, value in figures.items():
                if not name.startswith("left"):
                    mine[name] = max(mine[name], value)
                elif is_later:
                    mine[name] = value

    def summary(self):
        row = {"kind": self.kind, "name": self.name, "times": self.times,
               "devices": [dict(figures, index=device) for device, figures in sorted(self.cards.items())]}
        if self.growth is not None:
            row.update(calls=self.calls, growth=self.growth)
        return row


class Module:
    """One that no other calls, and its phases: in its eval mode, and in its training mode."""

    def __init__(self, name, first):
        self.name, self.first = name, first  # a weak reference to its first parameter, by which it is known
        self.trains = False
        self.in_eval, self.in_training = Phase("module", name), Phase("module", name)
        self.joined = 0  # that training followed on its training mode without gradients


class Generation:
    """One call of generate().  `requested` are bytes behind the model's calls, the first of which
    filled its cache: behind the 1st, 2nd, 4th, 8th… that decoded."""

    def __init__(self, model, guesses):
        self.model, self.guesses = model, guesses
        self.calls = 0
        self.requested = []


class Phases:
    def __init__(self, torch):
        self.torch = torch
        self.lock = threading.RLock()
        self.since = peaks.Since()
        self.held = held_bytes()
        self.is_offload = lambda hook: False
        self.restart()

    def restart(self):
        self.by_name = {}
        self.modules = []
        self.of_modules = {}  # the id of each that was called: a weak reference, and its Module
        self.open = []  # calls that are a phase from their begin to their end
        self.switches = 0
        self.current = self.named("start")
        self.current.times = 1
        self.training = self.named("training")

    # From one to the next.

    def named(self, kind, name=""):
        if (kind, name) not in self.by_name:
            self.by_name[kind, name] = Phase(kind, name)
        return self.by_name[kind, name]

    def switch(self, phase):
        if phase is self.current:
            return
        with self.lock:
            self.read()
            self.switches += 1
            self.current.ended = self.switches
            self.current = phase
            phase.times += 1
            phase.begun = phase.begun or self.switches

    def read(self):
        if not self.torch.cuda.is_initialized():
            return
        for device, row in enumerate(self.since.take(self.torch.cuda.device_count())):
            held = self.held(device)
            if row.reserved or held[1]:
                self.current.note(device, row, held)

    # What happens.

    def before_call(self, module):
        if self.open or not outermost.is_alone():
            return
        try:
            known = self.of_module(module)
            if known is None:
                return
            if self.torch.is_grad_enabled():
                self.train(known, module)
            elif not module.training:
                self.switch(known.in_eval)
            else:
                self.switch(self.training if known.trains else known.in_training)
        except Exception:
            notes.failure("phases")

    def train(self, known, module):
        if not known.trains and is_trained(module):
            known.trains = True
            known.joined += self.current is known.in_training
        self.switch(self.training)

    def after_call(self, module):
        if self.open and isinstance(self.open[-1], Generation) and self.open[-1].model is module:
            try:
                self.after_model(self.open[-1])
            except Exception:
                notes.failure("phases")

    def on_step(self):
        if not self.open:
            self.switch(self.training)

    def after_model(self, generation):
        generation.calls += 1
        decoded = generation.calls - 1
        if decoded == 0:
            self.switch(self.named("decoding"))
        elif decoded & (decoded - 1) == 0 and self.torch.cuda.is_initialized():
            generation.requested.append(peaks.requested_now(self.torch.cuda.current_device()))

    def begin(self, phase, call=None):
        """Of a call that is a phase; False within another."""
        if self.open:
            return False
        self.switch(phase)
        self.open.append(call)
        return True

    def end(self, is_over):
        call = self.open.pop()
        if is_over:
            self.switch(self.named("between"))
        if isinstance(call, Generation):
            self.note_growth(call)

    def note_growth(self, generation):
        phase, samples = self.named("decoding"), generation.requested
        if generation.guesses or len(samples) < 2 or generation.calls - 1 < phase.calls:
            return
        phase.calls = generation.calls - 1
        phase.growth = (samples[-1] - samples[0]) // ((1 << (len(samples) - 1)) - 1)

    # Who is called.

    def of_module(self, module):
        known = self.of_modules.get(id(module))
        if known is None or known[0]() is not module:
            self.of_modules[id(module)] = weakref.ref(module), None  # should looking fail
            known = self.of_modules[id(module)] = weakref.ref(module), self.look_at(module)
        return known[1]

    def look_at(self, module):
        if next(module.parameters(), None) is None:
            return None
        owner = unwrapped(self.owner_of(module))
        first = next(owner.parameters())
        for known in self.modules:
            if known.first() is first:
                return known
        if len(self.modules) > MOST_MODULES:
            return self.modules[-1]  # the rest of them
        name = type(owner).__name__ if len(self.modules) < MOST_MODULES else ""
        self.modules.append(Module(name, weakref.ref(first)))
        return self.modules[-1]

    def owner_of(self, module):
        """The module by a method of which (vae.decode()) it is called; itself, where it is called by
        none or is moved to the card for itself."""
        owner, frame = module, sys._getframe(1)
        for _ in range(FRAMES):
            if frame is None or self.is_offload(getattr(owner, "_hf_hook", None)):
                break
            caller = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
            if (isinstance(caller, self.torch.nn.Module) and caller is not owner
                    and caller.training == module.training
                    and any(part is module for part in caller.modules())):
                owner = caller
            frame = frame.f_back
        return owner

    # Functions that are a phase.

    def around(self, kind, function, phase, is_over=True, call=lambda *args, **kwargs: None):
        """`phase` is its kind and name.  Where it is not over behind the function, it lasts until another
        begins."""
        real = getattr(kind, function, None)
        if real is None:
            return

        @functools.wraps(real)
        def wrapped(*args, **kwargs):
            begun = guarded(lambda: self.begin(self.named(*phase), call(*args, **kwargs)))
            if not begun:
                return real(*args, **kwargs)
            try:
                with outermost.outside():
                    return real(*args, **kwargs)
            finally:
                guarded(lambda: self.end(is_over))

        setattr(kind, function, wrapped)

    # How it is told.

    def summary(self):
        """Nothing of a program that does one thing."""
        with self.lock:
            self.read()
            self.current.ended = self.switches + 1
        told = self.told()
        if len([row for row in told if row.kind not in ("start", "between")]) < 2:
            return []
        return [row.summary() for row in told]

    def told(self):
        has_steps = self.has_steps()
        rows = {}

        def tell(phase, kind, name, joined=0):
            row = rows.setdefault((kind, name), Phase(kind, name))
            row.merge(phase)
            row.times -= joined
            if phase.growth is not None:
                row.calls, row.growth = phase.calls, phase.growth

        for phase in self.by_name.values():
            is_forward = phase is self.training and not has_steps
            tell(phase, "forward" if is_forward else phase.kind, phase.name)
        evaluated = {each.name for each in self.modules if each.trains and each.in_eval.times}
        for each in self.modules:
            if not each.trains or not has_steps:
                tell(each.in_eval, "module", each.name)
                tell(each.in_training, "module", each.name)
            else:
                tell(each.in_eval, "evaluation", each.name if len(evaluated) > 1 else "")
                tell(each.in_training, "training", "", each.joined)
        return sorted((row for row in rows.values() if row.times), key=lambda row: row.begun)


def is_trained(module):
    return any(parameter.requires_grad for parameter in module.parameters())


def unwrapped(module):
    children = dict(module.named_children())
    while len(children) == 1 and next(iter(children)) in WRAPPERS:
        module, = children.values()
        children = dict(module.named_children())
    return module


def held_bytes():
    """What the process holds of a card, and the most since the last call, as the library counts."""
    find = getattr(ctypes.CDLL(None), "onnxfit_held_bytes", None)
    if find is None:
        return lambda device: (0, 0)
    find.restype, find.argtypes = ctypes.c_int64, (ctypes.c_int, ctypes.POINTER(ctypes.c_int64))

    def held(device):
        most = ctypes.c_int64()
        return find(device, ctypes.byref(most)), most.value

    return held


def guarded(call):
    try:
        return call()
    except Exception:
        notes.failure("phases")
        return None


def start(torch, has_steps):
    global shared
    shared = Phases(torch)
    shared.has_steps = has_steps
    outermost.before.append(shared.before_call)
    outermost.after.append(shared.after_call)
    return shared


# Of transformers.generation.utils.

def around_generation(module):
    def call(model, *args, generation_config=None, **kwargs):
        own = generation_config or getattr(model, "generation_config", None)
        guesses = any(kwargs.get(name) or getattr(own, name, None) for name in GUESSING)
        return Generation(model, guesses)

    shared.around(module.GenerationMixin, "generate", ("prefill",), call=call)


# Of accelerate.hooks: a part of a pipeline begins as it is moved to the card, which is before it is
# called where a method other than forward() is (vae.decode()).

def around_offload(module):
    kind = module.CpuOffload
    shared.is_offload = lambda hook: isinstance(hook, kind)
    pre_forward = kind.pre_forward

    @functools.wraps(pre_forward)
    def wrapped(self, module, *args, **kwargs):
        shared.before_call(module)
        return pre_forward(self, module, *args, **kwargs)

    kind.pre_forward = wrapped


WATCHED = {"transformers.generation.utils": around_generation, "accelerate.hooks": around_offload}


def watch(module):
    if shared is not None:
        WATCHED[module.__name__](module)
