"""More networks for pictures and fields, as people write them for work of their own.

No network shares code with another, so that one can be held out without the others.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum

from family import images, several, tutorials


# --- poses ---

class Res(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn1, self.c1 = nn.BatchNorm2d(n), nn.Conv2d(n, n // 2, 1, bias=False)
        self.bn2, self.c2 = nn.BatchNorm2d(n // 2), nn.Conv2d(n // 2, n // 2, 3, 1, 1, bias=False)
        self.bn3, self.c3 = nn.BatchNorm2d(n // 2), nn.Conv2d(n // 2, n, 1, bias=False)

    def forward(self, x):
        y = self.c1(F.relu(self.bn1(x)))
        y = self.c2(F.relu(self.bn2(y)))
        y = self.c3(F.relu(self.bn3(y)))
        return x + y


class Hourglass(nn.Module):
    def __init__(self, depth, n):
        super().__init__()
        self.up1, self.low1, self.low3 = Res(n), Res(n), Res(n)
        self.low2 = Hourglass(depth - 1, n) if depth > 1 else Res(n)

    def forward(self, x):
        up1 = self.up1(x)
        low = F.max_pool2d(x, 2, 2)
        low = self.low3(self.low2(self.low1(low)))
        return up1 + F.interpolate(low, scale_factor=2, mode="nearest")


class PoseNet(nn.Module):
    """Joints as heat, their tags and where within the pixel: a dict of heads."""

    def __init__(self, heads, n=96, head_conv=64):
        super().__init__()
        self.pre = nn.Sequential(nn.Conv2d(3, 48, 7, 2, 3), nn.BatchNorm2d(48), nn.ReLU(True),
                                 nn.Conv2d(48, n, 3, 2, 1), nn.BatchNorm2d(n), nn.ReLU(True))
        self.hg, self.after = Hourglass(3, n), Res(n)
        self.heads = nn.ModuleDict({
            name: nn.Sequential(nn.Conv2d(n, head_conv, 3, padding=1), nn.ReLU(inplace=True),
                                nn.Conv2d(head_conv, out, 1)) for name, out in heads.items()})

    def forward(self, img):
        feat = self.after(self.hg(self.pre(img)))
        ret = {}
        for name, head in self.heads.items():
            ret[name] = head(feat)
        return ret


class PoseTrainer(nn.Module):
    def __init__(self, joints=17):
        super().__init__()
        self.net = PoseNet({"hm": joints, "tag": joints, "offset": 2})

    def forward(self, img):
        out = self.net(img)
        out["hm"] = torch.clamp(out["hm"].sigmoid_(), min=1e-4, max=1 - 1e-4)
        return torch.cat([out[k] for k in ("hm", "tag", "offset")], dim=1)


# --- pictures by attention ---

class DropPath(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.p = p

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        keep = 1 - self.p
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        return x * mask.div_(keep)


class RegBlock(nn.Module):
    def __init__(self, dim, heads, drop_path, init=1e-5):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.gamma1 = nn.Parameter(init * torch.ones(dim))
        self.gamma2 = nn.Parameter(init * torch.ones(dim))
        self.drop_path = DropPath(drop_path)

    def attn(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))

    def forward(self, x):
        x = x + self.drop_path(self.gamma1 * self.attn(self.norm1(x)))
        x = x + self.drop_path(self.gamma2 * self.mlp(self.norm2(x)))
        return x


class RegisterViT(nn.Module):
    """Four registers between the class token and the patches, thrown away at the end."""

    def __init__(self, img=128, patch=8, dim=192, depth=6, heads=3, n_reg=4, classes=200):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.reg_tokens = nn.Parameter(torch.zeros(1, n_reg, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, (img // patch) ** 2, dim) * 0.02)
        rates = [0.1 * i / (depth - 1) for i in range(depth)]
        self.blocks = nn.ModuleList([RegBlock(dim, heads, r) for r in rates])
        self.norm, self.n_reg = nn.LayerNorm(dim, eps=1e-6), n_reg
        self.head = nn.Linear(2 * dim, classes)

    def prepare_tokens(self, img):
        x = self.patch_embed(img).flatten(2).transpose(1, 2)
        x = x + self.pos_embed
        cls, reg = self.cls_token.expand(x.shape[0], -1, -1), self.reg_tokens
        return torch.cat((cls, reg.expand(x.shape[0], -1, -1), x), dim=1)

    def forward(self, img):
        x = self.prepare_tokens(img)
        for blk in self.blocks:
            x = blk(x)
        x = self.norm(x)
        cls_token, patches = x[:, 0], x[:, 1 + self.n_reg:]
        return self.head(torch.cat([cls_token, patches.mean(dim=1)], dim=-1))


class BigSmallKernel(nn.Module):
    def __init__(self, dim, k):
        super().__init__()
        self.big = nn.Conv2d(dim, dim, k, padding=k // 2, groups=dim, bias=False)
        self.small = nn.Conv2d(dim, dim, 3, padding=1, groups=dim, bias=False)
        self.bn_b, self.bn_s, self.bn_i = (nn.BatchNorm2d(dim) for _ in range(3))

    def forward(self, x):
        return self.bn_b(self.big(x)) + self.bn_s(self.small(x)) + self.bn_i(x)


class PlantConvMixer(nn.Module):
    """Leaves' diseases: patches once, then a wide depthwise kernel and a pointwise one."""

    def __init__(self, dim=128, depth=5, kernel_size=9, patch_size=4, n_classes=38):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch_size, patch_size)
        self.stem_bn = nn.BatchNorm2d(dim)
        self.token_mixers = nn.ModuleList([BigSmallKernel(dim, kernel_size) for _ in range(depth)])
        self.channel_mixers = nn.ModuleList([nn.Conv2d(dim, dim, 1) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(dim) for _ in range(depth)])
        self.classifier = nn.Linear(dim, n_classes)

    def forward(self, image):
        h = self.stem_bn(F.gelu(self.stem(image)))
        for token_mixer, channel_mixer, norm in zip(self.token_mixers, self.channel_mixers,
                                                    self.norms):
            h = h + F.gelu(token_mixer(h))
            h = norm(F.gelu(channel_mixer(h)))
        pooled = F.adaptive_avg_pool2d(h, (1, 1)).flatten(1)
        return self.classifier(pooled)


