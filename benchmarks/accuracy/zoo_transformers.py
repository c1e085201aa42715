"""Transformers of data/*_transformers*: how to build each, what to feed it, which loss to take.

Real code of transformers 5.17.0, torchvision 0.26.0, diffusers 0.42.1 and torch 2.11.0, in small
sizes (head sizes from 16 to 128, sequences that are no multiples of 8 among them), with weights
at random: nothing is downloaded.  The loss is taken outside the model, as an export ends at its
output; the loop is that of README.md.  measure_transformers.py runs them, export_transformers.py
exports them.
"""

import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Spec:
    build: Callable    # () -> the module that is trained and exported
    inputs: Callable   # (batch, device, dtype) -> {name: tensor}; the target is "y", the last
    loss: Callable     # (output, target) -> scalar
    flags: str = ""    # of onnxfit, that ask for this loss
    only_infers: bool = False  # has no target: decoding with what earlier tokens left

    def forward(self, model, batch):
        return model(*[tensor for name, tensor in batch.items() if name != "y"])


MODELS = {}


def token_loss(logits, y):
    return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


class Logits(nn.Module):
    """As users wrap a model of Hugging Face's for an export."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


class Seq2SeqLogits(Logits):
    def forward(self, x, decoder_input_ids):
        return self.model(x, decoder_input_ids=decoder_input_ids).logits


def ids(*shape, device):
    return torch.zeros(*shape, dtype=torch.long, device=device)


attention = None  # transformers' own choice, sdpa


def hugging_face(auto_class, config, wrapper=Logits):
    """Builds config(transformers) with its library's own code, caches off."""
    def build():
        import transformers
        made = config(transformers)
        if hasattr(made, "use_cache"):
            made.use_cache = False
        return wrapper(getattr(transformers, auto_class).from_config(
            made, attn_implementation=attention))
    return build


def causal(name, config, sequence):
    add_tokens(name, hugging_face("AutoModelForCausalLM", config), sequence)


def add_tokens(name, build, sequence, has_decoder=False):
    """One token out for one in; with a decoder, `sequence` is the encoder's and the decoder's."""
    length, target = sequence if has_decoder else (sequence, sequence)

    def inputs(batch, device, dtype):
        given = {"input_ids": ids(batch, length, device=device)}
        if has_decoder:
            given["decoder_input_ids"] = ids(batch, target, device=device)
        return {**given, "y": ids(batch, target, device=device)}
    MODELS[name] = Spec(build, inputs, token_loss)


def add_text_classifier(name, build, sequence):
    def inputs(batch, device, dtype):
        return {"input_ids": ids(batch, sequence, device=device), "y": ids(batch, device=device)}
    MODELS[name] = Spec(build, inputs, F.cross_entropy)


def add_image_classifier(name, build, size):
    def inputs(batch, device, dtype):
        return {"pixel_values": torch.empty(batch, 3, size, size, device=device, dtype=dtype),
                "y": ids(batch, device=device)}
    MODELS[name] = Spec(build, inputs, F.cross_entropy)


# --- Decoders --------------------------------------------------------------------------------

class CausalSelfAttention(nn.Module):
    """As in nanoGPT: queries, keys and values of one product, PyTorch's fused attention."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.resid_dropout = nn.Dropout(dropout)
        self.n_head = heads
        self.n_embd = width
        self.dropout = dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True,
                                           dropout_p=self.dropout if self.training else 0)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class NanoBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.dropout(self.c_proj(self.gelu(self.c_fc(self.ln_2(x)))))


class NanoGpt(nn.Module):
    def __init__(self, vocabulary=65, block=256, width=384, heads=6, layers=4, dropout=0.2):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(block, width)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList([NanoBlock(width, heads, dropout) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Head(nn.Module):
    """One head as lessons write it out: scores, mask, softmax, weighted sum."""

    def __init__(self, width, head_size, block, dropout):
        super().__init__()
        self.key = nn.Linear(width, head_size, bias=False)
        self.query = nn.Linear(width, head_size, bias=False)
        self.value = nn.Linear(width, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block, block)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        wei = self.dropout(wei)
        v = self.value(x)
        return wei @ v


class MultiHead(nn.Module):
    def __init__(self, width, heads, block, dropout):
        super().__init__()
        self.heads = nn.ModuleList(
            [Head(width, width // heads, block, dropout) for _ in range(heads)])
        self.proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.dropout(self.proj(out))


class LessonBlock(nn.Module):
    def __init__(self, width, heads, block, dropout):
        super().__init__()
        self.sa = MultiHead(width, heads, block, dropout)
        self.ffwd = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(),
                                  nn.Linear(4 * width, width), nn.Dropout(dropout))
        self.ln1 = nn.LayerNorm(width)
        self.ln2 = nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        x = x + self.ffwd(self.ln2(x))
        return x


class LessonGpt(nn.Module):
    def __init__(self, vocabulary=100, block=128, width=64, heads=4, layers=3, dropout=0.1):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocabulary, width)
        self.position_embedding_table = nn.Embedding(block, width)
        self.blocks = nn.Sequential(
            *[LessonBlock(width, heads, block, dropout) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary)

    def forward(self, idx):
        B, T = idx.shape
        tok_emb = self.token_embedding_table(idx)
        pos_emb = self.position_embedding_table(torch.arange(T, device=idx.device))
        x = tok_emb + pos_emb
        x = self.blocks(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)
        return logits


class DenseExperts(nn.Module):
    """A mixture whose experts all see every token; the router weighs them."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
            for _ in range(experts)])

    def forward(self, x):
        weights = F.softmax(self.router(x), dim=-1)
        top, chosen = weights.topk(2, dim=-1)
        gate = torch.zeros_like(weights).scatter(-1, chosen, top)
        out = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return (out * gate.unsqueeze(-2)).sum(-1)


class MoeBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.RMSNorm(width)
        self.attn = CausalSelfAttention(width, heads, 0.0)
        self.norm2 = nn.RMSNorm(width)
        self.moe = DenseExperts(width, 4)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.moe(self.norm2(x))


class DenseMoe(nn.Module):
    def __init__(self, vocabulary=500, width=128, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([MoeBlock(width, 4) for _ in range(layers)])
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, idx):
        x = self.embed(idx)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


add_tokens("nanogpt", NanoGpt, 256)
add_tokens("lesson_gpt", LessonGpt, 100)
add_tokens("dense_moe", DenseMoe, 120)
causal("llama_gqa", lambda t: t.LlamaConfig(
    vocab_size=4000, hidden_size=512, intermediate_size=1376, num_hidden_layers=3,
    num_attention_heads=8, num_key_value_heads=2), 200)
causal("mistral", lambda t: t.MistralConfig(
    vocab_size=3000, hidden_size=384, intermediate_size=1024, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, sliding_window=64), 160)
causal("qwen3", lambda t: t.Qwen3Config(
    vocab_size=2500, hidden_size=512, intermediate_size=1536, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=128, tie_word_embeddings=True), 128)
causal("opt", lambda t: t.OPTConfig(
    vocab_size=5000, hidden_size=320, ffn_dim=1280, num_hidden_layers=3, num_attention_heads=4,
    word_embed_proj_dim=320, max_position_embeddings=256), 96)
causal("gpt_neox", lambda t: t.GPTNeoXConfig(
    vocab_size=3000, hidden_size=512, intermediate_size=2048, num_hidden_layers=3,
    num_attention_heads=4, max_position_embeddings=512), 250)
causal("phi", lambda t: t.PhiConfig(
    vocab_size=2000, hidden_size=320, intermediate_size=1280, num_hidden_layers=3,
    num_attention_heads=4), 77)
causal("gemma", lambda t: t.GemmaConfig(
    vocab_size=6000, hidden_size=256, intermediate_size=1024, num_hidden_layers=3,
    num_attention_heads=4, num_key_value_heads=1, head_dim=96), 64)


# --- Decoders that are given what earlier tokens left ------------------------------------------

