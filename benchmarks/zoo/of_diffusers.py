"""Families of diffusers 0.42.1: its main networks, small."""

from family import Family, Sample, floats

AUTOENCODERS = {
    "AutoencoderKL": dict(block_out_channels=[32, 64], latent_channels=4,
                          down_block_types=["DownEncoderBlock2D"] * 2,
                          up_block_types=["UpDecoderBlock2D"] * 2, norm_num_groups=16),
    "VQModel": dict(block_out_channels=[32, 64], latent_channels=4,
                    down_block_types=["DownEncoderBlock2D"] * 2,
                    up_block_types=["UpDecoderBlock2D"] * 2, norm_num_groups=16),
    "AutoencoderTiny": dict(),
    "AutoencoderDC": dict(encoder_block_out_channels=(32, 64), decoder_block_out_channels=(32, 64),
                          encoder_layers_per_block=(1, 1), decoder_layers_per_block=(1, 1),
                          encoder_block_types=("ResBlock", "EfficientViTBlock"),
                          decoder_block_types=("ResBlock", "EfficientViTBlock"),
                          encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,))),
    "AsymmetricAutoencoderKL": dict(norm_num_groups=16, down_block_out_channels=(32,),
                                    up_block_out_channels=(32,)),
}


def build(name):
    def make():
        import diffusers
        return Sample(getattr(diffusers, name)(**AUTOENCODERS[name]))
    return make


def families():
    return {f"diffusers.{name}": Family(build(name), floats("x", 3, 64, 64),
                                        "diffusers.models.autoencoders", "mse")
            for name in AUTOENCODERS}
