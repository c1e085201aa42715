"""What single calls allocate on a card: workspaces of libraries, attention's back-ends.

Each probe is run by on_card.py in a process of its own and returns {"rows": […]}.  Events are
the text of recorder.py; "first" is the first call in the process, "again" the second, so that
what a process keeps (cuBLAS workspaces) is in the first alone.
"""

import contextlib
import functools

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import zoo
from recorder import Recorder

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
HEAD_SIZES = [64, 80, 128, 256]
LENGTHS = [197, 512]  # ViT's, which no tile divides, and one that tiles do
MASKS = ["none", "causal", "bool", "float"]
BATCH, HEADS = 4, 8


def random(*shape, dtype=torch.float32, grad=True):
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


def both_ways(recorder, forward):
    """Events of forward(), then of its backward."""
    result, there = recorder.of(forward)
    gradient = torch.ones_like(result)
    _, back = recorder.of(lambda: result.backward(gradient))
    return {"forward": there, "backward": back}


def twice(forward):
    """Row: the first and the second call of forward(), each with its backward."""
    recorder = Recorder()
    return {"first": both_ways(recorder, forward), "again": both_ways(recorder, forward)}


def guarded(work):
    """What work() returns, or in words why it does not run here."""
    try:
        return work()
    except (RuntimeError, ValueError) as error:
        return {"refused": str(error).splitlines()[0][:200]}


# --- Products: workspaces of cuBLAS and cublasLt ---------------------------------------------

def product(kind, dtype):
    x, w = random(512, 256, dtype=DTYPES[dtype]), random(256, 128, dtype=DTYPES[dtype])
    linear = nn.Linear(256, 128, device="cuda", dtype=DTYPES[dtype])
    forward = {"mm": lambda: x @ w, "linear": lambda: linear(x),
               "bmm": lambda: x.view(4, 128, 256) @ w.expand(4, 256, 128)}[kind]
    return {"rows": [{"call": kind, "dtype": dtype, **twice(forward)}]}


# --- Attention -------------------------------------------------------------------------------

def mask_of(kind, length, dtype):
    if kind == "bool":
        return torch.ones(length, length, dtype=torch.bool, device="cuda").tril()
    return random(length, length, dtype=dtype, grad=False) if kind == "float" else None


def chosen_backend(q, k, v, mask, dropout, causal):
    """The one that PyTorch takes by itself."""
    value = torch._fused_sdp_choice(q, k, v, attn_mask=mask, dropout_p=dropout,
                                    is_causal=causal)
    return next((name for name, b in BACKENDS.items() if int(b) == value), str(value))


def heads(length, size, dtype):
    """As models make them: [batch, length, heads, size], transposed."""
    return random(BATCH, length, HEADS, size, dtype=dtype).transpose(1, 2)


def attention(ask, dtype, dropout, size, length, mask_kind):
    """Row: one case, and what ask(q, k, v, mask, dropout, causal) says of it."""
    q, k, v = (heads(length, size, DTYPES[dtype]) for _ in range(3))
    mask = mask_of(mask_kind, length, DTYPES[dtype])
    return {"head_size": size, "length": length, "mask": mask_kind,
            **ask(q, k, v, mask, dropout, mask_kind == "causal")}


def attentions(ask, dtype, dropout):
    return {"batch": BATCH, "heads": HEADS,
            "rows": [attention(ask, dtype, dropout, size, length, mask) for size in HEAD_SIZES
                     for length in LENGTHS for mask in MASKS]}


def choice(*case):
    return {"chosen": chosen_backend(*case)}


def events_of(backend, q, k, v, mask, dropout, causal):
    """Of the second call: what the process keeps is there by then."""
    def call():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout,
                                              is_causal=causal)
    with sdpa_kernel(BACKENDS[backend]):
        return guarded(lambda: twice(call)["again"])


# --- Convolutions: what cuDNN asks for -------------------------------------------------------

def seen_convolutions(network, batch):
    """(module, shape of its input) of a network's convolutions, each kind once."""
    with torch.device("meta"):
        module = network.build()
    found = {}

    def note(conv, inputs, output):
        found[str(conv), tuple(inputs[0].shape)] = (conv, inputs[0].shape)

    for part in module.modules():
        if isinstance(part, (nn.Conv2d, nn.ConvTranspose2d)):
            part.register_forward_hook(note)
    x, labels = network.batch(batch, "meta", torch.float32)
    network.logits(module, x, labels)
    return list(found.values())


def gradient_of(wanted, gradient, x, conv):
    """One of convolution's gradients, so that its workspace stands alone."""
    mask = [wanted == "input", wanted == "weight", False]
    transposed = isinstance(conv, nn.ConvTranspose2d)
    return torch.ops.aten.convolution_backward(
        gradient, x, conv.weight, None, conv.stride, conv.padding, conv.dilation, transposed,
        conv.output_padding, conv.groups, mask)


def convolution(conv, shape, dtype):
    conv = conv.to_empty(device="cuda").to(dtype)
    x = random(*shape, dtype=dtype, grad=False)
    with torch.no_grad():
        gradient = torch.ones_like(conv(x))
        calls = {"forward": lambda: conv(x),
                 "input": functools.partial(gradient_of, "input", gradient, x, conv),
                 "weight": functools.partial(gradient_of, "weight", gradient, x, conv)}
        events = {}
        for name, call in calls.items():
            call()  # cuDNN's plans are made
            events[name] = guarded(lambda: Recorder().of(call)[1])
    return {"convolution": str(conv), "shape": list(shape), **events}


