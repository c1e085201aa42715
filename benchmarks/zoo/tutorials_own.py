"""Networks for pictures, volumes, videos and points, as people write them for work of their own.

No network shares code with another, so that one can be held out without the others.
"""

from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

from family import floats, images, several, tutorials


def conv_norm_act3d(cin, cout, p_drop=0.0):
    layers = []
    for i, o in ((cin, cout), (cout, cout)):
        layers.append(nn.Conv3d(i, o, kernel_size=3, padding=1, bias=False))
        layers.append(nn.InstanceNorm3d(o, affine=True))
        layers.append(nn.LeakyReLU(negative_slope=0.01, inplace=True))
    if p_drop > 0:
        layers.append(nn.Dropout3d(p_drop))
    return nn.Sequential(*layers)


class GridAttentionGate(nn.Module):
    def __init__(self, f_x, f_g):
        super().__init__()
        inter = f_x // 2
        self.theta = nn.Conv3d(f_x, inter, kernel_size=2, stride=2, bias=False)
        self.phi = nn.Conv3d(f_g, inter, kernel_size=1)
        self.psi = nn.Conv3d(inter, 1, kernel_size=1)
        self.W = nn.Sequential(nn.Conv3d(f_x, f_x, kernel_size=1), nn.BatchNorm3d(f_x))

    def forward(self, x, g):
        theta_x = self.theta(x)
        phi_g = F.interpolate(self.phi(g), size=theta_x.shape[2:], mode="trilinear",
                              align_corners=False)
        f = F.relu(theta_x + phi_g, inplace=True)
        att = torch.sigmoid(self.psi(f))
        att = F.interpolate(att, size=x.shape[2:], mode="trilinear", align_corners=False)
        return self.W(att.expand_as(x) * x), att


class AttentionGateUNet3d(nn.Module):
    """Tumours in four MR sequences: gated skips, and all levels' heads are averaged."""

    def __init__(self, in_channels=4, n_classes=4, filters=(16, 32, 64, 128)):
        super().__init__()
        self.down = nn.ModuleList()
        ch = in_channels
        for i, f in enumerate(filters):
            self.down.append(conv_norm_act3d(ch, f, p_drop=0.2 if i == len(filters) - 1 else 0.0))
            ch = f
        self.pool = nn.MaxPool3d(2)
        self.up, self.gates, self.fuse, self.heads = (nn.ModuleList() for _ in range(4))
        for f in reversed(filters[:-1]):
            self.gates.append(GridAttentionGate(f, ch))
            self.up.append(nn.ConvTranspose3d(ch, f, kernel_size=2, stride=2))
            self.fuse.append(conv_norm_act3d(2 * f, f))
            self.heads.append(nn.Conv3d(f, n_classes, kernel_size=1))
            ch = f

    def forward(self, x):
        size = x.shape[2:]
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            skips.append(x)
        x = skips.pop()
        outs = []
        for gate, up, fuse, head in zip(self.gates, self.up, self.fuse, self.heads):
            skip, _ = gate(skips.pop(), x)
            x = fuse(torch.cat([skip, up(x)], dim=1))
            outs.append(F.interpolate(head(x), size=size, mode="trilinear", align_corners=False))
        return torch.stack(outs, dim=0).mean(dim=0)


# --- points ---

def knn(x, k):
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x ** 2, dim=1, keepdim=True)
    pairwise_distance = -xx - inner - xx.transpose(2, 1)
    return pairwise_distance.topk(k=k, dim=-1)[1]


