"""Networks for text, tables, sound and more, written anew as tutorials and papers' code are.

No network shares code with another, so that one can be held out without the others.
"""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

from family import First, floats, images, several, tokens, tutorials


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList([copy.deepcopy(nn.Linear(d_model, d_model)) for _ in "qkvo"])
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        query, key, value = [lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
                             for lin, x in zip(self.linears, (query, key, value))]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        self.attn = self.dropout(scores.softmax(dim=-1))
        x = torch.matmul(self.attn, value).transpose(1, 2).contiguous()
        return self.linears[-1](x.view(nbatches, -1, self.h * self.d_k))


class Residuals(nn.Module):
    """One layer of the encoder, or of the decoder if it looks at memory."""

    def __init__(self, d_model, d_ff, h, cross=False):
        super().__init__()
        self.attns = nn.ModuleList(MultiHeadedAttention(h, d_model) for _ in range(1 + cross))
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(0.1),
                                          nn.Linear(d_ff, d_model))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2 + cross))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask, memory=None, src_mask=None):
        steps = [lambda y: self.attns[0](y, y, y, mask)]
        if memory is not None:
            steps.append(lambda y: self.attns[1](y, memory, memory, src_mask))
        for norm, sublayer in zip(self.norms, steps + [self.feed_forward]):
            x = x + self.dropout(sublayer(norm(x)))
        return x


class AnnotatedTransformer(nn.Module):
    """Encoder and decoder with masks, in the manner of The Annotated Transformer."""

    def __init__(self, vocab=4000, N=3, d_model=256, d_ff=1024, h=8, max_len=512):
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(vocab, d_model), nn.Embedding(vocab, d_model)
        self.encoder = nn.ModuleList([Residuals(d_model, d_ff, h) for _ in range(N)])
        self.decoder = nn.ModuleList([Residuals(d_model, d_ff, h, cross=True) for _ in range(N)])
        self.enc_norm, self.dec_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.proj = nn.Linear(d_model, vocab)
        pe, position = torch.zeros(max_len, d_model), torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.dropout = nn.Dropout(0.1)

    def embed(self, lut, ids):
        x = lut(ids) * math.sqrt(lut.embedding_dim)
        return self.dropout(x + self.pe[:, : x.size(1)].requires_grad_(False))

    def forward(self, src, tgt):
        src_mask = (src != 1).unsqueeze(-2)
        later = torch.triu(torch.ones(1, tgt.size(1), tgt.size(1), device=tgt.device), diagonal=1)
        tgt_mask = (tgt != 1).unsqueeze(-2) & (later == 0)
        memory = self.embed(self.src_embed, src)
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        memory = self.enc_norm(memory)
        x = self.embed(self.tgt_embed, tgt)
        for layer in self.decoder:
            x = layer(x, tgt_mask, memory, src_mask)
        return F.log_softmax(self.proj(self.dec_norm(x)), dim=-1)


