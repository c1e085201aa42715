"""Networks for signals, scenes of games and letters, as people write them for their own work.

No network shares code with another, so that one can be held out without the others.
"""

import math
from typing import List, Optional, Tuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from family import floats, images, several, tutorials


# --- brains and sounds ---

class EEGConformer(nn.Module):
    """Imagined movements of 22 electrodes: convolutions over time and space, then attention."""

    def __init__(self, n_channels=22, emb_size=40, depth=4, n_heads=5, n_classes=4):
        super().__init__()
        self.shallownet = nn.Sequential(
            nn.Conv2d(1, 40, (1, 25), (1, 1)), nn.Conv2d(40, 40, (n_channels, 1), (1, 1)),
            nn.BatchNorm2d(40), nn.ELU(), nn.AvgPool2d((1, 75), (1, 15)), nn.Dropout(0.5))
        self.projection = nn.Conv2d(40, emb_size, (1, 1))
        self.n_heads, self.scaling = n_heads, emb_size ** 0.5
        blocks: List[nn.Module] = []
        for _ in range(depth):
            blocks.append(nn.ModuleDict({
                "norm1": nn.LayerNorm(emb_size), "to_keys": nn.Linear(emb_size, emb_size),
                "to_queries": nn.Linear(emb_size, emb_size),
                "to_values": nn.Linear(emb_size, emb_size),
                "att_drop": nn.Dropout(0.5), "proj": nn.Linear(emb_size, emb_size),
                "norm2": nn.LayerNorm(emb_size), "ff": nn.Sequential(
                    nn.Linear(emb_size, 4 * emb_size), nn.GELU(), nn.Dropout(0.5),
                    nn.Linear(4 * emb_size, emb_size))}))
        self.blocks, self.drop = nn.ModuleList(blocks), nn.Dropout(0.5)
        self.fc = nn.Sequential(nn.Linear(2440, 256), nn.ELU(), nn.Dropout(0.5), nn.Linear(256, 32),
                                nn.ELU(), nn.Dropout(0.3), nn.Linear(32, n_classes))

    def heads_first(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.n_heads, -1).permute(0, 2, 1, 3)

    def mha(self, blk, x: Tensor) -> Tensor:
        queries = self.heads_first(blk["to_queries"](x))
        keys = self.heads_first(blk["to_keys"](x))
        values = self.heads_first(blk["to_values"](x))
        energy = torch.einsum("bhqd, bhkd -> bhqk", queries, keys)
        att = F.softmax(energy / self.scaling, dim=-1)
        att = blk["att_drop"](att)
        out = torch.einsum("bhal, bhlv -> bhav ", att, values)
        return blk["proj"](out.permute(0, 2, 1, 3).flatten(2))

    def forward(self, eeg: Tensor) -> Tensor:
        x = self.shallownet(eeg)
        x = self.projection(x).flatten(2).transpose(1, 2)
        for blk in self.blocks:
            x = x + self.drop(self.mha(blk, blk["norm1"](x)))
            x = x + self.drop(blk["ff"](blk["norm2"](x)))
        x = x.contiguous().view(x.size(0), -1)
        return self.fc(x)


