"""Families of transformers 5.17.0 that read text beside images, videos, boxes or sounds."""

import torch

from family import Logits, several, tokens
from transformers_rows import (CLIP, IMAGE, LAYERS, LLAMA, QWEN3, SIGLIP, T5, TEXT, VOCABULARY,
                               WIDTH, XLM_ROBERTA, ImageText, PairScores, Row, families_of,
                               with_image)

COHERE2 = {**LLAMA, "model_type": "cohere2", "pad_token_id": 1,
           "layer_types": ["sliding_attention", "full_attention"]}
GEMMA = {**LLAMA, "model_type": "gemma", "head_dim": 64, "bos_token_id": 2, "eos_token_id": 1}
SAM = {"model_type": "sam_vision_model", "hidden_size": 256, "num_hidden_layers": LAYERS,
       "num_attention_heads": 4, "image_size": 512, "output_channels": 128, "mlp_dim": 1024,
       "global_attn_indexes": [1]}
OWL_TEXT = {**TEXT, "max_position_embeddings": 16}


BART = {"model_type": "bart", "vocab_size": VOCABULARY, "d_model": 256, "encoder_layers": LAYERS,
        "decoder_layers": LAYERS, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "use_cache": False}
QWEN_VL = {**TEXT, "num_key_value_heads": 2, "use_cache": False, "rope_parameters": {
    "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]}}
GLM_OCR = {**QWEN_VL, "head_dim": 64, "pad_token_id": 1}


class EncoderDecoderImage(Logits):
    """BLIP-2 before T5."""
    def forward(self, pixel_values, input_ids, decoder_input_ids):
        return self.model(pixel_values=pixel_values, input_ids=input_ids,
                          decoder_input_ids=decoder_input_ids).logits


class Instructed(Logits):
    def forward(self, pixel_values, qformer_input_ids, input_ids, decoder_input_ids):
        return self.model(pixel_values=pixel_values, qformer_input_ids=qformer_input_ids,
                          input_ids=input_ids, decoder_input_ids=decoder_input_ids).logits


class TwoResolutions(Logits):
    def forward(self, pixel_values, high_res_pixel_values, input_ids):
        return self.model(input_ids=input_ids, pixel_values=pixel_values,
                          high_res_pixel_values=high_res_pixel_values).logits


class ImageTextTypes(Logits):
    def forward(self, pixel_values, input_ids, token_type_ids):
        return self.model(input_ids=input_ids, pixel_values=pixel_values,
                          token_type_ids=token_type_ids).logits


class Captions(Logits):
    """Of an encoder that sees and a decoder that writes."""
    def forward(self, pixel_values, decoder_input_ids):
        return self.model(pixel_values, decoder_input_ids=decoder_input_ids).logits


class CaptionsOfPatches(Logits):
    def forward(self, flattened_patches, decoder_input_ids):
        return self.model(flattened_patches, decoder_input_ids=decoder_input_ids).logits


class BoxesAndScores(Logits):
    """What an open-vocabulary detector finds for one query an image."""
    def forward(self, pixel_values, input_ids):
        found = self.model(input_ids, pixel_values)
        return torch.cat([found.logits, found.pred_boxes], dim=-1)


class Answers(Logits):
    """Of a question on regions that a detector found before."""
    def forward(self, visual_feats, visual_pos, input_ids):
        return self.model(input_ids, visual_feats, visual_pos).question_answering_score


class VideoPairScores(Logits):
    def forward(self, pixel_values_videos, input_ids):
        return self.model(pixel_values_videos, input_ids).logits_per_video.diagonal()


class Together(Logits):
    def forward(self, pixel_values, input_ids):
        return self.model(input_ids, pixel_values).multimodal_output.last_hidden_state


class ImagesAttended(Logits):
    def forward(self, pixel_values, input_ids, image_attention_mask):
        return self.model(input_ids=input_ids, pixel_values=pixel_values,
                          image_attention_mask=image_attention_mask).logits


ROWS = {
    "altclip": Row("AltCLIPModel", {
        "text_config": {**TEXT, "project_dim": 256}, "vision_config": WIDTH,
        "projection_dim": 256}, PairScores, with_image(64), "mse"),
    "aya_vision": Row("AyaVisionForConditionalGeneration", {
        "text_config": COHERE2, "vision_config": SIGLIP, "image_token_index": IMAGE},
        ImageText, with_image()),
    "blip-2": Row("Blip2ForConditionalGeneration", {
        "text_config": T5, "vision_config": WIDTH, "image_token_index": IMAGE,
        "qformer_config": {**WIDTH, "encoder_hidden_size": 256, "vocab_size": VOCABULARY}},
        EncoderDecoderImage, several({"pixel_values": (3, 224, 224)}, input_ids=(64,),
                                     decoder_input_ids=(32,))),
    "instructblip": Row("InstructBlipForConditionalGeneration", {
        "text_config": T5, "vision_config": WIDTH, "image_token_index": IMAGE,
        "qformer_config": {**WIDTH, "encoder_hidden_size": 256, "vocab_size": VOCABULARY}},
        Instructed, several({"pixel_values": (3, 224, 224)}, qformer_input_ids=(24,),
                            input_ids=(64,), decoder_input_ids=(32,))),
    "deepseek_vl_hybrid": Row("DeepseekVLHybridForConditionalGeneration", {
        "text_config": LLAMA, "vision_config": {**SIGLIP, "image_size": 256},
        "high_res_vision_config": SAM, "image_token_id": IMAGE}, TwoResolutions,
        several({"pixel_values": (3, 256, 256), "high_res_pixel_values": (3, 512, 512)},
                input_ids=(96,))),
    "got_ocr2": Row("GotOcr2ForConditionalGeneration", {
        "text_config": QWEN3, "image_token_index": IMAGE,
        "vision_config": {**SAM, "model_type": ""}},
        ImageText, with_image(size=512)),
    "janus": Row("JanusForConditionalGeneration", {
        "text_config": LLAMA, "image_token_id": IMAGE,
        "vision_config": {**WIDTH, "image_size": 224, "projection_dim": 256},
        "vq_config": {"num_embeddings": 512, "base_channels": 32, "latent_channels": 64,
                      "channel_multiplier": [1, 2], "num_res_blocks": 1, "projection_dim": 256,
                      "image_token_embed_dim": 256}}, ImageText, with_image(640)),
    "owlvit": Row("OwlViTForObjectDetection", {
        "text_config": OWL_TEXT, "vision_config": {**WIDTH, "image_size": 384},
        "projection_dim": 256}, BoxesAndScores, with_image(16, 384), "mse"),
    "owlv2": Row("Owlv2ForObjectDetection", {
        "text_config": OWL_TEXT, "vision_config": {**WIDTH, "image_size": 384},
        "projection_dim": 256}, BoxesAndScores, with_image(16, 384), "mse"),
    "paligemma": Row("PaliGemmaForConditionalGeneration", {
        "text_config": GEMMA, "vision_config": SIGLIP, "image_token_index": IMAGE,
        "projection_dim": 256, "hidden_size": 256}, ImageTextTypes,
        several({"pixel_values": (3, 224, 224)}, input_ids=(256,), token_type_ids=(256,))),
    "vipllava": Row("VipLlavaForConditionalGeneration", {
        "text_config": LLAMA, "vision_config": CLIP, "image_token_index": IMAGE,
        "vision_feature_layers": [-1, -2, 1]}, ImageText, with_image()),
    "vision-text-dual-encoder": Row("VisionTextDualEncoderModel", {
        "text_config": XLM_ROBERTA, "vision_config": {**WIDTH, "model_type": "vit"},
        "projection_dim": 256}, PairScores, with_image(64), "mse"),
    "xclip": Row("XCLIPModel", {
        "text_config": TEXT, "projection_dim": 256, "prompt_num_attention_heads": 4,
        "vision_config": {**WIDTH, "mit_hidden_size": 256, "mit_intermediate_size": 1024,
                          "mit_num_attention_heads": 4}}, PairScores,
        several({"pixel_values": (8, 3, 224, 224)}, input_ids=(64,)), "mse"),
    "flava": Row("FlavaModel", {
        "text_config": {**WIDTH, "vocab_size": VOCABULARY}, "image_config": WIDTH,
        "multimodal_config": {**WIDTH, "num_hidden_layers": 1}, "hidden_size": 256,
        "projection_dim": 256}, Together, with_image(64), "mse"),
    "lxmert": Row("LxmertForQuestionAnswering", {
        "vocab_size": VOCABULARY, "hidden_size": 256, "intermediate_size": 1024,
        "num_attention_heads": 4, "l_layers": 2, "x_layers": 2, "r_layers": 2,
        "num_qa_labels": 1000}, Answers,
        several({"visual_feats": (36, 2048), "visual_pos": (36, 4)}, input_ids=(20,))),
    "tipsv2": Row("Tipsv2Model", {
        "text_config": TEXT, "vision_config": {**WIDTH, "image_size": 224}},
        PairScores, with_image(64), "mse"),
    "idefics": Row("IdeficsForVisionText2Text", {
        **TEXT, "use_cache": False, "vision_config": {
            "embed_dim": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
            "intermediate_size": 1024}}, ImagesAttended,
        several({"pixel_values": (2, 3, 224, 224)}, input_ids=(96,),
                image_attention_mask=(96, 2))),
    "aimv2": Row("Aimv2Model", {
        "text_config": {**TEXT, "max_position_embeddings": 77}, "vision_config": WIDTH,
        "projection_dim": 256}, PairScores, with_image(64), "mse"),
    "blip": Row("BlipModel", {
        "text_config": {**TEXT, "encoder_hidden_size": 256}, "vision_config": WIDTH,
        "projection_dim": 256}, PairScores, with_image(64), "mse"),
    "videoprism": Row("VideoPrismClipModel", {
        "text_config": TEXT, "vision_config": {
            "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024,
            "image_size": 144, "num_frames": 8, "num_spatial_layers": LAYERS,
            "num_temporal_layers": 2}},
        VideoPairScores, several({"pixel_values_videos": (8, 3, 144, 144)}, input_ids=(64,)),
        "mse"),
    "qwen2_5_vl": Row("Qwen2_5_VLForConditionalGeneration", {
        "text_config": QWEN_VL, "vision_config": {
            "depth": LAYERS, "hidden_size": 256, "intermediate_size": 512, "num_heads": 4,
            "out_hidden_size": 256, "fullatt_block_indexes": [1]},
        "image_token_id": IMAGE, "video_token_id": IMAGE - 1, "vision_start_token_id": IMAGE - 2,
        "vision_end_token_id": IMAGE - 3}, Logits, tokens(96)),
    "glm_ocr": Row("GlmOcrForConditionalGeneration", {
        "text_config": GLM_OCR, "vision_config": {
            "depth": LAYERS, "hidden_size": 256, "intermediate_size": 512, "num_heads": 4,
            "out_hidden_size": 256}, "image_token_id": IMAGE, "video_token_id": IMAGE - 1,
        "image_start_token_id": IMAGE - 2, "image_end_token_id": IMAGE - 3,
        "video_start_token_id": IMAGE - 4, "video_end_token_id": IMAGE - 5}, Logits, tokens(96)),
    "florence2": Row("Florence2ForConditionalGeneration", {
        "text_config": BART, "vision_config": {
            "depths": [1, 1, 1, 1], "embed_dim": [32, 64, 128, 256], "num_heads": [1, 2, 4, 8],
            "num_groups": [1, 2, 4, 8], "projection_dim": 256}, "image_token_id": IMAGE},
        EncoderDecoderImage, several({"pixel_values": (3, 384, 384)}, input_ids=(192,),
                                     decoder_input_ids=(32,))),
    "align": Row("AlignModel", {
        "text_config": TEXT, "projection_dim": 320, "vision_config": {
            "image_size": 224, "width_coefficient": 1.0, "depth_coefficient": 0.5,
            "hidden_dim": 256}}, PairScores, with_image(64), "mse"),
    "groupvit": Row("GroupViTModel", {
        "text_config": TEXT, "projection_intermediate_dim": 512, "vision_config": {
            "hidden_size": 192, "intermediate_size": 768, "depths": [1, 1, 1],
            "num_hidden_layers": 3, "num_attention_heads": 4}}, PairScores, with_image(64), "mse"),
    "pix2struct": Row("Pix2StructForConditionalGeneration", {
        "text_config": {"vocab_size": VOCABULARY, "hidden_size": 256, "d_kv": 64, "d_ff": 512,
                        "num_layers": LAYERS, "num_heads": 4, "use_cache": False},
        "vision_config": {"hidden_size": 256, "d_ff": 512, "num_hidden_layers": LAYERS,
                          "num_attention_heads": 4}}, CaptionsOfPatches,
        several({"flattened_patches": (256, 770)}, decoder_input_ids=(32,))),
    "vision-encoder-decoder": Row("VisionEncoderDecoderModel", {
        "encoder": {**WIDTH, "model_type": "vit"},
        "decoder": {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": 256,
                    "n_layer": LAYERS, "n_head": 4, "is_decoder": True, "use_cache": False,
                    "add_cross_attention": True, "bos_token_id": 0, "eos_token_id": 0}},
        Captions, several({"pixel_values": (3, 224, 224)}, decoder_input_ids=(32,))),
    "pp_formulanet": Row("PPFormulaNetForConditionalGeneration", {
        "text_config": {**BART, "d_model": 256}, "vision_config": {
            "hidden_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
            "image_size": 256, "output_channels": 128, "mlp_dim": 512, "window_size": 8,
            "global_attn_indexes": [1], "post_conv_in_channels": 128,
            "post_conv_mid_channels": 128, "post_conv_out_channels": 256,
            "decoder_hidden_size": 256}}, Captions,
        several({"pixel_values": (3, 256, 256)}, decoder_input_ids=(32,))),
}


def families(is_wanted=lambda name: True):
    return families_of(ROWS, is_wanted)