class PastLogits(nn.Module):
    """One step of generation: keys and values of earlier tokens in, those of all tokens out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, key_0, value_0, key_1, value_1):
        from transformers import DynamicCache
        cache = DynamicCache()
        cache.update(key_0, value_0, 0)
        cache.update(key_1, value_1, 1)
        out = self.model(input_ids, past_key_values=cache, use_cache=True)
        present = [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]
        return out.logits, *present


class PastBlock(nn.Module):
    """Written by hand: cat, then PyTorch's fused attention without a mask."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x, past_key, past_value):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        k = torch.cat([past_key, k], dim=2)
        v = torch.cat([past_value, v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.norm2(x)), k, v


class PastGpt(nn.Module):
    def __init__(self, vocabulary=3000, width=192, heads=6):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([PastBlock(width, heads) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids, key_0, value_0, key_1, value_1):
        x = self.embed(input_ids)
        x, new_key_0, new_value_0 = self.blocks[0](x, key_0, value_0)
        x, new_key_1, new_value_1 = self.blocks[1](x, key_1, value_1)
        return self.head(self.norm(x)), new_key_0, new_value_0, new_key_1, new_value_1


def add_past(name, build, heads, past, width, new=1):
    """`new` tokens of a model of two layers, behind `past` ones."""
    def inputs(batch, device, dtype):
        def kept():
            return torch.zeros(batch, heads, past, width, device=device, dtype=dtype)
        return {"input_ids": ids(batch, new, device=device),
                **{f"{kind}_{layer}": kept() for layer in (0, 1) for kind in ("key", "value")}}
    MODELS[name] = Spec(build, inputs, None, flags="--loss none", only_infers=True)


add_past("past_gpt", PastGpt, heads=6, past=75, width=32)
add_past("past_gpt2", hugging_face("AutoModelForCausalLM", lambda t: t.GPT2Config(
    vocab_size=3000, n_positions=256, n_embd=256, n_layer=2, n_head=4), PastLogits),
    heads=4, past=100, width=64)
add_past("past_llama", hugging_face("AutoModelForCausalLM", lambda t: t.LlamaConfig(
    vocab_size=2500, hidden_size=384, intermediate_size=1024, num_hidden_layers=2,
    num_attention_heads=6, num_key_value_heads=2), PastLogits), heads=2, past=120, width=64)


# --- Encoders --------------------------------------------------------------------------------

class EncoderClassifier(nn.Module):
    """As PyTorch's tutorials write it: nn.TransformerEncoder and a sinusoid of positions."""

    def __init__(self, vocabulary=2000, width=128, heads=4, hidden=512, layers=3, sequence=60):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        position = torch.arange(sequence).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(1, sequence, width)
        pe[0, :, 0::2] = torch.sin(position * rate)
        pe[0, :, 1::2] = torch.cos(position * rate)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.classifier = nn.Linear(width, 4)
        self.scale = math.sqrt(width)

    def forward(self, ids):
        x = self.embedding(ids) * self.scale
        x = self.dropout(x + self.pe[:, :x.size(1)])
        x = self.encoder(x)
        return self.classifier(x.mean(dim=1))


def classifier(name, config, sequence):
    add_text_classifier(
        name, hugging_face("AutoModelForSequenceClassification", config), sequence)


add_text_classifier("torch_encoder", EncoderClassifier, 50)
add_tokens("roberta", hugging_face("AutoModelForMaskedLM", lambda t: t.RobertaConfig(
    vocab_size=3000, hidden_size=192, intermediate_size=768, num_hidden_layers=3,
    num_attention_heads=6, max_position_embeddings=140, type_vocab_size=1)), 128)
add_tokens("mpnet", hugging_face("AutoModelForMaskedLM", lambda t: t.MPNetConfig(
    vocab_size=2600, hidden_size=160, intermediate_size=640, num_hidden_layers=3,
    num_attention_heads=5, max_position_embeddings=130)), 90)
classifier("distilbert", lambda t: t.DistilBertConfig(
    vocab_size=4000, dim=256, hidden_dim=1024, n_layers=3, n_heads=4, num_labels=3), 100)
classifier("albert", lambda t: t.AlbertConfig(
    vocab_size=3000, embedding_size=64, hidden_size=256, intermediate_size=1024,
    num_hidden_layers=3, num_attention_heads=4, num_labels=5), 130)
classifier("electra", lambda t: t.ElectraConfig(
    vocab_size=3000, embedding_size=64, hidden_size=128, intermediate_size=512,
    num_hidden_layers=3, num_attention_heads=4, num_labels=2), 72)
classifier("deberta_v2", lambda t: t.DebertaV2Config(
    vocab_size=3000, hidden_size=128, intermediate_size=512, num_hidden_layers=2,
    num_attention_heads=4, num_labels=3, relative_attention=True, position_buckets=32,
    pos_att_type=["p2c", "c2p"], max_position_embeddings=128), 64)


# --- Encoder and decoder ---------------------------------------------------------------------

class TorchTransformer(nn.Module):
    """nn.Transformer between two embeddings and a generator of words."""

    def __init__(self, vocabulary=1500, width=256, heads=8, hidden=512, sequence=64):
        super().__init__()
        self.src_embed = nn.Embedding(vocabulary, width)
        self.tgt_embed = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(1, sequence, width))
        self.transformer = nn.Transformer(width, heads, num_encoder_layers=2,
                                          num_decoder_layers=2, dim_feedforward=hidden,
                                          batch_first=True)
        self.generator = nn.Linear(width, vocabulary)

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1), device=tgt.device)
        src = self.src_embed(src) + self.positions[:, :src.size(1)]
        tgt = self.tgt_embed(tgt) + self.positions[:, :tgt.size(1)]
        out = self.transformer(src, tgt, tgt_mask=mask, tgt_is_causal=True)
        return self.generator(out)


def seq2seq(name, config, sequence):
    build = hugging_face("AutoModelForSeq2SeqLM", config, Seq2SeqLogits)
    add_tokens(name, build, sequence, has_decoder=True)


add_tokens("torch_transformer", TorchTransformer, (50, 41), has_decoder=True)
seq2seq("bart", lambda t: t.BartConfig(
    vocab_size=3000, d_model=256, encoder_ffn_dim=1024, decoder_ffn_dim=1024, encoder_layers=2,
    decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    max_position_embeddings=128), (96, 64))