# --- fields ---

class FiLM(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.layer = nn.Linear(i, o)

    def forward(self, x, freq, phase_shift):
        x = self.layer(x)
        freq = freq.unsqueeze(1).expand_as(x)
        phase_shift = phase_shift.unsqueeze(1).expand_as(x)
        return torch.sin(freq * x + phase_shift)


class PiGAN(nn.Module):
    """A face of a code: sines that the code bends, summed along rays."""

    def __init__(self, z_dim=64, hidden=128, depth=4, steps=16, rays=256):
        super().__init__()
        self.steps, self.rays, self.depth, self.hidden = steps, rays, depth, hidden
        self.mapping = nn.Sequential(nn.Linear(z_dim, 128), nn.LeakyReLU(0.2, inplace=True),
                                     nn.Linear(128, 128), nn.LeakyReLU(0.2, inplace=True),
                                     nn.Linear(128, 2 * hidden * (depth + 1)))
        self.network = nn.ModuleList([FiLM(3 if i == 0 else hidden, hidden) for i in range(depth)])
        self.final_layer = nn.Linear(hidden, 1)
        self.color_sine, self.color = FiLM(hidden + 3, hidden), nn.Linear(hidden, 3)
        self.register_buffer("z_vals", torch.linspace(0.88, 1.12, steps))

    def render(self, rgb, sigma):
        deltas = self.z_vals[1:] - self.z_vals[:-1]
        deltas = torch.cat([deltas, torch.full_like(deltas[:1], 1e10)])
        alphas = 1 - torch.exp(-deltas[None, None, :, None] * F.relu(sigma))
        ones = torch.ones_like(alphas[:, :, :1])
        shifted = torch.cat([ones, 1 - alphas + 1e-10], -2)
        weights = alphas * torch.cumprod(shifted, -2)[:, :, :-1]
        return torch.sum(weights * rgb, -2)

    def forward(self, z, ray_origins, ray_dirs):
        out = self.mapping(z)
        frequencies, phases = out[..., :out.shape[-1] // 2], out[..., out.shape[-1] // 2:]
        frequencies = frequencies * 15 + 30
        points = ray_origins.unsqueeze(2) + ray_dirs.unsqueeze(2) * self.z_vals[None, None, :, None]
        x = points.reshape(points.shape[0], -1, 3)
        dirs = ray_dirs.unsqueeze(2).expand(-1, -1, self.steps, -1).reshape(x.shape)
        for index, layer in enumerate(self.network):
            start, end = index * self.hidden, (index + 1) * self.hidden
            x = layer(x, frequencies[..., start:end], phases[..., start:end])
        sigma = self.final_layer(x)
        rbg = self.color_sine(torch.cat([dirs, x], dim=-1), frequencies[..., -self.hidden:],
                              phases[..., -self.hidden:])
        rbg = torch.sigmoid(self.color(rbg))
        shape = (-1, self.rays, self.steps)
        return self.render(rbg.view(*shape, 3), sigma.view(*shape, 1))


# --- diffusion ---

def default(val, d):
    return val if val is not None else d


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=x.device) * -emb)
        emb = x[:, None] * emb[None, :]
        emb = torch.cat((emb.sin(), emb.cos()), dim=-1)
        return emb


