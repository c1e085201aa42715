"""Small CUDA tensors have values, though no kernel computes.

A dispatch mode sees every operator.  Each runs as it is (that is what allocates); then, if it wrote
to a tensor that has a mirror (mirrors.py), it runs on the CPU's mirrors, too.  What an operator
makes of large tensors is unknown: pointwise ones are computed on one element, the others are given
likely values, and where the program reads one, its line is noted (reads.py).

Not seen: what compiled code launches by itself (torch.compile's kernels; their results are unknown
when they are read), and a CUDA graph's replays (its tensors hold what the capture computed).
Where a subclass wraps tensors (DTensor, and bitsandbytes' parameters do not), it unwraps first and
its own operators come here; the compiler's fake tensors pass through."""

import torch
from torch.utils import _python_dispatch

mirrors_file = load("mirrors")  # noqa: F821, sitecustomize.py has given it
reads = load("reads")  # noqa: F821
has_mirror = mirrors_file.has_mirror

aten = torch.ops.aten
Tensor, Parameter = torch.Tensor, torch.nn.Parameter
PLAIN = torch._C._disabled_torch_dispatch_impl

# Read by the host, and what the report calls it.
READS = {aten._local_scalar_dense.default: "item()", aten.is_nonzero.default: "bool()",
         aten.equal.default: "equal()"}
# Its result's size is a value.
SIZED_BY_VALUES = {"aten::nonzero": "nonzero()", "aten::masked_select": "masked_select()",
                   "aten::_unique2": "unique()", "aten::unique_dim": "unique()",
                   "aten::unique_consecutive": "unique_consecutive()",
                   "aten::unique_dim_consecutive": "unique_consecutive()",
                   "aten::repeat_interleave": "repeat_interleave()",
                   "aten::bincount": "bincount()"}
# Booleans among its indices are turned into numbers of rows, inside, by their values.
INDEXES = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
           "aten::_unsafe_index", "aten::_unsafe_index_put"}
# Makes a tensor without writing to it.
UNWRITTEN = {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty",
             "aten::new_empty_strided", "aten::resize_", "aten::set_", "aten::detach",
             "aten::record_stream", "aten::_resize_output_"}
# Gradients are taken to be finite: GradScaler's flag stays what it was, and optimizers step.
FINITE = {"aten::_amp_foreach_non_finite_check_and_unscale_"}
# Of one value throughout, any and all are that value.
SAME_OF_ONE = {"aten::any", "aten::all"}
# Indices of what is highest, and which argument says along what.
CHOICES = {"aten::topk": 2, "aten::sort": 1, "aten::argsort": 1, "aten::argmax": 1,
           "aten::argmin": 1, "aten::max": 1, "aten::min": 1, "aten::multinomial": 3}
LAST_BY_DEFAULT = {"aten::topk", "aten::sort", "aten::argsort", "aten::multinomial"}
FEW = 256
# In-place operators that write without reading what was there.
OVERWRITES = {"aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_",
              "aten::random_", "aten::bernoulli_", "aten::exponential_", "aten::_foreach_copy_",
              "aten::_foreach_zero_"}
# Collectives whose result is one rank's.
FROM_ONE = ("broadcast", "recv")
READ_WITHOUT_US = 4 << 10  # bytes
EXCHANGED = 64 << 10  # bytes that ranks tell one another (exchange.h)
VALUES_TO_FILL = 64 << 20  # bytes of a copy to the host that are given likely values


def is_cuda(value):
    return isinstance(value, Tensor) and value.is_cuda


class Facts:
    """What is asked of an operator each time."""

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.collective = schema.name.startswith(("c10d", "_c10d"))
        self.view = func.is_view or schema.name in ("aten::_unsafe_view")
        self.from_host = schema.name == "aten::lift_fresh"  # torch.tensor(…): seen from here on
        self.unwritten = schema.name in UNWRITTEN
        self.new = "empty" in schema.name
        self.pointwise = torch.Tag.pointwise in func.tags
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.sized = SIZED_BY_VALUES.get(schema.name)
        self.indexes = schema.name in INDEXES
        self.read = READS.get(func)
        self.on_cpu = True  # until it is seen that there is no kernel
        self.written = [(i, a.name, a.is_out) for i, a in enumerate(schema.arguments)
                        if a.alias_info is not None and a.alias_info.is_write]


