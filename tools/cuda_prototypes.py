"""What a C function writes to the host by its prototype, as text (cuda_functions.py makes a table
of it).

A row says what a function writes, in the order of its arguments: a place and a kind.

    ABSENT_FUNCTION(cublas, cublasCreate_v2, "1h")

  h           the pointer that it leads to gets a fresh handle
  z1 z2 z4 …  so many bytes of zeros: integers, enums, floating point, complex, texts (no text)
  s4 s8       the same for the size of scratch or of a buffer that the caller allocates
  rt rp rn    what comes back is a text, another pointer, an integer that is no status,
  rf rv rm    floating point, nothing, a struct in memory (place 1 has its address, which comes
              back too); else it is a status, where 0 is success
  ?           exported, but in no header

Of an array it is the first element that is written. Whether a pointer leads to the host at all,
only the call knows (cublasSdot's result may be on either side), so whoever answers asks that
first, and whether there is one: a caller may give none.

The place counts what System V's calling convention for x86-64 has for integers: 1 to 6 are rdi,
rsi, rdx, rcx, r8 and r9, 7 is the first eight bytes on the stack, 8 the next. Floating point has
registers of its own, so it has no place (beyond the eighth it has one on the stack). A struct by
value of 16 bytes or less takes a register for each of its eight bytes, one for integers where
these hold any integer (dim3: two), else one for floating point (cuComplex: one, no place); where
not all of them fit into registers, and where it is larger, it lies on the stack.
"""

import collections
import re

# kind: integer, char, float, pointer, struct, incomplete, function or void. of: what a pointer
# leads to. parts: offset → kind of all that a struct of 16 bytes or less holds.
Type = collections.namedtuple("Type", "kind size align const of parts",
                              defaults=(0, 0, False, None, None))
# parameters: pairs of name and type.
Prototype = collections.namedtuple("Prototype", "name returns parameters")

# Functions and arguments that the caller fills, though their headers do not say const.
INPUTS = [
    (r"cu(da)?Launch\w+", "args|kernelParams|extra"),
    (r"cu(da)?(Library|Module|Link)\w+|_*nv(JitLink|Fatbin)Create\w*", r"\w*[oO]ption\w*"),
    (r"cu\w+BatchAsync\w*", "(?!failIdx).*"),
    (r"cu(PointerGet|MemRangeGet|daMemRangeGet)Attributes", ".*"),
    (r"cu\w+UpdateCaptureDependencies\w*", ".*"),
    (r"cu\w+Graphics(Map|Unmap)Resources\w*", ".*"),
    (r"cu\w+EGLStream(Producer(Present|Return)|ConsumerRelease)Frame", ".*"),
    (r"cu(blasXt|solverMg)DeviceSelect", ".*"),
    (r"cusparseLtMatmul\w*", "streams"),
    (r"cusolver(Mg|Rf)\w+", r"array_d_\w+|csrValA_array|XF_array"),
    (r"cufft\w+", "n|inembed|onembed|idata|desc_handles"),
    (r"cuFile(Read|Write)Async", "(size|file_offset|bufPtr_offset)_p"),
    (r"p?ncclCommShrink", "excludeRanksList"),
    (r"\w+[a-z](Set|Setup|Destroy|Disconnect)([A-Z_]\w*)?", ".*"),
]
# Libraries that ask for scratch, and how they call its size.
SCRATCH = {"cublas", "cublaslt", "cudnn", "cufft", "cusolver", "cusparse", "cusparselt", "nvrtc",
           "nvjitlink", "nvfatbin"}
SIZE = {4: re.compile("buffer|lwork|bytes|worksize", re.IGNORECASE),
        8: re.compile("size(?!written)|bytes|lwork|workarea|^ret$", re.IGNORECASE)}