class AlibiGPT(nn.Module):
    """A GPT from scratch with ALiBi (Press et al.) for its positions, and tied embeddings."""

    def __init__(self, vocab=5000, n_embd=256, n_head=8, n_layer=4, block_size=256):
        super().__init__()
        self.n_head = n_head
        self.wte = nn.Embedding(vocab, n_embd)
        self.layers = nn.ModuleList([nn.ModuleDict(dict(
            ln_1=nn.LayerNorm(n_embd), c_attn=nn.Linear(n_embd, 3 * n_embd),
            c_proj=nn.Linear(n_embd, n_embd), ln_2=nn.LayerNorm(n_embd),
            fc=nn.Linear(n_embd, 4 * n_embd), out=nn.Linear(4 * n_embd, n_embd),
        )) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        slopes = torch.tensor([2 ** (-8 * (i + 1) / n_head) for i in range(n_head)])
        distance = torch.arange(block_size)[None, :] - torch.arange(block_size)[:, None]
        causal = distance > 0
        bias = (slopes[:, None, None] * distance).masked_fill(causal, float("-inf"))
        self.register_buffer("alibi", bias[None], persistent=False)

    def attend(self, layer, x):
        B, T, C = x.size()
        q, k, v = layer["c_attn"](x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att + self.alibi[..., :T, :T].to(att.dtype), dim=-1)
        y = F.dropout(att, 0.1, self.training) @ v
        return layer["c_proj"](y.transpose(1, 2).contiguous().view(B, T, C))

    def forward(self, input_ids):
        x = self.wte(input_ids)
        for layer in self.layers:
            x = x + self.attend(layer, layer["ln_1"](x))
            x = x + layer["out"](F.gelu(layer["fc"](layer["ln_2"](x)), approximate="tanh"))
        return self.lm_head(self.ln_f(x))


class LinearAttention(nn.Module):
    """Performer-like (Choromanski et al.): positive random features in place of softmax."""

    def __init__(self, vocab=4000, dim=192, heads=6, depth=3, features=64):
        super().__init__()
        self.embed, self.heads = nn.Embedding(vocab, dim), heads
        self.register_buffer("omega", torch.randn(dim // heads, features))
        self.qkvs = nn.ModuleList([nn.Linear(dim, 3 * dim, bias=False) for _ in range(depth)])
        self.outs = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])
        self.ffs = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim),
                                                nn.GELU(), nn.Linear(4 * dim, dim))
                                  for _ in range(depth)])
        self.head = nn.Linear(dim, 20)

    def phi(self, x):
        x = x * x.shape[-1] ** -0.25
        projected = torch.einsum("bhnd,df->bhnf", x, self.omega)
        norm = (x ** 2).sum(dim=-1, keepdim=True) / 2
        return torch.exp(projected - norm - projected.amax(-1, keepdim=True).detach()) + 1e-4

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for qkv, to_out, ff in zip(self.qkvs, self.outs, self.ffs):
            q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2)
                       for t in qkv(x).chunk(3, dim=-1))
            q, k = self.phi(q), self.phi(k)
            z = 1.0 / torch.einsum("...nd,...d->...n", q, k.sum(dim=-2))
            context = torch.einsum("...nd,...ne->...de", k, v)
            out = torch.einsum("...de,...nd,...n->...ne", context, q, z)
            x = x + to_out(out.transpose(1, 2).flatten(2))
            x = x + ff(x)
        return self.head(x.mean(dim=1))


class SelectiveScan(nn.Module):
    """A Mamba-like language model whose scan is a Python loop, as in mamba-minimal."""

    def __init__(self, vocab=2000, d_model=128, d_inner=256, d_state=16, dt_rank=8, n_layer=2):
        super().__init__()
        self.embedding, self.n, self.r = nn.Embedding(vocab, d_model), d_state, dt_rank
        self.layers = nn.ModuleList([nn.ModuleDict({
            "norm": nn.LayerNorm(d_model), "in_proj": nn.Linear(d_model, 2 * d_inner, bias=False),
            "conv": nn.Conv1d(d_inner, d_inner, 4, groups=d_inner, padding=3),
            "x_proj": nn.Linear(d_inner, dt_rank + d_state * 2, bias=False),
            "dt_proj": nn.Linear(dt_rank, d_inner), "out": nn.Linear(d_inner, d_model),
        }) for _ in range(n_layer)])
        A = torch.arange(1, d_state + 1).float().repeat(d_inner, 1)
        self.A_logs = nn.ParameterList([torch.log(A) for _ in range(n_layer)])
        self.Ds = nn.ParameterList([torch.ones(d_inner) for _ in range(n_layer)])
        self.lm_head = nn.Linear(d_model, vocab, bias=False)

    def ssm(self, layer, u, A, D):
        delta, B, C = layer["x_proj"](u).split([self.r, self.n, self.n], dim=-1)
        delta = F.softplus(layer["dt_proj"](delta))
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        deltaB_u = torch.einsum("bld,bln,bld->bldn", delta, B, u)
        x, ys = torch.zeros_like(deltaB_u[:, 0]), []
        for i in range(u.size(1)):
            x = deltaA[:, i] * x + deltaB_u[:, i]
            ys.append(torch.einsum("bdn,bn->bd", x, C[:, i, :]))
        return torch.stack(ys, dim=1) + u * D

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        for layer, A_log, D in zip(self.layers, self.A_logs, self.Ds):
            u, res = layer["in_proj"](layer["norm"](x)).chunk(2, dim=-1)
            u = layer["conv"](u.transpose(1, 2))[:, :, : x.shape[1]].transpose(1, 2)
            y = self.ssm(layer, F.silu(u), -torch.exp(A_log), D) * F.silu(res)
            x = layer["out"](y) + x
        return self.lm_head(x)