class SoundCRNN(nn.Module):
    """Which of ten sounds when: gated convolutions on mels, two GRUs, attention over time."""

    def __init__(self, n_mels=64, n_class=10):
        super().__init__()
        chans, pools = [1, 16, 32, 64, 64], [(2, 2), (2, 2), (1, 4), (1, 4)]
        self.convs = nn.ModuleList([nn.Conv2d(i, o, 3, 1, 1) for i, o in zip(chans, chans[1:])])
        self.gates = nn.ModuleList([nn.Linear(o, o) for o in chans[1:]])
        self.bns = nn.ModuleList([nn.BatchNorm2d(o, eps=0.001, momentum=0.99) for o in chans[1:]])
        self.pools = pools
        self.rnn = nn.GRU(64, 64, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.dense, self.dense_softmax = nn.Linear(128, n_class), nn.Linear(128, n_class)
        self.dropout = nn.Dropout(0.3)

    def forward(self, mel):
        x = mel.unsqueeze(1)
        for conv, gate, bn, pool in zip(self.convs, self.gates, self.bns, self.pools):
            x = bn(conv(x))
            lin = gate(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            x = lin * torch.sigmoid(x)
            x = F.avg_pool2d(self.dropout(x), pool)
        x = x.squeeze(-1).permute(0, 2, 1)
        x, _ = self.rnn(x)
        x = self.dropout(x)
        strong = torch.sigmoid(self.dense(x))
        sof = torch.softmax(self.dense_softmax(x), dim=-1).clamp(min=1e-7, max=1)
        return (strong * sof).sum(1) / sof.sum(1)


class ConformerBlock(nn.Module):
    def __init__(self, d: int, heads: int, kernel: int, p: float):
        super().__init__()
        self.heads = heads
        self.ffn1 = self._ffn(d, p)
        self.ffn2 = self._ffn(d, p)
        self.att_norm, self.conv_norm, self.out_norm = (nn.LayerNorm(d) for _ in range(3))
        self.qkv, self.att_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.pos, self.u, self.v = nn.Linear(d, d, bias=False), *(
            nn.Parameter(torch.zeros(heads, d // heads)) for _ in range(2))
        self.pw1 = nn.Conv1d(d, 2 * d, kernel_size=1)
        self.dw = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.bn, self.pw2, self.drop = nn.BatchNorm1d(d), nn.Conv1d(d, d, 1), nn.Dropout(p)

    @staticmethod
    def _ffn(d, p):
        return nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Dropout(p),
                             nn.Linear(4 * d, d), nn.Dropout(p))

    def rel_shift(self, x: Tensor) -> Tensor:
        b, h, t, n = x.shape
        x = torch.cat([x.new_zeros(b, h, t, 1), x], dim=-1).view(b, h, n + 1, t)
        return x[:, :, 1:].view(b, h, t, n)[..., :t]

    def attend(self, x: Tensor, pos: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).unbind(2)
        p = self.pos(pos).view(-1, self.heads, d // self.heads)
        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        position = self.rel_shift(torch.einsum("bihd,jhd->bhij", q + self.v, p))
        scores = (content + position) / math.sqrt(d // self.heads)
        weights = self.drop(scores.softmax(-1))
        return self.att_out(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(b, t, d))

    def convolve(self, x: Tensor) -> Tensor:
        x = self.conv_norm(x).transpose(1, 2)
        x = F.glu(self.pw1(x), dim=1)
        x = F.silu(self.bn(self.dw(x)))
        return self.drop(self.pw2(x)).transpose(1, 2)

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        x = x + 0.5 * self.ffn1(x)
        x = x + self.drop(self.attend(self.att_norm(x), pos))
        x = x + self.convolve(x)
        x = x + 0.5 * self.ffn2(x)
        return self.out_norm(x)


class SpeechConformer(nn.Module):
    """Letters of speech at a quarter of the frames, with relative positions."""

    def __init__(self, n_mels=80, d=144, heads=4, layers=3, vocab=64, frames=200, p=0.1):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1),
                                 nn.ReLU())
        self.lin, self.drop = nn.Linear(64 * n_mels // 4, d), nn.Dropout(p)
        self.layers = nn.ModuleList([ConformerBlock(d, heads, 15, p) for _ in range(layers)])
        self.ctc = nn.Linear(d, vocab)
        t = frames // 4
        at = torch.arange(t - 1, -t, -1.0)[:, None] * torch.exp(
            torch.arange(0, d, 2.0) * (-math.log(10000.0) / d))
        self.register_buffer("pos", torch.cat([at.sin(), at.cos()], dim=-1))

    def forward(self, mels: Tensor) -> Tensor:
        x = self.sub(mels.transpose(1, 2).unsqueeze(1))
        b, c, f, t = x.size()
        x = self.drop(self.lin(x.permute(0, 3, 1, 2).reshape(b, t, c * f)))
        for layer in self.layers:
            x = layer(x, self.pos)
        return F.log_softmax(self.ctc(x), dim=-1)


class S4DKernel(nn.Module):
    def __init__(self, d_model, N=32, dt_min=0.001, dt_max=0.1):
        super().__init__()
        span = math.log(dt_max) - math.log(dt_min)
        self.log_dt = nn.Parameter(torch.rand(d_model) * span + math.log(dt_min))
        self.C = nn.Parameter(torch.randn(d_model, N, 2) * 0.5 ** 0.5)
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(d_model, N)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(N).float().repeat(d_model, 1))

    def forward(self, L):
        """The real part by hand, as half precision has no complex numbers."""
        dt = torch.exp(self.log_dt.float()).unsqueeze(-1)
        re, im = -torch.exp(self.log_A_real.float()) * dt, self.A_imag.float() * dt
        steps = torch.arange(L, device=dt.device, dtype=torch.float32)
        decay = torch.exp(re.unsqueeze(-1) * steps)
        phase = im.unsqueeze(-1) * steps
        C = self.C.float()
        c_re, c_im = C[..., 0].unsqueeze(-1), C[..., 1].unsqueeze(-1)
        return 2 * (decay * (c_re * torch.cos(phase) - c_im * torch.sin(phase))).sum(dim=1)


class S4DModel(nn.Module):
    """Sensors' long series: diagonal state spaces as convolutions by FFT."""

    def __init__(self, d_input=9, d_output=6, d_model=96, n_layers=4, dropout=0.1):
        super().__init__()
        self.encoder = nn.Linear(d_input, d_model)
        self.kernels, self.outputs, self.norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        self.D = nn.ParameterList()
        for _ in range(n_layers):
            self.kernels.append(S4DKernel(d_model))
            self.D.append(nn.Parameter(torch.randn(d_model)))
            self.outputs.append(nn.Sequential(nn.GELU(), nn.Dropout(dropout),
                                              nn.Conv1d(d_model, 2 * d_model, kernel_size=1),
                                              nn.GLU(dim=-2)))
            self.norms.append(nn.LayerNorm(d_model))
        self.decoder = nn.Linear(d_model, d_output)

    def fft_conv(self, u, k, D):
        L = u.size(-1)
        k_f = torch.fft.rfft(k, n=2 * L)
        u_f = torch.fft.rfft(u.float(), n=2 * L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L]
        return y.to(u.dtype) + u * D.unsqueeze(-1)

    def forward(self, x):
        x = self.encoder(x)
        x = x.transpose(-1, -2)
        for kernel, D, output, norm in zip(self.kernels, self.D, self.outputs, self.norms):
            z = norm(x.transpose(-1, -2)).transpose(-1, -2)
            z = self.fft_conv(z, kernel(x.size(-1)), D)
            z = output(z)
            x = z + x
        x = x.transpose(-1, -2)
        x = x.mean(dim=1)
        return self.decoder(x)


# --- games and letters ---

def layer_init(layer, std=np.sqrt(2)):
    nn.init.orthogonal_(layer.weight, float(std))
    nn.init.constant_(layer.bias, 0.0)
    return layer


class ImpalaResidual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, kernel_size=3, padding=1)

    def forward(self, x):
        inputs = x
        x = nn.functional.relu(x)
        x = self.conv0(x)
        x = nn.functional.relu(x)
        x = self.conv1(x)
        return x + inputs


class ImpalaAgent(nn.Module):
    """Procgen's games: a trunk for the policy and the value."""

    def __init__(self, n_actions=15, widths=(16, 32, 32), shape=(3, 64, 64)):
        super().__init__()
        layers, c, (_, h, w) = [], shape[0], shape
        for width in widths:
            layers += [nn.Conv2d(c, width, 3, padding=1), nn.MaxPool2d(3, 2, 1),
                       ImpalaResidual(width), ImpalaResidual(width)]
            c, h, w = width, (h + 1) // 2, (w + 1) // 2
        self.out_shape = (c, h, w)
        layers += [nn.Flatten(), nn.ReLU(), nn.Linear(self.n_features, 256), nn.ReLU()]
        self.network = nn.Sequential(*layers)
        self.actor = layer_init(nn.Linear(256, n_actions), std=0.01)
        self.critic = layer_init(nn.Linear(256, 1), std=1)

    @property
    def n_features(self):
        return int(np.prod(self.out_shape))

    def get_value(self, x):
        return self.critic(self.network(x / 255.0))

    def act(self, x) -> Tuple[Tensor, Tensor]:
        hidden = self.network(x / 255.0)
        return F.log_softmax(self.actor(hidden), dim=-1), self.critic(hidden)

    def forward(self, obs):
        log_probs, value = self.act(obs)
        entropy = -(log_probs.exp() * log_probs).sum(-1, keepdim=True)
        return torch.cat((log_probs, value, entropy), dim=1)


class BidirectionalLSTM(nn.Module):
    def __init__(self, nIn, nHidden, nOut):
        super().__init__()
        self.rnn = nn.LSTM(nIn, nHidden, bidirectional=True, batch_first=True)
        self.embedding = nn.Linear(nHidden * 2, nOut)

    def forward(self, input):
        recurrent, _ = self.rnn(input)
        output = self.embedding(recurrent)
        return output


class OcrCRNN(nn.Module):
    """Words in grey pictures of 32 by 128 pixels, a class for each of 33 columns."""

    def __init__(self, nc=1, nclass=63, nh=128):
        super().__init__()
        ks, ps, ss = [3, 3, 3, 3, 3, 3, 2], [1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]
        nm = [32, 64, 128, 128, 256, 256, 256]
        cnn = nn.Sequential()

        def convRelu(i, batchNormalization=False):
            nIn = nc if i == 0 else nm[i - 1]
            cnn.add_module(f"conv{i}", nn.Conv2d(nIn, nm[i], ks[i], ss[i], ps[i]))
            if batchNormalization:
                cnn.add_module(f"batchnorm{i}", nn.BatchNorm2d(nm[i]))
            cnn.add_module(f"relu{i}", nn.ReLU(True))
        convRelu(0)
        cnn.add_module("pooling0", nn.MaxPool2d(2, 2))
        convRelu(1)
        cnn.add_module("pooling1", nn.MaxPool2d(2, 2))
        convRelu(2, True)
        convRelu(3)
        cnn.add_module("pooling2", nn.MaxPool2d((2, 2), (2, 1), (0, 1)))
        convRelu(4, True)
        convRelu(5)
        cnn.add_module("pooling3", nn.MaxPool2d((2, 2), (2, 1), (0, 1)))
        convRelu(6, True)
        self.cnn = cnn
        self.rnn = nn.Sequential(BidirectionalLSTM(256, nh, nh), BidirectionalLSTM(nh, nh, nclass))

    def forward(self, input):
        conv = self.cnn(input)
        conv = conv.squeeze(2)
        conv = conv.permute(0, 2, 1)  # [b, w, c]
        output = self.rnn(conv)
        return output


# --- prices ---

class GRN(nn.Module):
    def __init__(self, i: int, h: int, o: Optional[int] = None, ctx: Optional[int] = None):
        super().__init__()
        o = o or h
        self.fc1, self.fc2, self.glu = nn.Linear(i, h), nn.Linear(h, h), nn.Linear(h, 2 * o)
        self.ctx = nn.Linear(ctx, h, bias=False) if ctx else None
        self.skip = nn.Linear(i, o) if i != o else None
        self.norm, self.drop = nn.LayerNorm(o), nn.Dropout(0.1)

    def forward(self, x: Tensor, c: Optional[Tensor] = None) -> Tensor:
        y = self.fc1(x)
        if c is not None:
            y = y + self.ctx(c)
        y = self.fc2(F.elu(y))
        y = F.glu(self.glu(self.drop(y)), dim=-1)
        return self.norm(y + (x if self.skip is None else self.skip(x)))


class FusionTransformer(nn.Module):
    """Electricity's quantiles: variables are chosen, an LSTM, attention of one head's values."""

    def __init__(self, n_vars=8, n_static=4, d=64, heads=4, horizon=24):
        super().__init__()
        self.scalars = nn.ModuleList([nn.Linear(1, d) for _ in range(n_vars)])
        self.static, self.select = GRN(n_static, d), GRN(n_vars * d, d, n_vars, ctx=d)
        self.per_var = nn.ModuleList([GRN(d, d) for _ in range(n_vars)])
        self.lstm, self.lstm_gate = nn.LSTM(d, d, batch_first=True), nn.Linear(d, 2 * d)
        self.enrich, self.norms = GRN(d, d, ctx=d), nn.ModuleList(nn.LayerNorm(d) for _ in "12")
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d // heads)
        self.out, self.ff = nn.Linear(d // heads, d), GRN(d, d)
        self.quantiles, self.heads, self.horizon = nn.Linear(d, 3), heads, horizon

    def forward(self, series: Tensor, static: Tensor) -> Tensor:
        b, t, n = series.shape
        s = self.static(static)
        xs = [lin(series[..., i:i + 1]) for i, lin in enumerate(self.scalars)]
        weights = self.select(torch.cat(xs, -1), s[:, None]).softmax(-1).unsqueeze(-2)
        x = (torch.stack([g(v) for g, v in zip(self.per_var, xs)], -1) * weights).sum(-1)
        del xs, weights
        h, _ = self.lstm(x)
        x = self.norms[0](x + F.glu(self.lstm_gate(h), -1))
        x = self.enrich(x, s.unsqueeze(1))
        q, k = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        att = scores.masked_fill(future, float("-inf")).softmax(-1)
        x = self.norms[1](x + self.out((att @ self.v(x).unsqueeze(1)).mean(1)))
        return self.quantiles(self.ff(x)[:, -self.horizon:])


def families():
    found = {
        "eeg_conformer": (EEGConformer, floats("eeg", 1, 22, 1000), "ce"),
        "sound_crnn": (SoundCRNN, floats("mel", 156, 64), "mse"),
        "speech_conformer": (SpeechConformer, floats("mels", 200, 80), "ce"),
        "s4d": (S4DModel, floats("x", 512, 9), "ce"),
        "impala_ppo": (ImpalaAgent, images(64, name="obs"), "mse"),
        "ocr_crnn": (OcrCRNN, floats("input", 1, 32, 128), "ce"),
        "tft": (FusionTransformer, several({"series": (168, 8), "static": (4,)}), "mse"),
    }
    return tutorials(found)
