"""Vision networks written anew as tutorials and papers' repositories write them, habits included.

No network shares code with another, so that one can be held out without the others.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

from family import First, floats, images, tutorials


class MnistNet(nn.Module):
    """The MNIST example of pytorch/examples."""

    def __init__(self):
        super(MnistNet, self).__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


class CifarAlexNet(nn.Module):
    """AlexNet shrunk to CIFAR's 32 pixels, as in bearpaw's pytorch-classification."""

    def __init__(self, num_classes=100):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=5), nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1), nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 2))
        self.classifier = nn.Linear(256, num_classes)

    def forward(self, x):
        x = self.features(x)
        x = x.view(x.size(0), -1)
        return self.classifier(x)


class Bottleneck(nn.Module):
    def __init__(self, nChannels, growthRate):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(nChannels)
        self.conv1 = nn.Conv2d(nChannels, 4 * growthRate, kernel_size=1, bias=False)
        self.bn2 = nn.BatchNorm2d(4 * growthRate)
        self.conv2 = nn.Conv2d(4 * growthRate, growthRate, kernel_size=3, padding=1, bias=False)

    def forward(self, x):
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        return torch.cat((x, out), 1)


class DenseNetBC(nn.Module):
    """DenseNet-BC with growth rate 12 for CIFAR, by hand, as in bamos' densenet.pytorch."""

    def __init__(self, growthRate=12, depth=52, reduction=0.5, nClasses=10):
        super().__init__()
        nDenseBlocks, nChannels = (depth - 4) // 6, 2 * growthRate
        self.conv1 = nn.Conv2d(3, nChannels, kernel_size=3, padding=1, bias=False)
        self.dense, self.norms, self.squeezes = (nn.ModuleList() for _ in range(3))
        for stage in range(3):
            layers = [Bottleneck(nChannels + i * growthRate, growthRate)
                      for i in range(nDenseBlocks)]
            self.dense.append(nn.Sequential(*layers))
            nChannels += nDenseBlocks * growthRate
            self.norms.append(nn.BatchNorm2d(nChannels))
            if stage < 2:
                nOut = int(math.floor(nChannels * reduction))
                self.squeezes.append(nn.Conv2d(nChannels, nOut, kernel_size=1, bias=False))
                nChannels = nOut
        self.fc = nn.Linear(nChannels, nClasses)

    def forward(self, x):
        out = self.conv1(x)
        for i, block in enumerate(self.dense):
            out = F.relu(self.norms[i](block(out)))
            if i < 2:
                out = F.avg_pool2d(self.squeezes[i](out), 2)
        out = torch.squeeze(F.adaptive_avg_pool2d(out, 1), dim=(2, 3))
        return F.log_softmax(self.fc(out), dim=1)


