"""One operator's call, with a CUDA tensor among what it takes or makes (values.py)."""

import torch

mirrors_file = load("mirrors")  # noqa: F821, sitecustomize.py has given it
guesses = load("guesses")  # noqa: F821
known_reads = load("known_reads")  # noqa: F821
notes = load("notes")  # noqa: F821
operators = load("operators")  # noqa: F821
reads = load("reads")  # noqa: F821
tensors = load("tensors")  # noqa: F821

Tensor = torch.Tensor
has_mirror = mirrors_file.has_mirror
CPU, is_cuda, leaves_of, mapped = tensors.CPU, tensors.is_cuda, tensors.leaves_of, tensors.mapped

READ_WITHOUT_US = 4 << 10  # bytes
EXCHANGED = 64 << 10  # bytes that ranks tell one another (exchange.h)
FEW_BYTES = 1 << 10  # of a tensor that is computed though only some of what it comes from is known
VALUES_TO_FILL = 64 << 20  # bytes of a copy to the host that are given likely values


class Call:
    def __init__(self, mode, func, facts, args, kwargs, leaves):
        self.mode, self.mirrors, self.func, self.facts = mode, mode.mirrors, func, facts
        self.args, self.kwargs, self.leaves = args, kwargs, leaves

    def run(self):
        facts = self.facts
        self.look_at_inputs()
        if not self.mode.capturing and (facts.read or facts.sized):
            try:
                return known_reads.told(self, self.below)
            except torch.cuda.OutOfMemoryError:
                raise
            except Exception:
                notes.failure(str(self.func))
        result = self.below()
        try:
            if facts.unwritten:
                self.nothing_yet(result)
            else:
                result = self.follow(result)
                self.put_back()
        except Exception:
            notes.failure(str(self.func))
        return result

    def below(self):
        """The operator as it is.  What its C++ reads meanwhile is no guess of ours where we have all
        that it is made of."""
        if self.unknown():
            return self.func(*self.args, **self.kwargs)
        reads.quiet[0] += 1
        try:
            return self.func(*self.args, **self.kwargs)
        finally:
            reads.quiet[0] -= 1

    def nothing_yet(self, result):
        """The address may have been another tensor's, of which the device still knows."""
        if self.facts.new and type(result) is Tensor and result.is_cuda and has_mirror(result):
            self.guess(result, mirrors_file.likely(result.dtype))

    # What it takes.

    def look_at_inputs(self):
        """Before kernels get their addresses: behind that the device forgets what was there."""
        if self.facts.of_shape:
            self.seen = []
            return
        of = self.mirrors.of
        self.seen = [(x, of(x, self.facts.from_host)) for x in self.leaves if is_cuda(x)]
        if self.facts.collective:
            for x, _ in self.seen:
                if x.numel() * x.element_size() <= EXCHANGED and x.is_contiguous():
                    self.mirrors.tell_device(x)

    def put_back(self):
        """What kernels were given is forgotten on the device.  What is known and read by a host that
        does not ask us is small."""
        for x, mirror in self.seen:
            if (mirror is not None and mirror.nbytes <= READ_WITHOUT_US and not mirror.unknown
                    and mirror.bytes is not None and not mirror.is_pending):
                self.mirrors.to_device(x)

    def inputs(self):
        return [x for x in self.leaves if is_cuda(x)]

    def unknown(self):
        return any(mirror is None or mirror.unknown for _, mirror in self.seen)

    def on_mirrors(self, written=()):
        """The arguments on the CPU."""
        ids = {id(x) for x in written}

        def mirrored(x):
            if is_cuda(x):
                if id(x) in ids:
                    return self.mirrors.to_write(x)
                return self.mirrors.to_read(x, is_told=self.tells())
            return CPU if tensors.on_cuda(x) else x

        args, kwargs = self.changed(mirrored)
        if tensors.is_cuda_generator(kwargs.get("generator")):
            kwargs["generator"] = None
        if "device" in kwargs:
            kwargs["device"] = CPU
            kwargs.pop("pin_memory", None)
        return args, kwargs

    def tells(self):
        """Whether what it makes shows what it was given, as a whole."""
        return not self.facts.pointwise and not self.facts.of_shape

    def changed(self, change):
        """The arguments with each leaf changed."""
        return (tuple(mapped(x, change) for x in self.args),
                {name: mapped(x, change) for name, x in self.kwargs.items()})

    def compute(self, written=()):
        args, kwargs = self.on_mirrors(written)
        if not self.facts.random:
            return self.func(*args, **kwargs)
        users = torch.random.get_rng_state()  # the program's own draws stay what they are
        torch.random.set_rng_state(self.mode.random_state)
        try:
            return self.func(*args, **kwargs)
        finally:
            self.mode.random_state = torch.random.get_rng_state()
            torch.random.set_rng_state(users)

    # What it makes.

    def settle(self, out, value, unknown):
        """Gives a tensor the values, and says whether they are known."""
        own = self.new_mirror(out)
        if own.bytes is None and own.fill is None:
            own.fill = 0
        if unknown:
            value = finite(value)
        if self.is_a_mirrors(value):
            self.mirrors.to_write(out).copy_(value)
        else:
            self.mirrors.take(out, value)
        own.unknown = unknown
        self.mirrors.to_device(out)

    def guess(self, out, value):
        self.mirrors.guess(self.new_mirror(out), value)

    def is_a_mirrors(self, value):
        """Where an operator returned what it was given."""
        storage = value.untyped_storage().data_ptr()
        return any(x is not None and x.bytes is not None and x.bytes.data_ptr() == storage
                   for x in map(self.mirrors.of, self.inputs()))

    def new_mirror(self, tensor):
        storage = tensor.untyped_storage()
        return self.mirrors.by_storage.get(storage._cdata) or self.mirrors.add(storage)

    def follow(self, result):
        """Has the mirrors of what was written to say what is there now."""
        written = self.written()
        made = [x for x in leaves_of((result,)) if isinstance(x, Tensor)]
        if any(not tensors.is_plain(type(x)) or not tensors.is_strided(x) for x in made):
            return result
        to_host = [x for x in made if not x.is_cuda]
        made = [x for x in made if x.is_cuda]
        if self.facts.from_host:
            return result
        if self.facts.collective:
            self.mirrors.read_later(written + self.received() + made)
            return result
        if to_host and self.facts.name in operators.COPIES:
            if self.inputs():
                self.copied_to_host(to_host)
            return result
        if not any(has_mirror(x) for x in written + made) or self.facts.name in operators.FINITE:
            return result
        return self.follow_mirrored(result, written, made)

    def written(self):
        found = []
        for index, name, _ in self.facts.written:
            value = self.args[index] if index < len(self.args) else self.kwargs.get(name)
            found.extend(x for x in (value if isinstance(value, (list, tuple)) else (value,))
                         if is_cuda(x))
        return found

    def received(self):
        """What c10d's functions write to is their first argument, though not all schemas say so."""
        is_ours = self.facts.name.startswith("c10d::") and self.facts.name != "c10d::send"
        return [x for x in leaves_of(self.args[:1]) if is_cuda(x)] if is_ours else []

    def follow_mirrored(self, result, written, made):
        read = self.read_inputs(written)
        if any(mirror is None or mirror.bytes is None and mirror.nbytes > mirrors_file.SMALL
               for _, mirror in read) and not guesses.counts(self):
            guesses.follow_constants(self, written, made)
            return result
        unknown = self.unknown_after(read, written)
        if (not self.facts.on_cpu or any(not has_mirror(x) for x in written)
                or unknown and not self.is_worth_a_guess(written + made)):
            guesses.lose(self, written, made)
            return result
        try:
            value = self.compute(written)
        except NotImplementedError:
            self.facts.on_cpu = False
            guesses.lose(self, written, made)
            return result
        except Exception:
            guesses.lose(self, written, made)
            return result
        return self.take_over(result, value, written, unknown)

    def is_worth_a_guess(self, tensors_after):
        """A number from a guess is a guess; only counts and flags count, and numbers beside which
        others are known (a beam search's scores of -1e9 for what has not ended)."""
        if not self.facts.ours or self.facts.tells_errors:
            return False
        if all(x.nbytes <= FEW_BYTES for x in tensors_after) and guesses.is_known_in_part(self):
            return True
        return not guesses.chooses(self) and any(map(mirrors_file.is_whole, tensors_after))

    def read_inputs(self, written):
        """With their mirrors."""
        if not written or self.facts.name not in operators.OVERWRITES and not self.facts.has_out:
            return self.seen
        ids = {id(x) for x in written}
        return [pair for pair in self.seen if id(pair[0]) not in ids]

    def unknown_after(self, read, written):
        return (self.mode.capturing > 0 or any(mirror.unknown for _, mirror in read)
                or any(tensors.covers_part(x) and self.mirrors.is_unknown(x) for x in written))

    def take_over(self, result, value, written, unknown):
        ids = {id(x) for x in written}
        values = iter(leaves_of((value,)))

        def with_values(out):
            now = next(values, None)
            if not is_cuda(out) or not isinstance(now, Tensor) or id(out) in ids:
                return out
            if out.shape != now.shape and self.facts.name in operators.OTHER_ON_CPU:
                return out
            if out.shape != now.shape:  # sized by values, though no table says so
                out = torch.empty_like(now, device=out.device)
            if has_mirror(out):
                self.settle(out, now, unknown)
            return out

        result = mapped(result, with_values)
        for x in written:
            self.mirrors.find(x).unknown = unknown
            self.mirrors.to_device(x)
        return result

    # To the host.

    def copied_to_host(self, to_host):
        """x.cpu() and host.copy_(x)."""
        source = self.inputs()[-1]
        if has_mirror(source) and self.mirrors.is_unknown(source):
            reads.note("a copy to the host")
        for x in to_host:
            if x.device.type != "cpu" or x.shape != source.shape:
                continue
            if x.untyped_storage().nbytes() <= VALUES_TO_FILL and self.is_not_zero(source):
                x.copy_(self.mirrors.to_read(source, is_told=True))

    def is_not_zero(self, tensor):
        """A copy is zeros as it is."""
        if not has_mirror(tensor):
            return True
        mirror = self.mirrors.find(tensor)
        return mirror.bytes is not None or mirror.fill != 0


def finite(value):
    """What is computed from guesses may be 0 / 0, of which no program is guilty."""
    if mirrors_file.is_finite(value):
        return value
    return torch.where(value.isfinite(), value, mirrors_file.likely(value.dtype)).to(value.dtype)