class TextCNN(nn.Module):
    """Kim's sentence classifier: convolutions of three widths, maximum over time."""

    def __init__(self, V=10000, D=128, Co=100, Ks=(3, 4, 5), C=5):
        super(TextCNN, self).__init__()
        self.embed = nn.Embedding(V, D)
        self.convs = nn.ModuleList([nn.Conv2d(1, Co, (K, D)) for K in Ks])
        self.dropout = nn.Dropout(0.5)
        self.fc1 = nn.Linear(len(Ks) * Co, C)

    def forward(self, input_ids):
        x = self.embed(input_ids).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.fc1(self.dropout(torch.cat(x, 1)))


class Captioner(nn.Module):
    """Show, attend and tell (Xu et al.): an LSTMCell over ten steps with soft attention."""

    def __init__(self, vocab=3000, emb=128, dec=256, enc=128, steps=10):
        super().__init__()
        self.steps = steps
        self.encoder = nn.Sequential(*[m for i, o in ((3, 32), (32, 64), (64, enc)) for m in (
            nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))])
        self.embedding = nn.Embedding(vocab, emb)
        self.encoder_att, self.decoder_att = nn.Linear(enc, 128), nn.Linear(dec, 128)
        self.full_att, self.f_beta = nn.Linear(128, 1), nn.Linear(dec, enc)
        self.init_h, self.init_c = nn.Linear(enc, dec), nn.Linear(enc, dec)
        self.decode_step = nn.LSTMCell(emb + enc, dec, bias=True)
        self.fc = nn.Linear(dec, vocab)

    def forward(self, image, captions):
        encoder_out = self.encoder(image).permute(0, 2, 3, 1).flatten(1, 2)
        embeddings = self.embedding(captions)
        mean = encoder_out.mean(dim=1)
        h, c = self.init_h(mean), self.init_c(mean)
        predictions = []
        for t in range(self.steps):
            att = torch.tanh(self.encoder_att(encoder_out) + self.decoder_att(h).unsqueeze(1))
            alpha = F.softmax(self.full_att(att).squeeze(2), dim=1)
            awe = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
            awe = torch.sigmoid(self.f_beta(h)) * awe
            h, c = self.decode_step(torch.cat([embeddings[:, t, :], awe], dim=1), (h, c))
            predictions.append(self.fc(F.dropout(h, 0.5, self.training)))
        return torch.stack(predictions, dim=1)


class DeepFM(nn.Module):
    """DeepFM as rixwew's pytorch-fm has it: one embedding table with offsets for the fields."""

    def __init__(self, fields=26, vocab=1000, dim=16, dropout=0.2):
        super().__init__()
        self.register_buffer("offsets", torch.arange(fields) * vocab)
        self.embedding, self.fc = (nn.Embedding(fields * vocab, d) for d in (dim, 1))
        self.bias = nn.Parameter(torch.zeros((1,)))
        layers, width = [], fields * dim
        for size in (400, 400, 400):
            layers += [nn.Linear(width, size), nn.BatchNorm1d(size), nn.ReLU(), nn.Dropout(dropout)]
            width = size
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x):
        x = x + self.offsets.unsqueeze(0)
        embed_x = self.embedding(x)
        square_of_sum = torch.sum(embed_x, dim=1) ** 2
        sum_of_square = torch.sum(embed_x ** 2, dim=1)
        fm = 0.5 * torch.sum(square_of_sum - sum_of_square, dim=1, keepdim=True)
        linear = torch.sum(self.fc(x), dim=1) + self.bias
        y = linear + fm + self.mlp(embed_x.view(embed_x.size(0), -1))
        return torch.sigmoid(y.squeeze(1))