def double_conv(i, o, mid=None):
    return nn.Sequential(
        nn.Conv2d(i, mid or o, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(mid or o), nn.ReLU(inplace=True),
        nn.Conv2d(mid or o, o, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = double_conv(in_channels, out_channels, in_channels // 2)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        x = torch.cat([x2, x1], dim=1)
        return self.conv(x)


class UNet(nn.Module):
    """U-Net with bilinear upsampling and padding by difference, as milesial's Pytorch-UNet."""

    def __init__(self, n_channels=3, n_classes=2, c=32):
        super().__init__()
        self.inc = double_conv(n_channels, c)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), double_conv(c, 2 * c))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), double_conv(2 * c, 4 * c))
        self.down3 = nn.Sequential(nn.MaxPool2d(2), double_conv(4 * c, 8 * c))
        self.down4 = nn.Sequential(nn.MaxPool2d(2), double_conv(8 * c, 8 * c))
        self.up1, self.up2 = Up(16 * c, 4 * c), Up(8 * c, 2 * c)
        self.up3, self.up4 = Up(4 * c, c), Up(2 * c, c)
        self.outc = nn.Conv2d(c, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x4 = self.down3(x3)
        x5 = self.down4(x4)
        x = self.up1(x5, x4)
        x = self.up2(x, x3)
        x = self.up3(x, x2)
        x = self.up4(x, x1)
        return self.outc(x)


class VStage(nn.Module):
    def __init__(self, inChans, outChans, nConvs):
        super().__init__()
        self.ops = nn.Sequential(*[
            nn.Sequential(nn.Conv3d(inChans if i == 0 else outChans, outChans, 5, padding=2),
                          nn.BatchNorm3d(outChans), nn.PReLU(outChans)) for i in range(nConvs)])
        self.relu = nn.PReLU(outChans)

    def forward(self, x, residual):
        return self.relu(torch.add(self.ops(x), residual))


class VNet(nn.Module):
    """V-Net for volumes (Milletari et al.): strided convolutions, PReLU, residual stages."""

    def __init__(self, c=8):
        super().__init__()
        self.in_tr = VStage(1, c, 1)
        self.down = nn.ModuleList(nn.Conv3d(c << i, c << i + 1, 2, stride=2) for i in range(3))
        self.enc = nn.ModuleList(VStage(c << i, c << i, i) for i in range(1, 4))
        self.up = nn.ModuleList(nn.ConvTranspose3d(c << i, c << i - 1, 2, 2) for i in (3, 2, 1))
        self.dec = nn.ModuleList(VStage(c << i, c << i - 1, i) for i in (3, 2, 1))
        self.do, self.c = nn.Dropout3d(), c
        self.out = nn.Conv3d(c, 2, kernel_size=1)

    def forward(self, x):
        skips = [self.in_tr(x, x.repeat(1, self.c, 1, 1, 1))]
        for down, stage in zip(self.down, self.enc):
            below = F.elu(down(skips[-1]))
            skips.append(stage(below, below))
        out = skips.pop()
        for up, stage in zip(self.up, self.dec):
            out = F.elu(up(out), inplace=True)
            out = stage(torch.cat((out, self.do(skips.pop())), 1), out)
        return self.out(out)


class SegNet(nn.Module):
    """SegNet (Badrinarayanan et al.): unpools with the indices of the encoder's poolings."""

    def __init__(self, n_classes=12):
        super().__init__()
        plan = [(3, 32), (32, 64), (64, 128), (128, 128)]
        self.encoders = nn.ModuleList([self.stage(i, o, o) for i, o in plan])
        self.decoders = nn.ModuleList([self.stage(o, o, i) for i, o in plan[:0:-1]])
        self.classifier = nn.Conv2d(32, n_classes, 3, padding=1)

    def stage(self, i, mid, o):
        return nn.Sequential(nn.Conv2d(i, mid, 3, padding=1), nn.BatchNorm2d(mid), nn.ReLU(),
                             nn.Conv2d(mid, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        indices, sizes = [], []
        for encoder in self.encoders:
            x = encoder(x)
            sizes.append(x.size())
            x, ind = F.max_pool2d(x, kernel_size=2, stride=2, return_indices=True)
            indices.append(ind)
        for decoder in self.decoders:
            x = F.max_unpool2d(x, indices.pop(), 2, 2, output_size=sizes.pop()[2:])
            x = decoder(x)
        x = F.max_unpool2d(x, indices.pop(), kernel_size=2, stride=2)
        return self.classifier(x)


class UnetSkipBlock(nn.Module):
    def __init__(self, outer_nc, inner_nc, input_nc=None, submodule=None, outermost=False):
        super().__init__()
        self.outermost = outermost
        input_nc = outer_nc if input_nc is None else input_nc
        downconv = nn.Conv2d(input_nc, inner_nc, kernel_size=4, stride=2, padding=1, bias=False)
        downrelu, uprelu = nn.LeakyReLU(0.2, True), nn.ReLU(True)
        up_in = inner_nc * 2 if submodule is not None else inner_nc
        upconv = nn.ConvTranspose2d(up_in, outer_nc, 4, 2, 1, bias=outermost)
        if outermost:
            model = [downconv, submodule, uprelu, upconv, nn.Tanh()]
        elif submodule is None:
            model = [downrelu, downconv, uprelu, upconv, nn.BatchNorm2d(outer_nc)]
        else:
            model = [downrelu, downconv, nn.BatchNorm2d(inner_nc), submodule,
                     uprelu, upconv, nn.BatchNorm2d(outer_nc), nn.Dropout(0.5)]
        self.model = nn.Sequential(*model)

    def forward(self, x):
        if self.outermost:
            return self.model(x)
        return torch.cat([x, self.model(x)], 1)


def pix2pix(ngf=32):
    """The U-Net generator of pix2pix, built from the innermost block outwards."""
    block = UnetSkipBlock(ngf * 8, ngf * 8)
    for _ in range(2):
        block = UnetSkipBlock(ngf * 8, ngf * 8, submodule=block)
    block = UnetSkipBlock(ngf * 4, ngf * 8, submodule=block)
    block = UnetSkipBlock(ngf * 2, ngf * 4, submodule=block)
    block = UnetSkipBlock(ngf, ngf * 2, submodule=block)
    return UnetSkipBlock(3, ngf, input_nc=3, submodule=block, outermost=True)


class SelfAttn(nn.Module):
    def __init__(self, in_dim):
        super().__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // 8, kernel_size=1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // 8, kernel_size=1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        m_batchsize, C, width, height = x.size()
        proj_query = self.query_conv(x).view(m_batchsize, -1, width * height).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(m_batchsize, -1, width * height)
        energy = torch.bmm(proj_query, proj_key)
        attention = F.softmax(energy, dim=-1)
        proj_value = self.value_conv(x).view(m_batchsize, -1, width * height)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        out = out.view(m_batchsize, C, width, height)
        return self.gamma * out + x, attention


class SAGANGenerator(nn.Module):
    """SAGAN's generator (Zhang et al.): spectral norm, attention at 16 and 32 pixels."""

    def __init__(self, z_dim=128, conv_dim=48):
        super().__init__()
        self.l1 = self.layer(z_dim, conv_dim * 8, 4, 1, 0)
        self.l2 = self.layer(conv_dim * 8, conv_dim * 4, 4, 2, 1)
        self.l3 = self.layer(conv_dim * 4, conv_dim * 2, 4, 2, 1)
        self.l4 = self.layer(conv_dim * 2, conv_dim, 4, 2, 1)
        self.last = nn.Sequential(nn.ConvTranspose2d(conv_dim, 3, 4, 2, 1), nn.Tanh())
        self.attn1, self.attn2 = SelfAttn(conv_dim * 2), SelfAttn(conv_dim)

    def layer(self, i, o, kernel, stride, pad):
        return nn.Sequential(spectral_norm(nn.ConvTranspose2d(i, o, kernel, stride, pad)),
                             nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, z):
        z = z.view(z.size(0), z.size(1), 1, 1)
        out = self.l1(z)
        out = self.l3(self.l2(out))
        out, p1 = self.attn1(out)
        out = self.l4(out)
        out, p2 = self.attn2(out)
        return self.last(out), p1, p2


class ModulatedConv(nn.Module):
    def __init__(self, cin, cout, style_dim, up=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, cout, cin, 3, 3))
        self.scale = 1 / math.sqrt(cin * 9)
        self.modulation = nn.Linear(style_dim, cin)
        self.noise_weight = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1, cout, 1, 1))
        self.up = up

    def forward(self, input, style):
        batch, in_channel, _, _ = input.shape
        style = self.modulation(style).view(batch, 1, in_channel, 1, 1)
        weight = self.scale * self.weight * style
        demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)
        weight = weight * demod.view(batch, -1, 1, 1, 1)
        if self.up:
            input = F.interpolate(input, scale_factor=2, mode="bilinear", align_corners=False)
        flat = input.reshape(1, batch * in_channel, *input.shape[2:])
        out = F.conv2d(flat, weight.flatten(0, 1), padding=1, groups=batch)
        out = out.view(batch, -1, *input.shape[2:])
        out = out + self.noise_weight * torch.randn_like(out[:, :1])
        return F.leaky_relu(out + self.bias, 0.2) * 2 ** 0.5


