"""Networks for words and latents, as people write them for work of their own.

No network shares code with another, so that one can be held out without the others.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from family import images, several, tutorials


# --- pictures and words ---

class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class CaptionBlock(nn.Module):
    def __init__(self, width, heads, mask):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), QuickGELU(),
                                 nn.Linear(4 * width, width))
        self.register_buffer("mask", mask)

    def attention(self, x):
        return self.attn(x, x, x, need_weights=False, attn_mask=self.mask.to(dtype=x.dtype))[0]

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class MiniCLIP(nn.Module):
    """Products' pictures and titles: two encoders, a projection of each, a temperature."""

    def __init__(self, vocab=8000, context=32, width=192, layers=3, embed_dim=128):
        super().__init__()
        visual = []
        for i, o in ((3, 32), (32, 64), (64, 128), (128, 256)):
            visual += [nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(o),
                       nn.SiLU(), nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o),
                       nn.SiLU()]
        self.visual = nn.Sequential(*visual, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        mask = torch.full((context, context), float("-inf")).triu_(1)
        self.token_embedding = nn.Embedding(vocab, width)
        self.positional_embedding = nn.Parameter(torch.empty(context, width).normal_(std=0.01))
        self.transformer = nn.Sequential(*[CaptionBlock(width, 4, mask) for _ in range(layers)])
        self.ln_final = nn.LayerNorm(width)
        self.image_projection = nn.Sequential(nn.Linear(256, 256), nn.ReLU(),
                                              nn.Linear(256, embed_dim))
        self.text_projection = nn.Parameter(torch.randn(width, embed_dim) * width ** -0.5)
        self.logit_scale = nn.Parameter(torch.ones([]) * 2.6593)

    @property
    def dtype(self):
        return self.visual[0].weight.dtype

    def encode_image(self, image):
        return self.image_projection(self.visual(image.type(self.dtype)))

    def encode_text(self, text):
        x = self.token_embedding(text).type(self.dtype)
        x = x + self.positional_embedding.type(self.dtype)
        x = self.transformer(x)
        x = self.ln_final(x).type(self.dtype)
        x = x[torch.arange(x.shape[0], device=x.device), text.argmax(dim=-1)]
        return x @ self.text_projection

    def forward(self, image, text):
        image_features = self.encode_image(image)
        text_features = self.encode_text(text)
        image_features = image_features / image_features.norm(dim=1, keepdim=True)
        text_features = text_features / text_features.norm(dim=1, keepdim=True)
        logit_scale = self.logit_scale.exp()
        logits_per_image = logit_scale * image_features @ text_features.t()
        return logits_per_image


# --- language models ---

class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


def rotate(x, cos, sin):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).flatten(-2)


def repeat_kv(x, n_rep):
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return (x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim)
            .reshape(bs, slen, n_kv_heads * n_rep, head_dim))


class LlamaAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.head_dim, self.n_rep = dim // n_heads, n_heads // n_kv_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x, cos, sin):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(bsz, seqlen, -1, self.head_dim)
        xk = xk.view(bsz, seqlen, -1, self.head_dim)
        xv = xv.view(bsz, seqlen, -1, self.head_dim)
        xq, xk = rotate(xq, cos, sin), rotate(xk, cos, sin)
        xk, xv = repeat_kv(xk, self.n_rep), repeat_kv(xv, self.n_rep)
        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        output = F.scaled_dot_product_attention(xq, xk, xv, is_causal=True)
        output = output.transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class LlamaBlock(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, hidden):
        super().__init__()
        self.attention = LlamaAttention(dim, n_heads, n_kv_heads)
        self.w1, self.w3 = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.attention_norm, self.ffn_norm = RMSNorm(dim), RMSNorm(dim)

    def feed_forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))

    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return h + self.feed_forward(self.ffn_norm(h))