class DIN(nn.Module):
    """Deep interest network (Zhou et al.): the candidate attends to the user's history."""

    def __init__(self, n_items=20000, d=32):
        super().__init__()
        self.item_emb = nn.Embedding(n_items, d, padding_idx=0)
        self.att = nn.Sequential(nn.Linear(4 * d, 80), nn.Sigmoid(), nn.Linear(80, 40),
                                 nn.Sigmoid(), nn.Linear(40, 1))
        self.fc1, self.fc2, self.fc3 = nn.Linear(3 * d, 200), nn.Linear(200, 80), nn.Linear(80, 2)
        self.bn1, self.bn2 = nn.BatchNorm1d(200), nn.BatchNorm1d(80)
        self.alpha = nn.Parameter(torch.zeros(200))

    def dice(self, x):
        p = torch.sigmoid(self.bn1(x))
        return p * x + (1 - p) * self.alpha * x

    def forward(self, history, candidate):
        keys, query = self.item_emb(history), self.item_emb(candidate)
        queries = query.unsqueeze(1).expand(-1, keys.size(1), -1)
        scores = self.att(torch.cat([queries, keys, queries - keys, queries * keys], dim=-1))
        scores = scores.transpose(1, 2)
        padding = torch.ones_like(scores) * (-2 ** 15 + 1)
        scores = torch.where((history != 0).unsqueeze(1), scores, padding)
        scores = F.softmax(scores / keys.size(-1) ** 0.5, dim=-1)
        interest = torch.matmul(scores, keys).squeeze(1)
        x = self.dice(self.fc1(torch.cat((interest, query, interest * query), dim=1)))
        return self.fc3(F.leaky_relu(self.bn2(self.fc2(x))))


class TwoTower(nn.Module):
    """Two towers for retrieval; the other items of the batch are the negatives."""

    def __init__(self, users=20000, items=20000, dim=64, temperature=0.05):
        super().__init__()
        self.user_tower = nn.Sequential(nn.Embedding(users, dim), nn.Linear(dim, 256), nn.ReLU(),
                                        nn.Linear(256, 128))
        self.items, self.genres = nn.Embedding(items, dim), nn.EmbeddingBag(200, dim, mode="mean")
        self.item_tower = nn.Sequential(nn.Linear(2 * dim, 256), nn.ReLU(), nn.Linear(256, 128))
        self.temperature = temperature

    def forward(self, user, item, genres):
        u = F.normalize(self.user_tower(user), dim=-1)
        i = torch.cat([self.items(item), self.genres(genres)], dim=-1)
        i = F.normalize(self.item_tower(i), dim=-1)
        same = item[:, None] == item
        hits = same.triu(1) | same.tril(-1)
        return (torch.matmul(u, i.T) / self.temperature).masked_fill(hits, -1e4)


class GraphSAGE(nn.Module):
    """GraphSAGE (Hamilton et al.) on a dense adjacency: the mean of neighbours, concatenated."""

    def __init__(self, nfeat=64, nhid=128, nclass=7):
        super().__init__()
        dims = [nfeat, nhid, nhid]
        self.layers = nn.ModuleList([nn.Linear(2 * i, o) for i, o in zip(dims, dims[1:])])
        self.out = nn.Linear(nhid, nclass)

    def forward(self, x, adj):
        for layer in self.layers:
            neighbours = torch.bmm(adj, x) / (adj.sum(dim=2, keepdim=True) + 1)
            x = F.relu(layer(torch.cat([x, neighbours], dim=-1)))
            x = F.dropout(F.normalize(x, p=2, dim=-1), 0.5, training=self.training)
        return self.out(x)