class StyleGenerator(nn.Module):
    """StyleGAN2-like generator: modulated group convolutions, a sum of RGB outputs."""

    def __init__(self, style_dim=256, channels=(256, 256, 128, 64, 32)):
        super().__init__()
        self.mapping = nn.Sequential(*[m for _ in range(4) for m in (
            nn.Linear(style_dim, style_dim), nn.LeakyReLU(0.2))])
        self.const = nn.Parameter(torch.randn(1, channels[0], 4, 4))
        self.convs, self.to_rgbs = nn.ModuleList(), nn.ModuleList()
        for cin, cout in zip(channels, channels[1:]):
            self.convs.append(ModulatedConv(cin, cout, style_dim, up=True))
            self.convs.append(ModulatedConv(cout, cout, style_dim))
            self.to_rgbs.append(nn.Conv2d(cout, 3, 1))

    def forward(self, z):
        z = z * torch.rsqrt(torch.mean(z ** 2, dim=1, keepdim=True) + 1e-8)
        w = self.mapping(z)
        x, skip = self.const.repeat(z.shape[0], 1, 1, 1), None
        for conv1, conv2, to_rgb in zip(self.convs[::2], self.convs[1::2], self.to_rgbs):
            x = conv2(conv1(x, w), w)
            rgb = to_rgb(x)
            skip = rgb if skip is None else rgb + F.interpolate(skip, size=rgb.shape[2:])
        return skip


