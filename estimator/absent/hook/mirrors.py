"""What is in a CUDA tensor's storage, held on the host: its mirror.

A storage has a mirror when it is small, or when it holds integers or booleans.  A mirror has bytes,
or one value throughout (`fill`) while nothing more is known and nobody asked.  `unknown` says that
what it holds is a guess: computed from a large tensor, whose values nobody has.  A guess of one value
throughout is `is_told` as soon as something was computed of it that a program may have acted on."""

import ctypes

import torch
from torch.multiprocessing.reductions import StorageWeakRef

SMALL = 64 << 10  # bytes of a storage of any type that has a mirror
LARGEST = 64 << 20  # of one of integers or booleans
SWEEP_EVERY = 2000  # new mirrors, or
SWEEP_BYTES = 64 << 20  # bytes of them, until those of freed storages go

WHOLE_TYPES = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32,
                         torch.int64))
ABOVE_ONE = {torch.float32: 1, torch.float64: 1, torch.float16: 1, torch.bfloat16: 1,
             torch.complex64: 1, torch.complex128: 1}


def function(name, result, *arguments):
    """Of the library that answers for CUDA, if it is there."""
    found = getattr(ctypes.CDLL(None), name, None)
    if found is not None:
        found.argtypes, found.restype = arguments, result
    return found


# Returns how many of the bytes are known.
peek = function("onnxfit_peek", ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t)
poke = function("onnxfit_poke", None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t,
                ctypes.c_int)  # the last is 1 for a guess

steps = [0]  # of optimizers, so that losses fall


def likely(dtype):
    """What an unknown element is taken to be.  Not zero, since sums, norms and scales are divided
    by; finite; and falling as training goes on, since loops stop when a loss does not.  Indices are
    0, which every tensor with a row has."""
    if dtype is torch.bool:
        return False
    return 1 + 1 / (1 + steps[0]) if dtype in ABOVE_ONE or dtype.is_floating_point else 0


def is_whole(tensor):
    return tensor.dtype in WHOLE_TYPES


class Mirror:
    __slots__ = ("storage", "nbytes", "bytes", "fill", "unknown", "is_told", "is_pending")

    def __init__(self, storage, nbytes):
        self.storage = storage  # weak: a freed one's address is not used again while this is held
        self.nbytes = nbytes
        self.bytes = None
        self.fill = None
        self.unknown = False
        self.is_told = False
        self.is_pending = False  # the device has it


def has_mirror(tensor):
    nbytes = tensor.untyped_storage().nbytes()
    return nbytes <= SMALL or nbytes <= LARGEST and tensor.dtype in WHOLE_TYPES