class NeRF(nn.Module):
    """NeRF's MLP (Mildenhall et al.): positional encoding, a skip, colours by view direction."""

    def __init__(self, D=8, W=256, skips=(4,), L=10, L_dir=4):
        super().__init__()
        self.freqs, ch, ch_dir = (L, L_dir), 3 + 6 * L, 3 + 6 * L_dir
        self.pts_linears = nn.ModuleList([nn.Linear(ch, W)] + [
            nn.Linear(W + ch if i in skips else W, W) for i in range(D - 1)])
        self.skips, self.alpha_linear = skips, nn.Linear(W, 1)
        self.feature_linear, self.rgb_linear = nn.Linear(W, W), nn.Linear(W // 2, 3)
        self.views_linear = nn.Linear(W + ch_dir, W // 2)

    def embed(self, x, L):
        return torch.cat([x] + [fn(x * 2.0 ** i) for i in range(L)
                                for fn in (torch.sin, torch.cos)], -1)

    def forward(self, pts, viewdirs):
        input_pts = self.embed(pts, self.freqs[0])
        h = input_pts
        for i, l in enumerate(self.pts_linears):
            h = F.relu(l(h))
            if i in self.skips:
                h = torch.cat([input_pts, h], -1)
        alpha = self.alpha_linear(h)
        dirs = self.embed(viewdirs, self.freqs[1])[:, None].expand(-1, pts.shape[1], -1)
        h = torch.cat([self.feature_linear(h), dirs], -1)
        rgb = torch.sigmoid(self.rgb_linear(F.relu(self.views_linear(h))))
        weights = 1.0 - torch.exp(-F.relu(alpha) / pts.shape[1])
        transmittance = torch.cumprod(1.0 - weights + 1e-10, dim=1)
        return torch.sum(weights * transmittance * rgb, dim=1)


class SineLayer(nn.Module):
    def __init__(self, in_features, out_features, is_first=False, omega_0=30):
        super().__init__()
        self.omega_0, self.linear = omega_0, nn.Linear(in_features, out_features)
        bound = 1 / in_features if is_first else math.sqrt(6 / in_features) / omega_0
        with torch.no_grad():
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, input):
        return torch.sin(self.omega_0 * self.linear(input))


def siren(hidden=256, layers=3):
    """SIREN (Sitzmann et al.): an image as a function of its coordinates."""
    net = [SineLayer(2, hidden, is_first=True)]
    net += [SineLayer(hidden, hidden) for _ in range(layers)]
    return nn.Sequential(*net, nn.Linear(hidden, 3))


class RealNVP(nn.Module):
    """RealNVP (Dinh et al.): affine couplings with alternating masks, returns z and log-det."""

    def __init__(self, dim=64, hidden=256, couplings=6):
        super().__init__()
        mask = torch.stack([(torch.arange(dim) + i) % 2 for i in range(couplings)]).float()
        self.register_buffer("mask", mask)
        self.s, self.t = (nn.ModuleList([nn.Sequential(
            nn.Linear(dim, hidden), nn.LeakyReLU(), nn.Linear(hidden, hidden), nn.LeakyReLU(),
            nn.Linear(hidden, dim), last()) for _ in range(couplings)])
            for last in (nn.Tanh, nn.Identity))

    def forward(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J


class DuelingDQN(nn.Module):
    """Dueling DQN (Wang et al.) for stacks of four Atari frames."""

    def __init__(self, num_actions=6):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(4, 32, kernel_size=8, stride=4), nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1), nn.ReLU())
        self.advantage = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, num_actions))
        self.value = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x):
        x = self.features(x / 255.0)
        x = x.view(x.size(0), -1)
        advantage, value = self.advantage(x), self.value(x)
        return value + advantage - advantage.mean(1, keepdim=True)


