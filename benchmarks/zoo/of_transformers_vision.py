"""Families of transformers 5.17.0 that read images or videos and need more than one tensor, or
options that fit a small configuration."""

from family import LastHiddenState, Logits, PredictedDepth, floats, images, several
from transformers_rows import LAYERS, WIDTH, Row, families_of

RESNET = {"model_type": "resnet", "embedding_size": 32, "hidden_sizes": [64, 128, 256, 512],
          "depths": [1, 1, 1, 1], "layer_type": "bottleneck",
          "out_features": ["stage1", "stage2", "stage3", "stage4"]}
BEIT = {**WIDTH, "model_type": "beit", "num_hidden_layers": 4, "image_size": 224,
        "out_indices": [1, 2, 3, 4], "reshape_hidden_states": False}


class Masks(Logits):
    """A mask for each query."""
    def forward(self, pixel_values):
        return self.model(pixel_values).masks_queries_logits


class PromptedMask(Logits):
    """What is done to an image as it was to the prompt's."""
    def forward(self, pixel_values, prompt_pixel_values, prompt_masks):
        return self.model(pixel_values, prompt_pixel_values, prompt_masks).pred_masks


class Heatmaps(Logits):
    def forward(self, pixel_values):
        return self.model(pixel_values).heatmaps


class PointedMasks(Logits):
    """Masks of what lies at a point."""
    def forward(self, pixel_values, input_points, input_labels):
        return self.model(pixel_values, input_points=input_points, input_labels=input_labels,
                          multimask_output=False).pred_masks.flatten(1, 2)


class Boxes(Logits):
    def forward(self, pixel_values):
        return self.model(pixel_values).pred_boxes


ROWS = {
    "sam2_vision_model": Row("Sam2VisionModel", {
        "backbone_config": {
            "model_type": "sam2_hiera_det_model", "image_size": [256, 256], "hidden_size": 48,
            "blocks_per_stage": [1, 1, 2, 1], "embed_dim_per_stage": [48, 96, 192, 384],
            "global_attention_blocks": [3]},
        "backbone_channel_list": [384, 192, 96, 48], "fpn_hidden_size": 128,
        "backbone_feature_sizes": [[64, 64], [32, 32], [16, 16]]},
        LastHiddenState, images(256, name="pixel_values"), "mse"),
    "vjepa2": Row("VJEPA2ForVideoClassification", {
        "hidden_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
        "crop_size": 128, "frames_per_clip": 8, "num_pooler_layers": 2, "pred_hidden_size": 128,
        "pred_num_attention_heads": 4, "pred_num_hidden_layers": 2, "num_labels": 100},
        Logits, floats("pixel_values_videos", 8, 3, 128, 128)),
    "seggpt": Row("SegGptForImageSegmentation", {
        "hidden_size": 256, "num_hidden_layers": 5, "num_attention_heads": 4, "mlp_dim": 1024,
        "image_size": [448, 224], "intermediate_hidden_state_indices": [1, 2, 3, 4],
        "merge_index": 0}, PromptedMask,
        several({"pixel_values": (3, 224, 224), "prompt_pixel_values": (3, 224, 224),
                 "prompt_masks": (3, 224, 224)}), "mse"),
    "dpt": Row("DPTForDepthEstimation", {
        **WIDTH, "num_hidden_layers": 4, "image_size": 224, "backbone_out_indices": [0, 1, 2, 3],
        "neck_hidden_sizes": [32, 64, 128, 256], "fusion_hidden_size": 64},
        PredictedDepth, images(224, name="pixel_values"), "mse"),
    "zoedepth": Row("ZoeDepthForDepthEstimation", {
        "backbone_config": BEIT, "neck_hidden_sizes": [32, 64, 128, 256],
        "fusion_hidden_size": 64, "bottleneck_features": 64}, PredictedDepth,
        images(224, name="pixel_values"), "mse"),
    "maskformer-swin": Row("MaskFormerSwinModel", {
        "embed_dim": 48, "depths": [1, 1, 2, 1], "num_heads": [2, 4, 8, 16]}, LastHiddenState,
        images(224, name="pixel_values"), "mse"),
    "mask2former": Row("Mask2FormerForUniversalSegmentation", {
        "backbone_config": RESNET, "encoder_layers": 2, "decoder_layers": 3, "feature_size": 128,
        "mask_feature_size": 128, "hidden_dim": 128, "encoder_feedforward_dim": 256,
        "dim_feedforward": 512, "num_attention_heads": 4}, Masks,
        images(256, name="pixel_values"), "mse"),
    "vitpose": Row("VitPoseForPoseEstimation", {
        "backbone_config": {"model_type": "vitpose_backbone", "hidden_size": 256,
                            "num_hidden_layers": LAYERS, "num_attention_heads": 4},
        "num_labels": 17}, Heatmaps, floats("pixel_values", 3, 256, 192), "mse"),
    "sam_vision_model": Row("SamModel", {
        "vision_config": {
            "hidden_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
            "image_size": 512, "mlp_dim": 1024, "global_attn_indexes": [1],
            "output_channels": 128, "num_pos_feats": 64},
        "prompt_encoder_config": {"hidden_size": 128, "image_size": 512},
        "mask_decoder_config": {"hidden_size": 128, "mlp_dim": 512, "num_attention_heads": 4}},
        PointedMasks, several({"pixel_values": (3, 512, 512), "input_points": (1, 1, 2)},
                              input_labels=(1, 1)), "mse"),
    "deit": Row("DeiTForImageClassification", {**WIDTH, "num_labels": 100}, Logits,
                images(224, name="pixel_values")),
    "sam_hq_vision_model": Row("SamHQVisionModel", {
        "hidden_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
        "image_size": 256, "mlp_dim": 1024, "global_attn_indexes": [1], "output_channels": 128},
        LastHiddenState, images(256, name="pixel_values"), "mse"),
    "lw_detr": Row("LwDetrForObjectDetection", {
        "backbone_config": {
            "model_type": "lw_detr_vit", "hidden_size": 192, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_windows": 4, "window_block_indices": [0],
            "out_indices": [1, 3]}, "projector_scale_factors": [1.0], "d_model": 128,
        "decoder_ffn_dim": 256, "decoder_layers": 2, "num_queries": 50,
        "decoder_self_attention_heads": 4, "decoder_cross_attention_heads": 4, "group_detr": 3},
        Boxes, images(256, name="pixel_values"), "mse"),
    "pp_lcnet": Row("PPLCNetForImageClassification", {"num_labels": 100}, LastHiddenState,
                    images(224, name="pixel_values"), "mse"),
    "pp_ocrv5_mobile_det": Row("PPOCRV5MobileDetForObjectDetection", {}, LastHiddenState,
                               images(256, name="pixel_values"), "mse"),
    "uvdoc": Row("UVDocModel", {"backbone_config": {
        "model_type": "uvdoc_backbone", "out_features": [f"stage{n}" for n in range(1, 7)]}},
        LastHiddenState, floats("pixel_values", 3, 356, 244), "mse"),
    "efficientnet": Row("EfficientNetForImageClassification", {
        "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "image_size": 224,
        "num_labels": 100}, Logits, images(224, name="pixel_values")),
}


def families(is_wanted=lambda name: True):
    return families_of(ROWS, is_wanted)