def convolutions(model, batch, dtype):
    """Rows: events of each convolution forward, and of its two gradients."""
    return {"rows": [convolution(conv, shape, DTYPES[dtype])
                     for conv, shape in seen_convolutions(zoo.NETWORKS[model], batch)]}


# --- Other operators -------------------------------------------------------------------------

def batch_norm(dtype, form):
    x = random(8, 64, 56, 56, dtype=DTYPES[dtype], grad=False).contiguous(
        memory_format=form).requires_grad_()
    module = nn.BatchNorm2d(64, device="cuda", dtype=DTYPES[dtype])
    return twice(lambda: module(x))


def rows_768():
    return random(4096, 768)


def ids_of(count):
    return torch.randint(30522, (count,), device="cuda")


def layer_norm():
    x, module = rows_768(), nn.LayerNorm(768, device="cuda")
    return lambda: module(x)


def embedding(count):
    ids, module = ids_of(count), nn.Embedding(30522, 768, device="cuda")
    return lambda: module(ids)


def linear(rows, columns, dtype):
    """Its bias's gradient is a sum whose scratch depends on the multiprocessors."""
    x = random(rows, 768, dtype=DTYPES[dtype])
    module = nn.Linear(768, columns, device="cuda", dtype=DTYPES[dtype])
    return lambda: module(x)


def lstm():
    x, module = random(64, 8, 256), nn.LSTM(256, 256, 2, device="cuda")
    return lambda: module(x)[0]


def cross_entropy():
    x, labels = rows_768(), ids_of(4096) % 768
    return lambda: F.cross_entropy(x, labels)


def unary(call):
    x = rows_768()
    return lambda: call(x)


def batch_norm(dtype, form):
    x = random(8, 64, 56, 56, dtype=DTYPES[dtype], grad=False).contiguous(
        memory_format=form).requires_grad_()
    module = nn.BatchNorm2d(64, device="cuda", dtype=DTYPES[dtype])
    return lambda: module(x)


# name: what makes the call, once CUDA is there.
OPERATORS = {
    "layer_norm": layer_norm,
    "lstm": lstm,
    "cross_entropy": cross_entropy,
    "softmax": functools.partial(unary, lambda x: x.softmax(-1)),
    "gelu": functools.partial(unary, F.gelu),
    "sum of columns": functools.partial(unary, lambda x: x.sum(0)),
    "mean": functools.partial(unary, lambda x: x.mean()),
    **{f"embedding of {count}": functools.partial(embedding, count)
       for count in [512, 1024, 2048, 4096, 8192, 16384, 65536]},
    **{f"linear {rows} x {columns} {dtype}": functools.partial(linear, rows, columns, dtype)
       for rows in (6304, 16384) for columns in (768, 2304, 3072) for dtype in DTYPES},
    **{f"batch_norm {dtype} {str(form).split('.')[-1]}":
       functools.partial(batch_norm, dtype, form) for dtype in DTYPES
       for form in (torch.contiguous_format, torch.channels_last)},
}


def operators():
    return {"rows": [{"call": name, **guarded(lambda: twice(make()))}
                     for name, make in OPERATORS.items()]}


# --- The context -----------------------------------------------------------------------------

def outside():
    """Bytes in use on the device that are not segments of PyTorch's allocator."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def optimizer_step(module):
    torch.optim.AdamW(module.parameters()).step()


def context_growth():
    """Row: what lies outside of the allocator after one kind of call after another."""
    rows = []

    def then(name, call):
        with contextlib.suppress(RuntimeError):
            call()
        rows.append({"after": name, "outside": outside()})

    x = torch.empty(1, device="cuda")
    then("first tensor", lambda: None)
    conv, linear = nn.Conv2d(64, 64, 3, device="cuda"), nn.Linear(256, 256, device="cuda")
    pictures, rows_of_x = random(8, 64, 56, 56), random(512, 256)
    then("random numbers", lambda: x.normal_())
    then("matrix product", lambda: rows_of_x @ rows_of_x.t())
    then("linear", lambda: linear(rows_of_x))
    then("backward of linear", lambda: linear(rows_of_x).sum().backward())
    then("convolution", lambda: conv(pictures))
    then("backward of convolution", lambda: conv(pictures).sum().backward())
    then("batch norm", lambda: nn.BatchNorm2d(64, device="cuda")(pictures))
    for dtype in ("fp32", "bf16"):
        for name, backend in BACKENDS.items():
            q = heads(512, 64, DTYPES[dtype])
            with sdpa_kernel(backend):
                then(f"{name} attention, {dtype}",
                     lambda: F.scaled_dot_product_attention(q, q, q).sum().backward())
    then("optimizer step", lambda: optimizer_step(linear))
    return {"rows": rows}


PROBES = {
    "context": context_growth,
    **{f"product {kind} {dtype}": functools.partial(product, kind, dtype)
       for kind in ("mm", "linear", "bmm") for dtype in DTYPES},
    "operators": operators,
    **{f"choice {dtype} dropout {dropout}":
       functools.partial(attentions, choice, dtype, dropout)
       for dtype in DTYPES for dropout in (0.0, 0.1)},
    **{f"attention {backend} {dtype} dropout {dropout}":
       functools.partial(attentions, functools.partial(events_of, backend), dtype, dropout)
       for backend in BACKENDS for dtype in DTYPES for dropout in (0.0, 0.1)},
    **{f"convolutions {model} {batch} {dtype}":
       functools.partial(convolutions, model, batch, dtype)
       for model, batch in [("resnet50", 8), ("resnet50", 32), ("vgg16", 8), ("unet", 8),
                            ("mobilenet_v2", 8), ("alexnet", 8)] for dtype in DTYPES},
}
