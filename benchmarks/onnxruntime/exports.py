"""Exports twenty models for inference, without their weights: data/inference.tar.xz, of which models.py asks.

    exports.py [NAME...]          # all of them: some minutes; torch 2.11, torchvision 0.26, transformers 5.17

The kinds are those of the ONNX model zoo: classification, detection, segmentation, pictures from pictures,
language, speech.  Each is built from its own configuration with random weights; tensors of numbers from 1 KiB on
lie in a file beside the model, which is left away.
"""

import io
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path

import onnx
import torch
from onnx.external_data_helper import set_external_data
from torch import nn

ARCHIVE = Path(__file__).resolve().parent / "data/inference.tar.xz"
BATCH, LENGTH = torch.export.Dim("batch"), torch.export.Dim("seq", max=1024)
LARGE = 1024  # bytes, of a tensor of numbers that stays outside of the file


class First(nn.Module):
    """The first tensor of what a model returns, and what goes in by name."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        result = self.model(**dict(zip(self.names, inputs, strict=True)))
        return result[0] if isinstance(result, tuple) else next(iter(result.values()))


class UNet(nn.Module):
    """Four levels, batch norm, transposed convolutions (Ronneberger and others, 2015)."""

    def __init__(self):
        super().__init__()
        sizes = [3, 64, 128, 256, 512]
        self.down = nn.ModuleList(self.twice(a, b) for a, b in zip(sizes, sizes[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(sizes[-2:0:-1], sizes[:1:-1]))
        self.join = nn.ModuleList(self.twice(2 * a, a) for a in sizes[-2:0:-1])
        self.head = nn.Conv2d(64, 21, 1)

    @staticmethod
    def twice(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                             nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x):
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, side in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([up(x), side], 1))
        return self.head(x)


def super_resolution():
    """Sub-pixel convolutions, three times as large (Shi and others, 2016)."""
    return nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(64, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 9, 3, padding=1),
                         nn.PixelShuffle(3))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.InstanceNorm2d(channels, affine=True),
                                  nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1),
                                  nn.InstanceNorm2d(channels, affine=True))

    def forward(self, x):
        return x + self.body(x)


def style_transfer():
    """Down twice, five residual blocks, up twice, instance norm (Johnson and others, 2016)."""
    def block(a, b, size, stride=1):
        return [nn.Conv2d(a, b, size, stride, size // 2), nn.InstanceNorm2d(b, affine=True), nn.ReLU()]
    return nn.Sequential(*block(3, 32, 9), *block(32, 64, 3, 2), *block(64, 128, 3, 2),
                         *(Residual(128) for _ in range(5)), nn.Upsample(scale_factor=2), *block(128, 64, 3),
                         nn.Upsample(scale_factor=2), *block(64, 32, 3), nn.Conv2d(32, 3, 9, padding=4))


class Words(nn.Module):
    """A language model of two LSTM layers."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(33278, 650)
        self.lstm = nn.LSTM(650, 650, 2, batch_first=True)
        self.decoder = nn.Linear(650, 33278)

    def forward(self, tokens):
        return self.decoder(self.lstm(self.embedding(tokens))[0])


def of_torchvision(name, size=224, **options):
    import torchvision
    make = getattr(torchvision.models, name, None) or getattr(torchvision.models.segmentation, name)
    model = make(weights=None, **options)
    return model, {"pixels": torch.zeros(2, 3, size, size)}, {"pixels": {0: BATCH}}


def picture(model, *size):
    return model, {"pixels": torch.zeros(2, *size)}, {"pixels": {0: BATCH}}


def of_transformers(model, **inputs):
    """Texts have a length of their own, pictures and sounds the one that is given."""
    model.config.use_cache = False
    dims = {name: {0: BATCH, 1: LENGTH} if value.dtype == torch.int64 else {0: BATCH}
            for name, value in inputs.items()}
    return First(model, list(inputs)), inputs, dims


def tokens(length=128):
    return torch.zeros(2, length, dtype=torch.int64)


def transformers_model(name, config, **changes):
    import transformers
    config = getattr(transformers, config)(**changes)
    return getattr(transformers, name)(config)