class TimedResnetBlock(nn.Module):
    def __init__(self, dim, dim_out=None, *, time_dim, groups=8):
        super().__init__()
        dim_out = default(dim_out, dim)
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_dim, dim_out * 2))
        self.proj1 = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.proj2 = nn.Conv2d(dim_out, dim_out, 3, padding=1)
        self.norm1 = nn.GroupNorm(groups, dim_out)
        self.norm2, self.act = nn.GroupNorm(groups, dim_out), nn.SiLU()
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb):
        time_emb = self.mlp(time_emb)[:, :, None, None]
        scale, shift = time_emb.chunk(2, dim=1)
        h = self.norm1(self.proj1(x))
        h = self.act(h * (scale + 1) + shift)
        h = self.act(self.norm2(self.proj2(h)))
        return h + self.res_conv(x)


class PixelAttention(nn.Module):
    def __init__(self, dim, heads=4, dim_head=32):
        super().__init__()
        self.scale, self.heads, hidden = dim_head ** -0.5, heads, dim_head * heads
        self.norm = nn.GroupNorm(1, dim)
        self.to_qkv = nn.Conv2d(dim, hidden * 3, 1, bias=False)
        self.to_out = nn.Conv2d(hidden, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=1)
        q, k, v = map(lambda t: t.reshape(b, self.heads, -1, h * w), qkv)
        q = q * self.scale
        sim = einsum("b h d i, b h d j -> b h i j", q, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h d j -> b h i d", attn, v)
        return self.to_out(out.permute(0, 1, 3, 2).reshape(b, -1, h, w)) + x


class DiffusionUNet(nn.Module):
    """Noise in pictures of 32 pixels, told the step."""

    def __init__(self, dim=48, dim_mults=(1, 2, 4), channels=3):
        super().__init__()
        dims = [dim, *map(lambda m: dim * m, dim_mults)]
        in_out, time_dim = list(zip(dims[:-1], dims[1:])), dim * 4
        self.init_conv = nn.Conv2d(channels, dim, 7, padding=3)
        self.sinu = SinusoidalPosEmb(dim)
        self.time_mlp = nn.Sequential(nn.Linear(dim, time_dim), nn.GELU(),
                                      nn.Linear(time_dim, time_dim))
        self.downs, self.ups = nn.ModuleList([]), nn.ModuleList([])
        for ind, (dim_in, dim_out) in enumerate(in_out):
            is_last = ind >= len(in_out) - 1
            self.downs.append(nn.ModuleList([
                TimedResnetBlock(dim_in, time_dim=time_dim),
                PixelAttention(dim_in) if ind > 0 else nn.Identity(),
                nn.Conv2d(dim_in, dim_out, 3, padding=1) if is_last
                else nn.Conv2d(dim_in, dim_out, 4, 2, 1)]))
        mid = dims[-1]
        self.mid_block1 = TimedResnetBlock(mid, time_dim=time_dim)
        self.mid_attn = PixelAttention(mid)
        self.mid_block2 = TimedResnetBlock(mid, time_dim=time_dim)
        for ind, (dim_in, dim_out) in enumerate(reversed(in_out)):
            self.ups.append(nn.ModuleList([
                TimedResnetBlock(dim_out + dim_in, dim_out, time_dim=time_dim),
                nn.Conv2d(dim_out, dim_in, 3, padding=1) if ind == len(in_out) - 1 else
                nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"),
                              nn.Conv2d(dim_out, dim_in, 3, padding=1))]))
        self.final_res_block = TimedResnetBlock(dim * 2, dim, time_dim=time_dim)
        self.final_conv = nn.Conv2d(dim, channels, 1)

    def forward(self, x, time):
        x = self.init_conv(x)
        r = x.clone()
        t = self.time_mlp(self.sinu(time).to(x.dtype))
        h = []
        for block, attn, downsample in self.downs:
            x = block(x, t)
            x = attn(x)
            h.append(x)
            x = downsample(x)
        x = self.mid_block1(x, t)
        x = self.mid_attn(x)
        x = self.mid_block2(x, t)
        for block, upsample in self.ups:
            x = torch.cat((x, h.pop()), dim=1)
            x = block(x, t)
            x = upsample(x)
        x = torch.cat((x, r), dim=1)
        x = self.final_res_block(x, t)
        return self.final_conv(x)


