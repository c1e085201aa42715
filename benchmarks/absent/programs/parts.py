"""diffusers with enable_model_cpu_offload(): text encoder, denoiser and VAE are on the card in turn."""
import diffusers
import readings
import tokenizers
import torch
import transformers


def words():
    """A tokenizer of such a pipeline: 77 tokens."""
    rows = {"[UNK]": 0, "[PAD]": 1, **{f"w{i}": i + 2 for i in range(998)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(rows, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]",
                                                model_max_length=77)


torch.manual_seed(0)
unet = diffusers.UNet2DConditionModel(
    sample_size=32, block_out_channels=(128, 256, 512), layers_per_block=2, cross_attention_dim=512, attention_head_dim=8,
    down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
vae = diffusers.AutoencoderKL(
    block_out_channels=(128, 256), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=4, sample_size=64)
text = transformers.CLIPTextModel(transformers.CLIPTextConfig(
    vocab_size=1000, hidden_size=512, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=8))
pipeline = diffusers.StableDiffusionPipeline(
    vae, text, words(), unet, diffusers.DPMSolverMultistepScheduler(beta_schedule="scaled_linear"), None, None,
    requires_safety_checker=False).to(dtype=torch.float16)
pipeline.set_progress_bar_config(disable=True)
pipeline.enable_model_cpu_offload()
for part in (text, unet):
    part.register_forward_pre_hook(lambda *_: readings.begin())
    part.register_forward_hook(lambda part, *_: readings.end(type(part).__name__))
readings.around(vae, "decode", "AutoencoderKL")
for batch in (1, 4):
    images = pipeline(["w1 w2 w3"] * batch, num_inference_steps=5, height=256, width=256).images
    assert len(images) == batch and images[0].size == (256, 256)
readings.tell()