MODELS = {
    "resnet18": lambda: of_torchvision("resnet18"),
    "resnet50": lambda: of_torchvision("resnet50"),
    "squeezenet": lambda: of_torchvision("squeezenet1_1"),
    "googlenet": lambda: of_torchvision("googlenet", init_weights=False, aux_logits=False),
    "mobilenet_v2": lambda: of_torchvision("mobilenet_v2"),
    "shufflenet_v2": lambda: of_torchvision("shufflenet_v2_x1_0"),
    "regnet_y_400mf": lambda: of_torchvision("regnet_y_400mf"),
    "convnext_tiny": lambda: of_torchvision("convnext_tiny"),
    "swin_t": lambda: of_torchvision("swin_t"),
    "fcn_resnet50": lambda: of_torchvision("fcn_resnet50", 256, weights_backbone=None),
    "unet": lambda: picture(UNet(), 3, 256, 256),
    "super_resolution": lambda: picture(super_resolution(), 1, 224, 224),
    "style_transfer": lambda: picture(style_transfer(), 3, 256, 256),
    "segformer_b0": lambda: of_transformers(
        transformers_model("SegformerForSemanticSegmentation", "SegformerConfig"),
        pixel_values=torch.zeros(2, 3, 512, 512)),
    "lstm_words": lambda: (Words(), {"tokens": tokens()}, {"tokens": {0: BATCH}}),
    "distilbert": lambda: of_transformers(
        transformers_model("DistilBertForSequenceClassification", "DistilBertConfig"), input_ids=tokens()),
    "gpt2": lambda: of_transformers(transformers_model("GPT2LMHeadModel", "GPT2Config"), input_ids=tokens()),
    "t5_small": lambda: of_transformers(
        transformers_model("T5ForConditionalGeneration", "T5Config"), input_ids=tokens(),
        decoder_input_ids=tokens()),
    "llama_1b": lambda: of_transformers(
        transformers_model("LlamaForCausalLM", "LlamaConfig", vocab_size=32000, hidden_size=2048,
                           intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                           num_key_value_heads=4).half(), input_ids=tokens()),
    "whisper_tiny": lambda: of_transformers(
        transformers_model("WhisperForConditionalGeneration", "WhisperConfig"),
        input_features=torch.zeros(2, 80, 3000), decoder_input_ids=tokens(64)),
    "wav2vec2": lambda: of_transformers(
        transformers_model("Wav2Vec2ForCTC", "Wav2Vec2Config"), input_values=torch.zeros(2, 80000)),
    "clip": lambda: of_transformers(
        transformers_model("CLIPModel", "CLIPConfig"), input_ids=tokens(77),
        pixel_values=torch.zeros(2, 3, 224, 224)),
}


def leave_out_weights(model, name):
    """As if they lay in one file beside the model."""
    end = 0
    for tensor in model.graph.initializer:
        is_number = tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
        if not is_number or len(tensor.raw_data) < LARGE:
            continue
        set_external_data(tensor, f"{name}.weights", end, len(tensor.raw_data))
        end += len(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL


def exported(name):
    model, inputs, dims = MODELS[name]()
    model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = f"{folder}/{name}.onnx"
        by_place = tuple(dims.values())
        torch.onnx.export(model, tuple(inputs.values()), path, input_names=list(inputs), dynamo=True,
                          dynamic_shapes=(by_place,) if isinstance(model, First) else by_place,
                          external_data=True, verbose=False)
        result = onnx.load(path)
    leave_out_weights(result, name)
    for node in result.graph.node:  # which line of Python made it
        del node.metadata_props[:]
    return result.SerializeToString()


def write(files):
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for name in sorted(files):
            info = tarfile.TarInfo(f"{name}.onnx")
            info.size = len(files[name])
            archive.addfile(info, io.BytesIO(files[name]))


def main():
    names = sys.argv[1:] or list(MODELS)
    kept = {}
    if sys.argv[1:] and ARCHIVE.exists():
        with tarfile.open(ARCHIVE) as archive:
            kept = {member.name.removesuffix(".onnx"): archive.extractfile(member).read() for member in archive}
    for name in names:
        torch.manual_seed(0)
        kept[name] = exported(name)
        print(f"{name}: {len(kept[name]) / 1e3:.0f} kB", flush=True)
        write(kept)


if __name__ == "__main__":
    main()
