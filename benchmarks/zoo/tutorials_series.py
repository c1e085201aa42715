"""Networks for series, tables, graphs, games and sound, as people write them for their own work.

No network shares code with another, so that one can be held out without the others.
"""

import math
from collections import OrderedDict

import torch
from torch import nn
import torch.nn.functional as F
from torch.nn import Linear

from family import floats, several, tutorials


# --- forecasts ---

class DataEmbedding(nn.Module):
    def __init__(self, c_in, d_model, d_time=4, dropout=0.1):
        super().__init__()
        self.value = nn.Conv1d(c_in, d_model, 3, padding=1, padding_mode="circular", bias=False)
        self.temporal = nn.Linear(d_time, d_model, bias=False)
        pe = torch.zeros(500, d_model)
        position = torch.arange(0, 500).float().unsqueeze(1)
        div_term = (torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model)).exp()
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x, x_mark):
        x = self.value(x.permute(0, 2, 1)).transpose(1, 2) + self.pe[:, :x.size(1)] \
            + self.temporal(x_mark)
        return self.dropout(x)


class ProbAttention(nn.Module):
    """Only the queries that stand out attend; the others take the values' mean."""

    def __init__(self, d_model, heads, factor=5):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.heads, self.factor = heads, factor

    def _prob_QK(self, Q, K, sample_k, n_top):
        B, H, L_K, E = K.shape
        L_Q = Q.shape[2]
        K_expand = K.unsqueeze(-3).expand(B, H, L_Q, L_K, E)
        index_sample = torch.randint(L_K, (L_Q, sample_k), device=Q.device)
        rows = torch.arange(L_Q, device=Q.device).unsqueeze(1)
        K_sample = K_expand[:, :, rows, index_sample, :]
        Q_K_sample = torch.matmul(Q.unsqueeze(-2), K_sample.transpose(-2, -1)).squeeze(-2)
        M = Q_K_sample.max(-1)[0] - torch.div(Q_K_sample.sum(-1), L_K)
        M_top = M.topk(n_top, sorted=False)[1]
        pick = M_top.unsqueeze(-1).expand(-1, -1, -1, E)
        return torch.matmul(torch.gather(Q, 2, pick), K.transpose(-2, -1)), pick

    def forward(self, queries, keys, values):
        B, L_Q, D = queries.shape
        L_K = keys.shape[1]
        queries = self.q(queries).view(B, L_Q, self.heads, -1).transpose(2, 1)
        keys = self.k(keys).view(B, L_K, self.heads, -1).transpose(2, 1)
        values = self.v(values).view(B, L_K, self.heads, -1).transpose(2, 1)
        U_part = self.factor * math.ceil(math.log(L_K))
        scores_top, pick = self._prob_QK(queries, keys, U_part, U_part)
        attn = torch.softmax(scores_top * (1.0 / math.sqrt(D // self.heads)), dim=-1)
        context = values.mean(dim=-2, keepdim=True).expand(-1, -1, L_Q, -1).clone()
        context = context.scatter(2, pick, torch.matmul(attn, values).type_as(context))
        return self.o(context.transpose(2, 1).contiguous().view(B, L_Q, -1))


class Informer(nn.Module):
    """Transformers' temperatures a day ahead; each layer of the encoder halves the series."""

    def __init__(self, c_in=7, c_out=7, d_model=128, heads=4, d_ff=512, out_len=24, label_len=48):
        super().__init__()
        self.pred_len, self.label_len = out_len, label_len
        self.enc_embedding = DataEmbedding(c_in, d_model)
        self.dec_embedding = DataEmbedding(c_in, d_model)
        self.attns = nn.ModuleList([ProbAttention(d_model, heads) for _ in range(3)])
        self.convs = nn.ModuleList([nn.Conv1d(d_model, d_model, 3, padding=1,
                                              padding_mode="circular") for _ in range(1)])
        self.bns = nn.ModuleList([nn.BatchNorm1d(d_model) for _ in range(1)])
        self.cross = nn.MultiheadAttention(d_model, heads, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(8)])
        self.ff1 = nn.ModuleList([nn.Conv1d(d_model, d_ff, kernel_size=1) for _ in range(3)])
        self.ff2 = nn.ModuleList([nn.Conv1d(d_ff, d_model, kernel_size=1) for _ in range(3)])
        self.dropout, self.projection = nn.Dropout(0.1), nn.Linear(d_model, c_out)

    def feed(self, i, x):
        y = self.dropout(F.gelu(self.ff1[i](x.transpose(-1, 1))))
        y = self.dropout(self.ff2[i](y).transpose(-1, 1))
        return x + y

    def forward(self, x_enc, x_mark_enc, x_mark_dec):
        enc = self.enc_embedding(x_enc, x_mark_enc)
        for i in range(2):
            enc = self.norms[2 * i](enc + self.dropout(self.attns[i](enc, enc, enc)))
            enc = self.norms[2 * i + 1](self.feed(i, enc))
            if i < len(self.convs):
                enc = F.elu(self.bns[i](self.convs[i](enc.permute(0, 2, 1))))
                enc = F.max_pool1d(enc, kernel_size=3, stride=2, padding=1).transpose(1, 2)
        enc = self.norms[4](enc)
        zeros = torch.zeros_like(x_enc[:, -self.pred_len:, :])
        dec = torch.cat([x_enc[:, -self.label_len:, :], zeros], dim=1)
        dec = self.dec_embedding(dec, x_mark_dec)
        x = self.norms[5](dec + self.dropout(self.attns[2](dec, dec, dec)))
        x = self.norms[6](x + self.dropout(self.cross(x, enc, enc)[0]))
        x = self.norms[7](self.feed(2, x))
        return self.projection(x)[:, -self.pred_len:, :]


class DLinear(nn.Module):
    """A moving average and what is left of it, a linear layer over time for each channel."""

    def __init__(self, seq_len=336, pred_len=96, channels=21, kernel=25):
        super().__init__()
        self.pad, self.avg = (kernel - 1) // 2, nn.AvgPool1d(kernel_size=kernel, stride=1)
        self.channels, self.pred_len = channels, pred_len
        self.Linear_Seasonal, self.Linear_Trend = nn.ModuleList(), nn.ModuleList()
        for _ in range(channels):
            self.Linear_Seasonal.append(nn.Linear(seq_len, pred_len))
            self.Linear_Trend.append(nn.Linear(seq_len, pred_len))

    def decompose(self, x):
        front = x[:, 0:1, :].repeat(1, self.pad, 1)
        end = x[:, -1:, :].repeat(1, self.pad, 1)
        padded = torch.cat([front, x, end], dim=1)
        trend = self.avg(padded.permute(0, 2, 1)).permute(0, 2, 1)
        return x - trend, trend

    def forward(self, x):
        last = x[:, -1:, :].detach()
        seasonal_init, trend_init = self.decompose(x - last)
        seasonal_init, trend_init = seasonal_init.permute(0, 2, 1), trend_init.permute(0, 2, 1)
        size = [seasonal_init.size(0), seasonal_init.size(1), self.pred_len]
        seasonal = torch.zeros(size, dtype=seasonal_init.dtype, device=seasonal_init.device)
        trend = torch.zeros(size, dtype=trend_init.dtype, device=trend_init.device)
        for i in range(self.channels):
            seasonal[:, i, :] = self.Linear_Seasonal[i](seasonal_init[:, i, :])
            trend[:, i, :] = self.Linear_Trend[i](trend_init[:, i, :])
        return (seasonal + trend).permute(0, 2, 1) + last


class TSMixer(nn.Module):
    """Shops' sales: mix the days, then the series, with reversible normalisation around it."""

    def __init__(self, length=96, horizon=28, series=40, hidden=128, blocks=4, dropout=0.1):
        super().__init__()
        self.affine_w, self.affine_b = (nn.Parameter(torch.full((series,), v)) for v in (1.0, 0.0))
        self.blocks = nn.ModuleList([nn.ModuleDict({
            "norm_t": nn.BatchNorm1d(length), "time": nn.Linear(length, length),
            "norm_f": nn.BatchNorm1d(length), "fc1": nn.Linear(series, hidden),
            "fc2": nn.Linear(hidden, series)}) for _ in range(blocks)])
        self.drop, self.out = nn.Dropout(dropout), nn.Linear(length, horizon)

    def forward(self, sales):
        mu = sales.mean(1, keepdim=True).detach()
        sd = torch.sqrt(sales.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = (sales - mu) / sd * self.affine_w + self.affine_b
        for blk in self.blocks:
            res = blk["norm_t"](x).transpose(1, 2)
            x = x + self.drop(F.relu(blk["time"](res))).transpose(1, 2)
            res = self.drop(F.relu(blk["fc1"](blk["norm_f"](x))))
            x = x + self.drop(blk["fc2"](res))
        y = self.out(x.transpose(1, 2)).transpose(1, 2)
        return (y - self.affine_b) / (self.affine_w + 1e-10) * sd + mu


# --- tables ---

class TabTransformer(nn.Module):
    """Loans: contextual embeddings of categories beside numbers, torch's own encoder."""

    def __init__(self, cardinalities=(9, 16, 7, 15, 6, 5, 2, 42), n_cont=10, dim=32, depth=4):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c + 1, dim) for c in cardinalities])
        layer = nn.TransformerEncoderLayer(dim, nhead=8, dim_feedforward=4 * dim, dropout=0.1,
                                           activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=depth)
        self.norm = nn.LayerNorm(n_cont)
        width = dim * len(cardinalities) + n_cont
        self.mlp = nn.Sequential(OrderedDict([
            ("fc1", nn.Linear(width, 4 * width)), ("act1", nn.SELU()),
            ("fc2", nn.Linear(4 * width, 2 * width)), ("act2", nn.SELU()),
            ("out", nn.Linear(2 * width, 2))]))

    def forward(self, x_cont, x_categ):
        tokens = torch.stack([emb(x_categ[:, i]) for i, emb in enumerate(self.embeds)], dim=1)
        tokens = self.encoder(tokens)
        flat = tokens.flatten(1)
        return self.mlp(torch.cat((flat, self.norm(x_cont)), dim=-1))