class TinyLlama(nn.Module):
    """Stories: rotary positions, grouped queries, SwiGLU, tied embeddings."""

    def __init__(self, vocab=4096, dim=288, n_layers=4, n_heads=6, n_kv_heads=2, max_len=256):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList()
        for _ in range(n_layers):
            self.layers.append(LlamaBlock(dim, n_heads, n_kv_heads, 768))
        self.norm, self.output = RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        self.tok_embeddings.weight = self.output.weight
        half = dim // n_heads // 2
        angles = torch.outer(torch.arange(max_len).float(),
                             1.0 / 10000 ** (torch.arange(half).float() / half))
        self.register_buffer("freqs_cos", angles.cos(), persistent=False)
        self.register_buffer("freqs_sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        seqlen = tokens.shape[1]
        h = self.tok_embeddings(tokens)
        cos, sin = self.freqs_cos[:seqlen, None, :], self.freqs_sin[:seqlen, None, :]
        for layer in self.layers:
            h = layer(h, cos, sin)
        h = self.norm(h)
        return self.output(h)


class Expert(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(),
                                 nn.Linear(4 * n_embd, n_embd), nn.Dropout(0.1))

    def forward(self, x):
        return self.net(x)


class MoEGPT(nn.Module):
    """A GPT of characters: every expert runs, and the two best have a weight."""

    def __init__(self, vocab=96, n_embd=192, n_head=6, n_layer=3, experts=6, block=128):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, n_embd), nn.Embedding(block, n_embd)
        self.attns = nn.ModuleList(nn.Linear(n_embd, 3 * n_embd) for _ in range(n_layer))
        self.projs = nn.ModuleList(nn.Linear(n_embd, n_embd) for _ in range(n_layer))
        self.routers = nn.ModuleList(nn.Linear(n_embd, experts) for _ in range(n_layer))
        self.noises = nn.ModuleList(nn.Linear(n_embd, experts) for _ in range(n_layer))
        self.experts = nn.ModuleList(
            nn.ModuleList(Expert(n_embd) for _ in range(experts)) for _ in range(n_layer))
        self.ln1 = nn.ModuleList(nn.LayerNorm(n_embd) for _ in range(n_layer))
        self.ln2 = nn.ModuleList(nn.LayerNorm(n_embd) for _ in range(n_layer))
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab)
        self.register_buffer("tril", torch.tril(torch.ones(block, block)))
        self.n_head = n_head

    def attend(self, i, x):
        B, T, C = x.shape
        q, k, v = [t.view(B, T, self.n_head, -1).transpose(1, 2)
                   for t in self.attns[i](x).chunk(3, dim=-1)]
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return self.projs[i]((wei @ v).transpose(1, 2).reshape(B, T, C))

    def route(self, i, x):
        logits = self.routers[i](x)
        if self.training:
            logits = logits + torch.randn_like(logits) * F.softplus(self.noises[i](x))
        top, indices = logits.topk(2, dim=-1)
        sparse = torch.full_like(logits, float("-inf")).scatter(-1, indices, top)
        return F.softmax(sparse, dim=-1)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        for i, experts in enumerate(self.experts):
            x = x + self.attend(i, self.ln1[i](x))
            y = self.ln2[i](x)
            gates = self.route(i, y)
            mixed = torch.zeros_like(y)
            for e, expert in enumerate(experts):
                mixed = mixed + gates[..., e].unsqueeze(-1) * expert(y)
            x = x + mixed
        return self.lm_head(self.ln_f(x))


class SpatialGatingUnit(nn.Module):
    def __init__(self, d_ffn, seq_len):
        super().__init__()
        self.norm, self.spatial_proj = nn.LayerNorm(d_ffn), nn.Conv1d(seq_len, seq_len, 1)
        nn.init.constant_(self.spatial_proj.bias, 1.0)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        v = self.norm(v)
        v = self.spatial_proj(v)
        out = u * v
        return out


