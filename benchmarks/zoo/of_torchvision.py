"""Families of torchvision 0.26.0."""

from family import Family, First, Last, Out, floats, images

# Entry of torchvision.models: its file, and what differs from images of 224 and class logits.
CLASSIFIERS = {
    "convnext_tiny": "convnext", "googlenet": "googlenet", "maxvit_t": "maxvit",
    "mobilenet_v2": "mobilenetv2", "regnet_x_400mf": "regnet", "regnet_y_400mf": "regnet",
    "resnet18": "resnet", "resnext50_32x4d": "resnet", "wide_resnet50_2": "resnet",
    "shufflenet_v2_x0_5": "shufflenetv2", "squeezenet1_0": "squeezenet",
    "squeezenet1_1": "squeezenet",
}
SEGMENTERS = ["deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "fcn_resnet50",
              "lraspp_mobilenet_v3_large"]
VIDEOS = {"r3d_18": 112, "mc3_18": 112, "r2plus1d_18": 112, "s3d": 224, "mvit_v1_b": 224,
          "mvit_v2_s": 224, "swin3d_t": 224}
NEW = {"weights": None}


def entry(path, name, wrapper=None, **options):
    def make():
        import importlib
        library = importlib.import_module(f"torchvision.models{path}")
        model = getattr(library, name)(**NEW, **options)
        return wrapper(model) if wrapper else model
    return make


def families():
    found = {}
    for name, file in CLASSIFIERS.items():
        options = {"aux_logits": False, "init_weights": True} if file == "googlenet" else {}
        found[name] = Family(entry("", name, **options), images(224), f"torchvision.models.{file}")
    for name in SEGMENTERS:
        found[name] = Family(entry(".segmentation", name, Out, weights_backbone=None), images(256),
                             "torchvision.models.segmentation")
    for name, size in VIDEOS.items():
        frames = 16 if size == 112 or name != "swin3d_t" else 8
        found[name] = Family(entry(".video", name), floats("x", 3, frames, size, size),
                             "torchvision.models.video")
    return {f"torchvision.{name}": family for name, family in found.items()}