class ObliviousTrees(nn.Module):
    def __init__(self, in_features, num_trees, depth, tree_dim):
        super().__init__()
        self.depth = depth
        self.selectors = nn.Parameter(torch.rand(in_features, num_trees, depth))
        self.thresholds = nn.Parameter(torch.randn(num_trees, depth))
        self.log_temperatures = nn.Parameter(torch.zeros(num_trees, depth))
        self.response = nn.Parameter(torch.randn(num_trees, tree_dim, 2 ** depth))
        offsets = 2 ** torch.arange(depth)
        codes = torch.arange(2 ** depth).view(1, -1) // offsets.view(-1, 1) % 2
        self.register_buffer("bin_codes", torch.stack([codes, 1 - codes], dim=-1).float())

    def forward(self, x):
        selected = torch.einsum("bi,ind->bnd", x, F.softmax(self.selectors, dim=0))
        t = (selected - self.thresholds) * torch.exp(-self.log_temperatures)
        bins = torch.clamp(0.5 * torch.stack([-t, t], dim=-1) + 0.5, 0, 1)
        bin_matches = torch.einsum("btds,dcs->btdc", bins, self.bin_codes)
        response_weights = torch.prod(bin_matches, dim=-2)
        return torch.einsum("bnd,ncd->bnc", response_weights, self.response)