class Mirrors:
    def __init__(self):
        self.by_storage = {}
        self.new = self.new_bytes = 0

    def of(self, tensor, from_host=False):
        """The tensor's mirror, or None of one that has none."""
        storage = tensor.untyped_storage()
        mirror = self.by_storage.get(storage._cdata)
        if mirror is not None and mirror.nbytes == storage.nbytes() and not mirror.is_pending:
            return mirror
        return self.find(tensor, from_host) if has_mirror(tensor) else None

    def find(self, tensor, from_host=False):
        """Of a tensor that may have one.  Of a storage not seen before: what the host has written
        there, else unknown."""
        storage = tensor.untyped_storage()
        mirror = self.by_storage.get(storage._cdata)
        if mirror is None:
            mirror = self.add(storage)
            self.read_device(mirror, tensor, from_host)
        elif mirror.nbytes != storage.nbytes():
            self.resize(mirror, storage.nbytes())
        if mirror.is_pending:
            mirror.is_pending = False
            self.read_device(mirror, tensor, True)
        return mirror

    def add(self, storage):
        self.new += 1
        self.new_bytes += storage.nbytes()
        if self.new > SWEEP_EVERY or self.new_bytes > SWEEP_BYTES:
            self.sweep()
        mirror = Mirror(StorageWeakRef(storage), storage.nbytes())
        self.by_storage[storage._cdata] = mirror
        return mirror

    def sweep(self):
        self.by_storage = {key: mirror for key, mirror in list(self.by_storage.items())
                           if not mirror.storage.expired()}
        self.new = self.new_bytes = 0

    def read_device(self, mirror, tensor, from_host):
        """torch.tensor(…, device="cuda") is copied where no mode is asked, so the device is.  It may
        still know of an earlier tensor at that address, mostly of another type."""
        known = 0
        if mirror.nbytes <= SMALL or from_host:
            mirror.bytes, mirror.fill = zeros(mirror.nbytes), None
            known = peek(mirror.bytes.data_ptr(), tensor.untyped_storage().data_ptr(), mirror.nbytes)
        mirror.unknown = known < mirror.nbytes
        if not mirror.unknown and (from_host or is_finite(view(mirror, tensor))):
            return
        if mirror.unknown and mirror.bytes is not None and bool(view(mirror, tensor).any()):
            make_likely(view(mirror, tensor))
        else:
            self.guess(mirror, likely(tensor.dtype))

    def read_later(self, tensors):
        """What a collective exchanges: in a group, it is there when the group ends."""
        for x in tensors:
            if has_mirror(x):
                storage = x.untyped_storage()
                mirror = self.by_storage.get(storage._cdata) or self.add(storage)
                mirror.is_pending = True

    @staticmethod
    def guess(mirror, value):
        mirror.bytes, mirror.fill, mirror.unknown = None, value, True
        mirror.is_told = mirror.is_pending = False

    @staticmethod
    def resize(mirror, nbytes):
        """As Tensor.resize_ does: what fits is kept."""
        if mirror.bytes is not None:
            grown = zeros(nbytes)
            kept = min(nbytes, mirror.nbytes)
            grown[:kept] = mirror.bytes[:kept]
            mirror.bytes = grown
        mirror.nbytes = nbytes

    def to_read(self, tensor, is_told):
        """A CPU tensor with what this one holds.  Not to be written to."""
        mirror = self.of(tensor)
        if mirror is None:
            return constant(tensor, likely(tensor.dtype))
        if mirror.bytes is None:
            mirror.is_told = mirror.is_told or is_told
            return constant(tensor, mirror.fill)
        return view(mirror, tensor)

    def to_write(self, tensor):
        """The same, of which every byte is the mirror's."""
        mirror = self.find(tensor)
        if mirror.bytes is None:
            mirror.bytes = zeros(mirror.nbytes)
            if mirror.fill:
                whole = mirror.nbytes // tensor.dtype.itemsize * tensor.dtype.itemsize
                mirror.bytes[:whole].view(tensor.dtype).fill_(mirror.fill)
            mirror.fill = None
        return view(mirror, tensor)

    def take(self, tensor, value):
        """What `to_write` and a copy of `value` would do, which is a tensor of the CPU that nobody
        else writes to: it becomes the mirror where it is all of it."""
        mirror, flat = self.find(tensor), value.reshape(-1)
        is_all = (mirror.nbytes == value.nbytes == flat.untyped_storage().nbytes()
                  and flat.stride(0) == 1)  # 0 of one element of a constant that was expanded
        if is_all and tensor.is_contiguous() and value.dtype is tensor.dtype:
            mirror.bytes, mirror.fill = flat.view(torch.uint8), None
        else:
            self.to_write(tensor).copy_(value)

    def to_device(self, tensor):
        """What reads without asking us (C++ below the dispatcher) finds it on the device."""
        mirror = self.find(tensor)
        if mirror.bytes is not None and mirror.nbytes:
            poke(tensor.untyped_storage().data_ptr(), mirror.bytes.data_ptr(), mirror.nbytes,
                 mirror.unknown)

    def tell_device(self, tensor):
        """The same of one view, and of a guess that has no bytes: whoever exchanges it tells no more
        than we do.  REQUIRES: its elements are in order."""
        value = self.to_read(tensor, is_told=True).contiguous()
        if value.nbytes:
            poke(tensor.data_ptr(), value.data_ptr(), value.nbytes, self.is_unknown(tensor))

    def is_unknown(self, tensor):
        mirror = self.of(tensor)
        return mirror is None or mirror.unknown

    def is_untold(self, tensor):
        mirror = self.of(tensor)
        return mirror is None or mirror.bytes is None and not mirror.is_told

    def choose_all(self, mask):
        """Of a guess that nothing was told of: whoever asks again hears the same."""
        mirror = self.of(mask)
        if mirror is not None and mask.dtype is torch.bool:
            mirror.fill = True

    def is_constant(self, tensor):
        """Unknown, and nobody asked for its bytes."""
        mirror = self.of(tensor)
        return mirror is None or mirror.bytes is None


def zeros(nbytes):
    """As torch.zeros, which wakes the threads of OpenMP: 5 ms where others keep the cores busy."""
    return torch.frombuffer(bytearray(nbytes), dtype=torch.uint8) if nbytes else torch.empty(
        0, dtype=torch.uint8)


def is_finite(tensor):
    return not tensor.dtype.is_floating_point or bool(tensor.isfinite().all())


def make_likely(tensor):
    """What ranks told of guesses: finite, and not zero, as guesses are."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor[~(tensor.isfinite() & (tensor != 0))] = likely(tensor.dtype)


def constant(tensor, value):
    return torch.full((), value, dtype=tensor.dtype).expand(tensor.shape)


def view(mirror, tensor):
    out = torch.empty(0, dtype=tensor.dtype)
    return out.set_(mirror.bytes.untyped_storage(), tensor.storage_offset(), tensor.size(),
                    tensor.stride())