NO_SCRATCH = re.compile("(VecGet|EllGet|Descriptor)(_v\\d+)?$")  # these tell what a tensor has
# What nvcc puts calls of into programs, and declares for them alone (in nvidia-cuda-crt).
BY_COMPILER = {
    "__cudaGetKernel": "1h", "__cudaLaunchKernel": "", "__cudaLaunchKernel_ptsz": "",
    "__cudaInitModule": "rn", "__cudaPopCallConfiguration": "3z8", "__cudaRegisterFatBinary": "rp",
    "__cudaRegisterFatBinaryEnd": "rv", "__cudaRegisterFunction": "rv", "__cudaRegisterVar": "rv",
    "__cudaRegisterManagedVar": "rv", "__cudaUnregisterFatBinary": "rv"}


def registers(type_):
    """The kind of register for each eight bytes of an argument; none: it lies on the stack."""
    if type_.kind != "struct":
        return ["float" if type_.kind == "float" else "integer"]
    if type_.parts is None:
        return []
    halves = [{kind for offset, kind in type_.parts.items() if offset // 8 == half}
              for half in range((type_.size + 7) // 8)]
    return ["float" if half == {"float"} else "integer" for half in halves]


def places(types, hidden):
    """The place of each argument: 1 to 6 in registers, more on the stack, 0 for floating point.
    `hidden`: the first register has the address of a struct that comes back."""
    used, stack, found = {"integer": int(hidden), "float": 0}, 0, []
    for type_ in types:
        need = registers(type_)
        counts = {kind: used[kind] + need.count(kind) for kind in used}
        if need and counts["integer"] <= 6 and counts["float"] <= 8:
            found.append(used["integer"] + 1 if "integer" in need else 0)
            used = counts
        else:
            stack += stack % 2 if type_.align > 8 else 0
            found.append(6 + stack + 1)
            stack += (max(type_.size, 1) + 7) // 8
    return found


def is_number(type_):
    """Whether zeros of its size are a value: numbers, complex ones, halves as structs."""
    if type_.kind == "struct":
        return type_.size <= 2 or (type_.parts and set(type_.parts.values()) == {"float"})
    return type_.kind in ("integer", "float")


def is_size(library, function, name, type_):
    """Whether an argument leads to the size of what the caller is to allocate."""
    return (library in SCRATCH and type_.kind == "integer" and type_.size in SIZE and
            SIZE[type_.size].search(name or function) and not NO_SCRATCH.search(function))


def written(library, function, name, type_):
    """The kind of what `function` writes through its argument `name`, or nothing."""
    out = type_.of
    if type_.kind != "pointer" or out is None or out.const or is_input(function, name):
        return ""
    wrapped = out.kind == "struct" and list((out.parts or {}).values()) == ["pointer"]
    if out.kind == "pointer":
        return "z8" if out.of and out.of.kind in ("char", "function") else "h"
    if wrapped:
        return "h"
    if is_size(library, function, name, out):
        return f"s{out.size}"
    return f"z{out.size}" if is_number(out) else ""


def is_input(function, name):
    return any(re.fullmatch(of, function) and re.fullmatch(which, name) for of, which in INPUTS)


def in_memory(type_):
    return type_.kind == "struct" and not registers(type_)


def returned(type_):
    """How a row tells what comes back, where that is no status."""
    if type_.kind == "pointer":
        return "rt" if type_.of and type_.of.kind == "char" else "rp"
    if in_memory(type_):
        return f"rm 1z{type_.size}"
    if type_.kind == "struct":
        return "" if registers(type_)[0] == "integer" else "rf"
    return {"integer": "rn", "char": "rn", "float": "rf", "void": "rv"}.get(type_.kind, "")


def described(library, prototype):
    """The text of a row."""
    types = [type_ for _, type_ in prototype.parameters]
    words = [returned(prototype.returns)]
    for place, (name, type_) in zip(places(types, in_memory(prototype.returns)),
                                    prototype.parameters):
        kind = written(library, prototype.name, name, type_)
        words.append(f"{place}{kind}" if kind else "")
    return " ".join(filter(None, words))
