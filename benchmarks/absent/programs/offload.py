"""diffusers: a pipeline of Stable Diffusion's kind, its parts moved to the card in turn."""
import diffusers
import torch
import transformers


def pipeline():
    torch.manual_seed(0)
    unet = diffusers.UNet2DConditionModel(
        sample_size=32, block_out_channels=(128, 256, 512), layers_per_block=2, cross_attention_dim=256,
        attention_head_dim=8, down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
    vae = diffusers.AutoencoderKL(
        block_out_channels=(64, 128), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, sample_size=64)
    text = transformers.CLIPTextModel(transformers.CLIPTextConfig(
        vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4))
    scheduler = diffusers.DPMSolverMultistepScheduler(beta_schedule="scaled_linear")
    made = diffusers.StableDiffusionPipeline(vae, text, None, unet, scheduler, None, None,
                                             requires_safety_checker=False).to(dtype=torch.float16)
    made.set_progress_bar_config(disable=True)
    return made


prompt = torch.randn(2, 77, 256).half()
peaks = []
for place in ("to", "enable_model_cpu_offload", "enable_sequential_cpu_offload"):
    made = pipeline()
    getattr(made, place)(*["cuda"] if place == "to" else [])
    torch.cuda.reset_peak_memory_stats()
    images = made(prompt_embeds=prompt.cuda(), negative_prompt_embeds=prompt.cuda(), num_inference_steps=10,
                  height=256, width=256).images
    assert len(images) == 2 and images[0].size == (256, 256)
    peaks.append(torch.cuda.max_memory_allocated())
    del made, images
    torch.cuda.empty_cache()
print(peaks)
assert peaks == sorted(peaks, reverse=True), peaks