class Values(_python_dispatch.TorchDispatchMode):
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # True imports torch._dynamo, seconds

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __init__(self):
        super().__init__()
        self.mirrors = mirrors_file.Mirrors()
        self.facts = {}
        self.capturing = 0  # CUDA graphs
        self.off = 0  # calls in which nothing is followed
        self.in_child = False
        self.random_state = torch.Generator().get_state()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.off:
            return func(*args, **kwargs)
        facts = self.facts.get(func)
        if facts is None:
            if not isinstance(func, torch._ops.OpOverload):
                return func(*args, **kwargs)
            facts = self.facts[func] = Facts(func)
        leaves = leaves_of((args, tuple(kwargs.values())) if kwargs else args)
        device = None
        for x in leaves:
            if isinstance(x, Tensor):
                kind = type(x)
                if kind is not Tensor and kind is not Parameter and not is_plain(kind):
                    return func(*args, **kwargs) if of_compiler(kind) else NotImplemented
                if x.is_cuda:
                    if x.layout is not torch.strided:
                        return func(*args, **kwargs)
                    device = x.device
        if facts.view or device is None and not on_cuda(kwargs.get("device")):
            return func(*args, **kwargs)
        return Call(self, func, facts, args, kwargs, leaves).run()


class Call:
    """One operator's call, with a CUDA tensor among what it takes or makes."""

    def __init__(self, mode, func, facts, args, kwargs, leaves):
        self.mode, self.mirrors, self.func, self.facts = mode, mode.mirrors, func, facts
        self.args, self.kwargs, self.leaves = args, kwargs, leaves

    def run(self):
        facts = self.facts
        if not self.mode.capturing and (facts.read or facts.sized or facts.indexes):
            try:
                if facts.read:
                    return self.read()
                if facts.sized:
                    return self.sized_by_values()
                self.rows_of_booleans()
            except Exception:
                load("notes").failure(str(self.func))  # noqa: F821
        self.look_at_inputs()
        result = self.func(*self.args, **self.kwargs)
        try:
            if facts.unwritten:
                self.nothing_yet(result)
            else:
                result = self.follow(result)
                self.put_back()
        except Exception:
            load("notes").failure(str(self.func))  # noqa: F821
        return result

    def nothing_yet(self, result):
        """The address may have been another tensor's, of which the device still knows."""
        if self.facts.new and type(result) is Tensor and result.is_cuda and has_mirror(result):
            self.mirrors.guess(self.new_mirror(result), mirrors_file.likely(result.dtype))

    def look_at_inputs(self):
        """Before kernels get their addresses: behind that the device forgets what was there."""
        of = self.mirrors.of
        self.seen = [(x, of(x, self.facts.from_host)) for x in self.leaves if is_cuda(x)]
        if self.facts.collective:
            self.put_back(EXCHANGED)

    def put_back(self, most=READ_WITHOUT_US):
        """What kernels were given is forgotten on the device.  What is known and read by a host that
        does not ask us is small."""
        for x, mirror in self.seen:
            if (mirror is not None and mirror.nbytes <= most and not mirror.unknown
                    and mirror.bytes is not None):
                self.mirrors.to_device(x)

    def inputs(self):
        return [x for x in self.leaves if is_cuda(x)]

    def unknown(self):
        return any(self.mirrors.is_unknown(x) for x in self.inputs())

    def on_mirrors(self, written=()):
        """The arguments on the CPU."""
        ids = {id(x) for x in written}

        def mirrored(x):
            if is_cuda(x):
                return self.mirrors.to_write(x) if id(x) in ids else self.mirrors.to_read(x)
            return CPU if on_cuda(x) else x

        args, kwargs = self.changed(mirrored)
        if is_cuda_generator(kwargs.get("generator")):
            kwargs["generator"] = None
        if "device" in kwargs:
            kwargs["device"] = CPU
            kwargs.pop("pin_memory", None)
        return args, kwargs

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

    def read(self):
        if self.unknown():
            reads.note(self.facts.read)
        if self.facts.name == "aten::equal" and self.leaves[0].numel() > LARGE_READ:
            return True
        return self.compute()

    def sized_by_values(self):
        if self.unknown():
            reads.note(self.facts.sized)
        if self.facts.name == "aten::masked_select":
            return self.masked_select()
        result = self.compute()
        return mapped(result, lambda x: self.placed(x) if isinstance(x, Tensor) else x)

    def masked_select(self):
        source, mask = self.args[:2]
        shape = torch.broadcast_shapes(source.shape, mask.shape)
        count = int(self.mirrors.to_read(mask).expand(shape).sum())
        out = torch.empty(count, dtype=source.dtype, device=source.device)
        if has_mirror(out):
            self.settle(out, self.compute(), self.unknown())
        return out

    def placed(self, value):
        """A CUDA tensor as this one of the CPU, with its values."""
        out = torch.empty_like(value, device=self.inputs()[0].device)
        if has_mirror(out):
            self.settle(out, value, self.unknown())
        return out

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

    def is_a_mirrors(self, value):
        """Where an operator returned what it was given."""
        storage = value.untyped_storage().data_ptr()
        return any(x is not None and x.bytes is not None and x.bytes.data_ptr() == storage
                   for x in map(self.mirrors.of, self.inputs()))

    def rows_of_booleans(self):
        """x[mask] as x[mask.nonzero()], which is what PyTorch does inside, where nobody sees it."""
        indices = self.args[1]
        if any(is_mask(i) for i in indices):
            new = leaves_of([self.rows_of(i) if is_mask(i) else i for i in indices])
            self.args = (self.args[0], new) + tuple(self.args[2:])
            self.leaves = leaves_of((self.args, tuple(self.kwargs.values())))

    def rows_of(self, mask):
        unknown = self.mirrors.is_unknown(mask)
        if unknown:
            reads.note("a boolean index")
        rows = self.mirrors.to_read(mask).nonzero()
        out = torch.empty(rows.shape, dtype=rows.dtype, device=mask.device)
        if has_mirror(out):
            self.settle(out, rows, unknown)
        return [out.select(1, i) for i in range(out.shape[1])]

    def follow(self, result):
        """Has the mirrors of what was written to say what is there now."""
        written = self.written()
        made = [x for x in leaves_of((result,)) if isinstance(x, Tensor)]
        if any(type(x) is not Tensor and not is_plain(type(x)) for x in made):
            return result
        if self.facts.collective:
            self.from_device(written + self.received() + [x for x in made if x.is_cuda])
            return result
        to_host = [x for x in made if not x.is_cuda]
        if not to_host and not any(has_mirror(x) for x in written + made):
            return result
        if to_host and self.inputs():
            self.copied_to_host(to_host)
            return result
        if self.facts.name in FINITE:
            return result
        return self.follow_mirrored(result, written, made)

    def written(self):
        found = []
        for index, name, _ in self.facts.written:
            value = self.args[index] if index < len(self.args) else self.kwargs.get(name)
            found.extend(x for x in (value if isinstance(value, (list, tuple)) else (value,))
                         if is_cuda(x))
        return found

    def follow_mirrored(self, result, written, made):
        read = self.read_inputs(written)
        if any(mirror is None or mirror.bytes is None and mirror.nbytes > mirrors_file.SMALL
               for _, mirror in read):
            self.follow_constants(written, made)
            return result
        if not self.facts.on_cpu or any(not has_mirror(x) for x in written):
            self.lose(written, made)
            return result
        unknown = self.unknown_after(read, written)
        ours = self.facts.name.startswith("aten::")  # others' kernels for the CPU may be slow
        if unknown and (self.chooses() or not ours or not any(
                is_whole(x) for x in written + made)):
            self.lose(written, made)  # a number from a guess is a guess; only counts and flags count
            return result
        try:
            value = self.compute(written)
        except NotImplementedError:
            self.facts.on_cpu = False
            self.lose(written, made)
            return result
        except Exception:
            self.lose(written, made)
            return result
        return self.take_over(result, value, written, unknown)

    def read_inputs(self, written):
        """With their mirrors."""
        if not written or self.facts.name not in OVERWRITES and not self.has_out():
            return self.seen
        ids = {id(x) for x in written}
        return [pair for pair in self.seen if id(pair[0]) not in ids]

    def has_out(self):
        return any(is_out for _, _, is_out in self.facts.written)

    def unknown_after(self, read, written):
        return (self.mode.capturing > 0 or any(mirror.unknown for _, mirror in read)
                or any(covers_part(x) and self.mirrors.is_unknown(x) for x in written))

    def take_over(self, result, value, written, unknown):
        ids = {id(x) for x in written}
        values = iter(leaves_of((value,)))

        def with_values(out):
            now = next(values, None)
            if not is_cuda(out) or not isinstance(now, Tensor) or id(out) in ids:
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

    def follow_constants(self, written, made):
        """With a tensor of which one value is all that is known.  Of pointwise operators one
        element is computed, so that isfinite(x).all() is true and isnan(x).any() is not."""
        value = None
        if not written and any(is_whole(x) for x in made) and (self.facts.pointwise or self.facts.name in SAME_OF_ONE):
            value = self.of_one_element()
        if value is None:
            return self.lose(written, made)
        for x in made:
            if has_mirror(x):
                self.mirrors.guess(self.new_mirror(x), value)

    def of_one_element(self):
        inputs = self.inputs()
        if any(x.numel() > 1 and not self.mirrors.is_constant(x) for x in inputs):
            return None
        def element(x):
            return self.mirrors.to_read(x).reshape(-1)[:1].reshape(()) if is_cuda(x) else x

        try:
            args, kwargs = self.changed(element)
            if self.facts.name in SAME_OF_ONE:
                return bool(args[0])
            return self.func(*args, **kwargs).item()
        except Exception:
            return None

    def lose(self, written, made):
        """Nothing is known of what was written.  What was there is the likeliest guess."""
        ids = {id(x) for x in written}
        for x in written:
            if has_mirror(x):
                self.mirrors.find(x).unknown = True
        for x in made:
            if id(x) not in ids and x.is_cuda and has_mirror(x):
                self.mirrors.guess(self.new_mirror(x), mirrors_file.likely(x.dtype))
                self.spread(x)

    def spread(self, out):
        """Which expert, which class: of few, a model that is trained chooses each about as often."""
        if not self.chooses() or not is_whole(out) or not self.leaves[0].dim():
            return
        dim = CHOICES[self.facts.name]
        if dim < len(self.args):
            dim = self.args[dim]
        elif self.facts.name in LAST_BY_DEFAULT:
            dim = self.kwargs.get("dim", -1)
        else:
            return
        size = self.leaves[0].shape[dim] if isinstance(dim, int) else 0
        if 0 < size <= FEW:
            self.settle(out, (torch.arange(out.numel()) % size).view(out.shape), True)

    def chooses(self):
        """By numbers that are guesses; the highest of counts is computed."""
        return self.facts.name in CHOICES and self.leaves[0].dtype.is_floating_point

    def new_mirror(self, tensor):
        storage = tensor.untyped_storage()
        return self.mirrors.by_storage.get(storage._cdata) or self.mirrors.add(storage)

    def copied_to_host(self, to_host):
        """x.cpu() and host.copy_(x)."""
        source = self.inputs()[-1]
        if has_mirror(source) and self.mirrors.is_unknown(source):
            reads.note("a copy to the host")
        for x in to_host:
            if x.device.type != "cpu" or x.shape != source.shape:
                continue
            if x.untyped_storage().nbytes() <= VALUES_TO_FILL and self.is_not_zero(source):
                x.copy_(self.mirrors.to_read(source))

    def is_not_zero(self, tensor):
        """A copy is zeros as it is."""
        if not has_mirror(tensor):
            return True
        mirror = self.mirrors.find(tensor)
        return mirror.bytes is not None or mirror.fill != 0

    def received(self):
        """What c10d's functions write to is their first argument, though not all schemas say so."""
        is_ours = self.facts.name.startswith("c10d::") and self.facts.name != "c10d::send"
        return [x for x in leaves_of(self.args[:1]) if is_cuda(x)] if is_ours else []

    def from_device(self, tensors):
        """What a collective has exchanged: a broadcast's or a message's is known where its sender
        knew it, others' if all knew what they gave."""
        is_guess = not any(of in self.facts.name for of in FROM_ONE) and self.unknown()
        for x in tensors:
            if has_mirror(x):
                own = self.new_mirror(x)
                self.mirrors.read_device(own, x, True)
                own.unknown = own.unknown or is_guess


