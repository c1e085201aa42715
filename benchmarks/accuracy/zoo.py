"""Networks to train on a card: how to build each, feed it and take its loss.

Weights and data are random, nothing is downloaded.  Needs torch and torchvision, and
transformers for the language models.  Sizes are those of the exports in data/models.tar.xz.
"""

import functools
from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional as F

# build() -> module; batch(n, device, dtype) -> (x, labels); logits(module, x, labels).
Network = namedtuple("Network", "build batch logits")

VISION = ["resnet18", "resnet50", "vgg16", "alexnet", "mobilenet_v2", "efficientnet_b0",
          "densenet121", "vit_b_16"]
# name: (class of transformers, configuration, its arguments, tokens, vocabulary)
LANGUAGE = {
    "gpt2": ("AutoModelForCausalLM", "GPT2Config", {}, 512, 50257),
    "distilgpt2": ("AutoModelForCausalLM", "GPT2Config", {"n_layer": 6}, 512, 50257),
    "bert_base": ("AutoModelForSequenceClassification", "BertConfig", {"num_labels": 2}, 128,
                  30522),
    "t5_small": ("AutoModelForSeq2SeqLM", "T5Config",
                 {"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
                  "decoder_start_token_id": 0}, 128, 32128),
}


# --- Networks of textbooks -------------------------------------------------------------------

class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.sigmoid(self.c1(x)), 2)
        x = F.max_pool2d(torch.sigmoid(self.c2(x)), 2)
        x = torch.flatten(x, 1)
        return self.f3(torch.sigmoid(self.f2(torch.sigmoid(self.f1(x)))))


def two_convolutions(channels_in, channels):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, padding=1), nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True), nn.Conv2d(channels, channels, 3, padding=1),
        nn.BatchNorm2d(channels), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.d = nn.ModuleList([two_convolutions(i, o) for i, o in
                                [(3, c), (c, 2 * c), (2 * c, 4 * c), (4 * c, 8 * c)]])
        self.u = nn.ModuleList([nn.ConvTranspose2d(i, i // 2, 2, 2)
                                for i in [8 * c, 4 * c, 2 * c]])
        self.r = nn.ModuleList([two_convolutions(i, i // 2) for i in [8 * c, 4 * c, 2 * c]])
        self.o = nn.Conv2d(c, 2, 1)

    def forward(self, x):
        s = []
        for i, b in enumerate(self.d):
            x = b(x)
            if i < 3:
                s.append(x)
                x = F.max_pool2d(x, 2)
        for u, r in zip(self.u, self.r):
            x = r(torch.cat([u(x), s.pop()], 1))
        return self.o(x)


def mlp(width, layers):
    hidden = [nn.Linear(784, width), nn.ReLU()]
    for _ in range(layers - 1):
        hidden += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, 10))


# --- Batches ---------------------------------------------------------------------------------

def pictures(shape, classes, labels_shape, n, device, dtype):
    x = torch.randn(n, *shape, device=device, dtype=dtype)
    return x, torch.randint(classes, (n, *labels_shape), device=device)


def tokens(length, vocabulary, labels_shape, classes, n, device, dtype):
    x = torch.randint(vocabulary, (n, length), device=device)
    return x, torch.randint(classes, (n, *labels_shape), device=device)


# --- The list --------------------------------------------------------------------------------

def plain_logits(module, x, labels):
    return module(x)


def language_logits(model_class, module, x, labels):
    if model_class == "AutoModelForSeq2SeqLM":
        return module(input_ids=x, decoder_input_ids=labels, use_cache=False).logits
    if model_class == "AutoModelForCausalLM":
        return module(input_ids=x, use_cache=False).logits
    return module(input_ids=x).logits


def vision(name):
    import torchvision
    return torchvision.models.get_model(name, weights=None)


def language(model_class, config, arguments):
    import transformers
    settings = getattr(transformers, config)(**arguments)
    if hasattr(settings, "use_cache"):
        settings.use_cache = False
    return getattr(transformers, model_class).from_config(settings)


def image_network(build, shape, classes, labels_shape=()):
    return Network(build, functools.partial(pictures, shape, classes, labels_shape),
                   plain_logits)


def language_network(model_class, config, arguments, length, vocabulary):
    labels = ((), 2) if "Classification" in model_class else ((length,), vocabulary)
    return Network(functools.partial(language, model_class, config, arguments),
                   functools.partial(tokens, length, vocabulary, *labels),
                   functools.partial(language_logits, model_class))


def loss(network, module, x, labels):
    """Cross entropy, taken outside of the model: an exported graph ends at the logits."""
    logits = network.logits(module, x, labels)
    if logits.dim() == labels.dim() + 1 and labels.dim() == 2:  # one label a token
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
    return F.cross_entropy(logits, labels)


NETWORKS = {
    "lenet": image_network(LeNet, (1, 28, 28), 10),
    "mlp_2000": image_network(functools.partial(mlp, 2000, 1), (784,), 10),
    "mlp_5x5000": image_network(functools.partial(mlp, 5000, 5), (784,), 10),
    "unet": image_network(UNet, (3, 128, 128), 2, (128, 128)),
    **{name: image_network(functools.partial(vision, name), (3, 224, 224), 1000)
       for name in VISION},
    **{name: language_network(*row) for name, row in LANGUAGE.items()},
}
