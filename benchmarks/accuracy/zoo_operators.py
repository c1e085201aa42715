"""One operator each, or a module of few, between two linear layers: what operators.py is about.

Rows: (what takes x and returns its result, or what makes the module; the shape of x without the
batch).  ROWS are words of 16 features, a PICTURE has 16 columns.
"""

import torch
from torch import nn
from torch.nn import functional as F

ROWS = (12, 16)
PICTURE = (8, 12, 16)
IDS = 100


class Function(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


class Network(nn.Module):
    def __init__(self, op, features):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.op = op
        self.last = nn.Linear(features, 10)

    def forward(self, x):
        x = self.first(x)
        x = self.op(x)
        return self.last(x.flatten(1))


class NetworkOfIds(nn.Module):
    def __init__(self, op, features):
        super().__init__()
        self.op = op
        self.last = nn.Linear(features, 10)

    def forward(self, x):
        x = self.op(x)
        return self.last(x.flatten(1))


class ChannelsSecond(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return self.m(x.permute(0, 3, 1, 2))


class Transposed(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return self.m(x.transpose(1, 2))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.w12 = nn.Linear(16, 64)
        self.w3 = nn.Linear(32, 16)

    def forward(self, x):
        a, b = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(a) * b)


class GeGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(16, 64)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return x * F.gelu(gate)


class LayerScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return x + x * self.gamma


class Weighted(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.w = nn.Parameter(torch.randn(*shape))


class Product(Weighted):
    def forward(self, x):
        return x @ self.w


class SumOfProducts(Weighted):
    def forward(self, x):
        return torch.baddbmm(self.w, x, x.transpose(1, 2))


class BiasedProduct(Weighted):
    def forward(self, x):
        product = torch.addmm(self.w, x.flatten(0, 1), x.new_ones(16, 20))
        return product.reshape(x.shape[0], -1)


class Attention(nn.Module):
    def __init__(self, needs_weights):
        super().__init__()
        self.a = nn.MultiheadAttention(16, 2, batch_first=True)
        self.needs_weights = needs_weights

    def forward(self, x):
        return self.a(x, x, x, need_weights=self.needs_weights)[0]


class ScaledEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(IDS, 16)

    def forward(self, x):
        return self.e(x) * 4.0


class WithPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(IDS, 16)
        self.p = nn.Embedding(12, 16)

    def forward(self, x):
        return self.e(x) + self.p(torch.arange(x.shape[1], device=x.device))


class WithStoredPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(IDS, 16)
        self.p = nn.Embedding(12, 16)
        self.register_buffer("ids", torch.arange(12)[None])

    def forward(self, x):
        return self.e(x) + self.p(self.ids[:, :x.shape[1]])


class OneHot(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(IDS, 16)

    def forward(self, x):
        return self.w(F.one_hot(x, IDS).float())


class MeanOfMasked(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(IDS, 16)

    def forward(self, x):
        mask = (x != 0).unsqueeze(-1).float()
        return (self.e(x) * mask).sum(1) / mask.sum(1).clamp(min=1)


ACTIVATIONS = [
    "celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid",
    "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softsign", "tanh",
    "tanhshrink",
]

FUNCTIONS = {
    "normalize": (lambda x: F.normalize(x, dim=-1), ROWS),
    "softmax": (lambda x: x.softmax(-1), ROWS),
    "softmax_1": (lambda x: x.softmax(1), ROWS),
    "log_softmax": (lambda x: x.log_softmax(-1), ROWS),
    "softmax_fp32": (lambda x: F.softmax(x, dim=-1, dtype=torch.float32), ROWS),
    "softmax_transposed": (lambda x: x.transpose(1, 2).softmax(-1), ROWS),
    "logsumexp": (lambda x: torch.logsumexp(x, -1), ROWS),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), ROWS),
    "glu": (lambda x: F.glu(x, -1), ROWS),
    "glu_1": (lambda x: F.glu(x, 1), ROWS),
    "exp": (torch.exp, ROWS),
    "log": (lambda x: torch.log(x.abs() + 1), ROWS),
    "sqrt": (lambda x: torch.sqrt(x.abs()), ROWS),
    "rsqrt": (lambda x: torch.rsqrt(x.abs() + 1), ROWS),
    "square": (lambda x: x.square(), ROWS),
    "pow2": (lambda x: x ** 2, ROWS),
    "pow3": (lambda x: x.pow(3), ROWS),
    "pow.5": (lambda x: x.abs().pow(0.5), ROWS),
    "reciprocal": (lambda x: 1 / (x.abs() + 1), ROWS),
    "abs": (torch.abs, ROWS),
    "sin": (torch.sin, ROWS),
    "cos": (torch.cos, ROWS),
    "erf": (torch.erf, ROWS),
    "clamp": (lambda x: x.clamp(-1, 1), ROWS),
    "clamp_min": (lambda x: x.clamp(min=1e-06), ROWS),
    "neg": (lambda x: -x, ROWS),
    "tan": (torch.tan, ROWS),
    "atan": (torch.atan, ROWS),
    "log1p": (lambda x: torch.log1p(x.abs()), ROWS),
    "log2": (lambda x: torch.log2(x.abs() + 1), ROWS),
    "log10": (lambda x: torch.log10(x.abs() + 1), ROWS),
    "asin": (torch.asin, ROWS),
    "acos": (torch.acos, ROWS),
    "sinh": (torch.sinh, ROWS),
    "cosh": (torch.cosh, ROWS),
    "asinh": (torch.asinh, ROWS),
    "acosh": (torch.acosh, ROWS),
    "atanh": (torch.atanh, ROWS),
    "hardshrink": (F.hardshrink, ROWS),
    "softshrink": (F.softshrink, ROWS),
    "bits": (lambda x: x * (((x.argmax(-1, keepdim=True) & 7) | 1) ^ 3), ROWS),
    "unfold": (lambda x: F.unfold(x, 3, padding=1), PICTURE),
    "fold": (lambda x: F.fold(x, (5, 5), 2), ROWS),
    "grid_sample": (lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
                    PICTURE),
    "expm1": (torch.expm1, ROWS),
    "sign": (lambda x: x * x.sign(), ROWS),
    "floor": (lambda x: x - x.floor(), ROWS),
    "round": (lambda x: x - x.round(), ROWS),
    "rsub": (lambda x: 1 - x, ROWS),
    "div_scalar": (lambda x: x / 8, ROWS),
    "mul_self": (lambda x: x * x, ROWS),
    "div_self": (lambda x: x / (x.abs() + 1), ROWS),
    "addcmul": (lambda x: torch.addcmul(x, x, x), ROWS),
    "where": (lambda x: torch.where(x > 0, x, x * 0.5), ROWS),
    "where_scalar": (lambda x: torch.where(x > 0, x, 0.0), ROWS),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 0.0), ROWS),
    "masked_fill_broadcast": (lambda x:
        x.masked_fill((x > 0)[:, :, :1], float("-inf")).softmax(-1), ROWS),
    "where_broadcast": (lambda x: torch.where((x > 0)[:, :1], x, x[:, :, :1]), ROWS),
    "mul_mask": (lambda x: x * (x > 0), ROWS),
    "mul_mask_float": (lambda x: x * (x > 0).float(), ROWS),
    "mul_broadcast": (lambda x: x * x.mean(-1, keepdim=True), ROWS),
    "add_broadcast": (lambda x: x + x.mean(1, keepdim=True), ROWS),
    "outer": (lambda x: x[:, :, None, :4] * x[:, None, :, :4], ROWS),
    "mean": (lambda x: x.mean(1), ROWS),
    "mean_all": (lambda x: x * x.mean(), ROWS),
    "sum": (lambda x: x.sum(1), ROWS),
    "sum_last": (lambda x: x.sum(-1), ROWS),
    "max_dim": (lambda x: x.max(1).values, ROWS),
    "max_vals_idx": (lambda x: x.max(-1)[0], ROWS),
    "min_dim": (lambda x: x.min(1)[0], ROWS),
    "norm": (lambda x: x.norm(dim=-1), ROWS),
    "vector_norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), ROWS),
    "var_mean": (lambda x:
        (x - x.mean(-1, keepdim=True))
        / (x.var(-1, keepdim=True, unbiased=False) + 1e-05).sqrt(), ROWS),
    "cumsum": (lambda x: x.cumsum(1), ROWS),
    "cumsum_last": (lambda x: x.cumsum(-1), ROWS),
    "topk": (lambda x: x.topk(4, dim=-1).values, ROWS),
    "topk_1": (lambda x: x.topk(4, dim=1)[0], ROWS),
    "sort": (lambda x: x.sort(-1).values, ROWS),
    "argmax": (lambda x: x * x.argmax(-1, keepdim=True), ROWS),
    "argmax_onehot": (lambda x: x * F.one_hot(x.argmax(-1), 16), ROWS),
    "gather": (lambda x: x.gather(-1, x.argmax(-1, keepdim=True)), ROWS),
    "gather_topk": (lambda x: x.gather(1, x.topk(4, dim=1)[1]), ROWS),
    "scatter_add": (lambda x:
        torch.zeros_like(x).scatter_add(1, x.topk(4, dim=1)[1], x[:, :4]), ROWS),
    "scatter": (lambda x: x.scatter(1, x.topk(4, dim=1)[1], 0.0), ROWS),
    "index_select": (lambda x: x.index_select(1, torch.tensor([0, 2, 5], device=x.device)), ROWS),
    "index_list": (lambda x: x[:, [0, 2, 5]], ROWS),
    "index_tensor": (lambda x: x[:, torch.arange(0, 12, 3, device=x.device)], ROWS),
    "last_token": (lambda x: x[:, -1], ROWS),
    "first_token": (lambda x: x[:, 0], ROWS),
    "slice": (lambda x: x[:, 2:8], ROWS),
    "slice_step": (lambda x: x[:, ::2], ROWS),
    "slice_even_last": (lambda x: x[..., 0::2] * x[..., 1::2], ROWS),
    "narrow": (lambda x: x.narrow(1, 0, 6), ROWS),
    "select": (lambda x: x.select(1, 3), ROWS),
    "cat": (lambda x: torch.cat([x, -x], 1), ROWS),
    "cat_self": (lambda x: torch.cat([x, x], -1), ROWS),
    "stack": (lambda x: torch.stack([x, -x], 1), ROWS),
    "chunk": (lambda x: torch.cat([c * 2 for c in x.chunk(3, 1)], 1), ROWS),
    "split_all": (lambda x: sum(x.split(4, 1)), ROWS),
    "unbind": (lambda x: torch.stack(x.unbind(1), -1), ROWS),
    "repeat": (lambda x: x.repeat(1, 2, 1), ROWS),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, dim=1), ROWS),
    "expand": (lambda x: x[:, :1].expand(-1, 5, -1), ROWS),
    "expand_mul": (lambda x: x[:, :1].expand(-1, 12, -1) * x, ROWS),
    "tile": (lambda x: x.tile(1, 2, 1), ROWS),
    "roll": (lambda x: x.roll(3, 1), ROWS),
    "roll2": (lambda x: x.roll((2, 3), (1, 2)), PICTURE),
    "flip": (lambda x: x.flip(1), ROWS),
    "pad": (lambda x: F.pad(x, (1, 2)), ROWS),
    "pad_slice": (lambda x: F.pad(x, (0, 0, 1, -1)), ROWS),
    "pad_reflect": (lambda x: F.pad(x, (2, 2), mode="reflect"), ROWS),
    "pad_reflect2": (lambda x: F.pad(x, (2, 2, 1, 1), mode="reflect"), PICTURE),
    "pad_replicate": (lambda x: F.pad(x, (2, 2), mode="replicate"), ROWS),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), PICTURE),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), PICTURE),
    "tensor_unfold": (lambda x: x.unfold(1, 4, 2), ROWS),
    "transpose_contig": (lambda x: x.transpose(1, 2).contiguous(), ROWS),
    "permute_reshape": (lambda x:
        x.reshape(x.shape[0], 12, 4, 4).permute(0, 2, 1, 3).reshape(x.shape[0], 4, 48), ROWS),
    "clone": (lambda x: x.clone(), ROWS),
    "detach": (lambda x: x + x.detach(), ROWS),
    "tril": (lambda x: x.tril(), ROWS),
    "triu": (lambda x: x.triu(), ROWS),
    "movedim": (lambda x: x.movedim(1, 2) * 2, ROWS),
    "swapaxes": (lambda x: x.swapaxes(1, 2) + 1, ROWS),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), PICTURE),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), ROWS),
    "meshgrid": (lambda x:
        x + torch.meshgrid(torch.arange(12, device=x.device), torch.arange(16, device=x.device),
        indexing="ij")[0], ROWS),
    "bmm": (lambda x: torch.bmm(x, x.transpose(1, 2)), ROWS),
    "matmul4": (lambda x: x @ x.transpose(-1, -2), PICTURE),
    "matmul_broadcast": (lambda x: x[:, :1] @ x.transpose(-1, -2), PICTURE),
    "einsum_transpose": (lambda x: torch.einsum("bsd->bds", x), ROWS),
    "dot_last": (lambda x: (x * x).sum(-1), ROWS),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), ROWS),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), PICTURE),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (4, 6, 8, 16)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), ROWS),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), PICTURE),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (4, 6, 8, 16)),
    "adaptive_avg1": (lambda x: F.adaptive_avg_pool2d(x, 1), PICTURE),
    "adaptive_avg3": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), PICTURE),
    "adaptive_avg1d": (lambda x: F.adaptive_avg_pool1d(x, 1), ROWS),
    "adaptive_avg1d4": (lambda x: F.adaptive_avg_pool1d(x, 4), ROWS),
    "adaptive_max1": (lambda x: F.adaptive_max_pool2d(x, 1), PICTURE),
    "lp_pool": (lambda x: F.lp_pool2d(x, 2, 2), PICTURE),
    "interp_nearest": (lambda x: F.interpolate(x, scale_factor=2), PICTURE),
    "interp_bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), PICTURE),
    "interp_bicubic": (lambda x: F.interpolate(x, size=(10, 10), mode="bicubic"), PICTURE),
    "interp_linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), ROWS),
    "interp_nearest1d": (lambda x: F.interpolate(x, scale_factor=2), ROWS),
    "interp_area": (lambda x: F.interpolate(x, size=(6, 8), mode="area"), PICTURE),
    "float": (lambda x: x.float() * 2, ROWS),
    "rotate_half": (lambda x: torch.cat((-x[..., 8:], x[..., :8]), -1), ROWS),
    "type_as": (lambda x: (x.float() * 2).type_as(x), ROWS),
    "rms_by_hand": (lambda x:
        (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-06))
        .type_as(x), ROWS),
    "softmin": (lambda x: F.softmin(x, dim=-1), ROWS),
    **{name: (getattr(F, name), ROWS) for name in ACTIVATIONS},
}