CPU = torch.device("cpu")
MASKS = (torch.bool, torch.uint8)
LARGE_READ = 1 << 24  # elements that two tensors are compared of


def is_whole(value):
    return value.dtype in mirrors_file.WHOLE_TYPES


def is_mask(index):
    return is_cuda(index) and index.dtype in MASKS and has_mirror(index)


def on_cuda(device):
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.startswith("cuda")


def is_cuda_generator(value):
    return isinstance(value, torch.Generator) and value.device.type == "cuda"


def is_plain(kind):
    """A subclass that only has another name: operators see a tensor."""
    return kind.__torch_dispatch__ is PLAIN or kind.__torch_dispatch__ is Tensor.__torch_dispatch__


def of_compiler(kind):
    return kind.__name__ in ("FakeTensor", "FunctionalTensor")


def covers_part(tensor):
    return tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


def finite(value):
    """What is computed from guesses may be 0 / 0, of which no program is guilty."""
    if mirrors_file.is_finite(value):
        return value
    return torch.where(value.isfinite(), value, mirrors_file.likely(value.dtype)).to(value.dtype)


def leaves_of(values):
    """Of lists in lists."""
    found = []
    for x in values:
        if isinstance(x, (list, tuple)):
            found.extend(leaves_of(x))
        else:
            found.append(x)
    return found


def mapped(value, change):
    if isinstance(value, (list, tuple)):
        same_kind = list if isinstance(value, list) else tuple
        return same_kind([mapped(x, change) for x in value])
    return change(value)


def start(torch_module):
    if mirrors_file.peek is not None and mirrors_file.poke is not None:
        load("where_on").start(Values())  # noqa: F821
