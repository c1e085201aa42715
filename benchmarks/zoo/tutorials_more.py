"""More networks written anew as tutorials and papers' repositories write them.

No network shares code with another, so that one can be held out without the others.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from family import First, floats, images, several, tokens, tutorials


class PreActBlock(nn.Module):
    def __init__(self, in_planes, planes, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_planes)
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=1, padding=1, bias=False)
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(in_planes, planes, 1, stride, bias=False))

    def forward(self, x):
        out = F.relu(self.bn1(x))
        shortcut = self.shortcut(out) if hasattr(self, "shortcut") else x
        out = self.conv1(out)
        out = self.conv2(F.relu(self.bn2(out)))
        out += shortcut
        return out


class PreActResNet18(nn.Module):
    """Pre-activation ResNet-18 for CIFAR-10, in the manner of kuangliu's pytorch-cifar."""

    def __init__(self):
        super().__init__()
        self.in_planes = 64
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.layer1 = self._make_layer(64, 2, 1)
        self.layer2 = self._make_layer(128, 2, 2)
        self.layer3 = self._make_layer(256, 2, 2)
        self.layer4 = self._make_layer(512, 2, 2)
        self.linear = nn.Linear(512, 10)

    def _make_layer(self, planes, num_blocks, stride):
        layers = []
        for s in [stride] + [1] * (num_blocks - 1):
            layers.append(PreActBlock(self.in_planes, planes, s))
            self.in_planes = planes
        return nn.Sequential(*layers)

    def forward(self, x):
        out = self.conv1(x)
        out = self.layer1(out)
        out = self.layer2(out)
        out = self.layer3(out)
        out = self.layer4(out)
        out = F.avg_pool2d(out, 4)
        out = out.view(out.size(0), -1)
        return self.linear(out)


class AttentionGate(nn.Module):
    def __init__(self, F_g, F_l, F_int):
        super().__init__()
        self.W_g = nn.Sequential(nn.Conv2d(F_g, F_int, 1, bias=True), nn.BatchNorm2d(F_int))
        self.W_x = nn.Sequential(nn.Conv2d(F_l, F_int, 1, bias=True), nn.BatchNorm2d(F_int))
        self.psi = nn.Sequential(nn.Conv2d(F_int, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())
        self.relu = nn.ReLU(inplace=True)

    def forward(self, g, x):
        g1 = self.W_g(g)
        x1 = self.W_x(x)
        psi = self.relu(g1 + x1)
        psi = self.psi(psi)
        return x * psi


class AttentionUNet(nn.Module):
    """Attention U-Net (Oktay et al.) in the manner of LeeJunHyun's Image_Segmentation."""

    def __init__(self, img_ch=3, output_ch=1, w=(24, 48, 96, 192)):
        super().__init__()
        self.Maxpool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.Conv1, self.Conv2 = self.conv(img_ch, w[0]), self.conv(w[0], w[1])
        self.Conv3, self.Conv4 = self.conv(w[1], w[2]), self.conv(w[2], w[3])
        for i in (4, 3, 2):
            ch, half = w[i - 1], w[i - 2]
            up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(ch, half, 3, padding=1),
                               nn.BatchNorm2d(half), nn.ReLU(inplace=True))
            setattr(self, f"Up{i}", up)
            setattr(self, f"Att{i}", AttentionGate(F_g=half, F_l=half, F_int=half // 2))
            setattr(self, f"Up_conv{i}", self.conv(ch, half))
        self.Conv_1x1 = nn.Conv2d(w[0], output_ch, kernel_size=1)

    def conv(self, i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                             nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

    def forward(self, x):
        x1 = self.Conv1(x)
        x2 = self.Conv2(self.Maxpool(x1))
        x3 = self.Conv3(self.Maxpool(x2))
        d = self.Conv4(self.Maxpool(x3))
        for i, skip in ((4, x3), (3, x2), (2, x1)):
            d = getattr(self, f"Up{i}")(d)
            skip = getattr(self, f"Att{i}")(g=d, x=skip)
            d = torch.cat((skip, d), dim=1)
            d = getattr(self, f"Up_conv{i}")(d)
        return torch.sigmoid(self.Conv_1x1(d))


class NestedUNet(nn.Module):
    """UNet++ with nested skips (Zhou et al.), its nodes in a ModuleDict by row and column."""

    def __init__(self, num_classes=4, nb=(16, 32, 64, 128)):
        super().__init__()
        self.pool, self.L = nn.MaxPool2d(2, 2), len(nb)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.nodes = nn.ModuleDict()
        for i in range(self.L):
            self.nodes[f"{i}_0"] = self.vgg(nb[i - 1] if i else 3, nb[i])
            for j in range(1, self.L - i):
                self.nodes[f"{i}_{j}"] = self.vgg(nb[i] * j + nb[i + 1], nb[i])
        self.final = nn.Conv2d(nb[0], num_classes, kernel_size=1)

    def vgg(self, i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True),
                             nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True))

    def forward(self, x):
        rows = []
        for i in range(self.L):
            rows.append([self.nodes[f"{i}_0"](self.pool(rows[-1][0]) if i else x)])
            for j in range(1, i + 1):
                row = rows[i - j]
                row.append(self.nodes[f"{i - j}_{j}"](
                    torch.cat(row + [self.up(rows[i - j + 1][j - 1])], 1)))
        return self.final(rows[0][-1])


class ResnetBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv_block = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, 3), nn.InstanceNorm2d(dim), nn.ReLU(True),
            nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, 3), nn.InstanceNorm2d(dim))

    def forward(self, x):
        return x + self.conv_block(x)


