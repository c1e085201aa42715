"""Families of timm 1.0.31: the smallest model of each file, and others that differ in structure."""

from family import Family, images

MODELS = {  # name: side of its images
    "adv_inception_v3": 299, "coat_tiny": 224, "coat_lite_tiny": 224, "convmixer_768_32": 224,
    "convnext_atto": 224, "convnext_zepto_rms": 224, "convnextv2_atto": 224, "csatv2": 512,
    "cs3darknet_focus_s": 256, "cspresnet50": 256, "darknet53": 256, "cspnext_tiny": 224,
    "deit_tiny_distilled_patch16_224": 224, "densenet121": 224, "densenetblur121d": 224,
    "dla46x_c": 224, "dla34": 224, "dpn48b": 224, "dpn68": 224, "edgenext_xx_small": 256,
    "edgenext_small": 256, "efficientformerv2_s0": 224, "efficientvim_m1": 224,
    "efficientvit_b0": 224, "efficientvit_l1": 224, "fasternet_t0": 224, "focalnet_tiny_srf": 224,
    "focalnet_tiny_lrf": 224, "gcvit_xxtiny": 224, "gmixer_12_224": 224, "gmlp_ti16_224": 224,
    "mixer_s32_224": 224, "resmlp_12_224": 224, "hiera_tiny_224": 224, "hieradet_small": 256,
    "hrnet_w18_small": 224, "inception_next_atto": 224, "inception_v4": 299,
    "lcnetv2_small": 224, "levit_128s": 224, "levit_conv_128s": 224, "lowformer_b0": 224,
    "mambaout_femto": 224, "maxvit_pico_rw_256": 256, "maxxvit_rmlp_nano_rw_256": 256,
    "coatnet_pico_rw_224": 224, "coatnet_0_rw_224": 224, "poolformerv2_s12": 224,
    "poolformer_s12": 224, "convformer_s18": 224, "caformer_s18": 224,
    "mobilenetv3_small_050": 224, "lcnet_050": 224, "fbnetv3_b": 224, "mvitv2_tiny": 224,
    "naflexvit_base_patch16_gap": 384, "nasnetalarge": 331, "nest_tiny": 224,
    "nextvit_small": 224, "dm_nfnet_f0": 192, "nf_regnet_b0": 192, "nfnet_l0": 224,
    "nf_resnet26": 224, "pit_ti_224": 224, "pit_ti_distilled_224": 224, "pnasnet5large": 331,
    "pvt_v2_b0": 224, "pvt_v2_b2_li": 224, "rdnet_tiny": 224, "regnetx_002": 224,
    "regnety_002": 224, "regnetz_005": 224, "repghostnet_050": 224, "repvit_m0_9": 224,
    "resnet10t": 176, "resnet50": 224, "ecaresnet26t": 256, "res2net50_14w_8s": 224,
    "resnest14d": 224, "resnetaa50": 224, "resnetblur50": 224, "seresnext26d_32x4d": 224,
    "skresnet18": 224, "resnetrs50": 160, "selecsls42": 224, "legacy_seresnet18": 224,
    "sequencer2d_s": 224, "starnet_s050": 224, "swiftformer_xs": 224, "swinv2_cr_tiny_224": 224,
    "tiny_vit_5m_224": 224, "tnt_s_patch16_224": 224, "tresnet_m": 224, "twins_svt_small": 224,
    "twins_pcpvt_small": 224, "vgg11": 224, "vgg11_bn": 224, "visformer_tiny": 224,
    "vit_srelpos_small_patch16_224": 224, "samvit_base_patch16_224": 224, "volo_d1_224": 224,
    "legacy_xception": 299, "xception41p": 299, "xception41": 299, "xcit_nano_12_p8_224": 224,
}


def build(name):
    def make():
        import timm
        return timm.create_model(name, pretrained=False)
    return make


def module_of_entry(name):
    """By the class, which may be of another file than the entry."""
    import torch
    from family import module_of
    with torch.device("meta"):
        return module_of(build(name)())


def families():
    return {f"timm.{name}": Family(build(name), images(size), module_of_entry(name))
            for name, size in MODELS.items()}