# --- conditions ---

class HyperNet(nn.Module):
    """A robot's dynamics: its body's parameters make the weights of the net that is run."""

    def __init__(self, context=24, state=32, hidden=64, emb=128):
        super().__init__()
        self.shapes: dict[str, tuple[int, int]] = {
            "l1": (state, hidden), "l2": (hidden, hidden), "l3": (hidden, state)}
        self.embed = nn.Sequential(nn.Linear(context, emb), nn.LayerNorm(emb), nn.Tanh(),
                                   nn.Linear(emb, emb))
        self.weight_heads, self.bias_heads = nn.ModuleDict(), nn.ModuleDict()
        for name, (i, o) in self.shapes.items():
            self.weight_heads[name] = nn.Linear(emb, i * o)
            self.bias_heads[name] = nn.Linear(emb, o)

    def generate(self, context: torch.Tensor) -> dict[str, dict[str, torch.Tensor]]:
        z = self.embed(context)
        params = {}
        for name, (i, o) in self.shapes.items():
            w = self.weight_heads[name](z).view(-1, i, o) / math.sqrt(i)
            params[name] = {"w": w, "b": self.bias_heads[name](z).unsqueeze(1)}
        return params

    def forward(self, context: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        params = self.generate(context)
        h = states
        for name in ("l1", "l2"):
            h = torch.baddbmm(params[name]["b"], h, params[name]["w"])
            h = F.silu(h)
        delta = torch.bmm(h, params["l3"]["w"]) + params["l3"]["b"]
        return states + delta


def families():
    found = {
        "pose_heads": (PoseTrainer, images(128, name="img"), "mse"),
        "vit_registers": (RegisterViT, images(128, name="img"), "ce"),
        "convmixer": (PlantConvMixer, images(96, name="image"), "ce"),
        "pigan": (PiGAN, several({"z": (64,), "ray_origins": (256, 3), "ray_dirs": (256, 3)}),
                  "mse"),
        "ddpm_unet": (DiffusionUNet, several({"x": (3, 32, 32)}, time=()), "mse"),
        "hypernet": (HyperNet, several({"context": (24,), "states": (64, 32)}), "mse"),
    }
    return tutorials(found)