MODULES = {
    "group_norm": (lambda: nn.GroupNorm(4, 8), PICTURE),
    "group_norm_permuted": (lambda: ChannelsSecond(nn.GroupNorm(4, 16)), PICTURE),
    "group_norm_3d": (lambda: nn.GroupNorm(4, 12), ROWS),
    "instance_norm": (lambda: nn.InstanceNorm2d(8, affine=True), PICTURE),
    "batch_norm": (lambda: nn.BatchNorm2d(8), PICTURE),
    "batch_norm1d": (lambda: nn.BatchNorm1d(12), ROWS),
    "layer_norm": (lambda: nn.LayerNorm(16), ROWS),
    "layer_norm_noaff": (lambda: nn.LayerNorm(16, elementwise_affine=False), ROWS),
    "layer_norm_nobias": (lambda: nn.LayerNorm(16, bias=False), ROWS),
    "layer_norm_2": (lambda: nn.LayerNorm((12, 16)), ROWS),
    "layer_norm_transposed": (lambda: Transposed(nn.LayerNorm(12)), ROWS),
    "rms_norm": (lambda: nn.RMSNorm(16), ROWS),
    "rms_norm_transposed": (lambda: Transposed(nn.RMSNorm(12)), ROWS),
    "rms_norm_noaff": (lambda: nn.RMSNorm(16, elementwise_affine=False), ROWS),
    "prelu": (nn.PReLU, ROWS),
    "prelu_12": (lambda: nn.PReLU(12), ROWS),
    "prelu_4d": (lambda: nn.PReLU(8), PICTURE),
    "swiglu": (SwiGLU, ROWS),
    "geglu": (GeGLU, ROWS),
    "layer_scale": (LayerScale, ROWS),
    "matmul_weight": (lambda: Product(16, 20), ROWS),
    "matmul_weight4": (lambda: Product(8, 16, 20), PICTURE),
    "baddbmm": (lambda: SumOfProducts(1, 12, 12), ROWS),
    "addmm": (lambda: BiasedProduct(20), ROWS),
    "conv1d": (lambda: nn.Conv1d(12, 8, 3, padding=1), ROWS),
    "conv1d_dw": (lambda: nn.Conv1d(12, 12, 3, groups=12), ROWS),
    "conv1d_t": (lambda: Transposed(nn.Conv1d(16, 8, 3)), ROWS),
    "conv2d": (lambda: nn.Conv2d(8, 4, 3), PICTURE),
    "conv3d": (lambda: nn.Conv3d(4, 4, 3, padding=1), (4, 6, 8, 16)),
    "convT1d": (lambda: nn.ConvTranspose1d(12, 8, 4, stride=2), ROWS),
    "convT2d": (lambda: nn.ConvTranspose2d(8, 4, 2, stride=2), PICTURE),
    "conv2d_perm": (lambda: ChannelsSecond(nn.Conv2d(16, 4, 3)), PICTURE),
    "dropout": (lambda: nn.Dropout(0.1), ROWS),
    "dropout1d": (lambda: nn.Dropout1d(0.1), ROWS),
    "dropout2d": (lambda: nn.Dropout2d(0.1), PICTURE),
    "dropout_inplace": (lambda: nn.Dropout(0.1, inplace=True), ROWS),
    "mha": (lambda: Attention(needs_weights=False), ROWS),
    "mha_weights": (lambda: Attention(needs_weights=True), ROWS),
    "encoder_layer": (lambda:
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), ROWS),
}

OF_IDS = {
    "embedding": lambda: nn.Embedding(IDS, 16),
    "embedding_pad": lambda: nn.Embedding(IDS, 16, padding_idx=0),
    "embedding_scaled": ScaledEmbedding,
    "embedding_pos": WithPositions,
    "embedding_pos_buffer": WithStoredPositions,
    "one_hot": OneHot,
    "mean_mask": MeanOfMasked,
}


def names():
    return [*FUNCTIONS, *MODULES, *OF_IDS]


def shape_of(name):
    return (FUNCTIONS.get(name) or MODULES[name])[1]


def inputs(name, batch, device):
    if name in OF_IDS:
        return torch.zeros(batch, 12, dtype=torch.long, device=device)
    return torch.empty(batch, *shape_of(name), device=device)


def make_op(name):
    if name in OF_IDS:
        return OF_IDS[name]()
    return Function(FUNCTIONS[name][0]) if name in FUNCTIONS else MODULES[name][0]()


def build(name):
    op = make_op(name)
    features = op(torch.ones_like(inputs(name, 2, "cpu"))).flatten(1).shape[1]
    return (NetworkOfIds if name in OF_IDS else Network)(op, features)