class GMLP(nn.Module):
    """Reviews by gates over the words instead of attention."""

    def __init__(self, vocab=6000, d_model=160, d_ffn=640, seq_len=96, depth=4, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.blocks = nn.ModuleList([nn.ModuleList([
            nn.LayerNorm(d_model), nn.Linear(d_model, 2 * d_ffn), SpatialGatingUnit(d_ffn, seq_len),
            nn.Linear(d_ffn, d_model)]) for _ in range(depth)])
        self.head = nn.Linear(d_model, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for norm, up, sgu, down in self.blocks:
            residual = x
            x = norm(x)
            x = F.gelu(up(x))
            x = sgu(x)
            x = down(x)
            x = x + residual
        return self.head(x.mean(dim=1))


class RelationAwareAttention(nn.Module):
    """Shaw et al.: what is added to keys and values depends on how far away they are."""

    def __init__(self, d_model, n_heads, max_relative=16):
        super().__init__()
        self.h, self.d, self.max_relative = n_heads, d_model // n_heads, max_relative
        self.fc_q, self.fc_k, self.fc_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.fc_o, self.dropout = nn.Linear(d_model, d_model), nn.Dropout(0.1)
        self.rel_k, self.rel_v = (nn.Parameter(nn.init.xavier_uniform_(
            torch.empty(2 * max_relative + 1, self.d))) for _ in range(2))

    def distances(self, n, device):
        r = torch.arange(n, device=device)
        return torch.clamp(r[None, :] - r[:, None], -self.max_relative, self.max_relative) \
            + self.max_relative

    def forward(self, x, mask):
        b, n, _ = x.shape
        q = self.fc_q(x).view(b, n, self.h, self.d).permute(0, 2, 1, 3)
        k = self.fc_k(x).view(b, n, self.h, self.d).permute(0, 2, 1, 3)
        v = self.fc_v(x).view(b, n, self.h, self.d).permute(0, 2, 1, 3)
        dist = self.distances(n, x.device)
        attn1 = torch.matmul(q, k.permute(0, 1, 3, 2))
        r_q2 = q.permute(2, 0, 1, 3).contiguous().view(n, b * self.h, self.d)
        attn2 = torch.matmul(r_q2, self.rel_k[dist].transpose(1, 2)).transpose(0, 1)
        attn2 = attn2.contiguous().view(b, self.h, n, n)
        attn = (attn1 + attn2) / math.sqrt(self.d)
        attn = attn.masked_fill(mask == 0, -1e4)
        attn = self.dropout(torch.softmax(attn, dim=-1))
        weight1 = torch.matmul(attn, v)
        weight2 = attn.permute(2, 0, 1, 3).contiguous().view(n, b * self.h, n)
        weight2 = torch.matmul(weight2, self.rel_v[dist]).transpose(0, 1).contiguous()
        x = weight1 + weight2.view(b, self.h, n, self.d)
        x = x.permute(0, 2, 1, 3).contiguous().view(b, n, -1)
        return self.fc_o(x)


class ShawEncoder(nn.Module):
    """Names in sentences: a class for each word, padding masked by its id."""

    def __init__(self, vocab=9000, d=192, heads=6, layers=3, tags=17):
        super().__init__()
        self.emb, self.scale = nn.Embedding(vocab, d, padding_idx=0), d ** 0.5
        self.attn = nn.ModuleList([RelationAwareAttention(d, heads) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(2 * layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Dropout(0.1),
                                               nn.Linear(4 * d, d)) for _ in range(layers)])
        self.drop, self.tag = nn.Dropout(0.1), nn.Linear(d, tags)

    def forward(self, src):
        src_mask = (src != 0).unsqueeze(1).unsqueeze(2)
        src = self.drop(self.emb(src) * self.scale)
        for i, attn in enumerate(self.attn):
            _src = attn(src, src_mask)
            src = self.ln[2 * i](src + self.drop(_src))
            _src = self.ff[i](src)
            src = self.ln[2 * i + 1](src + self.drop(_src))
        return self.tag(src)


class Latents(nn.Module):
    def __init__(self, dim, ctx_dim, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.norm, self.norm_ctx = nn.LayerNorm(dim), nn.LayerNorm(ctx_dim)
        self.to_q, self.to_out = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim)
        self.to_kv = nn.Linear(ctx_dim, dim * 2, bias=False)
        self.norm_ff = nn.LayerNorm(dim)
        self.ff1, self.ff2 = nn.Linear(dim, dim * 8), nn.Linear(dim * 4, dim)

    def split(self, t):
        b, n, d = t.shape
        return t.reshape(b, n, self.heads, d // self.heads).permute(0, 2, 1, 3).flatten(0, 1)

    def forward(self, x, context=None):
        y = self.norm(x)
        q, (k, v) = self.to_q(y), self.to_kv(
            y if context is None else self.norm_ctx(context)).chunk(2, dim=-1)
        q, k, v = map(self.split, (q, k, v))
        sim = torch.einsum("b i d, b j d -> b i j", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        out = torch.einsum("b i j, b j d -> b i d", attn, v)
        out = out.unflatten(0, (-1, self.heads)).permute(0, 2, 1, 3).flatten(2)
        x = self.to_out(out) + x
        a, gates = self.ff1(self.norm_ff(x)).chunk(2, dim=-1)
        return self.ff2(a * F.gelu(gates)) + x


class Perceiver(nn.Module):
    """Pixels with Fourier positions, read twice into latents by the same weights."""

    def __init__(self, size=48, bands=6, n_latents=64, dim=192, classes=100):
        super().__init__()
        ctx = 3 + 2 * (2 * bands + 1)
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.02)
        self.cross, self.depth = Latents(dim, ctx), 2
        self.selfs = nn.ModuleList([Latents(dim, dim) for _ in range(3)])
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))
        axis = torch.linspace(-1.0, 1.0, size)
        pos = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).unsqueeze(-1)
        scaled = pos * torch.linspace(1.0, size / 2, bands) * math.pi
        enc = torch.cat([scaled.sin(), scaled.cos(), pos], dim=-1).flatten(2).flatten(0, 1)
        self.register_buffer("enc_pos", enc)

    def forward(self, img):
        b = img.shape[0]
        data = img.permute(0, 2, 3, 1).reshape(b, -1, 3)
        data = torch.cat((data, self.enc_pos.to(data.dtype).expand(b, -1, -1)), dim=-1)
        x = self.latents.unsqueeze(0).repeat(b, 1, 1)
        for _ in range(self.depth):
            x = self.cross(x, context=data)
            for layer in self.selfs:
                x = layer(x)
        return self.to_logits(x.mean(dim=-2))


def families():
    found = {
        "clip_from_scratch": (MiniCLIP, several({"image": (3, 96, 96)}, text=(32,)), "ce"),
        "tiny_llama": (TinyLlama, several(tokens=(256,)), "ce"),
        "moe_gpt": (MoEGPT, several(idx=(128,)), "ce"), "gmlp": (GMLP, several(ids=(96,)), "ce"),
        "shaw_encoder": (ShawEncoder, several(src=(64,)), "ce"),
        "perceiver": (Perceiver, images(48, name="img"), "ce"),
    }
    return tutorials(found)