class MoCo(nn.Module):
    """MoCo v2-like (He et al.): projector and queue, the momentum copy left out."""

    def __init__(self, dim=128, K=1024, T=0.2):
        super().__init__()
        layers = []
        for i, o in ((3, 32), (32, 64), (64, 128), (128, 256)):
            layers += [nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]
        self.encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, dim))
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.T = T

    def forward(self, im_q, im_k):
        q = F.normalize(self.projector(self.encoder(im_q)), dim=1)
        with torch.no_grad():
            k = F.normalize(self.projector(self.encoder(im_k)), dim=1)
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([l_pos, l_neg], dim=1)
        logits /= self.T
        return logits


class TCNBlock(nn.Module):
    def __init__(self, B, H, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(B, H, 1), nn.PReLU(), nn.GroupNorm(1, H, eps=1e-8),
            nn.Conv1d(H, H, 3, padding=dilation, dilation=dilation, groups=H), nn.PReLU(),
            nn.GroupNorm(1, H, eps=1e-8))
        self.res_out, self.skip_out = nn.Conv1d(H, B, 1), nn.Conv1d(H, B, 1)

    def forward(self, x):
        y = self.net(x)
        return self.res_out(y), self.skip_out(y)


class ConvTasNet(nn.Module):
    """Conv-TasNet (Luo & Mesgarani): a learnt basis, masks by dilated convolutions, overlap-add."""

    def __init__(self, N=128, L=16, B=64, H=128, X=6, R=2, C=2):
        super().__init__()
        self.C, self.N = C, N
        self.encoder = weight_norm(nn.Conv1d(1, N, L, stride=L // 2, bias=False))
        self.bottleneck = nn.Sequential(nn.GroupNorm(1, N), nn.Conv1d(N, B, 1))
        self.tcn = nn.ModuleList([TCNBlock(B, H, 2 ** x) for _ in range(R) for x in range(X)])
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(B, C * N, 1))
        self.decoder = nn.ConvTranspose1d(N, 1, L, stride=L // 2, bias=False)

    def forward(self, mixture):
        mixture_w = F.relu(self.encoder(mixture.unsqueeze(1)))
        out, skip_sum = self.bottleneck(mixture_w), 0.
        for block in self.tcn:
            residual, skip = block(out)
            out = out + residual
            skip_sum = skip_sum + skip
        est_mask = torch.sigmoid(self.mask(skip_sum)).view(mixture.size(0), self.C, self.N, -1)
        source_w = mixture_w.unsqueeze(1) * est_mask
        est = self.decoder(source_w.flatten(0, 1))
        return est.view(mixture.size(0), self.C, -1)


class QuartzNet(nn.Module):
    """QuartzNet-like (Kriman et al.): separable 1-D convolutions with a residual per block."""

    def __init__(self, mels=64, plan=((128, 11), (128, 13), (192, 17)), repeat=3, chars=29):
        super().__init__()
        self.first = nn.Sequential(*self.sep(mels, plan[0][0], 33, 2), nn.ReLU())
        self.blocks, self.res, i = nn.ModuleList(), nn.ModuleList(), plan[0][0]
        for o, k in plan:
            layers = []
            for r in range(repeat):
                layers += self.sep(o if r else i, o, k)
                layers += [nn.ReLU(), nn.Dropout(0.1)] if r < repeat - 1 else []
            self.blocks.append(nn.Sequential(*layers))
            self.res.append(nn.Sequential(nn.Conv1d(i, o, 1, bias=False), nn.BatchNorm1d(o)))
            i = o
        self.decoder = nn.Conv1d(i, chars, 1)

    def sep(self, i, o, k, s=1):
        return [nn.Conv1d(i, i, k, s, k // 2, groups=i, bias=False),
                nn.Conv1d(i, o, 1, bias=False), nn.BatchNorm1d(o, eps=1e-3)]

    def forward(self, audio):
        x = self.first(audio)
        for block, res in zip(self.blocks, self.res):
            x = F.dropout(F.relu(block(x) + res(x)), 0.1, self.training)
        return F.log_softmax(self.decoder(x).transpose(1, 2), dim=-1).contiguous()


class GLU(nn.Module):
    def __init__(self, i, o, fc=None):
        super().__init__()
        self.fc, self.bn, self.o = fc or nn.Linear(i, 2 * o, bias=False), nn.BatchNorm1d(2 * o), o

    def forward(self, x):
        x = self.bn(self.fc(x))
        return torch.mul(x[:, : self.o], torch.sigmoid(x[:, self.o:]))


class TabNet(nn.Module):
    """TabNet-like (Arik & Pfister): GLU blocks partly shared, softmax masks for sparsemax."""

    def __init__(self, features=54, n_d=64, n_a=64, steps=4, gamma=1.3, classes=7):
        super().__init__()
        n, self.n_d, self.gamma = n_d + n_a, n_d, gamma
        self.initial_bn = nn.BatchNorm1d(features, momentum=0.01)
        shared = nn.Linear(features, 2 * n, bias=False), nn.Linear(n, 2 * n, bias=False)
        self.splitters = nn.ModuleList([nn.ModuleList([
            GLU(features, n, shared[0]), GLU(n, n, shared[1]), GLU(n, n), GLU(n, n)])
            for _ in range(steps + 1)])
        self.att = nn.ModuleList([nn.Sequential(nn.Linear(n_a, features, bias=False),
                                                nn.BatchNorm1d(features)) for _ in range(steps)])
        self.final_mapping = nn.Linear(n_d, classes, bias=False)

    def feat_transform(self, glus, x):
        x = glus[0](x)
        for glu in glus[1:]:
            x = torch.add(x, glu(x)) * math.sqrt(0.5)
        return x

    def forward(self, x):
        x = self.initial_bn(x)
        prior, res = torch.ones_like(x), 0
        att = self.feat_transform(self.splitters[0], x)[:, self.n_d:]
        for transformer, splitter in zip(self.att, self.splitters[1:]):
            M = F.softmax(torch.mul(transformer(att), prior), dim=-1)
            prior = torch.mul(self.gamma - M, prior)
            out = self.feat_transform(splitter, torch.mul(M, x))
            res = torch.add(res, F.relu(out[:, : self.n_d]))
            att = out[:, self.n_d:]
        return self.final_mapping(res)


def families():
    found = {
        "annotated_transformer": (AnnotatedTransformer, several(src=(48,), tgt=(40,)), "ce"),
        "alibi_gpt": (AlibiGPT, tokens(128), "ce"),
        "linear_attention": (LinearAttention, tokens(256), "ce"),
        "selective_scan": (SelectiveScan, tokens(16), "ce"),
        "text_cnn": (TextCNN, tokens(64), "ce"),
        "captioner": (Captioner, several({"image": (3, 64, 64)}, captions=(10,)), "ce"),
        "deepfm": (DeepFM, several(x=(26,)), "mse"),
        "din": (DIN, several(history=(50,), candidate=()), "ce"),
        "two_tower": (TwoTower, several(user=(), item=(), genres=(6,)), "ce"),
        "graph_sage": (GraphSAGE, several({"x": (100, 64), "adj": (100, 100)}), "ce"),
        "nerf": (NeRF, several({"pts": (64, 3), "viewdirs": (3,)}), "mse"),
        "siren": (siren, floats("input", 1024, 2), "mse"),
        "realnvp": (lambda: First(RealNVP()), floats("x", 64), "mse"),
        "dueling_dqn": (DuelingDQN, images(84, 4), "mse"),
        "moco": (MoCo, several({"im_q": (3, 64, 64), "im_k": (3, 64, 64)}), "ce"),
        "conv_tasnet": (ConvTasNet, floats("mixture", 8000), "mse"),
        "quartznet": (QuartzNet, floats("audio", 64, 200), "ce"),
        "tabnet": (TabNet, floats("x", 54), "ce"),
    }
    return tutorials(found)