class NodeTrees(nn.Module):
    """Layers of soft oblivious trees, densely connected, whose answers are averaged."""

    def __init__(self, features=54, layers=3, trees=64, depth=5, classes=7):
        super().__init__()
        self.bn = nn.BatchNorm1d(features)
        self.layers, self.classes = nn.ModuleList(), classes
        for _ in range(layers):
            self.layers.append(ObliviousTrees(features, trees, depth, classes + 1))
            features += trees * (classes + 1)

    def forward(self, x):
        x = self.bn(x)
        answers = []
        for layer in self.layers:
            h = layer(x)
            answers.append(h)
            x = torch.cat([x, h.flatten(1)], dim=-1)
        return torch.cat(answers, dim=1)[..., :self.classes].mean(dim=1)


class DLRM(nn.Module):
    """Clicks: a bag of ids for each field, all pairs' products beside the dense part."""

    def __init__(self, m_spa=32, ln_emb=(1000, 2000, 500, 300, 5000, 800), n_dense=13):
        super().__init__()
        self.emb_l = nn.ModuleList([nn.EmbeddingBag(n, m_spa, mode="sum") for n in ln_emb])
        ni = len(ln_emb) + 1
        self.bot_l = self.create_mlp([n_dense, 256, 64, m_spa], sigmoid_layer=-1)
        self.top_l = self.create_mlp([m_spa + ni * (ni - 1) // 2, 256, 128, 1], sigmoid_layer=2)
        self.li = [i for i in range(ni) for j in range(i)]
        self.lj = [j for i in range(ni) for j in range(i)]

    @staticmethod
    def create_mlp(ln, sigmoid_layer):
        layers = nn.ModuleList()
        for i in range(len(ln) - 1):
            layers.append(nn.Linear(ln[i], ln[i + 1], bias=True))
            layers.append(nn.Sigmoid() if i == sigmoid_layer else nn.ReLU())
        return nn.Sequential(*layers)

    def apply_emb(self, indices):
        ly = []
        for k, E in enumerate(self.emb_l):
            V = E(indices[:, k])
            ly.append(V)
        return ly

    def interact_features(self, x, ly):
        (batch_size, d) = x.shape
        T = torch.cat([x] + ly, dim=1).view((batch_size, -1, d))
        Z = torch.bmm(T, torch.transpose(T, 1, 2))
        Zflat = Z[:, self.li, self.lj]
        return torch.cat([x] + [Zflat], dim=1)

    def forward(self, dense_x, lS_i):
        x = self.bot_l(dense_x)
        ly = self.apply_emb(lS_i)
        z = self.interact_features(x, ly)
        p = self.top_l(z)
        return torch.clamp(p, min=1e-6, max=1 - 1e-6)


# --- graphs ---

class MoleculeGCN(nn.Module):
    """Solubility of molecules of up to 40 atoms: normalised adjacency, masked mean of atoms."""

    def __init__(self, n_feat=36, hidden=128, n_layers=4):
        super().__init__()
        self.embed = Linear(n_feat, hidden)
        self.ws = nn.ParameterList([nn.Parameter(nn.init.xavier_uniform_(
            torch.empty(hidden, hidden))) for _ in range(n_layers)])
        self.lns = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(n_layers)])
        self.readout = nn.Sequential(Linear(2 * hidden, hidden), nn.ReLU(), Linear(hidden, 1))

    @staticmethod
    def normalize(adj):
        a = adj + torch.eye(adj.size(-1), device=adj.device, dtype=adj.dtype)
        d = a.sum(-1).clamp(min=1).rsqrt()
        return d.unsqueeze(-1) * a * d.unsqueeze(-2)

    def forward(self, atoms, adj):
        mask = (atoms.abs().sum(-1, keepdim=True) > 0).to(atoms.dtype)
        a_hat, h = self.normalize(adj), self.embed(atoms)
        for w, ln in zip(self.ws, self.lns):
            m = torch.bmm(a_hat, h @ w)
            h = h + F.relu(ln(m))
            h = h * mask
        mean = h.sum(1) / mask.sum(1).clamp(min=1.0)
        return self.readout(torch.cat([mean, h.max(dim=1).values], -1))