def srgan_discriminator(nf=32):
    """SRGAN's discriminator (Ledig et al.) as one nn.Sequential."""
    layers = [nn.Conv2d(3, nf, 3, padding=1), nn.LeakyReLU(0.2)]
    for i, o, s in ((1, 1, 2), (1, 2, 1), (2, 2, 2), (2, 4, 1), (4, 4, 2), (4, 8, 1), (8, 8, 2)):
        layers += [nn.Conv2d(nf * i, nf * o, 3, stride=s, padding=1), nn.BatchNorm2d(nf * o),
                   nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Conv2d(nf * 8, nf * 16, 1),
                         nn.LeakyReLU(0.2), nn.Conv2d(nf * 16, 1, 1), nn.Flatten(), nn.Sigmoid())


class EDSR(nn.Module):
    """EDSR (Lim et al.): no normalisation, scaled residuals, pixel shuffle."""

    def __init__(self, n_resblocks=8, n_feats=64, scale=2, res_scale=0.1):
        super().__init__()
        self.register_buffer("rgb_mean", torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1))
        self.head = nn.Conv2d(3, n_feats, 3, padding=1)
        self.body = nn.ModuleList([nn.Sequential(
            nn.Conv2d(n_feats, n_feats, 3, padding=1), nn.ReLU(True),
            nn.Conv2d(n_feats, n_feats, 3, padding=1)) for _ in range(n_resblocks)])
        self.body_tail = nn.Conv2d(n_feats, n_feats, 3, padding=1)
        self.tail = nn.Sequential(nn.Conv2d(n_feats, n_feats * scale ** 2, 3, padding=1),
                                  nn.PixelShuffle(scale), nn.Conv2d(n_feats, 3, 3, padding=1))
        self.res_scale = res_scale

    def forward(self, x):
        x = self.head(x - self.rgb_mean)
        res = x
        for block in self.body:
            res = block(res).mul(self.res_scale) + res
        res = self.body_tail(res)
        res += x
        return self.tail(res) + self.rgb_mean


