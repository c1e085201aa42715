"""Networks that work on frequencies, as papers and tutorials write them.

No network shares code with another, so that one can be held out without the others.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from family import floats, images, tutorials


# --- operators between functions ---

class SpectralConv1d(nn.Module):
    def __init__(self, in_channels, out_channels, modes1):
        super().__init__()
        self.in_channels, self.out_channels, self.modes1 = in_channels, out_channels, modes1
        scale = 1 / (in_channels * out_channels)
        self.weights1 = nn.Parameter(
            scale * torch.rand(in_channels, out_channels, modes1, dtype=torch.cfloat))

    def compl_mul1d(self, input, weights):
        return torch.einsum("bix,iox->box", input, weights)

    def forward(self, x):
        batchsize = x.shape[0]
        x_ft = torch.fft.rfft(x)
        out_ft = torch.zeros(batchsize, self.out_channels, x.size(-1) // 2 + 1, device=x.device,
                             dtype=torch.cfloat)
        out_ft[:, :, :self.modes1] = self.compl_mul1d(x_ft[:, :, :self.modes1], self.weights1)
        x = torch.fft.irfft(out_ft, n=x.size(-1))
        return x


class FNO1d(nn.Module):
    """Burgers' equation by a Fourier neural operator (Li et al.)."""

    def __init__(self, modes=16, width=64):
        super().__init__()
        self.fc0 = nn.Linear(2, width)
        self.conv0, self.conv1 = (SpectralConv1d(width, width, modes) for _ in "12")
        self.conv2, self.conv3 = (SpectralConv1d(width, width, modes) for _ in "12")
        self.w0, self.w1, self.w2, self.w3 = (nn.Conv1d(width, width, 1) for _ in "1234")
        self.fc1, self.fc2 = nn.Linear(width, 128), nn.Linear(128, 1)

    def forward(self, x):
        x = self.fc0(x)
        x = x.permute(0, 2, 1)

        x1 = self.conv0(x)
        x2 = self.w0(x)
        x = x1 + x2
        x = F.gelu(x)

        x1 = self.conv1(x)
        x2 = self.w1(x)
        x = x1 + x2
        x = F.gelu(x)

        x1 = self.conv2(x)
        x2 = self.w2(x)
        x = x1 + x2
        x = F.gelu(x)

        x1 = self.conv3(x)
        x2 = self.w3(x)
        x = x1 + x2

        x = x.permute(0, 2, 1)
        x = self.fc1(x)
        x = F.gelu(x)
        x = self.fc2(x)
        return x


class SpectralLayer(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.low = nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.cfloat) / width)
        self.high = nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.cfloat) / width)
        self.skip = nn.Conv2d(width, width, 1)

    def forward(self, x):
        h, w, m = x.size(-2), x.size(-1), self.modes
        spectrum = torch.fft.rfft2(x)
        mixed = torch.zeros_like(spectrum)
        mixed[..., :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[..., :m, :m], self.low)
        mixed[..., -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[..., -m:, :m], self.high)
        return torch.fft.irfft2(mixed, s=(h, w)) + self.skip(x)


class FNO2d(nn.Module):
    """Darcy's flow on a grid."""

    def __init__(self, width=32, modes=12, layers=4):
        super().__init__()
        self.lift = nn.Linear(3, width)
        self.layers = nn.ModuleList(SpectralLayer(width, modes) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, x):
        x = self.lift(x).permute(0, 3, 1, 2)
        for layer in self.layers[:-1]:
            x = F.gelu(layer(x))
        x = self.layers[-1](x)
        return self.head(x.permute(0, 2, 3, 1))


# --- tokens ---

class GlobalFilter(nn.Module):
    def __init__(self, dim, h=14, w=8):
        super().__init__()
        self.complex_weight = nn.Parameter(torch.randn(h, w, dim, 2, dtype=torch.float32) * 0.02)

    def forward(self, x):
        B, N, C = x.shape
        a = b = int(N ** 0.5)
        x = x.view(B, a, b, C).to(torch.float32)
        x = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
        weight = torch.view_as_complex(self.complex_weight.float())
        x = x * weight
        x = torch.fft.irfft2(x, s=(a, b), dim=(1, 2), norm="ortho")
        return x.reshape(B, N, C)


class FilterBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.filter, self.norm2 = nn.LayerNorm(dim), GlobalFilter(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.mlp(self.norm2(self.filter(self.norm1(x)).to(x.dtype)))
        return x


class GlobalFilterNet(nn.Module):
    """GFNet (Rao et al.): filters in place of attention."""

    def __init__(self, dim=128, depth=4, classes=100):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 16, 16)
        self.pos_embed = nn.Parameter(torch.zeros(1, 196, dim))
        self.blocks = nn.ModuleList(FilterBlock(dim) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = x + self.pos_embed
        for blk in self.blocks:
            x = blk(x)
        x = self.norm(x).mean(1)
        return self.head(x)


class FourierMixing(nn.Module):
    """FNet (Lee-Thorp et al.) on features of sensors."""

    def __init__(self, features=12, dim=96, depth=3, classes=6):
        super().__init__()
        self.embed = nn.Linear(features, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.feeds = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(),
                                                 nn.Linear(2 * dim, dim)) for _ in range(depth))
        self.out = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x)
        for i, feed in enumerate(self.feeds):
            mixed = torch.fft.fft(torch.fft.fft(x.float(), dim=-1), dim=-2).real
            x = self.norms[2 * i](x + mixed.to(x.dtype))
            x = self.norms[2 * i + 1](x + feed(x))
        return self.out(x.mean(dim=1))


def families():
    return tutorials({
        "fno1d": (FNO1d, floats("x", 1024, 2), "mse"),
        "fno2d": (FNO2d, floats("x", 64, 64, 3), "mse"),
        "gfnet": (GlobalFilterNet, images(), "ce"),
        "fourier_mixing": (FourierMixing, floats("x", 128, 12), "ce"),
    })