def get_graph_feature(x, k):
    batch_size, num_dims, num_points = x.size(0), x.size(1), x.size(2)
    idx = knn(x, k=k)
    idx_base = torch.arange(0, batch_size, device=x.device).view(-1, 1, 1) * num_points
    idx = (idx + idx_base).view(-1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(batch_size * num_points, -1)[idx, :]
    feature = feature.view(batch_size, num_points, k, num_dims)
    x = x.view(batch_size, num_points, 1, num_dims).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


class DGCNN(nn.Module):
    """Edge convolutions over the nearest neighbours, found anew in each layer's features."""

    def __init__(self, k=16, emb_dims=512, num_class=40):
        super().__init__()
        self.k = k

        def edge_conv(i, o):
            return nn.Sequential(nn.Conv2d(2 * i, o, kernel_size=1, bias=False), nn.BatchNorm2d(o),
                                 nn.LeakyReLU(negative_slope=0.2))
        self.conv1, self.conv2 = edge_conv(3, 64), edge_conv(64, 64)
        self.conv3, self.conv4 = edge_conv(64, 128), edge_conv(128, 256)
        self.conv5 = nn.Sequential(nn.Conv1d(512, emb_dims, 1, bias=False),
                                   nn.BatchNorm1d(emb_dims), nn.LeakyReLU(0.2))
        self.linear1 = nn.Linear(2 * emb_dims, 256, bias=False)
        self.bn6, self.dp1 = nn.BatchNorm1d(256), nn.Dropout(p=0.5)
        self.linear2 = nn.Linear(256, num_class)

    def forward(self, points):
        batch_size = points.size(0)
        x = points.transpose(1, 2)
        x1 = self.conv1(get_graph_feature(x, self.k)).max(dim=-1, keepdim=False)[0]
        x2 = self.conv2(get_graph_feature(x1, self.k)).max(dim=-1, keepdim=False)[0]
        x3 = self.conv3(get_graph_feature(x2, self.k)).max(dim=-1, keepdim=False)[0]
        x4 = self.conv4(get_graph_feature(x3, self.k)).max(dim=-1, keepdim=False)[0]
        x = self.conv5(torch.cat((x1, x2, x3, x4), dim=1))
        p1 = F.adaptive_max_pool1d(x, 1).view(batch_size, -1)
        p2 = F.adaptive_avg_pool1d(x, 1).view(batch_size, -1)
        x = F.leaky_relu(self.bn6(self.linear1(torch.cat((p1, p2), 1))), negative_slope=0.2)
        return self.linear2(self.dp1(x))


# --- counting ---

def make_layers(cfg, in_channels=3, batch_norm=False, dilation=False):
    d_rate = 2 if dilation else 1
    layers = []
    for v in cfg:
        if v == "M":
            layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
            continue
        conv2d = nn.Conv2d(in_channels, v, kernel_size=3, padding=d_rate, dilation=d_rate)
        if batch_norm:
            layers += [conv2d, nn.BatchNorm2d(v), nn.ReLU(inplace=True)]
        else:
            layers += [conv2d, nn.ReLU(inplace=True)]
        in_channels = v
    return nn.Sequential(*layers)


class CSRNet(nn.Module):
    """Crowds' density at an eighth of the size, behind dilated convolutions."""

    def __init__(self):
        super(CSRNet, self).__init__()
        self.frontend_feat = [32, 32, "M", 64, 64, "M", 128, 128, 128, "M", 256, 256, 256]
        self.backend_feat = [256, 256, 256, 128, 64, 32]
        self.frontend = make_layers(self.frontend_feat)
        self.backend = make_layers(self.backend_feat, in_channels=256, dilation=True)
        self.output_layer = nn.Conv2d(32, 1, kernel_size=1)
        self._initialize_weights()

    def forward(self, x):
        x = self.frontend(x)
        x = self.backend(x)
        x = self.output_layer(x)
        return x

    def _initialize_weights(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.normal_(m.weight, std=0.01)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0)


# --- super-resolution ---

class CALayer(nn.Module):
    def __init__(self, channel, reduction):
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.conv_du = nn.Sequential(
            nn.Conv2d(channel, channel // reduction, 1), nn.ReLU(inplace=True),
            nn.Conv2d(channel // reduction, channel, 1), nn.Sigmoid())

    def forward(self, x):
        y = self.avg_pool(x)
        y = self.conv_du(y)
        return x * y


class RCAB(nn.Module):
    def __init__(self, conv, n_feat, reduction, act, res_scale=1):
        super().__init__()
        self.body = nn.Sequential(conv(n_feat, n_feat), act, conv(n_feat, n_feat),
                                  CALayer(n_feat, reduction))
        self.res_scale = res_scale

    def forward(self, x):
        res = self.body(x)
        res += x
        return res


class ResidualGroup(nn.Module):
    def __init__(self, conv, n_feat, reduction, act, n_resblocks):
        super().__init__()
        self.body = nn.Sequential(*[RCAB(conv, n_feat, reduction, act) for _ in range(n_resblocks)],
                                  conv(n_feat, n_feat))

    def forward(self, x):
        res = self.body(x)
        res += x
        return res


class MeanShift(nn.Conv2d):
    def __init__(self, rgb_mean, sign=-1):
        super().__init__(3, 3, kernel_size=1)
        self.weight.data = torch.eye(3).view(3, 3, 1, 1)
        self.bias.data = sign * torch.tensor(rgb_mean)
        for p in self.parameters():
            p.requires_grad = False


class RCAN(nn.Module):
    """Twice the size: residuals within residuals, with a channel attention in each."""

    def __init__(self, n_resgroups=3, n_resblocks=4, n_feats=48, scale=2):
        super().__init__()
        conv = partial(nn.Conv2d, kernel_size=3, padding=1)
        act = nn.ReLU(True)
        rgb_mean = (0.4488, 0.4371, 0.4040)
        self.sub_mean, self.add_mean = MeanShift(rgb_mean), MeanShift(rgb_mean, 1)
        self.head = nn.Sequential(conv(3, n_feats))
        modules_body = [ResidualGroup(conv, n_feats, 16, act, n_resblocks)
                        for _ in range(n_resgroups)]
        modules_body.append(conv(n_feats, n_feats))
        self.body = nn.Sequential(*modules_body)
        self.tail = nn.Sequential(conv(n_feats, n_feats * scale * scale), nn.PixelShuffle(scale),
                                  conv(n_feats, 3))

    def forward(self, x):
        x = self.sub_mean(x)
        x = self.head(x)
        res = self.body(x)
        res += x
        x = self.tail(res)
        x = self.add_mean(x)
        return x


# --- optical flow ---

class PyramidFlow(nn.Module):
    """Coarse to fine: warp, correlate over a small window, add what is left of the flow."""

    def __init__(self, chans=(16, 32, 64, 96), md=3):
        super().__init__()
        self.md, self.levels = md, len(chans)
        enc, i = [], 3
        for o in chans:
            enc.append(nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.LeakyReLU(0.1),
                                     nn.Conv2d(o, o, 3, 1, 1), nn.LeakyReLU(0.1)))
            i = o
        self.enc = nn.ModuleList(enc)
        volume = (2 * md + 1) ** 2
        self.est = nn.ModuleDict()
        for level, c in enumerate(chans):
            last = level == len(chans) - 1
            width = volume if last else volume + c + 2
            self.est[f"l{level}"] = nn.ModuleList(
                [nn.Conv2d(width, 64, 3, 1, 1), nn.Conv2d(width + 64, 48, 3, 1, 1),
                 nn.Conv2d(width + 112, 32, 3, 1, 1), nn.Conv2d(width + 144, 2, 3, 1, 1)])

    def pyramid(self, im):
        feats = []
        for layer in self.enc:
            im = layer(im)
            feats.append(im)
        return feats

    @staticmethod
    def warp(x, flo):
        B, _, H, W = x.size()
        xx = torch.arange(0, W, device=x.device).view(1, -1).repeat(H, 1)
        yy = torch.arange(0, H, device=x.device).view(-1, 1).repeat(1, W)
        grid = torch.stack((xx, yy), 0).unsqueeze(0).expand(B, -1, -1, -1).type_as(flo)
        vgrid = grid + flo
        gx = 2.0 * vgrid[:, 0] / max(W - 1, 1) - 1.0
        gy = 2.0 * vgrid[:, 1] / max(H - 1, 1) - 1.0
        return F.grid_sample(x, torch.stack((gx, gy), dim=3).type_as(x), align_corners=True)

    def correlate(self, a, b):
        H, W = a.shape[-2:]
        b = F.pad(b, [self.md] * 4)
        cost = [torch.mean(a * b[:, :, dy:dy + H, dx:dx + W], 1, keepdim=True)
                for dy in range(2 * self.md + 1) for dx in range(2 * self.md + 1)]
        return F.leaky_relu(torch.cat(cost, 1), 0.1)

    def forward(self, im1, im2):
        c1, c2 = self.pyramid(im1), self.pyramid(im2)
        flow, flows = None, []
        for level in range(self.levels - 1, -1, -1):
            f1, f2 = c1[level], c2[level]
            if flow is None:
                x = self.correlate(f1, f2)
            else:
                flow = 2.0 * F.interpolate(flow, scale_factor=2, mode="bilinear",
                                           align_corners=False)
                x = torch.cat([self.correlate(f1, self.warp(f2, flow)), f1, flow], 1)
            *convs, predict = self.est[f"l{level}"]
            for conv in convs:
                x = torch.cat((F.leaky_relu(conv(x), 0.1), x), 1)
            delta = predict(x)
            flow = delta if flow is None else flow + delta
            flows.append(flow)
        return flows[-1]


# --- video ---

class Conv2Plus1D(nn.Sequential):
    def __init__(self, in_planes, out_planes, stride=1):
        mid = (in_planes * out_planes * 27) // (in_planes * 9 + 3 * out_planes)
        super().__init__(
            nn.Conv3d(in_planes, mid, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
            nn.BatchNorm3d(mid), nn.ReLU(inplace=True),
            nn.Conv3d(mid, out_planes, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False))


class VideoBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Sequential(Conv2Plus1D(inplanes, planes, stride), nn.BatchNorm3d(planes),
                                   nn.ReLU(inplace=True))
        self.conv2 = nn.Sequential(Conv2Plus1D(planes, planes), nn.BatchNorm3d(planes))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv3d(inplanes, planes, 1, stride, bias=False),
                                            nn.BatchNorm3d(planes))

    def forward(self, x):
        residual = x
        out = self.conv1(x)
        out = self.conv2(out)
        if self.downsample is not None:
            residual = self.downsample(x)
        out += residual
        out = self.relu(out)
        return out


class GestureNet(nn.Module):
    """Gestures in clips of eight frames; time is kept apart from space."""

    def __init__(self, num_classes=27):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv3d(3, 24, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False), nn.BatchNorm3d(24),
            nn.ReLU(inplace=True), nn.Conv3d(24, 32, (3, 1, 1), 1, (1, 0, 0), bias=False),
            nn.BatchNorm3d(32), nn.ReLU(inplace=True))
        self.stages = nn.Sequential(VideoBlock(32, 32), VideoBlock(32, 64, 2), VideoBlock(64, 64),
                                    VideoBlock(64, 128, 2), VideoBlock(128, 128))
        self.fc = nn.Linear(128, num_classes)

    def forward(self, clip):
        x = clip.transpose(1, 2)  # loaders have the frames first
        x = self.stages(self.stem(x))
        return self.fc(x.mean(dim=[2, 3, 4]))


def families():
    found = {
        "attention_gate_unet3d": (AttentionGateUNet3d, floats("x", 4, 32, 48, 48), "ce"),
        "dgcnn": (DGCNN, floats("points", 512, 3), "ce"),
        "csrnet": (CSRNet, images(128), "mse"), "rcan": (RCAN, images(48), "mse"),
        "pwc_flow": (PyramidFlow, several({"im1": (3, 64, 96), "im2": (3, 64, 96)}), "mse"),
        "r2plus1d": (GestureNet, floats("clip", 8, 3, 56, 56), "ce"),
    }
    return tutorials(found)