class ESPCN(nn.Module):
    """The super_resolution example of pytorch/examples: sub-pixel convolution (Shi et al.)."""

    def __init__(self, upscale_factor=3):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(64, 64, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(64, upscale_factor ** 2, (3, 3), (1, 1), (1, 1))

    def forward(self, x):
        x = torch.tanh(self.conv1(x))
        x = torch.tanh(self.conv2(x))
        return torch.sigmoid(F.pixel_shuffle(self.conv3(x), 3))


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self._block = nn.Sequential(nn.ReLU(True), nn.Conv2d(dim, 32, 3, padding=1, bias=False),
                                    nn.ReLU(True), nn.Conv2d(32, dim, kernel_size=1, bias=False))

    def forward(self, x):
        return x + self._block(x)


class VQVAE(nn.Module):
    """VQ-VAE (van den Oord et al.) in the manner of zalandoresearch's notebook."""

    def __init__(self, h=128, K=512, D=64, commitment_cost=0.25):
        super().__init__()
        self._encoder = nn.Sequential(
            nn.Conv2d(3, h // 2, 4, 2, 1), nn.ReLU(), nn.Conv2d(h // 2, h, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(h, h, 3, 1, 1), Residual(h), Residual(h), nn.ReLU(), nn.Conv2d(h, D, 1))
        self._embedding, self._K, self._cost = nn.Embedding(K, D), K, commitment_cost
        self._decoder = nn.Sequential(
            nn.Conv2d(D, h, 3, 1, 1), Residual(h), Residual(h), nn.ReLU(),
            nn.ConvTranspose2d(h, h // 2, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(h // 2, 3, 4, 2, 1))

    def forward(self, x):
        inputs = self._encoder(x).permute(0, 2, 3, 1).contiguous()
        flat = inputs.view(-1, inputs.shape[-1])
        distances = (torch.sum(flat ** 2, dim=1, keepdim=True)
                     + torch.sum(self._embedding.weight ** 2, dim=1)
                     - 2 * torch.matmul(flat, self._embedding.weight.t()))
        encoding = F.one_hot(torch.argmin(distances, dim=1), self._K).to(flat.dtype)
        quantized = torch.matmul(encoding, self._embedding.weight).view(inputs.shape)
        loss = (F.mse_loss(quantized, inputs.detach())
                + self._cost * F.mse_loss(quantized.detach(), inputs))
        quantized = inputs + (quantized - inputs).detach()
        return self._decoder(quantized.permute(0, 3, 1, 2).contiguous()), loss


class CapsNet(nn.Module):
    """Capsules with three iterations of dynamic routing (Sabour et al.); the lengths classify."""

    def __init__(self, classes=10, iterations=3):
        super().__init__()
        self.conv1, self.iterations = nn.Conv2d(1, 256, 9), iterations
        self.primary = nn.Conv2d(256, 32 * 8, 9, stride=2)
        self.W = nn.Parameter(0.01 * torch.randn(1, classes, 32 * 6 * 6, 16, 8))

    def squash(self, s, dim=-1):
        norm = torch.sum(s ** 2, dim=dim, keepdim=True)
        return norm / (1 + norm) * s / (torch.sqrt(norm) + 1e-8)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        u = self.primary(x).view(x.size(0), 32, 8, 36)
        u = u.permute(0, 1, 3, 2).reshape(x.size(0), -1, 8)
        u_hat = torch.matmul(self.W, self.squash(u)[:, None, :, :, None]).squeeze(-1)
        detached = u_hat.detach()
        b = torch.zeros(*u_hat.shape[:3], 1, device=x.device, dtype=x.dtype)
        for _ in range(self.iterations - 1):
            c = b.softmax(dim=1)
            v = self.squash((c * detached).sum(dim=2))
            b = b + torch.matmul(detached, v.unsqueeze(-1))
        v = self.squash((b.softmax(dim=1) * u_hat).sum(dim=2))
        return torch.sqrt((v ** 2).sum(dim=-1) + 1e-8)


class CBAMBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1, reduction=8):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(planes), nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Sequential(nn.Conv2d(planes, planes // reduction, 1, bias=False), nn.ReLU(),
                                nn.Conv2d(planes // reduction, planes, 1, bias=False))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3, bias=False)
        self.downsample = None if inplanes == planes else nn.Sequential(
            nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        residual = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        avg_out = self.fc(F.adaptive_avg_pool2d(out, 1))
        max_out = self.fc(F.adaptive_max_pool2d(out, 1))
        out = torch.sigmoid(avg_out + max_out) * out
        max_out, _ = torch.max(out, dim=1, keepdim=True)
        pooled = torch.cat([torch.mean(out, dim=1, keepdim=True), max_out], dim=1)
        out = self.spatial(pooled).sigmoid() * out
        out += residual
        return self.relu(out)


def cbam_resnet():
    """A ResNet whose blocks end in attention over channels and space (CBAM, Woo et al.)."""
    return nn.Sequential(
        nn.Conv2d(3, 48, 7, 2, 3, bias=False), nn.BatchNorm2d(48), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1), CBAMBlock(48, 48), CBAMBlock(48, 96, 2), CBAMBlock(96, 96),
        CBAMBlock(96, 192, 2), CBAMBlock(192, 192), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
        nn.Linear(192, 100))


class HRNet(nn.Module):
    """A small HRNet (Sun et al.): three resolutions side by side, fused twice, for segmentation."""

    def __init__(self, c=(18, 36, 72), classes=19, modules=2):
        super().__init__()
        n = range(len(c))
        self.stem = nn.Sequential(self.cbr(3, 64, 2), nn.ReLU(True), self.cbr(64, 64, 2), nn.ReLU())
        self.transition = nn.ModuleList([self.cbr(64 if i == 0 else c[i - 1], c[i], 1 + (i > 0))
                                         for i in n])
        self.branches = nn.ModuleList([nn.ModuleList([nn.Sequential(
            self.cbr(c[i], c[i]), nn.ReLU(inplace=True), self.cbr(c[i], c[i])) for i in n])
            for _ in range(modules)])
        self.fuse = nn.ModuleList([nn.ModuleList([nn.ModuleList([
            self.path(c, i, j) for j in n]) for i in n]) for _ in range(modules)])
        self.last = nn.Sequential(self.cbr(sum(c), sum(c)), nn.ReLU(),
                                  nn.Conv2d(sum(c), classes, 1))

    def cbr(self, i, o, stride=1, k=3):
        return nn.Sequential(nn.Conv2d(i, o, k, stride, k // 2, bias=False), nn.BatchNorm2d(o))

    def path(self, c, i, j):
        """From resolution j to i; upwards it is interpolated in forward."""
        if i <= j:
            return nn.Identity() if i == j else self.cbr(c[j], c[i], k=1)
        halves = [m for _ in range(i - j - 1) for m in (self.cbr(c[j], c[j], 2), nn.ReLU())]
        return nn.Sequential(*halves, self.cbr(c[j], c[i], 2))

    def forward(self, x):
        y_list, x = [], self.stem(x)
        for layer in self.transition:
            y_list.append(F.relu(layer(y_list[-1] if y_list else x)))
        for branch, fuse in zip(self.branches, self.fuse):
            xs = [F.relu(b(y) + y) for b, y in zip(branch, y_list)]
            y_list = []
            for i, row in enumerate(fuse):
                y = 0
                for j, path in enumerate(row):
                    z = path(xs[j])
                    if j > i:
                        z = F.interpolate(z, size=xs[i].shape[-2:], mode="bilinear")
                    y = y + z
                y_list.append(F.relu(y))
        up = [F.interpolate(y, size=y_list[0].shape[2:], mode="bilinear") for y in y_list[1:]]
        return self.last(torch.cat([y_list[0]] + up, 1))


class RetinaNet(nn.Module):
    """A feature pyramid and RetinaNet's class head (Lin et al.), as in yhenon's code."""

    def __init__(self, num_anchors=9, num_classes=20, feature_size=96):
        super().__init__()
        widths = (3, 32, 64, 128, 256, 256)
        self.stages = nn.ModuleList([nn.Sequential(
            nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
            for i, o in zip(widths, widths[1:])])
        self.lateral = nn.ModuleList([nn.Conv2d(c, feature_size, 1) for c in widths[3:]])
        self.smooth = nn.ModuleList([nn.Conv2d(feature_size, feature_size, 3, 1, 1)
                                     for _ in widths[3:]])
        self.P6 = nn.Conv2d(widths[-1], feature_size, kernel_size=3, stride=2, padding=1)
        self.heads = nn.ModuleList([nn.Conv2d(feature_size, feature_size, 3, padding=1)
                                    for _ in range(3)])
        self.output = nn.Conv2d(feature_size, num_anchors * num_classes, 3, padding=1)
        self.num_classes = num_classes

    def classify(self, x):
        for conv in self.heads:
            x = F.relu(conv(x))
        out = torch.sigmoid(self.output(x)).permute(0, 2, 3, 1)
        return out.contiguous().view(x.shape[0], -1, self.num_classes)

    def forward(self, x):
        C = []
        for stage in self.stages:
            x = stage(x)
            C.append(x)
        P, top = [self.P6(C[-1])], None
        for c, lateral, smooth in reversed(list(zip(C[2:], self.lateral, self.smooth))):
            side = lateral(c)
            top = side if top is None else F.interpolate(top, size=side.shape[-2:]) + side
            P.append(smooth(top))
        return torch.cat([self.classify(feature) for feature in P[::-1]], dim=1)


def families():
    found = {
        "mnist": (MnistNet, images(28, 1), "ce"), "cifar_alexnet": (CifarAlexNet, images(32), "ce"),
        "densenet_bc": (DenseNetBC, images(32), "ce"), "unet": (UNet, images(128), "ce"),
        "vnet": (VNet, floats("x", 1, 32, 64, 64), "ce"), "segnet": (SegNet, images(128), "ce"),
        "pix2pix": (pix2pix, images(256), "mse"),
        "sagan": (lambda: First(SAGANGenerator()), floats("x", 128), "mse"),
        "stylegan": (StyleGenerator, floats("z", 256), "mse"),
        "srgan_discriminator": (srgan_discriminator, images(96, name="input"), "mse"),
        "edsr": (EDSR, images(48), "mse"), "espcn": (ESPCN, images(64, 1), "mse"),
        "vqvae": (lambda: First(VQVAE()), images(64), "mse"),
        "capsnet": (CapsNet, images(28, 1), "ce"),
        "cbam": (cbam_resnet, images(128, name="input"), "ce"), "hrnet": (HRNet, images(128), "ce"),
        "retinanet": (RetinaNet, images(160), "ce"),
    }
    return tutorials(found)