class GATHead(nn.Module):
    def __init__(self, in_features, out_features, alpha=0.2, concat=True):
        super().__init__()
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.out_features, self.concat, self.leakyrelu = out_features, concat, nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = torch.matmul(h, self.W)
        Wh1 = torch.matmul(Wh, self.a[:self.out_features, :])
        Wh2 = torch.matmul(Wh, self.a[self.out_features:, :])
        e = self.leakyrelu(Wh1 + Wh2.transpose(1, 2))
        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj > 0, e, zero_vec)
        attention = F.softmax(attention, dim=2)
        attention = F.dropout(attention, 0.6, training=self.training)
        h_prime = torch.matmul(attention, Wh)
        if self.concat:
            return F.elu(h_prime)
        return h_prime


class GAT(nn.Module):
    """Attention among neighbours, one module a head, on batches of dense graphs."""

    def __init__(self, nfeat=128, nhid=16, nclass=9, nheads=8):
        super(GAT, self).__init__()
        self.attentions = [GATHead(nfeat, nhid) for _ in range(nheads)]
        for i, attention in enumerate(self.attentions):
            self.add_module("attention_{}".format(i), attention)
        self.out_att = GATHead(nhid * nheads, nclass, concat=False)

    def forward(self, x, adj):
        x = F.dropout(x, 0.6, training=self.training)
        x = torch.cat([att(x, adj) for att in self.attentions], dim=2)
        x = F.dropout(x, 0.6, training=self.training)
        x = F.elu(self.out_att(x, adj))
        return F.log_softmax(x, dim=2)


def families():
    marks = {"x_mark_enc": (96, 4), "x_mark_dec": (72, 4)}
    found = {
        "informer": (Informer, several({"x_enc": (96, 7), **marks}), "mse"),
        "dlinear": (DLinear, floats("x", 336, 21), "mse"),
        "tsmixer": (TSMixer, floats("sales", 96, 40), "mse"),
        "tab_transformer": (TabTransformer, several({"x_cont": (10,)}, x_categ=(8,)), "ce"),
        "node_trees": (NodeTrees, floats("x", 54), "ce"),
        "dlrm": (DLRM, several({"dense_x": (13,)}, lS_i=(6, 10)), "mse"),
        "molecule_gcn": (MoleculeGCN, several({"atoms": (40, 36), "adj": (40, 40)}), "mse"),
        "gat": (GAT, several({"x": (200, 128), "adj": (200, 200)}), "ce"),
    }
    return tutorials(found)