seq2seq("mbart", lambda t: t.MBartConfig(
    vocab_size=2400, d_model=192, encoder_ffn_dim=768, decoder_ffn_dim=768, encoder_layers=2,
    decoder_layers=2, encoder_attention_heads=6, decoder_attention_heads=6,
    max_position_embeddings=128), (70, 56))
seq2seq("marian", lambda t: t.MarianConfig(
    vocab_size=2000, d_model=128, encoder_ffn_dim=512, decoder_ffn_dim=512, encoder_layers=2,
    decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, pad_token_id=1999,
    decoder_start_token_id=1999, max_position_embeddings=128), (60, 44))
# transformers 5.17 ties T5's head all the same: what this leaves out is the scale before it.
seq2seq("t5_untied", lambda t: t.T5Config(
    vocab_size=3000, d_model=256, d_kv=32, d_ff=640, num_layers=2, num_heads=6,
    feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0), (80, 52))


# --- Vision ----------------------------------------------------------------------------------

def swin_small():
    from torchvision.models.swin_transformer import SwinTransformer
    return SwinTransformer(patch_size=[4, 4], embed_dim=48, depths=[2, 2, 2],
                           num_heads=[3, 6, 12], window_size=[7, 7],
                           stochastic_depth_prob=0.1, num_classes=10)


def image_classifier(name, config, size):
    add_image_classifier(name, hugging_face("AutoModelForImageClassification", config), size)


image_classifier("vit_hf", lambda t: t.ViTConfig(
    hidden_size=192, intermediate_size=768, num_hidden_layers=3, num_attention_heads=3,
    image_size=96, patch_size=8, num_labels=10), 96)
image_classifier("dinov2", lambda t: t.Dinov2Config(
    hidden_size=160, num_hidden_layers=2, num_attention_heads=5, image_size=112, patch_size=14,
    use_mask_token=False, num_labels=10), 112)
image_classifier("beit", lambda t: t.BeitConfig(
    hidden_size=128, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
    image_size=64, patch_size=8, num_labels=10), 64)
image_classifier("clip_vision", lambda t: t.CLIPConfig(
    vision_config=dict(hidden_size=192, intermediate_size=768, num_hidden_layers=3,
                       num_attention_heads=2, image_size=96, patch_size=16),
    num_labels=10), 96)
add_image_classifier("swin", swin_small, 112)


# --- Speech ----------------------------------------------------------------------------------

def whisper_inputs(batch, device, dtype):
    return {"input_features": torch.empty(batch, 80, 200, device=device, dtype=dtype),
            "decoder_input_ids": ids(batch, 30, device=device),
            "y": ids(batch, 30, device=device)}


MODELS["whisper"] = Spec(hugging_face("AutoModelForSpeechSeq2Seq", lambda t: t.WhisperConfig(
    vocab_size=1000, d_model=128, encoder_ffn_dim=512, decoder_ffn_dim=512, encoder_layers=2,
    decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
    max_source_positions=100, max_target_positions=64, pad_token_id=999, bos_token_id=998,
    eos_token_id=997, decoder_start_token_id=998), Seq2SeqLogits), whisper_inputs, token_loss)


# --- Diffusion -------------------------------------------------------------------------------

class Denoiser(nn.Module):
    """The sample out of a diffusers model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sample, timestep, encoder_hidden_states):
        return self.model(sample, timestep, encoder_hidden_states, return_dict=False)[0]


class ClassDenoiser(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sample, timestep, class_labels):
        return self.model(sample, timestep, class_labels, return_dict=False)[0]


def unet_condition():
    from diffusers import UNet2DConditionModel
    return Denoiser(UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=64,
        attention_head_dim=4))


def unet_condition_inputs(batch, device, dtype):
    noise = dict(device=device, dtype=dtype)
    return {"sample": torch.empty(batch, 4, 16, 16, **noise),
            "timestep": ids(batch, device=device),
            "encoder_hidden_states": torch.empty(batch, 20, 64, **noise),
            "y": torch.empty(batch, 4, 16, 16, **noise)}


def dit():
    from diffusers import DiTTransformer2DModel
    return ClassDenoiser(DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=32, in_channels=4, out_channels=4, num_layers=2,
        sample_size=16, patch_size=2, num_embeds_ada_norm=100, dropout=0.0))


def dit_inputs(batch, device, dtype):
    noise = dict(device=device, dtype=dtype)
    return {"sample": torch.empty(batch, 4, 16, 16, **noise),
            "timestep": ids(batch, device=device), "class_labels": ids(batch, device=device),
            "y": torch.empty(batch, 4, 16, 16, **noise)}


MODELS["unet_condition"] = Spec(unet_condition, unet_condition_inputs, F.mse_loss, "--loss mse")
MODELS["dit"] = Spec(dit, dit_inputs, F.mse_loss, "--loss mse")