class CycleGANGenerator(nn.Module):
    """CycleGAN's ResNet generator with reflection padding and instance normalisation."""

    def __init__(self, ngf=32, n_blocks=6):
        super().__init__()
        model = [nn.ReflectionPad2d(3), nn.Conv2d(3, ngf, 7), nn.InstanceNorm2d(ngf),
                 nn.ReLU(True)]
        for mult in (1, 2):
            c = ngf * mult
            model += [nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.InstanceNorm2d(2 * c),
                      nn.ReLU(True)]
        model += [ResnetBlock(ngf * 4) for _ in range(n_blocks)]
        for mult in (4, 2):
            c = ngf * mult
            model += [nn.ConvTranspose2d(c, c // 2, 3, stride=2, padding=1, output_padding=1),
                      nn.InstanceNorm2d(c // 2), nn.ReLU(True)]
        model += [nn.ReflectionPad2d(3), nn.Conv2d(ngf, 3, kernel_size=7), nn.Tanh()]
        self.model = nn.Sequential(*model)

    def forward(self, input):
        return self.model(input)


class SRCNN(nn.Module):
    """SRCNN (Dong et al.): three convolutions on an image that is already upscaled."""

    def __init__(self):
        super(SRCNN, self).__init__()
        self.conv1 = nn.Conv2d(1, 64, kernel_size=9, padding=9 // 2)
        self.conv2 = nn.Conv2d(64, 32, kernel_size=5, padding=5 // 2)
        self.conv3 = nn.Conv2d(32, 1, kernel_size=5, padding=5 // 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        return self.conv3(x)


class DnCNN(nn.Module):
    """DnCNN (Zhang et al.): what the layers predict is the noise."""

    def __init__(self, channels=1, num_of_layers=12, features=64):
        super().__init__()
        layers = [nn.Conv2d(channels, features, 3, padding=1, bias=False), nn.ReLU(inplace=True)]
        for _ in range(num_of_layers - 2):
            layers.append(nn.Conv2d(features, features, 3, padding=1, bias=False))
            layers.append(nn.BatchNorm2d(features))
            layers.append(nn.ReLU(inplace=True))
        layers.append(nn.Conv2d(features, channels, 3, padding=1, bias=False))
        self.dncnn = nn.Sequential(*layers)

    def forward(self, x):
        return x - self.dncnn(x)


class ViTBlock(nn.Module):
    def __init__(self, dim, heads, mlp_dim, dropout=0.1):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))
        self.net = nn.Sequential(nn.Linear(dim, mlp_dim), nn.GELU(), nn.Dropout(dropout),
                                 nn.Linear(mlp_dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.to_qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).permute(0, 2, 1, 3) for t in qkv)
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        out = torch.matmul(dots.softmax(dim=-1), v)
        x = self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, d)) + x
        return self.net(self.norm2(x)) + x


class ViT(nn.Module):
    """ViT from scratch as in lucidrains' vit-pytorch, einops written out as view and permute."""

    def __init__(self, p=8, size=64, dim=192, depth=6, heads=6, num_classes=100):
        super().__init__()
        self.p = p
        self.patch = nn.Sequential(nn.LayerNorm(3 * p * p), nn.Linear(3 * p * p, dim),
                                   nn.LayerNorm(dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, (size // p) ** 2 + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.blocks = nn.ModuleList([ViTBlock(dim, heads, dim * 4) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_classes))

    def forward(self, img):
        b, c, h, w = img.shape
        x = img.view(b, c, h // self.p, self.p, w // self.p, self.p)
        x = x.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, self.p * self.p * c)
        x = self.patch(x)
        x = torch.cat((self.cls_token.expand(b, -1, -1), x), dim=1)
        x += self.pos_embedding
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


class T5LikeEncoder(nn.Module):
    """T5's encoder: bucketed relative bias shared by the layers, RMS norm, gated GELU."""

    def __init__(self, vocab=8000, d=256, heads=8, d_ff=512, layers=4, buckets=32):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.shared = nn.Embedding(vocab, d)
        self.relative_attention_bias = nn.Embedding(buckets, heads)
        self.norms = nn.ParameterList([torch.ones(d) for _ in range(2 * layers + 1)])
        names = {"q": (d, d), "k": (d, d), "v": (d, d), "o": (d, d), "wi_0": (d, d_ff),
                 "wi_1": (d, d_ff), "wo": (d_ff, d)}
        self.blocks = nn.ModuleList(nn.ModuleDict(
            {n: nn.Linear(*io, bias=False) for n, io in names.items()}) for _ in range(layers))
        self.classifier = nn.Linear(d, 9)

    def rms(self, x, weight):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return weight * (x * torch.rsqrt(variance + 1e-6)).to(weight.dtype)

    def compute_bias(self, length, device):
        position = torch.arange(length, device=device)
        relative = position[None, :] - position[:, None]
        half, exact = self.buckets // 2, self.buckets // 4
        bucket = (relative > 0).to(torch.long) * half
        relative = relative.abs()
        large = exact + (torch.log(relative.float().clamp(min=1) / exact)
                         / math.log(128 / exact) * (half - exact)).to(torch.long)
        large = torch.min(large, torch.full_like(large, half - 1))
        bucket = bucket + torch.where(relative < exact, relative, large)
        return self.relative_attention_bias(bucket).permute(2, 0, 1).unsqueeze(0)

    def forward(self, input_ids):
        x = F.dropout(self.shared(input_ids), 0.1, self.training)
        bias = self.compute_bias(x.shape[1], x.device)
        for i, block in enumerate(self.blocks):
            h = self.rms(x, self.norms[2 * i])
            q, k, v = (block[n](h).unflatten(-1, (self.heads, -1)) for n in "qkv")
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
            scores += bias
            weights = F.softmax(scores.float(), dim=-1).type_as(scores)
            context = torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)
            x = x + F.dropout(block["o"](context), 0.1, self.training)
            h = self.rms(x, self.norms[2 * i + 1])
            h = F.gelu(block["wi_0"](h), approximate="tanh") * block["wi_1"](h)
            x = x + block["wo"](h)
        return self.classifier(self.rms(x, self.norms[-1]))


class DPCNN(nn.Module):
    """Deep pyramid CNN (Johnson & Zhang): one pair of convolutions shared by all its levels."""

    def __init__(self, n_vocab=8000, embed=300, num_filters=250, num_classes=10):
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, embed)
        self.conv_region = nn.Conv2d(1, num_filters, (3, embed), stride=1)
        self.conv = nn.Conv2d(num_filters, num_filters, (3, 1), stride=1)
        self.max_pool = nn.MaxPool2d(kernel_size=(3, 1), stride=2)
        self.padding1, self.padding2 = nn.ZeroPad2d((0, 0, 1, 1)), nn.ZeroPad2d((0, 0, 0, 1))
        self.relu = nn.ReLU()
        self.fc = nn.Linear(num_filters, num_classes)

    def forward(self, input_ids):
        x = self.conv_region(self.embedding(input_ids).unsqueeze(1))
        for _ in range(2):
            x = self.conv(self.relu(self.padding1(x)))
        while x.size()[2] > 2:
            px = self.max_pool(self.padding2(x))
            x = self.conv(F.relu(self.padding1(px)))
            x = self.conv(F.relu(self.padding1(x)))
            x = x + px
        return self.fc(x.amax(dim=2).squeeze(-1))


class WideDeep(nn.Module):
    """Wide & Deep (Cheng et al.): a linear model of the ids beside an MLP of embeddings."""

    def __init__(self, fields=26, vocab=1000, dense=13, dim=16):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(vocab, dim) for _ in range(fields)])
        self.wides = nn.ModuleList([nn.Embedding(vocab, 1) for _ in range(fields)])
        self.linear = nn.Linear(dense, 1)
        dims = [fields * dim + dense, 256, 128, 64]
        self.dnn = nn.ModuleList([nn.Linear(i, o) for i, o in zip(dims[:-1], dims[1:])])
        self.final = nn.Linear(64, 1)

    def forward(self, dense, sparse):
        wide = self.linear(dense) + sum(e(sparse[:, i]) for i, e in enumerate(self.wides))
        deep = torch.cat([e(sparse[:, i]) for i, e in enumerate(self.embeds)] + [dense], axis=-1)
        for layer in self.dnn:
            deep = F.relu(layer(deep))
        return torch.sigmoid(0.5 * wide + 0.5 * self.final(deep)).squeeze(1)


class DCNv2(nn.Module):
    """DCN-v2 (Wang et al.): cross layers of low rank in parallel to an MLP."""

    def __init__(self, in_features=416, rank=64, layers=3):
        super().__init__()
        self.emb = nn.Embedding(20000, 16)
        self.U = nn.ParameterList([torch.randn(in_features, rank) * 0.05 for _ in range(layers)])
        self.V = nn.ParameterList([torch.randn(in_features, rank) * 0.05 for _ in range(layers)])
        self.b = nn.ParameterList([torch.zeros(in_features) for _ in range(layers)])
        self.deep = nn.Sequential(nn.Linear(in_features, 512), nn.ReLU(), nn.Linear(512, 256),
                                  nn.ReLU())
        self.out = nn.Linear(in_features + 256, 2)

    def forward(self, ids):
        x_0 = self.emb(ids).flatten(start_dim=1)
        x_l = x_0
        for U, V, b in zip(self.U, self.V, self.b):
            x_l = x_0 * ((x_l @ V) @ U.t() + b) + x_l
        return self.out(torch.cat([x_l, self.deep(x_0)], dim=-1))


class ActorCritic(nn.Module):
    """Actor and critic on one body, in the manner of pytorch/examples and of A2C repositories."""

    def __init__(self, obs=128, actions=18, hidden=256):
        super().__init__()
        self.affine1, self.affine2 = nn.Linear(obs, hidden), nn.Linear(hidden, hidden)
        self.action_head, self.value_head = nn.Linear(hidden, actions), nn.Linear(hidden, 1)
        for layer in (self.affine1, self.affine2):
            nn.init.orthogonal_(layer.weight, math.sqrt(2))

    def forward(self, x):
        x = torch.tanh(self.affine1(x))
        x = torch.tanh(self.affine2(x))
        action_prob = F.softmax(self.action_head(x), dim=-1)
        return action_prob, self.value_head(x)


class NBeats(nn.Module):
    """N-BEATS (Oreshkin et al.): generic blocks, backcast subtracted and forecast added."""

    def __init__(self, backcast=120, forecast=24, units=256, theta=32, blocks=6):
        super().__init__()
        self.fcs = nn.ModuleList([nn.Sequential(
            nn.Linear(backcast, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(),
            nn.Linear(units, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(),
            nn.Linear(units, 2 * theta)) for _ in range(blocks)])
        self.backs = nn.ModuleList([nn.Linear(theta, backcast) for _ in range(blocks)])
        self.fores = nn.ModuleList([nn.Linear(theta, forecast) for _ in range(blocks)])

    def forward(self, x):
        forecast = 0
        for fc, back, fore in zip(self.fcs, self.backs, self.fores):
            theta_b, theta_f = fc(x).chunk(2, dim=1)
            x = x - back(theta_b)
            forecast = forecast + fore(theta_f)
        return forecast


class FTTransformer(nn.Module):
    """FT-Transformer (Gorishniy et al.): a token for each feature, a CLS token, pre-norm, ReGLU."""

    def __init__(self, n_num=20, cats=8, vocab=100, d=96, heads=8, layers=3, classes=2):
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.randn(n_num + 1, d) * d ** -0.5)
        self.bias = nn.Parameter(torch.zeros(n_num + cats, d))
        self.register_buffer("category_offsets", torch.arange(cats) * vocab)
        self.category_embeddings = nn.Embedding(cats * vocab, d)
        self.layers = nn.ModuleList([nn.ModuleDict({
            "W_q": nn.Linear(d, d), "W_k": nn.Linear(d, d), "W_v": nn.Linear(d, d),
            "W_out": nn.Linear(d, d), "linear0": nn.Linear(d, 4 * d),
            "linear1": nn.Linear(2 * d, d), "norm0": nn.LayerNorm(d), "norm1": nn.LayerNorm(d),
        }) for _ in range(layers)])
        self.last_normalization, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def tokenize(self, x_num, x_cat):
        x_some = torch.cat([torch.ones(x_num.size(0), 1, device=x_num.device, dtype=x_num.dtype),
                            x_num], dim=1)
        x = self.weight[None] * x_some[:, :, None]
        x = torch.cat([x, self.category_embeddings(x_cat + self.category_offsets[None])], dim=1)
        zero = torch.zeros(1, self.bias.shape[1], device=x.device, dtype=x.dtype)
        return x + torch.cat([zero, self.bias])[None]

    def reshape(self, x):
        batch, tokens, d = x.shape
        x = x.reshape(batch, tokens, self.heads, d // self.heads).transpose(1, 2)
        return x.reshape(batch * self.heads, tokens, d // self.heads)

    def attention(self, layer, x):
        q, k, v = (self.reshape(layer[name](x)) for name in ("W_q", "W_k", "W_v"))
        weights = F.softmax(q @ k.transpose(1, 2) / math.sqrt(k.shape[-1]), dim=-1)
        x_ = F.dropout(weights, 0.2, self.training) @ v
        x_ = x_.reshape(x.shape[0], self.heads, x.shape[1], -1).transpose(1, 2)
        return layer["W_out"](x_.reshape(x.shape))

    def forward(self, x_num, x_cat):
        x = self.tokenize(x_num, x_cat)
        for layer in self.layers:
            x = x + self.attention(layer, layer["norm0"](x))
            a, b = layer["linear0"](layer["norm1"](x)).chunk(2, dim=-1)
            x = x + layer["linear1"](F.dropout(a * F.relu(b), 0.1, self.training))
        return self.head(F.relu(self.last_normalization(x[:, 0])))


def families():
    small = images(32)
    found = {
        "preact_resnet18": (PreActResNet18, small, "ce"),
        "attention_unet": (AttentionUNet, images(128), "mse"),
        "nested_unet": (NestedUNet, images(96), "ce"),
        "cyclegan": (CycleGANGenerator, images(128, name="input"), "mse"),
        "srcnn": (SRCNN, images(128, 1), "mse"), "dncnn": (DnCNN, images(64, 1), "mse"),
        "vit": (ViT, images(64, name="img"), "ce"),
        "t5_like_encoder": (T5LikeEncoder, tokens(96), "ce"), "dpcnn": (DPCNN, tokens(64), "ce"),
        "wide_deep": (WideDeep, several({"dense": (13,)}, sparse=(26,)), "mse"),
        "dcn_v2": (DCNv2, several(ids=(26,)), "ce"),
        "actor_critic": (lambda: First(ActorCritic()), floats("x", 128), "ce"),
        "nbeats": (NBeats, floats("x", 120), "mse"),
        "ft_transformer": (FTTransformer, several({"x_num": (20,)}, x_cat=(8,)), "ce"),
    }
    return tutorials(found)
