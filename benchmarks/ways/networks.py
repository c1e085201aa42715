"""Networks that are trained in each way: of the zoo, and two of ../accuracy, all exported there.

Their estimates of the plain loop are right to the byte, so that what differs is the way's.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ACCURACY, ZOO = HERE.parent / "accuracy", HERE.parent / "zoo"
sys.path[:0] = [str(ACCURACY), str(ZOO)]
from family import Family, Logits, tokens  # noqa: E402

OF_ZOO = [*(f"transformers.{name}" for name in [
    "llama", "qwen3", "qwen2_moe", "granitemoe", "gemma2", "phi3", "bloom", "openai-gpt", "mpt",
    "t5", "distilbert", "xlm-roberta", "deberta-v2", "vit", "dinov2", "convnextv2", "segformer",
    "audio-spectrogram-transformer"]),
    "torchvision.resnet18", "torchvision.convnext_tiny", "timm.resnet50",
    "timm.swinv2_cr_tiny_224", "timm.mixer_s32_224", "diffusers.AutoencoderKL",
    "tutorial.annotated_transformer", "tutorial.nested_unet", "tutorial.vit"]
# Measured when the rules of the ways stood, which none of them had been seen with.
LATER = [f"transformers.{name}" for name in [
    "mobilevit", "mobilevitv2", "swiftformer", "canine", "depth_anything",
    "tipsv2_dpt", "qwen3_vl", "phi4_multimodal", "pvt", "pvt_v2", "focalnet",
    "clip", "mobilebert", "electra", "falcon", "gptj", "gemma4", "mt5", "upernet",
    "layoutlmv3", "beit", "yolos", "smollm3", "gpt_oss", "siglip"]]
# Measured when those stood, which no rule of the main ways had been seen with.
LATER_STILL = [*(f"transformers.{name}" for name in [
    "codegen", "gpt_bigcode", "cohere2", "starcoder2", "olmoe", "glm4_moe", "nemotron_h", "zamba2",
    "lfm2", "albert", "convbert", "roformer", "umt5", "prophetnet", "moonshine", "voxtral_encoder",
    "dpt", "sam_vision_model", "vjepa2", "git"]),
    "timm.hiera_tiny_224", "timm.xcit_nano_12_p8_224", "timm.densenet121",
    "torchvision.deeplabv3_resnet50", "diffusers.VQModel", "tutorial.ddpm_unet"]
# Measured when most of what was off there was mended.
LAST = [*(f"transformers.{name}" for name in [
    "olmo", "deepseek_v2", "gpt_neox_japanese", "stablelm", "minimax", "hunyuan_v1_moe",
    "bert-generation", "mpnet", "nystromformer", "encoder-decoder", "deit", "ijepa", "poolformer",
    "textnet", "blip", "granite_speech5_encoder", "dinov3_vit", "ctrl", "modernbert-decoder"]),
    "timm.pit_ti_224", "timm.mambaout_femto", "timm.coatnet_0_rw_224", "torchvision.mvit_v1_b",
    "torchvision.r3d_18", *(f"tutorial.{name}" for name in [
        "selective_scan", "speech_conformer", "conv_tasnet", "tiny_llama"])]


def build(name):
    """With its own sizes, as ../accuracy/zoo.py has it."""
    def make():
        import importlib.util
        spec = importlib.util.spec_from_file_location("zoo_of_accuracy", ACCURACY / "zoo.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return Logits(module.NETWORKS[name].build())
    return make


OF_ACCURACY = {"gpt2": Family(build("gpt2"), tokens(512), "gpt2"),
               "bert_base": Family(build("bert_base"), tokens(128), "bert_base")}


def networks(names=()):
    """{name: Family}, of those that are asked for."""
    from registry import zoo
    wanted = [name for name in [*OF_ACCURACY, *OF_ZOO, *LATER, *LATER_STILL, *LAST]
              if not names or name in names]
    of_zoo = [name for name in wanted if name not in OF_ACCURACY]
    found = {**OF_ACCURACY, **(zoo(of_zoo) if of_zoo else {})}
    return {name: found[name] for name in wanted}


class NotForThis(Exception):
    """A way that a network has no part for."""


def is_of_transformers(model):
    return hasattr(inner(model), "get_output_embeddings")


def inner(model):
    """The library's model in its wrapper."""
    wrapped = getattr(model, "model", None)
    return wrapped if hasattr(wrapped, "config") else model


def blocks(model):
    """The modules that --checkpoint auto names (estimator/program/checkpointed_spans.h)."""
    from torch import nn
    lists = {}
    for path, module in model.named_modules():
        parent, _, name = path.rpartition(".")
        if name.isdigit() and any(module.children()) and not isinstance(module, nn.ModuleList):
            lists.setdefault(parent, []).append(path)
    paths = [path for items in lists.values() if len(items) > 1 for path in items]
    outermost = [path for path in paths
                 if not any(path.startswith(f"{other}.") for other in paths)]
    if not outermost:
        raise NotForThis("no blocks that repeat")
    return [model.get_submodule(path) for path in outermost]
